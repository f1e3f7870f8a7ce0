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

"""Backstores of the kernel's target: the devices behind its LUNs."""

from collections.abc import Collection
from collections.abc import Iterator
import contextlib
import pathlib
from typing import Protocol

from k2_sim.data_planes import base
from k2_sim.data_planes import configfs
from k2_sim.data_planes import counters
from k2_sim.data_planes import identity

# The highest number of iblock groups to try; other users have some, too.
_GROUPS = 1000


class Disks(Protocol):
    """The part of block_devices.Disks that is used here."""

    def names(self) -> set[str]:
        """The names of all disks."""

    def counts(self) -> dict[str, counters.Counts]:
        """What was read from and written to each disk."""

    def device(self, name: str) -> pathlib.Path:
        """The path of a disk in /dev."""

    def put(self, name: str, path: pathlib.Path, size: int) -> None:
        """Map a disk to the first bytes of a file; create it if missing."""

    def remove(self, name: str) -> None:
        """Remove a disk."""

    def held(self) -> contextlib.AbstractContextManager[None]:
        """Suspend all writes to files within the context."""

    def release(self) -> None:
        """Resume writes."""


class Backstores:
    """The backstores of one owner: their names begin with a mark.

    They are of type iblock, on block devices: the other type, fileio, cannot
    be resized. Methods raise DataPlaneError.
    """

    def __init__(self, tree: configfs.Tree, root: pathlib.Path, disks: Disks,
                 mark: str) -> None:
        self._tree = tree
        self._root = root / 'core'
        self._disks = disks
        self._mark = mark

    def name(self, lun: base.Lun) -> str:
        """The name of the disk of a LUN."""
        return f'{self._mark}-{lun.serial}'

    def counts(self) -> dict[str, counters.Counts]:
        """What was read from and written to each disk, by serial."""
        start = len(self._mark) + 1
        return {name[start:]: counts
                for name, counts in self._disks.counts().items()}

    def paths(self) -> dict[str, pathlib.Path]:
        """The path of each backstore, by name."""
        return dict(self._found())

    def _found(self) -> Iterator[tuple[str, pathlib.Path]]:
        for group in self._tree.names(self._root):
            for name in self._tree.names(self._root / group):
                if name.startswith(self._mark):
                    yield name, self._root / group / name

    def _group(self) -> pathlib.Path:
        """The iblock group for new backstores: ours, or an empty one."""
        for _, path in self._found():
            return path.parent
        for number in range(_GROUPS):
            group = self._root / f'iblock_{number}'
            if not self._tree.names(group):
                self._tree.make(group)
                return group
        raise base.DataPlaneError('the kernel has too many iblock groups')

    def make(self, lun: base.Lun, exports: base.Exports) -> pathlib.Path:
        """Create a backstore on an existing block device; returns its path.

        The target builds the WWID from company ID and serial (VOL-15).
        """
        path, write = self._group() / self.name(lun), self._tree.write
        self._tree.make(path)
        write(path / 'control', f'udev_path={self._disks.device(path.name)}')
        write(path / 'enable', 1)
        for attribute, value in (
                ('wwn/vendor_id', exports.vendor),
                ('wwn/product_id', exports.product),
                ('wwn/revision', identity.REVISION),
                ('wwn/company_id', f'0x{identity.COMPANY}'),
                ('wwn/vpd_unit_serial', identity.extension(lun.serial)),
                ('attrib/emulate_tpu', 1), ('attrib/emulate_tpws', 1),
                # Holes read as zeros, whatever the loop device reports.
                ('attrib/unmap_zeroes_data', 1)):
            write(path / attribute, value)
        return path

    def keep(self, names: Collection[str]) -> None:
        """Remove all other disks; none of them may have a LUN.

        Includes those left behind by a killed process.
        """
        found = self.paths()
        for name in set(found).difference(names):
            self._remove(found[name])
        for name in self._disks.names().difference(names):
            self._disks.remove(name)

    def _remove(self, path: pathlib.Path) -> None:
        self._tree.remove(path)
        if not self._tree.names(path.parent):
            self._tree.remove(path.parent)
