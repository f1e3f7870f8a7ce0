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

"""uv, which builds environments and distributions."""

import os
import pathlib
import sys

PROGRAM = pathlib.Path(sys.executable).with_name('uv')


def variables() -> dict[str, str]:
    """Return the environment of uv: ours, and what pip is told in it.

    It is not to fetch interpreters from the network.
    """
    found = {'UV_SYSTEM_CERTS': 'true',
             'SSL_CERT_FILE': os.environ.get('PIP_CERT', ''),
             'UV_DEFAULT_INDEX': os.environ.get('PIP_INDEX_URL', ''),
             'UV_PYTHON_DOWNLOADS': 'never', **os.environ}
    return {name: value for name, value in found.items() if value}
