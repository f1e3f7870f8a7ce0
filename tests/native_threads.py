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

"""Cinder on native threads, as far as its release offers them.

Import this before anything else of Cinder. Releases before 2026.1 know
eventlet only; their services patch the standard library when they start, which
does not happen in tests.
"""

import importlib.util
import os

os.environ.setdefault('OS_CINDER_DISABLE_EVENTLET_PATCHING', 'true')


def use() -> None:
    """Choose native threads, unless the process was patched before."""
    if importlib.util.find_spec('cinder.monkey_patch') is None:
        return
    from cinder import monkey_patch
    if not monkey_patch.is_patched():
        monkey_patch.patch(backend='threading')
