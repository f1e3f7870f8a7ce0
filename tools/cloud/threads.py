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

"""The kind of threads that cinder-volume of the installed Cinder uses.

Import this before anything of Cinder. A release that supports native threads
gets them; earlier ones support only eventlet, which replaces the threads of
the whole process.
"""

import os
import sys

from tools.releases import features

os.environ.setdefault('OS_CINDER_DISABLE_EVENTLET_PATCHING', 'true')


def use() -> None:
    """Choose native threads or patch the process, unless already done."""
    patch()
    if are_patched():
        return
    from cinder import monkey_patch
    if not monkey_patch.is_patched():
        monkey_patch.patch(backend='threading')


def patch() -> None:
    """Patch the process if the installed Cinder supports only eventlet.

    Does not import Cinder.
    """
    if are_patched() or features.has_native_threads():
        return
    import eventlet
    eventlet.monkey_patch()


def are_patched() -> bool:
    """Return whether threads of this process are eventlet's green threads."""
    patcher = sys.modules.get('eventlet.patcher')
    return patcher is not None and patcher.is_monkey_patched('thread')
