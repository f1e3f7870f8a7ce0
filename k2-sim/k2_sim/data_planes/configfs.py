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

"""The directory tree through which the kernel's target is set up.

Making a directory makes something in the kernel, which fills it with
attributes; removing it takes that away, attributes and all.
"""

from collections.abc import Iterator
import contextlib
import os
import pathlib

from k2_sim.data_planes import base

#: Where it is mounted on every machine.
MOUNT = pathlib.Path('/sys/kernel/config')
# What links are called; nobody minds.
_LINK = 'k2-sim'


class Tree:
    """What can be done to configfs. All methods raise DataPlaneError.

    Paths are those of the machine. Reading what is not there gives nothing.
    """

    def names(self, path: pathlib.Path) -> list[str]:
        """The directories in one, in order."""
        try:
            with os.scandir(path) as entries:
                return sorted(entry.name for entry in entries
                              if entry.is_dir(follow_symlinks=False))
        except FileNotFoundError:
            return []

    def read(self, path: pathlib.Path) -> str:
        """What an attribute has."""
        try:
            return path.read_text().strip()
        except FileNotFoundError:
            return ''

    def linked(self, path: pathlib.Path) -> pathlib.Path | None:
        """Where the link in a directory leads to, if link() has made one."""
        try:
            target = os.readlink(path / _LINK)
        except FileNotFoundError:
            return None
        return pathlib.Path(os.path.normpath(path / target))

    def write(self, path: pathlib.Path, value: str | int) -> None:
        """Give an attribute a value, in one call. It may be secret."""
        with _explained('write', path):
            descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
            try:
                os.write(descriptor, str(value).encode())
            finally:
                os.close(descriptor)

    def make(self, path: pathlib.Path) -> None:
        """Make a directory, unless it is there."""
        with _explained('make', path):
            path.mkdir(exist_ok=True)

    def link(self, path: pathlib.Path, target: pathlib.Path) -> None:
        """Make a link in a directory, which is made if missing."""
        self.make(path)
        with _explained('link', path):
            (path / _LINK).symlink_to(target)

    def unlink(self, path: pathlib.Path) -> None:
        """Remove a directory with the link in it."""
        with _explained('unlink', path):
            (path / _LINK).unlink(missing_ok=True)
        self.remove(path)

    def remove(self, path: pathlib.Path) -> None:
        """Remove a directory that has nothing in it that was made."""
        with _explained('remove', path):
            path.rmdir()


@contextlib.contextmanager
def _explained(wanted: str, path: pathlib.Path) -> Iterator[None]:
    """Turn what the kernel says into DataPlaneError."""
    try:
        yield
    except OSError as exc:
        raise base.DataPlaneError(
            f'cannot {wanted} {path}: {exc.strerror}') from exc
