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

"""The targets of an array in the kernel: one for iSCSI, and its FC ports.

A fabric is a directory of the kernel's target. Both fabrics have portal groups
with LUNs and a LUN map for each initiator; they differ in how targets are
named, how the simulator recognizes its own, and what lets initiators log in.
"""

from collections.abc import Callable
from collections.abc import Collection
from collections.abc import Mapping
from collections.abc import Sequence
import hashlib
import logging
import pathlib
from typing import Protocol

from k2_sim.data_planes import base
from k2_sim.data_planes import configfs
from k2_sim.data_planes import identity
from k2_sim.data_planes import portal_group
from k2_sim.data_planes import portals

LOG = logging.getLogger(__name__)
# A directory that every fabric has.
_DISCOVERY = 'discovery_auth'
_NOBODY = base.Access((), ())


class Fabric(Protocol):
    """The interface of fabrics. Methods raise DataPlaneError."""

    @property
    def is_serving(self) -> bool:
        """Whether its targets exist, if any were ever needed."""

    def groups(self) -> Sequence[portal_group.PortalGroup]:
        """The portal groups of its targets."""

    def change(self, exports: base.Exports) -> None:
        """Create exactly the array's targets; hosts cannot log in yet."""

    def hosts(self, group: portal_group.PortalGroup, exports: base.Exports
              ) -> Mapping[str, base.Access]:
        """The access of each initiator that may log in."""

    def admit(self, group: portal_group.PortalGroup, initiator: str,
              host: base.Access) -> None:
        """Let an initiator log in."""

    def open(self, exports: base.Exports) -> None:
        """Let hosts reach the targets."""

    def clear(self) -> None:
        """Remove all targets that bear the mark."""

    def remove(self) -> None:
        """Remove the fabric itself, unless other users have targets in it."""


class _Targets:
    """The directory of a fabric; targets with the mark belong to this array.

    Only their names are kept in memory, not what they export.
    """

    def __init__(self, tree: configfs.Tree, path: pathlib.Path, mark: str
                 ) -> None:
        self._tree = tree
        self._path = path
        self._mark = mark
        self._names: tuple[str, ...] = ()
        self._warned: set[str] = set()

    def _group(self, target: str) -> portal_group.PortalGroup:
        return portal_group.PortalGroup(
            self._tree, self._path / target / 'tpgt_1')

    def groups(self) -> list[portal_group.PortalGroup]:
        """The portal groups of its targets."""
        return [self._group(name) for name in self._names]

    def _is_own(self, group: portal_group.PortalGroup) -> bool:
        raise NotImplementedError

    def _claim(self, group: portal_group.PortalGroup) -> None:
        """Mark a new target."""
        raise NotImplementedError

    def _end(self, group: portal_group.PortalGroup) -> None:
        """Close all sessions, and remove the target."""
        raise NotImplementedError

    def clear(self) -> None:
        """Remove all targets that bear the mark."""
        for name in self._tree.names(self._path):
            if self._is_own(self._group(name)):
                self._end(self._group(name))
        self._names = ()

    def _change(self, names: Collection[str]) -> None:
        for name in set(self._names).difference(names):
            self._end(self._group(name))
        for name in names:
            if not self._is_own(self._group(name)):
                self._make(self._group(name))
        self._names = tuple(names)

    def _make(self, group: portal_group.PortalGroup) -> None:
        """Create a target and mark it at once."""
        for path in (self._path, group.path.parent):
            self._tree.make(path)
        if any(self._tree.names(group.path / part)
               for part in ('acls', 'lun', 'np')):
            raise base.DataPlaneError(
                f'{group.path} exists, and does not belong to this state')
        self._tree.make(group.path)
        self._claim(group)

    def remove(self) -> None:
        """Remove the fabric unless it has other targets or discovery auth."""
        if self._tree.names(self._path) == [_DISCOVERY] \
                and not self._tree.read(
                    self._path / _DISCOVERY / 'userid'):
            self._tree.remove(self._path)

    def _warn(self, text: str) -> None:
        """Log a warning once, not at each publication."""
        if text not in self._warned:
            self._warned.add(text)
            LOG.warning('%s', text)


class Iscsi(_Targets):
    """One target, named as the array reports it (NET-2), with its portals."""

    def __init__(self, tree: configfs.Tree, root: pathlib.Path, mark: str
                 ) -> None:
        super().__init__(tree, root / 'iscsi', mark)

    @property
    def is_serving(self) -> bool:
        """Whether the target is enabled, if it was ever needed."""
        return all(map(self._is_enabled, self.groups()))

    def _is_enabled(self, group: portal_group.PortalGroup) -> bool:
        return self._tree.read(group.path / 'enable') == '1'

    def _is_own(self, group: portal_group.PortalGroup) -> bool:
        return self._tree.read(
            group.path / 'param' / 'TargetAlias') == self._mark

    def _claim(self, group: portal_group.PortalGroup) -> None:
        self._tree.write(group.path / 'param' / 'TargetAlias', self._mark)

    def _end(self, group: portal_group.PortalGroup) -> None:
        self._tree.write(group.path / 'enable', 0)
        for portal in self._tree.names(group.path / 'np'):
            self._tree.remove(group.path / 'np' / portal)
        group.clear()

    def change(self, exports: base.Exports) -> None:
        """Create exactly the array's target."""
        self._change((exports.target,))

    def hosts(self, group: portal_group.PortalGroup, exports: base.Exports
              ) -> dict[str, base.Access]:
        """The host of each initiator, in each spelling."""
        return {name: host for host in exports.hosts
                for name in identity.spellings(host.initiators)}

    def admit(self, group: portal_group.PortalGroup, initiator: str,
              host: base.Access) -> None:
        """Let an initiator log in as its host must (CHP-2)."""
        self._set_account(group.admit(initiator), host.account)

    def _set_account(self, acl: pathlib.Path, account: base.Account | None
                     ) -> None:
        """Set the account that the next login needs (CHP-2)."""
        values: list[tuple[str, str]] = []
        if account is not None:
            values = [('auth/userid', account.username),
                      ('auth/password', account.password)]
        values.append(('attrib/authentication', str(int(bool(values)))))
        for attribute, value in values:
            if self._tree.read(acl / attribute) != value:
                self._tree.write(acl / attribute, value)

    def open(self, exports: base.Exports) -> None:
        """Listen on the portals, and let hosts log in."""
        for group in self.groups():
            self._change_portals(group, exports.portals)
            if not self._is_enabled(group):
                self._enable(group)

    def _enable(self, group: portal_group.PortalGroup) -> None:
        """Let hosts log in, each with its own account."""
        for attribute in ('authentication', 'generate_node_acls',
                          # Other initiators do not even discover it.
                          'demo_mode_discovery'):
            self._tree.write(group.path / 'attrib' / attribute, 0)
        self._tree.write(group.path / 'param' / 'MaxRecvDataSegmentLength',
                         identity.SEGMENT)
        self._tree.write(group.path / 'enable', 1)

    def _change_portals(self, group: portal_group.PortalGroup,
                        wanted: Sequence[str]) -> None:
        """Change the portals; log those that this machine does not have."""
        served = set(self._tree.names(group.path / 'np'))
        names = {portals.name(address): address for address in wanted}
        for name in sorted(served - set(names)):
            self._tree.remove(group.path / 'np' / name)
        for name in sorted(set(names) - served):
            self._add_portal(group, names[name])

    def _add_portal(self, group: portal_group.PortalGroup, address: str
                    ) -> None:
        """Add a portal; once the target is enabled, only log a failure."""
        try:
            portals.check(address)
            self._tree.make(group.path / 'np' / portals.name(address))
        except base.DataPlaneError as exc:
            if not self._is_enabled(group):
                raise
            self._warn(f'portal {address} is not added: {exc}')


class FibreChannel(_Targets):
    """A target for each FC port of the array that this machine has.

    The kernel accepts logins from the ports it knows, and does not notify the
    others when it learns of more: a port that tried too early stays without
    the target. So all ports of hosts in the array's records may log in, even
    after they are removed there; the LUN map decides what they see.

    The kernel stores no text with such a target. Its own targets are
    recognized by an initiator that cannot exist, whose name is derived from
    the mark. local_ports: returns the names of this machine's ports.
    """

    def __init__(self, tree: configfs.Tree, root: pathlib.Path, mark: str,
                 local_ports: Callable[[], Collection[str]]) -> None:
        super().__init__(tree, root / 'fc', mark)
        self._local_ports = local_ports
        self._owner = _locally_assigned(mark)

    @property
    def is_serving(self) -> bool:
        """Whether the targets exist, if any were ever needed."""
        return all(map(self._is_own, self.groups()))

    def _is_own(self, group: portal_group.PortalGroup) -> bool:
        return self._owner in self._tree.names(group.path / 'acls')

    def _claim(self, group: portal_group.PortalGroup) -> None:
        group.admit(self._owner)

    def _end(self, group: portal_group.PortalGroup) -> None:
        # The mark stays on it until the end.
        group.limit({self._owner: {}})
        group.keep(())
        group.clear()

    def change(self, exports: base.Exports) -> None:
        """Create exactly the targets of the ports that this machine has."""
        here = self._local_ports()
        missing = [name for name in exports.fc_ports if name not in here]
        if missing:
            self._warn(
                'this machine has no FC port with the name'
                f' {", ".join(missing)}: served by the API alone')
        self._change([name for name in exports.fc_ports if name in here])

    def hosts(self, group: portal_group.PortalGroup, exports: base.Exports
              ) -> dict[str, base.Access]:
        """The host of each port; ports without a host see nothing."""
        known = (*self._tree.names(group.path / 'acls'),
                 *exports.known_ports)
        return {**dict.fromkeys(known, _NOBODY),
                **{name: host for host in exports.hosts
                   for name in host.ports}}

    def admit(self, group: portal_group.PortalGroup, initiator: str,
              host: base.Access) -> None:
        """Let a port log in."""
        group.admit(initiator)

    def open(self, exports: base.Exports) -> None:
        """Do nothing: ports log in when there is a link."""


def _locally_assigned(mark: str) -> str:
    """A port name, derived from a mark, that no real port has."""
    return _spelled(f'3000{hashlib.sha256(mark.encode()).hexdigest()[:12]}')


def _spelled(digits: str) -> str:
    return ':'.join(digits[at:at + 2] for at in range(0, 16, 2))


def local_ports(place: pathlib.Path = pathlib.Path('/sys/class/fc_host')
                ) -> set[str]:
    """The names of this machine's FC ports, in the array's format."""
    return {_spelled(path.read_text().strip().removeprefix('0x'))
            for path in place.glob('*/port_name')}
