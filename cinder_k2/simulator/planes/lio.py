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

"""The data plane that the kernel's own target, LIO, serves.

It is set up through configfs, and goes on by itself: what a process has
left that was killed is taken away by the next one on the same state. It is
known by a mark that follows from the place of the state, so the targets of
others are not touched.
"""

from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Sequence
import contextlib
import fcntl
import hashlib
import logging
import os
import pathlib
import shutil
import subprocess  # nosec B404
from typing import TextIO

from cinder_k2.simulator.planes import backstores
from cinder_k2.simulator.planes import base
from cinder_k2.simulator.planes import block_devices
from cinder_k2.simulator.planes import configfs
from cinder_k2.simulator.planes import counters
from cinder_k2.simulator.planes import identity
from cinder_k2.simulator.planes import portal_group
from cinder_k2.simulator.planes import portals
from cinder_k2.simulator.planes import turns

LOG = logging.getLogger(__name__)
_MODULES = ('configfs', 'loop', 'dm_mod', 'target_core_mod',
            'target_core_iblock', 'iscsi_target_mod')
# What every fabric of iSCSI has.
_DISCOVERY = 'discovery_auth'
# Seconds.
_MODPROBE_LIMIT = 30.0


class LioPlane:
    """Serves through the directory of LIO's in configfs.

    mark: what tells its own from what others have there. Whatever has been
    left of its own is taken away. on_close: called after all else.

    Nothing is remembered of what is served: each publication looks what there
    is, and changes the difference. So one that failed is made good by the
    next.
    """

    def __init__(self, tree: configfs.Tree, root: pathlib.Path,
                 disks: backstores.Disks, mark: str,
                 on_close: Callable[[], object] = lambda: None) -> None:
        self._tree = tree
        self._root = root
        self._disks = disks
        self._mark = mark
        self._on_close = on_close
        self._backstores = backstores.Backstores(tree, root, disks, mark)
        self._turns = turns.Turns('LIO')
        self._target = ''
        # What was done with each disk, by serial, as was told last.
        self._counts: dict[str, counters.Counts] = {}
        self._warned: set[str] = set()
        self._clear()

    @property
    def is_serving(self) -> bool:
        """Whether the target is there, if it was ever needed."""
        return not self._target or self._is_enabled(self._group())

    def _is_enabled(self, group: portal_group.PortalGroup) -> bool:
        return self._tree.read(group.path / 'enable') == '1'

    def _group(self) -> portal_group.PortalGroup:
        return self._group_of(self._target)

    def _group_of(self, target: str) -> portal_group.PortalGroup:
        return portal_group.PortalGroup(
            self._tree, self._root / 'iscsi' / target / 'tpgt_1')

    @contextlib.contextmanager
    def quiesced(self) -> Iterator[None]:
        """Inside, no initiator's write reaches a file."""
        with self._turns.own(), self._disks.held():
            yield

    def close(self) -> None:
        """Serve nothing any more."""
        with self._turns.own():
            try:
                self._clear()
                self._remove_fabric()
                self._target = ''
            finally:
                self._on_close()

    def _clear(self) -> None:
        """Take away all that bears the mark."""
        # Nothing goes away while writes to it wait.
        self._disks.release()
        for target in self._tree.names(self._root / 'iscsi'):
            group = self._group_of(target)
            if self._is_own(group):
                self._end(group)
        self._backstores.keep(())

    def _remove_fabric(self) -> None:
        """Unless others have targets, or a password for discovery."""
        path = self._root / 'iscsi'
        if self._tree.names(path) == [_DISCOVERY] and not self._tree.read(
                path / _DISCOVERY / 'userid'):
            self._tree.remove(path)

    def _is_own(self, group: portal_group.PortalGroup) -> bool:
        return self._tree.read(
            group.path / 'param' / 'TargetAlias') == self._mark

    def _end(self, group: portal_group.PortalGroup) -> None:
        """Close all sessions, and remove the target."""
        self._tree.write(group.path / 'enable', 0)
        for portal in self._tree.names(group.path / 'np'):
            self._tree.remove(group.path / 'np' / portal)
        group.clear()

    def publish(self, exports: base.Exports) -> None:
        """Serve just this. Raises PlaneError."""
        with self._turns.own():
            self._change_target(exports.target)
            self._change_access(exports)
            self._change_portals(exports.portals)
            group = self._group()
            if not self._is_enabled(group):
                self._enable(group)

    def traffic(self) -> list[base.Traffic]:
        """What initiators have done since the last call.

        While the target is changed it is left for the next one.
        """
        with self._turns.spare() as is_own:
            if not is_own:
                return []
            try:
                before, self._counts = self._counts, self._backstores.counts()
            except base.PlaneError as exc:
                LOG.debug('no statistics of LIO: %s', exc)
                return []
            return [base.Traffic(serial, *grown)
                    for serial, counts in self._counts.items()
                    if any(grown := counters.grown(
                        before.get(serial), counts))]

    def _change_target(self, name: str) -> None:
        if self._target and self._target != name:
            self._end(self._group())
        group = self._group_of(name)
        if not self._is_own(group):
            self._make_target(group)
        self._target = name

    def _make_target(self, group: portal_group.PortalGroup) -> None:
        """A new one, which is known as its own from the first on."""
        for path in (self._root / 'iscsi', group.path.parent):
            self._tree.make(path)
        if any(self._tree.names(group.path / part)
               for part in ('acls', 'lun', 'np')):
            raise base.PlaneError(
                f'{group.path} is there already, and not of this state')
        self._tree.make(group.path)
        self._tree.write(group.path / 'param' / 'TargetAlias', self._mark)

    def _enable(self, group: portal_group.PortalGroup) -> None:
        """Let hosts log in, each as it may."""
        for attribute in ('authentication', 'generate_node_acls',
                          # Others do not even see it.
                          'demo_mode_discovery'):
            self._tree.write(group.path / 'attrib' / attribute, 0)
        self._tree.write(group.path / 'enable', 1)

    def _change_access(self, exports: base.Exports) -> None:
        """Take away first: then files change, and then there is more."""
        group, hosts = self._group(), _by_initiator(exports)
        maps = {name: self._map(host) for name, host in hosts.items()}
        luns = {disk: lun for lun_map in maps.values()
                for disk, lun in lun_map.values()}
        group.limit(maps)
        group.keep(luns)
        there = group.luns()
        # What is no LUN may not be made to its end.
        self._backstores.keep(there)
        for disk, lun in luns.items():
            self._disks.put(disk, lun.path, lun.size)
            if disk not in there:
                group.add(self._backstores.make(lun, exports))
        for initiator, host in hosts.items():
            self._set_account(group.admit(initiator), host.account)
        group.grant(maps)

    def _map(self, host: base.Access) -> portal_group.LunMap:
        """What its initiators see; a file that is gone is no LUN."""
        return {lun.number: (self._backstores.name(lun), lun)
                for lun in host.luns if lun.path.exists()}

    def _set_account(self, acl: pathlib.Path, account: base.Account | None
                     ) -> None:
        """What counts at the next login (CHP-2)."""
        values: list[tuple[str, str]] = []
        if account is not None:
            values = [('auth/userid', account.username),
                      ('auth/password', account.password)]
        values.append(('attrib/authentication', str(int(bool(values)))))
        for attribute, value in values:
            if self._tree.read(acl / attribute) != value:
                self._tree.write(acl / attribute, value)

    def _change_portals(self, wanted: Sequence[str]) -> None:
        """An address that this machine has not is no reason to stop."""
        group = self._group()
        served = set(self._tree.names(group.path / 'np'))
        names = {portals.name(address): address for address in wanted}
        for name in sorted(served - set(names)):
            self._tree.remove(group.path / 'np' / name)
        for name in sorted(set(names) - served):
            self._add_portal(group, names[name])

    def _add_portal(self, group: portal_group.PortalGroup, address: str
                    ) -> None:
        """Only at the start it is an error if one cannot be had."""
        try:
            portals.check(address)
            self._tree.make(group.path / 'np' / portals.name(address))
        except base.PlaneError as exc:
            if not self._is_enabled(group):
                raise
            self._warn(f'portal {address} is not added: {exc}')

    def _warn(self, text: str) -> None:
        """Once, not at each publication."""
        if text not in self._warned:
            self._warned.add(text)
            LOG.warning('%s', text)


def _by_initiator(exports: base.Exports) -> dict[str, base.Access]:
    """The host of each initiator, in each spelling."""
    return {name: host for host in exports.hosts
            for name in identity.spellings(host.initiators)}


def lio_plane(directory: pathlib.Path) -> LioPlane:
    """The plane of the state in a directory, which is there.

    Raises UnavailableError when LIO cannot be had here, PlaneError when
    another process has the plane of that state.
    """
    check()
    place = os.path.realpath(directory).encode()
    mark = f'k2-sim-{hashlib.sha256(place).hexdigest()[:12]}'
    lock = _locked(directory / 'lio.lock')
    try:
        return LioPlane(configfs.Tree(), configfs.MOUNT / 'target',
                        block_devices.Disks(mark), mark, lock.close)
    except BaseException:
        lock.close()
        raise


def _locked(path: pathlib.Path) -> TextIO:
    """What one process has open at a time, and none that was killed."""
    lock = open(path, 'w')
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as exc:
        lock.close()
        raise base.PlaneError(
            f'{path} is in use by another process') from exc
    return lock


def check() -> None:
    """Raises UnavailableError when LIO cannot be had, with what to do."""
    if os.geteuid() != 0:
        raise base.UnavailableError(
            'the kernel takes its target from root only; start k2-sim as'
            ' root, and not in a user namespace')
    _load_modules()
    if not os.path.ismount(configfs.MOUNT):
        raise base.UnavailableError(
            'configfs is not mounted, or this kernel has none; try: mount -t'
            f' configfs configfs {configfs.MOUNT}')
    for path, module in ((configfs.MOUNT / 'target', 'target_core_mod'),
                         (block_devices.LOOP_CONTROL, 'loop'),
                         (block_devices.MAPPER_CONTROL, 'dm_mod')):
        if not path.exists():
            raise base.UnavailableError(
                f'this kernel lacks {path}; try: modprobe {module}')
    _check_fabric(configfs.MOUNT / 'target' / 'iscsi')


def _check_fabric(path: pathlib.Path) -> None:
    """The kernel makes it for those alone who have the module."""
    try:
        path.mkdir()
        path.rmdir()
    except FileExistsError:
        pass
    except OSError as exc:
        raise base.UnavailableError(
            f'this kernel cannot make {path}: {exc.strerror}; try: modprobe'
            ' iscsi_target_mod') from exc


def _load_modules() -> None:
    """Load what is no part of the kernel; what lacks shows later."""
    program = shutil.which('modprobe', path='/usr/sbin:/sbin')
    if program is not None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            subprocess.run(  # nosec B603
                [program, '--all', '--quiet', *_MODULES], check=False,
                timeout=_MODPROBE_LIMIT, stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
