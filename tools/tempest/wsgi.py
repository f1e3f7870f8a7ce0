# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#      http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.
"""The APIs as WSGI applications, for gunicorn.

Each service parses the command line. Here that is gunicorn's, so it is
replaced while the service is loaded.
"""

from collections.abc import Iterator
import contextlib
import os
import sys
from typing import Any

from tools.releases import features


@contextlib.contextmanager
def _command_line(*words: str) -> Iterator[None]:
    """Replace the command line within the block."""
    own, sys.argv = sys.argv, list(words)
    try:
        yield
    finally:
        sys.argv = own


def keystone() -> Any:
    """Return keystone; OS_KEYSTONE_CONFIG_FILES names its settings."""
    with _command_line('keystone'):
        from keystone.wsgi import api
    return api.application


def glance() -> Any:
    """Return glance; OS_GLANCE_CONFIG_DIR is where its settings are."""
    with _command_line('glance-api'):
        from glance.wsgi import api
    return api.application


def cinder() -> Any:
    """Return Cinder's API; CINDER_CONF names its settings.

    gunicorn has threads of its own. A release that has nothing but eventlet
    does not patch the process here, as in any other WSGI server.
    """
    if features.has_native_threads():
        from cinder import monkey_patch
        monkey_patch.patch(backend='threading')
    with _command_line('cinder-api', '--config-file',
                       os.environ['CINDER_CONF']):
        from cinder.wsgi import api
    return api.application
