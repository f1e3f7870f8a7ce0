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

"""A target of the kernel: its LUNs, and the LUN map of each initiator."""

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

    Nothing is kept in memory: methods read the current configuration and
    change only what differs. Disks have the names of their backstores. Methods
    raise DataPlaneError.
    """

    def __init__(self, tree: configfs.Tree, path: pathlib.Path) -> None:
        self.path = path
        self._tree = tree

    def luns(self) -> dict[str, pathlib.Path]:
        """The path of each disk's LUN."""
        return {disk.name: path for path in self._within('lun')
                if (disk := self._tree.linked(path)) is not None}

    def _within(self, name: str) -> Iterator[pathlib.Path]:
        for entry in self._tree.names(self.path / name):
            yield self.path / name / entry

    def _maps(self, initiator: str, disks: Mapping[pathlib.Path, str]
              ) -> dict[int, str]:
        """The disk that an initiator sees under each number; '' for none.

        disks: disk names by the path of their LUN.
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
        """Remove access that initiators must not have any more.

        The sessions of initiators that may not log in any more are closed.
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
        """Remove the LUNs of other disks; no initiator may see them."""
        for path in self._within('lun'):
            disk = self._tree.linked(path)
            if disk is None or disk.name not in disks:
                self._tree.unlink(path)

    def add(self, disk: pathlib.Path) -> None:
        """Give a LUN to a disk that has none."""
        there = self._tree.names(self.path / 'lun')
        number = next(number for number in range(len(there) + 1)
                      if f'lun_{number}' not in there)
        self._tree.link(self.path / 'lun' / f'lun_{number}', disk)

    def admit(self, initiator: str) -> pathlib.Path:
        """Let an initiator log in. Returns its directory."""
        path = self.path / 'acls' / initiator
        self._tree.make(path)
        return path

    def grant(self, wanted: Mapping[str, LunMap]) -> None:
        """Show initiators that may log in what they do not see yet."""
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
        """Remove the portal group with its contents, and its target."""
        self.limit({})
        self.keep(())
        self._tree.remove(self.path)
        self._tree.remove(self.path.parent)
