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

"""Measures snapshots of a volume with data, which a host is writing to."""

import pathlib
import random
import threading
import time
from typing import NamedTuple

from tests import iscsi

_MIB = 2 ** 20
# MiB that one command of the initiator writes.
_PIECE = 64
_SNAPSHOTS = 5
_BETWEEN_SECONDS = 2.0


class Measured(NamedTuple):
    """Measured times in seconds.

    :ivar snapshot: the slowest snapshot
    :ivar write: the longest wait of a write while a snapshot was taken
    :ivar without: the longest wait of a write at other times
    :ivar drawback: what k2-sim says about snapshots on this file system
    """

    snapshot: float
    write: float
    without: float
    drawback: str


def missing() -> str:
    """Return why snapshots cannot be measured here, or an empty text."""
    return str(iscsi.TGT.missing())


def measure(state: pathlib.Path, mebibytes: int) -> Measured:
    """Measure snapshots while a host writes 4 KiB at random offsets.

    :param state: the state directory of k2-sim, which is started for this
    :param mebibytes: size of the volume, which is filled first
    """
    simulator = iscsi.Simulator(state)
    simulator.start()
    try:
        return _measure(simulator, mebibytes)
    finally:
        simulator.kill()


def _measure(simulator: iscsi.Simulator, mebibytes: int) -> Measured:
    group = simulator.call('POST', 'volume_groups', name='g', quota=0)
    volume = simulator.call(
        'POST', 'volumes', name='v', size=mebibytes * 1024,
        volume_group={'ref': f'/volume_groups/{group["id"]}'})
    lun, initiator = simulator.attach(volume['id'])
    session = iscsi.Session(initiator, lun)
    writer = _Writer(session, mebibytes)
    try:
        for start in range(0, mebibytes, _PIECE):
            session.io(f'write -P {start // _PIECE % 250 + 1} {start}M'
                       f' {_PIECE}M')
        writer.start()
        slowest = write = without = 0.0
        for number in range(_SNAPSHOTS):
            time.sleep(_BETWEEN_SECONDS)
            without = max(without, writer.longest())
            begin = time.monotonic()
            simulator.call(
                'POST', 'snapshots', short_name=f's{number}',
                source={'ref': f'/volume_groups/{group["id"]}'},
                retention_policy={'ref': '/retention_policies/3'})
            slowest = max(slowest, time.monotonic() - begin)
            write = max(write, writer.longest())
    finally:
        writer.stop()
        session.close()
    drawbacks = [line for line in simulator.messages
                 if 'host writes wait' in line]
    return Measured(slowest, write, without, ''.join(drawbacks).strip())


class _Writer(threading.Thread):
    """Writes until it is stopped, and records how long each write takes."""

    def __init__(self, session: iscsi.Session, mebibytes: int) -> None:
        super().__init__(daemon=True)
        self._session = session
        self._blocks = mebibytes * _MIB // 4096
        self._enough = threading.Event()
        self._lock = threading.Lock()
        self._longest = 0.0
        # When the write in progress began.
        self._begin = 0.0

    def run(self) -> None:
        while not self._enough.is_set():
            self._begin = time.monotonic()
            block = random.randrange(self._blocks)  # nosec B311
            self._session.io(f'write -P 7 {block * 4096} 4096')
            with self._lock:
                self._longest = max(
                    self._longest, time.monotonic() - self._begin)

    def longest(self) -> float:
        """Return the seconds of the longest write since the last call.

        This includes the write in progress.
        """
        with self._lock:
            found, self._longest = self._longest, 0.0
        return max(found, time.monotonic() - self._begin)

    def stop(self) -> None:
        """End after the current write."""
        self._enough.set()
        if self.is_alive():
            self.join(iscsi.LIMIT)
