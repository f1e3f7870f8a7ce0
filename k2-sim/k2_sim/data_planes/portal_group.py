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

"""A target of the kernel: its LUNs, and the map of each initiator."""

from collections.abc import Collection
from collections.abc import Iterator
from collections.abc import Mapping
import pathlib

from k2_sim.data_planes import base
from k2_sim.data_planes import configfs

# What a host may see: disks by LUN.
LunMap = Mapping[int, tuple[str, base.Lun]]


class PortalGroup:
    """The directory of a target's only portal group.

    Nothing is remembered: what is there is looked up, and what is as it
    should be is not touched. Disks are named as their backstores. Methods
    raise DataPlaneError.
    """

    def __init__(self, tree: configfs.Tree, path: pathlib.Path) -> None:
        self.path = path
        self._tree = tree

    def luns(self) -> dict[str, pathlib.Path]:
        """Where the LUN of each disk is."""
        return {disk.name: path for path in self._within('lun')
                if (disk := self._tree.linked(path)) is not None}

    def _within(self, name: str) -> Iterator[pathlib.Path]:
        for entry in self._tree.names(self.path / name):
            yield self.path / name / entry

    def _maps(self, initiator: str, disks: Mapping[pathlib.Path, str]
              ) -> dict[int, str]:
        """Which disk an initiator sees under each number; '' for none.

        disks: their names by their LUN.
        """
        found = {}
        for path in self._within(f'acls/{initiator}'):
            kind, _, number = path.name.partition('_')
            if kind == 'lun':
                lun = self._tree.linked(path)
                found[int(number)] = disks.get(lun, '') if lun else ''
        return found

    def _map_path(self, initiator: str, number: int) -> pathlib.Path:
        return self.path / 'acls' / initiator / f'lun_{number}'

    def limit(self, wanted: Mapping[str, LunMap]) -> None:
        """Take away what initiators may not do any more.

        The sessions of those that may not log in any more end.
        """
        disks = {path: name for name, path in self.luns().items()}
        for initiator in self._tree.names(self.path / 'acls'):
            self._limit(initiator, self._maps(initiator, disks),
                        wanted.get(initiator, {}))
            if initiator not in wanted:
                self._tree.remove(self.path / 'acls' / initiator)

    def _limit(self, initiator: str, seen: Mapping[int, str],
               wanted: LunMap) -> None:
        for number, disk in seen.items():
            path = self._map_path(initiator, number)
            if number not in wanted or wanted[number][0] != disk:
                self._tree.unlink(path)
            elif wanted[number][1].is_read_only:
                self._protect(path, True)

    def _protect(self, path: pathlib.Path, wanted: bool) -> None:
        if self._tree.read(path / 'write_protect') != str(int(wanted)):
            self._tree.write(path / 'write_protect', int(wanted))

    def keep(self, disks: Collection[str]) -> None:
        """Remove the LUNs of other disks, which no initiator may see."""
        for path in self._within('lun'):
            disk = self._tree.linked(path)
            if disk is None or disk.name not in disks:
                self._tree.unlink(path)

    def add(self, disk: pathlib.Path) -> None:
        """Give a disk a LUN; it has none."""
        there = self._tree.names(self.path / 'lun')
        number = next(number for number in range(len(there) + 1)
                      if f'lun_{number}' not in there)
        self._tree.link(self.path / 'lun' / f'lun_{number}', disk)

    def admit(self, initiator: str) -> pathlib.Path:
        """Let an initiator log in. Gives its directory."""
        path = self.path / 'acls' / initiator
        self._tree.make(path)
        return path

    def grant(self, wanted: Mapping[str, LunMap]) -> None:
        """Let those that may log in see what they do not see yet."""
        luns = self.luns()
        disks = {path: name for name, path in luns.items()}
        for initiator, lun_map in wanted.items():
            seen = self._maps(initiator, disks)
            for number, (disk, lun) in lun_map.items():
                path = self._map_path(initiator, number)
                if number not in seen:
                    self._tree.link(path, luns[disk])
                self._protect(path, lun.is_read_only)

    def clear(self) -> None:
        """Remove all that is in it, and itself."""
        self.limit({})
        self.keep(())
        self._tree.remove(self.path)
        self._tree.remove(self.path.parent)
