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

"""k2-sim-ctl verify: whether the state of a stopped array is sound."""

import fcntl
import os
import pathlib
import shutil
import tempfile

from k2_sim.cmd.ctl_client import CommandError
from k2_sim.cmd import service
from k2_sim import errors
from k2_sim.initial import consistency
from k2_sim.state import disk as disk_module
from k2_sim.state import store as store_module

# Where SQLite locks a file that it uses: "PENDING_BYTE" and what follows.
_LOCKED, _LOCK_BYTES = 0x40000000, 512


def verify(directory: pathlib.Path) -> None:
    """Check the state in a directory, and print the result.

    A copy is checked, since SQLite changes what it opens. Raises
    CommandError with what is damaged, and if it cannot be checked.
    """
    path = directory / service.STATE
    try:
        _check_not_in_use(path)
        with tempfile.TemporaryDirectory(prefix='k2-sim-') as place:
            copy = pathlib.Path(place, path.name)
            shutil.copyfile(path, copy)
            log = path.with_name(f'{path.name}-wal')
            if log.exists():
                shutil.copyfile(log, copy.with_name(log.name))
            service.check_not_emptied(directory, copy)
            print(_checked(copy, path), flush=True)
    except OSError as exc:
        raise CommandError(
            f'cannot read state {path}: {exc.strerror}') from exc
    except (errors.StateError, service.StartError) as exc:
        raise CommandError(str(exc)) from exc


def _check_not_in_use(path: pathlib.Path) -> None:
    with open(path, 'rb') as file:
        try:
            fcntl.lockf(file, fcntl.LOCK_SH | fcntl.LOCK_NB, _LOCK_BYTES,
                        _LOCKED, os.SEEK_SET)
        except BlockingIOError as exc:
            raise CommandError(
                f'state {path} is in use by another process') from exc


def _checked(copy: pathlib.Path, path: pathlib.Path) -> str:
    disk = disk_module.Disk(copy, path)
    try:
        store = store_module.Store(disk)
    except BaseException:
        disk.close()
        raise
    try:
        found = list(consistency.damages(store))
        if found:
            others = f' (and {len(found) - 1} more)' if found[1:] else ''
            raise disk.damaged(f'it has {found[0]}{others}')
        count = sum(len(table.rows) for table in store.tables.values())
        return f'state {path}: {count} objects, no damage found'
    finally:
        store.close()
