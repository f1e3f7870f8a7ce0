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


"""Temporary directories that are removed even after a kill -9."""

from collections.abc import Iterator
import contextlib
import fcntl
import os
import pathlib
import shutil
import tempfile

PREFIX = 'guest-'
# The owner locks a directory before it creates this marker. Without it, the
# directory may be one that is just being created.
_MARK = 'owned'


@contextlib.contextmanager
def directory() -> Iterator[pathlib.Path]:
    """Yield a new directory, which is removed at the end.

    Directories of killed owners are removed first.
    """
    _sweep()
    with tempfile.TemporaryDirectory(prefix=PREFIX) as name:
        path = pathlib.Path(name)
        with _locked(path):
            (path / _MARK).touch()
            yield path


def _sweep() -> None:
    """Remove unlocked directories; a lock ends with its process."""
    for mark in pathlib.Path(tempfile.gettempdir()).glob(
            f'{PREFIX}*/{_MARK}'):
        # Another run may remove it first, or it belongs to another user.
        with contextlib.suppress(OSError):
            if mark.lstat().st_uid == os.geteuid():
                with _locked(mark.parent):
                    shutil.rmtree(mark.parent, ignore_errors=True)


@contextlib.contextmanager
def _locked(path: pathlib.Path) -> Iterator[None]:
    """Lock a directory within the block.

    :raises OSError: another process has locked it
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(descriptor)
