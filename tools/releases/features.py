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

"""Features of the installed Cinder, detected without comparing versions.

Only calls import Cinder, not this module: threads must be chosen first.
"""

import importlib
import importlib.util
import inspect
import os
from typing import Any


def has_native_threads() -> bool:
    """Return whether Cinder can run without eventlet; does not import it."""
    spec = importlib.util.find_spec('cinder')
    return spec is None or any(
        os.path.exists(os.path.join(place, 'monkey_patch.py'))
        for place in spec.submodule_search_locations or ())


def database_api() -> Any:
    """Return Cinder's module for its database."""
    try:
        return importlib.import_module('cinder.db.sqlalchemy.api')
    except ImportError:
        return importlib.import_module('cinder.db.api')


def retypes_in_place() -> bool:
    """Return whether a retype to another back end may keep the volume.

    Both back ends are on one array. Otherwise Cinder copies the volume.
    """
    manager = importlib.import_module('cinder.volume.manager').VolumeManager
    return 'diff' in inspect.signature(manager.migrate_volume).parameters


def has_control_socket() -> bool:
    """Return whether gunicorn opens a socket for its own control commands."""
    config = importlib.import_module('gunicorn.config')
    return 'control_socket_disable' in config.make_settings()
