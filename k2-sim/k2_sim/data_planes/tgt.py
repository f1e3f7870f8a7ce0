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

"""The data plane that uses Debian's tgt.

tgt has one LUN map for all initiators of a target, and accounts belong to the
target, too. So every host that may log in sees what is mapped to any host, and
when one host must log in with CHAP, all must.
"""

from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Sequence
import contextlib
import dataclasses
import logging
import os
import pathlib
import re
import secrets
import time
from typing import Protocol

from k2_sim.data_planes import base
from k2_sim.data_planes import counters
from k2_sim.data_planes import data_plane_lock
from k2_sim.data_planes import identity
from k2_sim.data_planes import portals
from k2_sim.data_planes import tgtd

LOG = logging.getLogger(__name__)
_TARGET = ('--tid', 1)
# Seconds that commands to a LUN that is being removed may take to finish.
_DRAIN_LIMIT = 10.0
_LOOK_AGAIN = 0.01
# Number of columns in a line of op stat.
_CELLS = 12
# LUN and session.
_Place = tuple[int, int]


class Daemon(Protocol):
    """The part of tgtd.Tgtd that is used here."""

    directory: pathlib.Path

    @property
    def is_running(self) -> bool:
        """Whether it was started and has not exited."""

    def start(self, portals: Sequence[str]) -> None:
        """Start it with nothing but portals."""

    def command(self, operation: str, mode: str, *arguments: object) -> str:
        """Run tgtadm; returns its output."""

    def stopped(self) -> contextlib.AbstractContextManager[None]:
        """Stop all of its threads within the context."""

    def stop(self) -> None:
        """Terminate it."""


@dataclasses.dataclass
class _Served:
    """The configuration of a daemon, from the commands that succeeded."""

    portals: set[str] = dataclasses.field(default_factory=set)
    target: str = ''
    luns: dict[int, base.Lun] = dataclasses.field(default_factory=dict)
    initiators: set[str] = dataclasses.field(default_factory=set)
    accounts: list[base.Account] = dataclasses.field(default_factory=list)
    # The sessions' counters of each LUN, as last reported.
    counts: dict[_Place, counters.Counts] = dataclasses.field(
        default_factory=dict)


class TgtDataPlane:
    """Exports through a tgtd in its own directory.

    The daemon's configuration is tracked from its start. If a command fails
    unexpectedly, it is no longer known: then a new daemon is started, and
    initiators log in again by themselves.
    """

    def __init__(self, daemon: Daemon) -> None:
        self._daemon = daemon
        self._served = _Served()
        self._lock = data_plane_lock.DataPlaneLock('tgtd')
        # Keeps the target from being open to all while accounts change.
        self._guard = base.Account(
            f'k2-sim-{secrets.token_hex(8)}', secrets.token_hex(8))
        self._warned: set[str] = set()

    has_fc = False

    @property
    def is_serving(self) -> bool:
        """Whether the daemon runs, if it was ever needed."""
        return self._daemon.is_running or not self._served.portals

    @contextlib.contextmanager
    def quiesced(self) -> Iterator[None]:
        """Hold initiators' writes back from the files within the context."""
        with self._lock.held(), self._daemon.stopped():
            yield

    def close(self) -> None:
        """Stop exporting."""
        with self._lock.held():
            self._daemon.stop()

    def traffic(self) -> list[base.Traffic]:
        """Initiators' I/O since the last call.

        While the daemon is busy, it is left for the next call. The counts of a
        session since the last call are lost when it ends.
        """
        with self._lock.held_if_free() as is_held:
            try:
                return self._traffic() if is_held else []
            except tgtd.CommandError as exc:
                LOG.debug('no statistics of tgtd: %s', exc)
                return []

    def _traffic(self) -> list[base.Traffic]:
        served = self._served
        if not self._daemon.is_running or not served.luns:
            return []
        before, served.counts = served.counts, _counts(
            self._daemon.command('stat', 'target', *_TARGET))
        return [base.Traffic(served.luns[place[0]].serial, *grown)
                for place, counts in served.counts.items()
                if place[0] in served.luns
                and any(grown := counters.grown(before.get(place), counts))]

    def publish(self, exports: base.Exports) -> None:
        """Export exactly this.

        Of two volumes with the same LUN, that of the first host is exported.
        Raises DataPlaneError.
        """
        with self._lock.held():
            try:
                self._change(exports)
            except tgtd.CommandError as exc:
                LOG.warning('restarting tgtd: %s', exc)
                self._daemon.stop()
                self._change(exports)

    def _change(self, exports: base.Exports) -> None:
        if not self._daemon.is_running:
            self._served = _Served()
            if not exports.portals:
                # Without any, tgtd would listen on all addresses.
                return
            self._daemon.start(exports.portals)
            self._served.portals = set(exports.portals)
        luns = self._luns(exports)
        initiators = identity.allowed(exports.hosts)
        self._change_target(exports.target)
        self._drop_initiators(initiators)
        self._drop_luns(luns)
        self._change_accounts(_accounts(exports.hosts))
        self._add_luns(luns, exports)
        self._add_initiators(initiators)
        self._change_portals(exports.portals)

    def _luns(self, exports: base.Exports) -> dict[int, base.Lun]:
        """One LUN map for all hosts; LUNs whose file is gone are omitted."""
        luns: dict[int, base.Lun] = {}
        for lun in (lun for host in exports.hosts for lun in host.luns
                    if lun.path.exists()):
            if luns.setdefault(lun.number, lun).serial != lun.serial:
                self._warn(f'LUN {lun.number} is not served with serial'
                           f' {lun.serial}: it has {luns[lun.number].serial}'
                           ' on another host, and tgt has one LUN map for all')
        return luns

    def _warn(self, text: str) -> None:
        """Log a warning once, not at each publication."""
        if text not in self._warned:
            self._warned.add(text)
            LOG.warning('%s', text)

    def _change_target(self, name: str) -> None:
        if self._served.target == name:
            return
        if self._served.target:
            self._daemon.command('delete', 'target', *_TARGET, '--force')
            self._served = _Served(self._served.portals)
        self._daemon.command('new', 'target', *_TARGET, '--targetname', name)
        self._daemon.command(
            'update', 'target', *_TARGET, '--name',
            'MaxRecvDataSegmentLength', '--value', identity.SEGMENT)
        self._served.target = name

    def _drop_initiators(self, wanted: set[str]) -> None:
        """Block further logins of other initiators, and end their sessions."""
        leaving = self._served.initiators - wanted
        for name in sorted(leaving):
            self._daemon.command('unbind', 'target', *_TARGET,
                                 '--initiator-name', name)
            self._served.initiators.discard(name)
        if leaving:
            self._end_sessions(leaving)

    def _end_sessions(self, initiators: set[str]) -> None:
        shown = self._daemon.command('show', 'conn', *_TARGET)
        for session, connection, initiator in _connections(shown):
            if initiator in initiators:
                # It may have ended by itself meanwhile.
                with contextlib.suppress(tgtd.CommandError):
                    self._daemon.command('delete', 'conn', *_TARGET, '--sid',
                                         session, '--cid', connection)

    def _drop_luns(self, wanted: dict[int, base.Lun]) -> None:
        for number, lun in list(self._served.luns.items()):
            if not _is_same_disk(lun, wanted.get(number)):
                self._delete_lun(number)
                del self._served.luns[number]

    def _delete_lun(self, number: int) -> None:
        """Take a LUN offline, and delete it when its commands have ended.

        Before that, tgtd refuses to delete it.
        """
        self._on_lun('update', number, '--params', 'online=0')
        deadline = time.monotonic() + _DRAIN_LIMIT
        while True:
            try:
                self._on_lun('delete', number)
                return
            except tgtd.CommandError:
                if time.monotonic() > deadline:
                    raise
            time.sleep(_LOOK_AGAIN)

    def _on_lun(self, operation: str, number: int, *arguments: object
                ) -> None:
        self._daemon.command(operation, 'logicalunit', *_TARGET,
                             '--lun', number, *arguments)

    def _add_luns(self, wanted: dict[int, base.Lun], exports: base.Exports
                  ) -> None:
        for number, lun in wanted.items():
            served = self._served.luns.get(number)
            if served is None:
                self._add_lun(lun, exports)
            elif (served.path, served.size) != (lun.path, lun.size):
                # tgtd reads the size when it opens the file.
                self._on_lun('update', number, '--params',
                             f'online=0,path={self._path(lun)}')
            self._served.luns[number] = lun

    def _add_lun(self, lun: base.Lun, exports: base.Exports) -> None:
        self._on_lun('new', lun.number, '--backing-store', self._path(lun))
        self._on_lun(
            'update', lun.number, '--params',
            f'vendor_id={exports.vendor},product_id={exports.product},'
            f'product_rev={identity.REVISION},scsi_sn={lun.serial},'
            f'scsi_id={identity.wwid(lun.serial)},thin_provisioning=1,'
            f'readonly={int(lun.is_read_only)}')

    def _path(self, lun: base.Lun) -> str:
        """The path relative to the daemon's directory.

        A comma, which the absolute path may have, would end the parameter.
        """
        return os.path.relpath(
            lun.path, os.path.realpath(self._daemon.directory))

    def _add_initiators(self, wanted: set[str]) -> None:
        for name in sorted(wanted - self._served.initiators):
            self._daemon.command('bind', 'target', *_TARGET,
                                 '--initiator-name', name)
            self._served.initiators.add(name)

    def _change_accounts(self, wanted: list[base.Account]) -> None:
        """Remove accounts from the end, down to those that stay.

        tgtd 1.0.85 crashes when an account is deleted that is not the last
        one, or is still bound.
        """
        if wanted:
            wanted = [self._guard, *wanted]
        served = self._served.accounts
        while not all(account in wanted for account in served):
            self._on_account('unbind', served[-1])
            self._daemon.command('delete', 'account',
                                 '--user', served.pop().username)
        for account in wanted:
            if account not in served:
                self._daemon.command(
                    'new', 'account', '--user', account.username,
                    '--password', account.password)
                self._on_account('bind', account)
                served.append(account)

    def _on_account(self, operation: str, account: base.Account) -> None:
        self._daemon.command(operation, 'account', *_TARGET,
                             '--user', account.username)

    def _change_portals(self, wanted: Sequence[str]) -> None:
        """Change the portals; log those that this machine does not have."""
        for address in sorted(self._served.portals.symmetric_difference(
                wanted)):
            operation = 'new' if address in wanted else 'delete'
            try:
                self._daemon.command(operation, 'portal', '--param',
                                     f'portal={portals.name(address)}')
                self._served.portals ^= {address}
            except tgtd.CommandError as exc:
                self._warn(f'portal {address} is not changed: {exc}')


def tgt_data_plane(directory: pathlib.Path) -> TgtDataPlane:
    """A data plane with its own tgtd, which runs in the directory.

    Raises UnavailableError when tgtd cannot run here.
    """
    tgtd.check()
    return TgtDataPlane(tgtd.Tgtd(directory))


def _is_same_disk(served: base.Lun, wanted: base.Lun | None) -> bool:
    """Whether the LUN can be updated in place while initiators see it."""
    return wanted is not None and (
        served.serial, served.is_read_only) == (
        wanted.serial, wanted.is_read_only)


def _accounts(hosts: Iterable[base.Access]) -> list[base.Account]:
    return list(dict.fromkeys(
        host.account for host in hosts if host.account is not None))


def _counts(shown: str) -> dict[_Place, counters.Counts]:
    """The I/O of each session on each LUN, from op stat.

    The columns are target, LUN and session; bytes and commands of reads
    received, reads completed, writes received and writes completed; errors.
    """
    found = {}
    for line in shown.splitlines():
        cells = line.split()
        if len(cells) == _CELLS and all(map(str.isdecimal, cells)):
            numbers = list(map(int, cells))
            found[numbers[1], numbers[2]] = (
                numbers[6], numbers[5], numbers[10], numbers[9])
    return found


def _connections(shown: str) -> Iterator[tuple[str, str, str]]:
    """Session, connection and initiator of each connection."""
    session = ''
    for head, body in re.findall(r'^\s*(\w[\w ]*): (.*)$', shown, re.M):
        if head == 'Session':
            session = body
        elif head == 'Connection':
            connection = body
        elif head == 'Initiator':
            yield session, connection, body
