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

"""The configfs tree that configures the kernel's target.

Creating a directory creates an object in the kernel, which fills the directory
with attributes; removing the directory removes both.
"""

from collections.abc import Iterator
import contextlib
import os
import pathlib

from k2_sim.data_planes import base

#: Its mount point on every machine.
MOUNT = pathlib.Path('/sys/kernel/config')
# The name of links, which has no meaning.
_LINK = 'k2-sim'


class Tree:
    """Operations on configfs. Those that change it raise DataPlaneError.

    Paths are absolute. Reading a missing path returns an empty result; other
    errors of reading are raised as OSError.
    """

    def names(self, path: pathlib.Path) -> list[str]:
        """The subdirectories of a directory, sorted."""
        try:
            with os.scandir(path) as entries:
                return sorted(entry.name for entry in entries
                              if entry.is_dir(follow_symlinks=False))
        except FileNotFoundError:
            return []

    def read(self, path: pathlib.Path) -> str:
        """Read an attribute."""
        try:
            return path.read_text().strip()
        except FileNotFoundError:
            return ''

    def linked(self, path: pathlib.Path) -> pathlib.Path | None:
        """The target of the link in a directory, if link() has created one."""
        try:
            target = os.readlink(path / _LINK)
        except FileNotFoundError:
            return None
        return pathlib.Path(os.path.normpath(path / target))

    def write(self, path: pathlib.Path, value: str | int) -> None:
        """Write an attribute in one call. The value may be secret."""
        with _explained('write', path):
            descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
            try:
                os.write(descriptor, str(value).encode())
            finally:
                os.close(descriptor)

    def make(self, path: pathlib.Path) -> None:
        """Create a directory if it is missing."""
        with _explained('make', path):
            path.mkdir(exist_ok=True)

    def link(self, path: pathlib.Path, target: pathlib.Path) -> None:
        """Create a link in a directory, which is created if missing."""
        self.make(path)
        with _explained('link', path):
            (path / _LINK).symlink_to(target)

    def unlink(self, path: pathlib.Path) -> None:
        """Remove a directory and the link in it."""
        with _explained('unlink', path):
            (path / _LINK).unlink(missing_ok=True)
        self.remove(path)

    def remove(self, path: pathlib.Path) -> None:
        """Remove a directory that has no children except attributes."""
        with _explained('remove', path):
            path.rmdir()


@contextlib.contextmanager
def _explained(wanted: str, path: pathlib.Path) -> Iterator[None]:
    """Convert errors of the kernel to DataPlaneError."""
    try:
        yield
    except OSError as exc:
        raise base.DataPlaneError(
            f'cannot {wanted} {path}: {exc.strerror}') from exc
