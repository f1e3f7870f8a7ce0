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

"""The driver's connection properties, used by an initiator, with data.

The array is a process of k2-sim that serves its volumes over iSCSI; the
initiator is qemu-io, in user space. tests/guest does the same with the
initiator of a kernel.
"""

import contextlib
import dataclasses
import logging
import pathlib
import signal
import subprocess
import tempfile
from typing import Any

import fixtures
import testtools

from tests.functional import backend
from tests.functional import cinder_env
from tests import iscsi

MIB = 2 ** 20
TARGET = 'second'
RPO = 60
REPLICATED = {'kaminario__replication': 'enabled'}


class DataPathTest(testtools.TestCase):
    """A test with a back end on an array, which must be empty at the end."""

    plane: Any = iscsi.TGT
    simulator: iscsi.Simulator

    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        reason = cls.plane.missing()
        if reason:
            raise cls.skipException(reason)
        folder = tempfile.TemporaryDirectory(prefix='cinder-k2-')
        cls.addClassCleanup(folder.cleanup)
        cls.start_arrays(pathlib.Path(folder.name))

    @classmethod
    def start_arrays(cls, folder: pathlib.Path) -> None:
        """Start the arrays that the tests of the class share."""
        # Movable clones, as otherwise data is copied, which needs a kernel.
        cls.simulator = iscsi.Simulator(
            folder / 'state', cls.plane, ('--behavior', 'clones_movable=true'))
        cls._start(cls.simulator)

    @classmethod
    def _start(cls, simulator: iscsi.Simulator) -> None:
        simulator.start()
        cls.addClassCleanup(simulator.kill)

    def setUp(self) -> None:
        super().setUp()
        self.useFixture(fixtures.FakeLogger(level=logging.INFO))

    def start(self, **options: Any) -> None:
        """Start the back end."""
        cinder_env.cinder().forget_everything()
        self.backend = backend.Backend(
            self.simulator.address, self.simulator.port, 'iscsi',
            **{**self.simulator.options(), **options})
        self.addCleanup(self.backend.close)
        self.assertTrue(self.backend.start())
        self.addCleanup(self.check_what_is_left)

    def check_what_is_left(self) -> None:
        self.backend.delete_everything()
        self.assertEqual({}, self.simulator.leftovers())

    def attach(self, volume: Any, host: int = 1
               ) -> tuple[Any, list[iscsi.Path]]:
        """Attach a volume; return the attachment and all paths."""
        iqn = f'iqn.1994-05.com.example:{host}'
        attachment = self.backend.attach(volume, {
            'host': f'compute-{host}', 'ip': f'127.0.0.{host}',
            'initiator': iqn, 'multipath': True, 'os_type': 'linux',
            'platform': 'x86_64', 'do_local_attach': False})
        return attachment, iscsi.paths(attachment.connection_info, iqn)

    def disk(self, volume: Any) -> iscsi.Path:
        """Attach a volume to the first host; return its first path."""
        return self.attach(volume)[1][0]

    def assert_not_there(self, path: iscsi.Path) -> None:
        """Check that the initiator does not find the LUN."""
        self.assertRaises(subprocess.CalledProcessError, path.io, 'length')


class LifeTests:
    """Steps from the first attachment to the last, for any data plane."""

    def live(self) -> list[iscsi.Path]:
        """Run all steps through all paths; return the last volume's paths."""
        volume = self.backend.create_volume(1)
        attachment, paths = self.attach(volume)
        self.assertEqual(2, len(paths))
        for number, path in enumerate(paths, 1):
            path.io(f'write -P {number} {number}M 1M')
        for path in paths:
            path.io('read -P 1 1M 1M', 'read -P 2 2M 1M')
        snapshot = self.backend.create_snapshot(volume)
        paths[0].io('write -P 3 1M 1M')
        copy, copied = self.attach(
            self.backend.volume_from_snapshot(snapshot))
        copied[0].io('read -P 1 1M 1M', 'read -P 2 2M 1M',
                     'write -P 4 1M 1M')
        self.backend.extend_volume(self.backend.volume(volume.id), 2)
        paths[1].io('read -P 3 1M 1M', 'write -P 5 2047M 1M')
        self.backend.detach(attachment)
        self.assert_not_there(
            dataclasses.replace(copied[0], lun=paths[0].lun))
        copied[1].io('read -P 4 1M 1M')
        self.backend.detach(copy)
        error = self.assertRaises(
            subprocess.CalledProcessError, copied[1].io, 'length')
        self.assertIn(self.plane.refusal, error.stderr)
        return copied

    def test_anybody(self) -> None:
        self.start()
        self.assertFalse(any(path.account for path in self.live()))

    def test_passwords(self) -> None:
        self.start(use_chap_auth=True)
        self.assertTrue(all(path.account for path in self.live()))


class TgtTest(LifeTests, DataPathTest):
    """All tests, on tgt. For LIO, which few machines have, see tests/guest."""

    def test_wrong_passwords(self) -> None:
        self.start(use_chap_auth=True)
        path = self.disk(self.backend.create_volume(1))
        for wrong in iscsi.strangers(path):
            error = self.assertRaises(subprocess.CalledProcessError,
                                      wrong.io, 'length')
            self.assertIn('uthentication', error.stderr)
        path.io('length')

    def test_two_hosts(self) -> None:
        self.start()
        volume = self.backend.create_volume(1, multiattach='<is> True')
        row, (here, _) = self.attach(volume, 1)
        self.assert_not_there(dataclasses.replace(
            here, initiator='iqn.1994-05.com.example:nobody'))
        _, (_, there) = self.attach(volume, 2)
        here.io('write -P 1 1M 1M')
        there.io('read -P 1 1M 1M', 'write -P 2 2M 1M')
        self.backend.detach(row)
        self.assert_not_there(here)
        there.io('read -P 2 2M 1M', 'read -P 0 3M 1M')

    def test_force_detach(self) -> None:
        """A host that no longer responds loses access to the volume."""
        self.start()
        volume = self.backend.create_volume(1)
        path = self.disk(volume)
        path.io('write -P 1 1M 1M')
        self.backend.force_detach(volume)
        self.assert_not_there(path)
        _, (other, _) = self.attach(volume, 2)
        other.io('read -P 1 1M 1M')

    def test_discard(self) -> None:
        """Blocks that a host discards are freed on the array."""
        self.start()
        path = self.disk(self.backend.create_volume(1))
        before = self.taken()
        path.io('write -P 1 0 16M')
        self.assertEqual(16 * MIB, self.taken() - before)
        path.io('discard 0 12M')
        self.assertEqual(4 * MIB, self.taken() - before)
        path.io('read -P 0 0 12M', 'read -P 1 12M 4M')

    def taken(self) -> int:
        """Return the bytes that the array uses for all volumes."""
        self.simulator.control('POST', 'survey')
        capacity, = self.simulator.hits('system/capacity')
        return int(capacity['allocated']) * 1024

    def clone(self, strategy: str) -> None:
        source = self.backend.create_volume(1)
        original = self.disk(source)
        original.io('write -P 1 0 1M', 'write -P 2 1023M 1M')
        clone = self.disk(self.backend.clone(
            source, kaminario__clone_strategy=strategy))
        original.io('write -P 3 0 1M')
        clone.io('read -P 1 0 1M', 'read -P 2 1023M 1M', 'write -P 4 5M 1M')
        original.io('read -P 3 0 1M', 'read -P 0 5M 1M')

    def test_clones(self) -> None:
        """Clones of an attached volume; the strategy copy needs a kernel."""
        self.start()
        for strategy in ('thin', 'view'):
            self.clone(strategy)

    def test_revert(self) -> None:
        self.start()
        volume = self.backend.create_volume(1)
        attachment, (path, _) = self.attach(volume)
        path.io('write -P 1 0 2M')
        snapshot = self.backend.create_snapshot(volume)
        path.io('write -P 2 1M 2M')
        self.backend.detach(attachment)
        self.backend.revert(volume, snapshot)
        self.disk(volume).io('read -P 1 0 2M', 'read -P 0 2M 1M')

    def test_group_snapshot(self) -> None:
        self.start()
        group = self.backend.create_group(self.backend.volume_type())
        volumes = [self.backend.create_volume(1, group) for _ in range(2)]
        paths = list(map(self.disk, volumes))
        for number, path in enumerate(paths, 1):
            path.io(f'write -P {number} 0 1M')
        taken = self.backend.create_group_snapshot(group)
        for path in paths:
            path.io('write -P 9 0 1M')
        made = self.backend.members(self.backend.group_from(taken))
        sources = {snapshot.id: snapshot.volume_id
                   for snapshot in self.backend.snapshots()}
        copies = {sources[copy.snapshot_id]: copy for copy in made}
        for number, volume in enumerate(volumes, 1):
            self.disk(copies[volume.id]).io(f'read -P {number} 0 1M')

    def test_manage(self) -> None:
        """Bytes that were on the array before Cinder knew of it."""
        self.start()
        group = self.simulator.call(
            'POST', 'volume_groups', name='db', quota=0)
        made = self.simulator.call(
            'POST', 'volumes', name='db-data', size=2 ** 20,
            volume_group={'ref': f'/volume_groups/{group["id"]}'})
        self.simulator.write('volumes', made['id'], 5 * MIB, b'\x07' * MIB)
        path = self.disk(self.backend.manage({'source-name': 'db-data'}))
        path.io('read -P 7 5M 1M', 'write -P 8 6M 1M', 'read -P 8 6M 1M')


class ReplicationTest(DataPathTest):
    """Failover and failback with two arrays, one of which is lost."""

    peer: iscsi.Simulator

    @classmethod
    def start_arrays(cls, folder: pathlib.Path) -> None:
        """Start two arrays, each of which knows the other's address."""
        password = folder / 'password'
        password.write_text('secret-of-both-arrays\n')
        addresses = [f'{iscsi.address(net)}:8443' for net in (103, 104)]
        cls.simulator, cls.peer = [
            iscsi.Simulator(
                folder / name, cls.plane,
                ('--name', name, '--listen', here, '--password-file',
                 str(password), '--peer', f'{peer}={there}',
                 '--peer-password-file', str(password),
                 '--peer-ca', str(folder / peer / 'ca.crt')),
                [iscsi.address(net)])
            for name, here, peer, there, net in (
                ('first', addresses[0], TARGET, addresses[1], 101),
                (TARGET, addresses[1], 'first', addresses[0], 102))]
        for simulator in (cls.simulator, cls.peer):
            simulator.directory.mkdir()
            (simulator.directory / 'admin.password').symlink_to(password)
            cls._start(simulator)
        authorities = folder / 'authorities.crt'
        authorities.write_text(''.join(
            simulator.authority.read_text()
            for simulator in (cls.simulator, cls.peer)))
        cls.authorities = str(authorities)

    def setUp(self) -> None:
        super().setUp()
        self.start(driver_ssl_cert_path=self.authorities,
                   replication_device=self.peer.device(TARGET, RPO))

    def check_what_is_left(self) -> None:
        super().check_what_is_left()
        self.assertEqual({}, self.peer.leftovers())

    def let_copy(self) -> None:
        """Let one round of replication pass."""
        for simulator in (self.simulator, self.peer):
            simulator.control('POST', 'clock', advance=RPO + 1)

    @contextlib.contextmanager
    def dead(self) -> Any:
        """Kill the first array; start it again at the end of the context."""
        self.simulator.stop(signal.SIGKILL)
        try:
            yield
        finally:
            self.simulator.start()

    def test_dead_array(self) -> None:
        """Replicated data is on the other array; later writes are lost.

        The first array still has them when it is back, but after the
        failback hosts must not see them.
        """
        volume = self.backend.create_volume(1, **REPLICATED)
        attachment, (path,) = self.attach(volume)
        path.io('write -P 1 0 1M', 'write -P 2 1023M 1M')
        self.let_copy()
        path.io('write -P 3 1M 1M')
        self.backend.detach(attachment)
        with self.dead():
            self.backend.beat()
            self.assertEqual(
                'failed-over',
                self.backend.fail_over(TARGET).replication_status)
            attachment, (path,) = self.attach(volume)
            self.assertEqual(self.peer.iqn, path.target)
            path.io('read -P 1 0 1M', 'read -P 2 1023M 1M',
                    'read -P 0 1M 1M', 'write -P 4 2M 1M')
            self.backend.detach(attachment)
        self.backend.beat()
        self.assertEqual(
            'enabled', self.backend.fail_back().replication_status)
        path = self.disk(volume)
        self.assertEqual(self.simulator.iqn, path.target)
        path.io('read -P 1 0 1M', 'read -P 2 1023M 1M', 'read -P 0 1M 1M',
                'read -P 4 2M 1M')
