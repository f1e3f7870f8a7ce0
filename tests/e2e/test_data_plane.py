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

"""Data of a simulated array through a real iSCSI target and initiator.

The tests run on each data plane, with the user-space initiator of libiscsi,
on addresses of the loopback interface. tgt changes nothing on the machine;
LIO configures its kernel, and the tests check that nothing of that remains.
"""

import os
import signal
import subprocess
import sys
import tempfile
import threading

import fixtures
import testtools

from tests import iscsi
from tools.guest import packages

SECRET = 'secretsecret12'


class DataPlaneTest(testtools.TestCase):
    """Tests that share a simulator per class; each uses names of its own."""

    plane = None
    simulator = None
    numbers = iter(range(1, 10 ** 6))

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        reason = cls.plane.missing()
        if reason:
            raise cls.skipException(reason)
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.simulator = iscsi.Simulator(
            f'{folder.name}/state', cls.plane)
        cls.simulator.start()
        cls.addClassCleanup(cls.simulator.kill)

    def setUp(self):
        super().setUp()
        self.name = f't{next(self.numbers)}'
        self.group = self.make('volume_groups', name=self.name, quota=0)
        self.volume = self.new_volume()
        self.host, self.initiator = self.new_host()

    def make(self, resource, **fields):
        return self.simulator.call('POST', resource, **fields)

    def new_volume(self, mib=64, name='v'):
        return self.make(
            'volumes', name=f'{self.name}-{name}', size=mib * 1024,
            volume_group={'ref': f'/volume_groups/{self.group["id"]}'})

    def new_host(self, name='h'):
        """Make a host with one initiator; return both."""
        host = self.make('hosts', name=f'{self.name}-{name}', type='Linux')
        iqn = f'iqn.2026-01.org.example:{self.name}-{name}'
        self.make('host_iqns', iqn=iqn,
                  host={'ref': f'/hosts/{host["id"]}'})
        return host, iscsi.Initiator(self.simulator, iqn)

    def map(self, volume=None, host=None, resource='volumes'):
        """Map a volume or view; return the mapping."""
        return self.make('mappings', **{
            'host': {'ref': f'/hosts/{(host or self.host)["id"]}'},
            'volume': {'ref': f'/{resource}/'
                              f'{(volume or self.volume)["id"]}'}})

    def snapshot(self, name='s', **fields):
        return self.make('snapshots', **{
            'short_name': name, 'is_auto_deleteable': False,
            'source': {'ref': f'/volume_groups/{self.group["id"]}'},
            'retention_policy': {'ref': '/retention_policies/3'}, **fields})

    def images(self, snapshot):
        return self.simulator.hits(
            f'volsnaps?snapshot.ref=/snapshots/{snapshot["id"]}')

    def session(self, lun, initiator=None, portal=None):
        found = iscsi.Session(initiator or self.initiator, lun, portal)
        self.addCleanup(found.close)
        return found

    def assert_refused(self, initiator, lun, why=None):
        """Check that an initiator cannot use a LUN.

        :param why: part of the error; by default that for unknown initiators
        """
        error = self.assertRaises(
            subprocess.CalledProcessError, initiator.io, lun, 'length')
        self.assertIn(why or self.plane.refusal, error.stderr)


class DataTests:
    """What each plane does with data.

    :cvar grows_under_writes: no write fails while a volume grows
    """

    grows_under_writes = True

    def test_names(self):
        """VOL-15."""
        lun = self.map()['lun']
        serial = self.volume['scsi_sn']
        shown = self.initiator.inquire(lun)
        self.assertRegex(shown, 'Vendor:SILK *\nProduct:SDP ')
        self.assertRegex(self.initiator.inquire(
            lun, '-e', '1', '-c', '128'), f'[ 0]{serial}]')
        self.assertIn(self.plane.identifier(serial), self.initiator.inquire(
            lun, '-e', '1', '-c', '131'))

    def test_both_ways(self):
        """The array reads what the initiator writes, and the reverse."""
        lun, number = self.map()['lun'], self.volume['id']
        session = self.session(lun)
        session.io('write -P 0x5a 1M 64k')
        self.assertEqual(
            bytes(512) + b'\x5a' * 65536 + bytes(512), self.simulator.read(
                'volumes', number, iscsi.MIB - 512, 65536 + 1024))
        self.simulator.write('volumes', number, 2 * iscsi.MIB, b'\x33' * 4096)
        self.assertIn('read 4096/4096', session.io('read -P 0x33 2M 4k'))
        self.assertIn('Pattern verification failed',
                      session.io('read -P 0x34 2M 4k'))

    def test_statistics(self):
        """STA-5: what initiators write shows within a second or so."""
        lun, number = self.map()['lun'], self.volume['id']
        session = self.session(lun)
        session.io('write -P 0x5a 0 4M')
        path = (f'stats/volumes/{number}?__resolution=1h'
                '&__rw_breakdown=true&rw=w')
        iscsi.wait_until(
            lambda: [hit for hit in self.simulator.hits(path)
                     if hit['throughput_avg'] == 4 * iscsi.MIB // 3600],
            'statistics of what was written')

    def test_view(self):
        """SNP-5, MAP-3: old data, and writes that stay in the view."""
        lun, number = self.map()['lun'], self.volume['id']
        self.initiator.io(lun, 'write -P 1 0 64k')
        view = self.snapshot('w', is_exposable=True, source={
            'ref': f'/snapshots/{self.snapshot()["id"]}'})
        self.initiator.io(lun, 'write -P 2 0 64k')
        self.map(view, resource='snapshots')
        image, = self.images(view)
        entry, = self.simulator.hits(
            f'mappings?volume.ref=/volsnaps/{image["id"]}')
        self.initiator.io(entry['lun'], 'read -P 1 0 64k',
                          'write -P 3 0 64k')
        self.initiator.io(lun, 'read -P 2 0 64k')
        self.assertEqual(b'\3' * 65536, self.simulator.read(
            'volsnaps', image['id'], 0, 65536))
        self.assertEqual(b'\2' * 65536, self.simulator.read(
            'volumes', number, 0, 65536))

    def test_clone(self):
        """CLN-3: the data of the snapshot, not the current data."""
        lun = self.map()['lun']
        self.initiator.io(lun, 'write -P 1 0 64k')
        snapshot = self.snapshot()
        self.initiator.io(lun, 'write -P 2 0 64k')
        clone = self.make('volumes', **{
            'name': f'{self.name}-c', 'is_thin_clone': 'true',
            'volume_group': {'ref': f'/volume_groups/{self.group["id"]}'},
            'source_snapshot': {'ref': f'/snapshots/{snapshot["id"]}'},
            'source_volume': {'ref': f'/volumes/{self.volume["id"]}'}})
        self.initiator.io(self.map(clone)['lun'], 'read -P 1 0 64k',
                          'write -P 4 0 64k')
        self.initiator.io(lun, 'read -P 2 0 64k')

    def test_snapshots_under_writing(self):
        """One point in time for both volumes, and no torn writes.

        Each number is written to the first volume, and once that write has
        completed to the second.
        """
        self.new_volume(name='v2')
        volumes = self.simulator.hits(
            f'volumes?volume_group.ref=/volume_groups/{self.group["id"]}')
        sessions = [self.session(self.map(volume)['lun'])
                    for volume in volumes]
        for session in sessions:
            # A copy without reflinks takes longer than a write.
            session.io('write -P 251 16M 32M')
        enough, started = threading.Event(), threading.Event()
        written = []

        def write():
            while not enough.is_set():
                number = len(written) % 250 + 1
                written.append([session.io(f'write -P {number} 0 256k')
                                for session in sessions])
                started.set()

        writer = threading.Thread(target=write)
        writer.start()
        self.addCleanup(writer.join)
        self.addCleanup(enough.set)
        self.assertTrue(started.wait(iscsi.LIMIT))
        seen = []
        for number in range(5):
            count = len(written)
            snapshot = self.snapshot(f's{number}')
            iscsi.wait_until(lambda: len(written) > count, 'a write')
            seen.append([
                set(self.simulator.read(
                    'volsnaps', image['id'], 0, 256 * 1024))
                for image in self.images(snapshot)])
        enough.set()
        writer.join()
        for first, second in seen:
            (first,), (second,) = first, second
            self.assertIn((first - second) % 250, (0, 1))
        self.assertGreater(len(set(map(str, seen))), 1)
        for outputs in written:
            for output in outputs:
                self.assertIn('wrote 262144/262144', output)

    def test_growth(self):
        """VOL-3: seen after a rescan; writes in progress are not disturbed."""
        lun, number = self.map()['lun'], self.volume['id']
        session, output = self.session(lun), ''
        for mib in range(65, 75):
            output += session.io('aio_write -P 7 0 4M')
            output += session.io('aio_write -P 7 8M 4M')
            if not self.grows_under_writes:
                output += session.io('aio_flush')
            self.simulator.call('PATCH', f'volumes/{number}',
                                size=mib * 1024)
            self.assertEqual(mib * iscsi.MIB, self.initiator.capacity(lun))
        output += session.io('aio_flush')
        self.assertEqual(20, output.count('wrote 4194304/4194304'), output)
        self.initiator.io(lun, 'write -P 8 73M 1M', 'read -P 7 0 4M')
        self.assertEqual(b'\x08' * iscsi.MIB, self.simulator.read(
            'volumes', number, 73 * iscsi.MIB, iscsi.MIB))

    def test_unmap_frees_blocks(self):
        """Unmapped blocks take no space, and read as zeros."""
        lun = self.map()['lun']
        before = self.allocated()
        self.initiator.io(lun, 'write -P 9 0 8M', 'flush')
        self.assertEqual(8 * iscsi.MIB, self.allocated() - before)
        self.initiator.io(lun, 'discard 0 6M', 'read -P 0 0 6M',
                          'read -P 9 6M 2M')
        self.assertEqual(2 * iscsi.MIB, self.allocated() - before)

    def allocated(self):
        """Return the bytes that the contents occupy, rounded to MiB."""
        used = sum(path.stat().st_blocks * 512
                   for path in self.simulator.files())
        return round(used / iscsi.MIB) * iscsi.MIB

    def test_read_only(self):
        """VOL-12."""
        lun = self.map()['lun']
        self.initiator.io(lun, 'write -P 1 0 64k')
        path = f'volumes/{self.volume["id"]}'
        self.simulator.call('PATCH', path, read_only=True)
        error = self.assertRaises(
            subprocess.CalledProcessError, self.initiator.io, lun,
            'write -P 2 0 64k')
        self.assertIn('write protected', error.stderr)
        self.simulator.call('PATCH', path, read_only=False)
        self.initiator.io(lun, 'read -P 1 0 64k', 'write -P 2 0 64k')


class TestTgtData(DataTests, DataPlaneTest):
    plane = iscsi.TGT
    # tgtd closes the file briefly: see "Limits of tgt" in the docs.
    grows_under_writes = False


class TestLioData(DataTests, DataPlaneTest):
    plane = iscsi.LIO


class AccessTests:
    """Which initiators can access which LUNs, on each data plane."""

    def test_unknown_initiator(self):
        """Nor may one that is known, but has nothing mapped, use the LUN."""
        lun = self.map()['lun']
        stranger = iscsi.Initiator(self.simulator, f'{self.initiator.iqn}x')
        _, idle = self.new_host('idle')
        for initiator in (stranger, idle):
            self.assert_refused(initiator, lun)
            self.assertEqual('', initiator.luns())

    def test_name_in_capitals(self):
        """INI-5."""
        iqn = f'iqn.2026-01.org.example:{self.name.upper()}-UPPER'
        self.make('host_iqns', iqn=iqn,
                  host={'ref': f'/hosts/{self.host["id"]}'})
        lun = self.map()['lun']
        for name in (iqn, iqn.lower()):
            iscsi.Initiator(self.simulator, name).io(lun, 'length')

    def test_chap(self):
        """CHP-2: an initiator that logs in without it must be another host."""
        lun = self.map()['lun']
        other, plain = self.new_host('other')
        self.map(host=other)
        self.make('host_auth_profiles', name=self.name, type='CHAP',
                  username=self.name, password=SECRET)
        path = f'hosts/{self.host["id"]}'
        self.simulator.call('PATCH', path, map_auth_profiles_names=self.name)
        self.addCleanup(self.simulator.request, 'PATCH', f'api/v2/{path}',
                        json={'map_auth_profiles_names': None})
        for account in (None, (self.name, SECRET[::-1])):
            self.initiator.account = account
            self.assert_refused(self.initiator, lun, 'Authentication failure')
        self.check_without_account(plain, lun)
        self.initiator.account = self.name, SECRET
        self.initiator.io(lun, 'write -P 1 0 64k')
        profile, = self.simulator.hits(
            f'host_auth_profiles?name={self.name}')
        self.simulator.call('PATCH', f'host_auth_profiles/{profile["id"]}',
                            new_password=SECRET[::-1])
        self.assert_refused(self.initiator, lun, 'Authentication failure')
        self.initiator.account = self.name, SECRET[::-1]
        self.initiator.io(lun, 'read -P 1 0 64k')
        self.simulator.request('PATCH', f'api/v2/{path}',
                               json={'map_auth_profiles_names': None})
        plain.io(lun, 'read -P 1 0 64k')

    def test_two_portals(self):
        """NET-1, NET-2: one target on all portals, as SendTargets reports."""
        lun = self.map()['lun']
        for number, portal in enumerate(self.simulator.portals, 1):
            found = self.initiator.luns(portal)
            self.assertCountEqual(
                [f'Target:{self.simulator.iqn} Portal:{address}:3260,1'
                 for address in self.discovered(portal)],
                [line for line in found.split('\n') if 'Target' in line])
            self.initiator.io(lun, f'write -P {number} {number}M 1M',
                              portal=portal)
        self.initiator.io(lun, 'read -P 1 1M 1M', 'read -P 2 2M 1M')

    def test_detach(self):
        """The session ends, and nothing more is written."""
        record = self.map()
        portal = self.simulator.portals[1]
        session = self.session(record['lun'], portal=portal)
        session.io('write -P 1 0 64k')
        self.assertEqual(1, iscsi.connections(portal))
        self.simulator.call('DELETE', f'mappings/{record["id"]}')
        self.assert_refused(self.initiator, record['lun'])
        session.send('write -P 2 0 64k')
        iscsi.wait_until(lambda: not iscsi.connections(portal),
                         'the end of a session')
        self.assertEqual(b'\1' * 65536, self.simulator.read(
            'volumes', self.volume['id'], 0, 65536))

    def test_detach_under_writing(self):
        """Another volume of the same host stays attached all along."""
        other = self.session(self.map(self.new_volume(name='v2'))['lun'])
        first = self.simulator.traces()
        for _ in range(10):
            record = self.map()
            session = self.session(record['lun'])
            for number in range(40):
                session.io(f'aio_write -P 1 {number}M 1M')
            self.simulator.call('DELETE', f'mappings/{record["id"]}')
            session.close()
            # Used in each round: a target may queue a unit attention for
            # each change, and qemu gives up after a few of them.
            self.assertIn('wrote 65536/65536', other.io('write -P 1 0 64k'))
        self.assertEqual(first, self.simulator.traces())

    def test_detach_from_one_of_two(self):
        """The other one continues."""
        first = self.map()
        host, other = self.new_host('other')
        self.assertEqual(first['lun'], self.map(host=host)['lun'])
        session = self.session(first['lun'], other)
        self.simulator.call('DELETE', f'mappings/{first["id"]}')
        self.assert_refused(self.initiator, first['lun'])
        self.assertIn('wrote 65536/65536', session.io('write -P 1 0 64k'))

    def test_one_volume_under_two_numbers(self):
        """MAP-9: a volume may have different LUNs on two hosts."""
        lun = self.map()['lun']
        host, other = self.new_host('other')
        record = self.map(host=host)
        self.simulator.call('PATCH', f'mappings/{record["id"]}', lun=200)
        self.initiator.io(lun, 'write -P 1 0 64k')
        other.io(200, 'read -P 1 0 64k', 'write -P 2 0 64k')
        self.initiator.io(lun, 'read -P 2 0 64k')


class TestTgtAccess(AccessTests, DataPlaneTest):
    plane = iscsi.TGT

    def check_without_account(self, initiator, lun):
        """Check that CHAP is required of every host."""
        self.assert_refused(initiator, lun, 'Authentication failure')

    def discovered(self, portal):
        """Return the portals that SendTargets reports."""
        return [portal]

    def test_one_lun_map(self):
        """Different volumes have different LUNs, even on different hosts."""
        first = self.map()
        host, _ = self.new_host('other')
        second = self.map(self.new_volume(name='v2'), host)
        self.assertNotEqual(first['lun'], second['lun'])


class TestLioAccess(AccessTests, DataPlaneTest):
    plane = iscsi.LIO

    def check_without_account(self, initiator, lun):
        """Check that CHAP is required only of hosts with a profile."""
        initiator.io(lun, 'length')

    def discovered(self, portal):
        return self.simulator.portals

    def test_each_host_sees_its_own(self):
        """MAP-2: the same LUN is a different volume on another host."""
        first = self.map()
        volume = self.new_volume(name='v2')
        host, other = self.new_host('other')
        second = self.map(volume, host)
        third = self.map(self.new_volume(name='v3'), host)
        self.assertEqual(first['lun'], second['lun'])
        self.initiator.io(first['lun'], 'write -P 1 0 64k')
        other.io(second['lun'], 'read -P 0 0 64k', 'write -P 2 0 64k')
        self.initiator.io(first['lun'], 'read -P 1 0 64k')
        self.assertRaises(subprocess.CalledProcessError,
                          self.initiator.io, third['lun'], 'length')

    def test_mapped_while_logged_in(self):
        """The existing session continues."""
        session = self.session(self.map()['lun'])
        lun = self.map(self.new_volume(name='v2'))['lun']
        self.initiator.io(lun, 'write -P 2 0 64k')
        self.assertIn('wrote 65536/65536', session.io('write -P 1 0 64k'))


_WAITING = """\
import sys, time
from tests import iscsi

plane, = [one for one in (iscsi.TGT, iscsi.LIO) if one.name == sys.argv[1]]
simulator = iscsi.Simulator(sys.argv[2], plane)
simulator.start()
print(simulator.iqn, flush=True)
time.sleep(1000)
"""


class LifeTests:
    """Start and end of the simulator; each test has its own."""

    def start(self):
        self.simulator.start()
        self.addCleanup(self.simulator.kill)

    def attached(self):
        """Map a new volume; return its LUN and an initiator for it."""
        make = self.simulator.call
        group = make('POST', 'volume_groups', name='g', quota=0)
        volume = make(
            'POST', 'volumes', name='v', size=65536,
            volume_group={'ref': f'/volume_groups/{group["id"]}'})
        return self.simulator.attach(volume['id'])

    def session(self, lun, initiator):
        session = iscsi.Session(initiator, lun)
        self.addCleanup(session.close)
        return session

    def test_clean_end(self):
        """Nothing is left, though a host is logged in."""
        self.start()
        lun, initiator = self.attached()
        self.session(lun, initiator).io('write -P 1 0 64k')
        self.assertNotEqual([], self.simulator.traces())
        self.assertEqual((0, ''), self.simulator.stop())
        self.assertEqual([], self.simulator.traces())

    def test_sudden_end(self):
        """The data survives kill -9; targets of others are not touched."""
        self.start()
        check_foreign = self.foreign()
        lun, initiator = self.attached()
        session = self.session(lun, initiator)
        session.io('write -P 0x6b 1M 8M')
        self.simulator.stop(signal.SIGKILL)
        self.check_after_kill()
        self.start()
        self.assertIn('read 8388608/8388608',
                      session.io('read -P 0x6b 1M 8M'))
        initiator.io(lun, 'read -P 0x6b 1M 8M', 'write -P 0x6c 0 1M')
        self.assertEqual((0, ''), self.simulator.stop())
        self.assertEqual([], self.simulator.traces())
        check_foreign()

    def test_target_that_ended(self):
        """The target is restarted automatically, and the host continues."""
        self.start()
        lun, initiator = self.attached()
        session = self.session(lun, initiator)
        session.io('write -P 1 0 64k')
        self.end_target()
        self.assertIn('read 65536/65536', session.io('read -P 1 0 64k'))

    def test_portal_that_this_machine_has_not(self):
        self.simulator.portals = ['192.0.2.77']
        complaint, status = self.assertRaises(
            iscsi.NotStarted, self.simulator.start).args
        self.assertEqual(1, status)
        self.assertIn('cannot listen on portal 192.0.2.77:3260: Cannot'
                      ' assign requested address; give', complaint)
        self.assertEqual(1, complaint.count('\n'))
        self.assertEqual([], self.simulator.traces())

    def test_tests_that_are_killed(self):
        """The processes that they started end and leave nothing behind."""
        tests = subprocess.Popen(
            [sys.executable, '-c', _WAITING, self.plane.name,
             str(self.simulator.directory)],
            stdout=subprocess.PIPE, text=True)
        self.addCleanup(tests.communicate)
        self.addCleanup(tests.kill)
        self.simulator.iqn = tests.stdout.readline().strip()
        self.assertNotEqual([], self.simulator.traces())
        tests.kill()
        iscsi.wait_until(lambda: not self.simulator.traces(),
                         'the end of what killed tests have started')

    def test_portal_that_another_has(self):
        self.start()
        second = iscsi.Simulator(
            self.useFixture(fixtures.TempDir()).path, self.plane,
            ['--name=other'])
        error = self.assertRaises(iscsi.NotStarted, second.start)
        self.assertIn('Address already in use', str(error))
        self.assertEqual([], second.traces())
        lun, initiator = self.attached()
        initiator.io(lun, 'length')


class TestTgtLife(LifeTests, iscsi.SimulatorTest):
    plane = iscsi.TGT

    def foreign(self):
        """Start a foreign tgtd; return a check that it still runs."""
        directory = self.useFixture(fixtures.TempDir()).path
        address = self.simulator.portals[0].replace('127.101', '127.103')
        process = subprocess.Popen(
            [*self.plane.wrapper, 'tgtd', '-f', '--iscsi',
             f'portal={address}:3260'],
            env={**os.environ, 'PATH': packages.path(),
                 'TGT_IPC_SOCKET': f'{directory}/socket'},
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return lambda: self.assertIsNone(process.poll())

    def check_after_kill(self):
        iscsi.wait_until(lambda: not self.simulator.traces(),
                         'the end of tgtd')

    def end_target(self):
        first = self.simulator.traces()
        os.kill(first[0], signal.SIGKILL)
        iscsi.wait_until(lambda: set(self.simulator.traces()) - set(first),
                         'another tgtd')


class TestLioLife(LifeTests, iscsi.SimulatorTest):
    plane = iscsi.LIO

    def foreign(self):
        """Make a foreign target; return a check that it still exists."""
        group = iscsi.TARGETS / f'iqn.2026-01.org.example:{os.getpid()}' \
            / 'tpgt_1'
        group.mkdir(parents=True)
        self.addCleanup(group.parent.rmdir)
        self.addCleanup(group.rmdir)
        return lambda: self.assertTrue(group.exists())

    def check_after_kill(self):
        """Check that the kernel keeps the target until the next start."""
        self.assertNotEqual([], self.simulator.traces())

    def end_target(self):
        enable = iscsi.TARGETS / self.simulator.iqn / 'tpgt_1' / 'enable'
        enable.write_text('0')
        iscsi.wait_until(lambda: enable.read_text().strip() == '1',
                         'the target')

    def test_killed_while_writes_wait(self):
        """Writes suspended for a snapshot are resumed by the next start."""
        self.start()
        lun, initiator = self.attached()
        session = self.session(lun, initiator)
        session.io('write -P 1 0 64k')
        self.simulator.stop(signal.SIGKILL)
        device, = [name for name in iscsi.run('dmsetup', 'ls').split()
                   if name.startswith('k2-sim-')]
        iscsi.run('dmsetup', 'suspend', device)
        session.send('write -P 2 0 64k')
        self.start()
        initiator.io(lun, 'read -P 2 0 64k')
        self.assertIn('wrote 65536/65536', session.io('read -P 2 0 64k'))

    def test_two_on_one_state(self):
        """The second one does not remove the exports of the first."""
        self.start()
        lun, initiator = self.attached()
        second = iscsi.Simulator(self.simulator.directory, self.plane)
        self.assertRaises(iscsi.NotStarted, second.start)
        initiator.io(lun, 'length')
