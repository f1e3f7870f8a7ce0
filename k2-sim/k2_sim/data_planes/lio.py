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

"""The data plane that uses the kernel's own target, LIO.

It is configured through configfs and outlives its process: whatever a killed
process has left is removed by the next one with the same state. Its objects
bear a mark that is derived from the path of the state, so other users' targets
are not touched.
"""

from collections.abc import Callable
from collections.abc import Collection
from collections.abc import Iterator
from collections.abc import Mapping
import contextlib
import fcntl
import hashlib
import logging
import os
import pathlib
import shutil
import subprocess  # nosec B404
from typing import TextIO

from k2_sim.blocks import loop_devices
from k2_sim.data_planes import backstores
from k2_sim.data_planes import base
from k2_sim.data_planes import block_devices
from k2_sim.data_planes import configfs
from k2_sim.data_planes import counters
from k2_sim.data_planes import data_plane_lock
from k2_sim.data_planes import fabrics
from k2_sim.data_planes import portal_group

LOG = logging.getLogger(__name__)
_MODULES = ('configfs', 'loop', 'dm_mod', 'target_core_mod',
            'target_core_iblock', 'iscsi_target_mod')
# The module for targets on Fibre Channel ports, which not every kernel has.
_FC_MODULE = 'tcm_fc'
# Seconds.
_MODPROBE_LIMIT = 30.0


class LioDataPlane:
    """Exports through LIO's directory in configfs.

    mark: distinguishes its objects from those of other users. Any left from an
    earlier process are removed. local_ports: returns the names of this
    machine's Fibre Channel ports; None if Fibre Channel cannot be used.
    on_close: called last in close().

    What is exported is not kept in memory: each publication reads the current
    configuration and changes the difference. So the next one also corrects
    what a failed one left.
    """

    def __init__(self, tree: configfs.Tree, root: pathlib.Path,
                 disks: backstores.Disks, mark: str,
                 local_ports: Callable[[], Collection[str]] | None = None,
                 on_close: Callable[[], object] = lambda: None) -> None:
        self._disks = disks
        self._on_close = on_close
        self._backstores = backstores.Backstores(tree, root, disks, mark)
        self._lock = data_plane_lock.DataPlaneLock('LIO')
        self.has_fc = local_ports is not None
        self._fabrics: list[fabrics.Fabric] = [
            fabrics.Iscsi(tree, root, mark)]
        if local_ports is not None:
            self._fabrics.append(fabrics.FibreChannel(
                tree, root, mark, local_ports))
        # The counters of each disk, by serial, as last reported.
        self._counts: dict[str, counters.Counts] = {}
        self._clear()

    @property
    def is_serving(self) -> bool:
        """Whether the targets exist, if they were ever needed."""
        return all(fabric.is_serving for fabric in self._fabrics)

    @contextlib.contextmanager
    def quiesced(self) -> Iterator[None]:
        """Hold initiators' writes back from the files within the context."""
        with self._lock.held(), self._disks.held():
            yield

    def close(self) -> None:
        """Stop exporting."""
        with self._lock.held():
            try:
                self._clear()
                for fabric in self._fabrics:
                    fabric.remove()
            finally:
                self._on_close()

    def _clear(self) -> None:
        """Remove everything that bears the mark."""
        # Nothing can be removed while writes to it wait.
        self._disks.release()
        for fabric in self._fabrics:
            fabric.clear()
        self._backstores.keep(())

    def publish(self, exports: base.Exports) -> None:
        """Export exactly this. Raises DataPlaneError."""
        with self._lock.held():
            for fabric in self._fabrics:
                fabric.change(exports)
            self._change_access(exports)
            for fabric in self._fabrics:
                fabric.open(exports)

    def traffic(self) -> list[base.Traffic]:
        """Initiators' I/O since the last call.

        While the targets are being changed, it is left for the next call.
        """
        with self._lock.held_if_free() as is_held:
            if not is_held:
                return []
            try:
                before, self._counts = self._counts, self._backstores.counts()
            except base.DataPlaneError as exc:
                LOG.debug('no statistics of LIO: %s', exc)
                return []
            return [base.Traffic(serial, *grown)
                    for serial, counts in self._counts.items()
                    if any(grown := counters.grown(
                        before.get(serial), counts))]

    def _change_access(self, exports: base.Exports) -> None:
        """Remove access first, then change files, then add access."""
        views = [_View(fabric, group, fabric.hosts(group, exports),
                       self._backstores.name)
                 for fabric in self._fabrics for group in fabric.groups()]
        for view in views:
            view.limit()
        there = {disk for view in views for disk in view.group.luns()}
        # A disk without a LUN may be incomplete.
        self._backstores.keep(there)
        luns = {disk: lun for view in views
                for disk, lun in view.luns.items()}
        for disk, lun in luns.items():
            self._disks.put(disk, lun.path, lun.size)
            if disk not in there:
                self._backstores.make(lun, exports)
        paths = self._backstores.paths()
        for view in views:
            view.grant(paths)


class _View:
    """What the hosts of a portal group are to see.

    luns: of all hosts, by the name of the disk. name: returns that name.
    """

    def __init__(self, fabric: fabrics.Fabric,
                 group: portal_group.PortalGroup,
                 hosts: Mapping[str, base.Access],
                 name: Callable[[base.Lun], str]) -> None:
        self.group = group
        self._fabric = fabric
        self._hosts = hosts
        # A file that is gone has no LUN.
        self._maps: dict[str, portal_group.LunMap] = {
            initiator: {lun.number: (name(lun), lun) for lun in host.luns
                        if lun.path.exists()}
            for initiator, host in hosts.items()}
        self.luns = {disk: lun for lun_map in self._maps.values()
                     for disk, lun in lun_map.values()}

    def limit(self) -> None:
        """Remove what hosts must not see any more."""
        self.group.limit(self._maps)
        self.group.keep(self.luns)

    def grant(self, disks: Mapping[str, pathlib.Path]) -> None:
        """Show hosts what they do not see yet; disks: paths by name."""
        there = self.group.luns()
        for disk in self.luns:
            if disk not in there:
                self.group.add(disks[disk])
        for initiator, host in self._hosts.items():
            self._fabric.admit(self.group, initiator, host)
        self.group.grant(self._maps)


def lio_data_plane(directory: pathlib.Path) -> LioDataPlane:
    """The data plane of the state in a directory, which exists.

    Raises UnavailableError when LIO cannot be used here, DataPlaneError when
    another process runs the data plane of that state.
    """
    check()
    place = os.path.realpath(directory).encode()
    mark = f'k2-sim-{hashlib.sha256(place).hexdigest()[:12]}'
    local_ports = fabrics.local_ports if _has_fc() else None
    lock = _locked(directory / 'lio.lock')
    try:
        return LioDataPlane(configfs.Tree(), configfs.MOUNT / 'target',
                            block_devices.Disks(mark), mark, local_ports,
                            lock.close)
    except BaseException:
        lock.close()
        raise


def _locked(path: pathlib.Path) -> TextIO:
    """Open a file that one process at a time can have; a kill releases it."""
    lock = open(path, 'w')
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as exc:
        lock.close()
        raise base.DataPlaneError(
            f'{path} is in use by another process') from exc
    return lock


def check() -> None:
    """Raise UnavailableError, with a remedy, when LIO cannot be used."""
    if os.geteuid() != 0:
        raise base.UnavailableError(
            'only root can configure the kernel target; start k2-sim as'
            ' root, and not in a user namespace')
    _load_modules(*_MODULES)
    if not os.path.ismount(configfs.MOUNT):
        raise base.UnavailableError(
            'configfs is not mounted, or this kernel has none; try: mount -t'
            f' configfs configfs {configfs.MOUNT}')
    for path, module in ((configfs.MOUNT / 'target', 'target_core_mod'),
                         (loop_devices.LOOP_CONTROL, 'loop'),
                         (block_devices.MAPPER_CONTROL, 'dm_mod')):
        if not path.exists():
            raise base.UnavailableError(
                f'this kernel lacks {path}; try: modprobe {module}')
    reason = _refusal(configfs.MOUNT / 'target' / 'iscsi')
    if reason:
        raise base.UnavailableError(f'{reason}; try: modprobe'
                                    ' iscsi_target_mod')


def _has_fc() -> bool:
    """Whether Fibre Channel can be used; if not, log the reason."""
    reason = 'this machine has no FC port'
    if fabrics.local_ports():
        _load_modules(_FC_MODULE)
        reason = _refusal(configfs.MOUNT / 'target' / 'fc')
    if reason:
        LOG.info('FC ports are served by the API alone: %s', reason)
    return not reason


def _refusal(path: pathlib.Path) -> str:
    """Why the kernel refuses to create a fabric, or ''.

    It creates one only if its module is loaded.
    """
    try:
        path.mkdir()
        path.rmdir()
    except FileExistsError:
        pass
    except OSError as exc:
        return f'this kernel cannot make {path}: {exc.strerror}'
    return ''


def _load_modules(*names: str) -> None:
    """Load the modules that are not built in; failures show later."""
    program = shutil.which('modprobe', path='/usr/sbin:/sbin')
    if program is not None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            subprocess.run(  # nosec B603
                [program, '--all', '--quiet', *names], check=False,
                timeout=_MODPROBE_LIMIT, stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
