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

"""What the installed Cinder has, asked for by feature and not by version.

Imports nothing of Cinder before it is asked: threads must be chosen first.
"""

import importlib
import importlib.util
import inspect
import os
from typing import Any


def has_native_threads() -> bool:
    """Whether Cinder runs without eventlet; does not import it."""
    spec = importlib.util.find_spec('cinder')
    return spec is None or any(
        os.path.exists(os.path.join(place, 'monkey_patch.py'))
        for place in spec.submodule_search_locations or ())


def database_api() -> Any:
    """Cinder's module for its database."""
    try:
        return importlib.import_module('cinder.db.sqlalchemy.api')
    except ImportError:
        return importlib.import_module('cinder.db.api')


def retypes_in_place() -> bool:
    """Whether a retype to another back end of an array may keep the volume.

    Else Cinder copies it.
    """
    manager = importlib.import_module('cinder.volume.manager').VolumeManager
    return 'diff' in inspect.signature(manager.migrate_volume).parameters


def has_control_socket() -> bool:
    """Whether gunicorn opens a socket for its own control commands."""
    config = importlib.import_module('gunicorn.config')
    return 'control_socket_disable' in config.make_settings()
