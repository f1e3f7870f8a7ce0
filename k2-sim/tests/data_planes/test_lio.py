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

"""The data plane of the kernel's target, on a fake configfs.

The kernel itself is tested in tests/e2e.
"""

import dataclasses
import errno
import os
import pathlib
import tempfile
import threading
from unittest import mock

import fixtures
import hypothesis
from hypothesis import strategies
import testtools

from k2_sim.data_planes import base as data_planes
from k2_sim.data_planes import lio
from tests.data_planes import fake_lio
from tests.data_planes.serving import exports
from tests.data_planes.serving import host
from tests.data_planes.serving import HOSTS
from tests.data_planes.serving import IQN
from tests.data_planes.serving import lun
from tests.data_planes.serving import SECRET

GROUP = f'iscsi/{IQN}target/tpgt_1'
MARK = 'k2-sim-1'
# A place where many small files cost little, if there is one.
MEMORY = '/dev/shm' if os.path.isdir('/dev/shm') else None


class LioTest(testtools.TestCase):

    def setUp(self):
        super().setUp()
        self.useFixture(fixtures.MonkeyPatch(
            'k2_sim.data_planes.portals.check', self.check_portal))
        self.missing_addresses = set()
        self.new_kernel()

    def check_changes(self, publications):
        """What was wanted last is exported; the rest is untouched."""
        self.new_kernel()
        for hosts in publications:
            self.publish(*hosts)
            self.check(hosts)
            self.tree.log.clear()
            self.publish(*hosts)
            self.assertEqual([], self.tree.log)
        self.data_plane.close()
        self.assertEqual(({}, {}), (self.tree.shown(), self.disks.files))

    def check(self, hosts):
        """Exactly what these hosts are to see is exported."""
        raise NotImplementedError

    def check_portal(self, address):
        if address in self.missing_addresses:
            raise data_planes.DataPlaneError(
                f'cannot listen on portal {address}')

    def new_kernel(self):
        directory = tempfile.TemporaryDirectory(dir=MEMORY)
        self.addCleanup(directory.cleanup)
        self.tree = fake_lio.FakeConfigfs(directory.name)
        self.disks = fake_lio.FakeDisks()
        self.data_plane = self.new_data_plane()

    def new_data_plane(self, mark=MARK, **options):
        return lio.LioDataPlane(
            self.tree, self.tree.root, self.disks, mark, **options)

    def publish(self, *hosts, **fields):
        self.data_plane.publish(exports(*hosts, **fields))

    def read(self, path):
        return self.tree.read(self.tree.root / path)

    def of_group(self, path):
        return self.read(f'{GROUP}/{path}')

    def names(self, path):
        return self.tree.names(self.tree.root / GROUP / path)

    def seen(self, name='a'):
        """Serial and write protection of each LUN of an initiator."""
        return self.seen_at(
            self.tree.root / GROUP / 'acls' / f'{IQN}{name}')

    def seen_at(self, path):
        found = {}
        for entry in self.tree.names(path):
            if entry.startswith('lun_'):
                disk = self.tree.linked(self.tree.linked(path / entry))
                found[int(entry[4:])] = (
                    self.tree.read(disk / 'wwn' / 'vpd_unit_serial'
                                   ).lstrip('0'),
                    self.tree.read(path / entry / 'write_protect') == '1')
        return found


class TestLioDataPlane(LioTest):

    def test_target_without_luns(self):
        """NET-1, NET-2: unknown initiators can neither log in nor see it."""
        self.publish()
        self.assertEqual(['192.0.2.1:3260', '[::1]:3260'], self.names('np'))
        self.check_target()

    def check_target(self):
        self.assertEqual(
            ['1', '0', '0', '0', '262144'],
            [self.of_group(name) for name in (
                'enable', 'attrib/authentication',
                'attrib/generate_node_acls', 'attrib/demo_mode_discovery',
                'param/MaxRecvDataSegmentLength')])

    def test_lun(self):
        """VOL-15: the resulting WWID ends with scsi_sn."""
        self.publish(host(lun(7, '2851001f')))
        self.assertEqual({7: ('2851001f', False)}, self.seen())
        self.assertEqual(
            {f'{MARK}-2851001f': (pathlib.Path('/dev/null'), 2 ** 20)},
            self.disks.files)
        disk = f'core/iblock_0/{MARK}-2851001f'
        self.assertEqual(
            ['SILK', 'SDP', '0x0024f4', '2851001f'.zfill(25), '1', '1'],
            [self.read(f'{disk}/{name}') for name in (
                'wwn/vendor_id', 'wwn/product_id', 'wwn/company_id',
                'wwn/vpd_unit_serial', 'attrib/emulate_tpu',
                'attrib/unmap_zeroes_data')])
        self.assertEqual(f'udev_path=/dev/{MARK}-2851001f',
                         self.read(f'{disk}/control'))

    def test_traffic(self):
        """What was added since the last call, by serial."""
        self.assertEqual([], self.data_plane.traffic())
        self.disks.counted = {f'{MARK}-aa': (3, 4096, 2, 1024),
                              f'{MARK}-bb': (0, 0, 0, 0)}
        self.assertEqual([data_planes.Traffic('aa', 3, 4096, 2, 1024)],
                         self.data_plane.traffic())
        self.assertEqual([], self.data_plane.traffic())
        self.disks.counted = {f'{MARK}-aa': (1, 512, 0, 0),
                              f'{MARK}-bb': (0, 0, 1, 512)}
        with self.data_plane.quiesced():
            self.assertEqual([], self.data_plane.traffic())
        self.assertEqual([data_planes.Traffic('aa', 1, 512, 0, 0),
                          data_planes.Traffic('bb', 0, 0, 1, 512)],
                         self.data_plane.traffic())

    def test_traffic_that_cannot_be_told(self):
        self.disks.counts = mock.Mock(
            side_effect=data_planes.DataPlaneError('no'))
        self.assertEqual([], self.data_plane.traffic())

    def test_each_host_sees_its_own(self):
        """The same number is a different disk on each host."""
        self.publish(host(lun(1, 'ab'), lun(2, 'cd')),
                     host(lun(1, 'cd'), name='b'))
        self.assertEqual({1: ('ab', False), 2: ('cd', False)}, self.seen())
        self.assertEqual({1: ('cd', False)}, self.seen('b'))

    def test_file_that_is_gone(self):
        """The row is gone, too, and that change is published next."""
        gone = dataclasses.replace(
            lun(1), path=pathlib.Path('/dev/null/nothing'))
        self.publish(host(gone, lun(2, 'cd')))
        self.assertEqual({2: ('cd', False)}, self.seen())

    @hypothesis.settings(deadline=None, max_examples=15)
    @hypothesis.given(strategies.lists(HOSTS, max_size=4))
    def test_any_change_of_mind(self, publications):
        self.check_changes(publications)

    def check(self, hosts):
        wanted = {name: host for host in hosts for given in host.initiators
                  for name in (given, given.lower())}
        self.assertEqual(sorted(wanted), self.names('acls'))
        for name, item in wanted.items():
            self.assertEqual(
                {lun.number: (lun.serial.lstrip('0'), lun.is_read_only)
                 for lun in item.luns}, self.seen(name.removeprefix(IQN)))
            self.assertEqual(item.account, self.account(name))
        serials = {lun.serial for item in wanted.values()
                   for lun in item.luns}
        self.assertEqual({f'{MARK}-{serial}' for serial in serials},
                         set(self.disks.files))

    def account(self, initiator):
        acl = f'acls/{initiator}'
        if self.of_group(f'{acl}/attrib/authentication') == '0':
            return None
        return data_planes.Account(self.of_group(f'{acl}/auth/userid'),
                                   self.of_group(f'{acl}/auth/password'))

    def test_growth_touches_nothing_above_the_disk(self):
        self.publish(host(lun(1, size=512)))
        self.tree.log.clear()
        self.publish(host(lun(1, size=1024)))
        self.assertEqual((pathlib.Path('/dev/null'), 1024),
                         self.disks.files[f'{MARK}-ab'])
        self.assertEqual([], self.tree.log)

    def test_other_disk_under_the_same_number(self):
        self.publish(host(lun(1, 'ab'), lun(2, 'cd')))
        self.publish(host(lun(1, 'cd'), lun(2, 'ab')))
        self.assertEqual({1: ('cd', False), 2: ('ab', False)}, self.seen())

    def test_write_protected_before_the_file_changes(self):
        """That file may belong to another volume, too."""
        self.publish(host(lun(1)))
        seen = []
        put = self.disks.put
        self.disks.put = lambda *arguments: (
            seen.append(self.seen()), put(*arguments))
        self.publish(host(lun(1, is_read_only=True)))
        self.publish(host(lun(1)))
        self.assertEqual([{1: ('ab', True)}] * 2, seen)
        self.assertEqual({1: ('ab', False)}, self.seen())

    def test_account_stands_before_the_first_lun(self):
        """CHP-2: no login is possible without it."""
        self.publish(host(lun(1), account=data_planes.Account('u', SECRET)))
        acl = f'{GROUP}/acls/{IQN}a'
        self.assertLess(
            self.tree.log.index(f'write {acl}/attrib/authentication'),
            self.tree.log.index(f'make {acl}/lun_1'))

    def test_password_in_no_message(self):
        self.tree.failing = {f'{GROUP}/acls/{IQN}a/auth/password'}
        error = self.assertRaises(
            data_planes.DataPlaneError, self.publish,
            host(lun(1), account=data_planes.Account('u', SECRET)))
        self.assertNotIn(SECRET, str(error))

    def test_other_target(self):
        """A restored state may have another name."""
        self.publish(host(lun(1)))
        self.publish(host(lun(1)), target=f'{IQN}other')
        self.assertEqual(['discovery_auth', f'{IQN}other'],
                         self.tree.names(self.tree.root / 'iscsi'))

    def test_portals(self):
        self.publish()
        self.publish(portals=('192.0.2.1', '192.0.2.3'))
        self.assertEqual(['192.0.2.1:3260', '192.0.2.3:3260'],
                         self.names('np'))

    def test_portal_that_this_machine_has_not(self):
        """The rest is exported, with one warning, and it is retried."""
        logger = self.useFixture(fixtures.FakeLogger())
        self.publish()
        self.missing_addresses = {'192.0.2.3'}
        wanted = {'portals': ('192.0.2.1', '::1', '192.0.2.3')}
        for _ in range(2):
            self.publish(host(lun(1)), **wanted)
        self.assertEqual(1, logger.output.count(
            'cannot listen on portal 192.0.2.3'))
        self.assertEqual({1: ('ab', False)}, self.seen())
        self.missing_addresses.clear()
        self.publish(host(lun(1)), **wanted)
        self.assertIn('192.0.2.3:3260', self.names('np'))

    def test_portal_that_is_missing_at_the_start(self):
        self.missing_addresses = {'192.0.2.1'}
        self.assertRaises(data_planes.DataPlaneError, self.publish)
        self.assertEqual('0', self.of_group('enable'))
        self.data_plane.close()
        self.assertEqual({}, self.tree.shown())

    def test_step_that_fails(self):
        """The next publication does what is left."""
        hosts = [host(lun(1, is_read_only=True),
                      account=data_planes.Account('u', SECRET))]
        self.publish(*hosts)
        steps = {line.partition(' ')[2] for line in self.tree.log}
        for step in sorted(steps - {'iscsi'}):
            with self.subTest(step):
                self.new_kernel()
                self.tree.failing = {step}
                self.assertRaises(
                    data_planes.DataPlaneError, self.publish, *hosts)
                self.publish(*hosts)
                self.check(hosts)
                self.check_target()

    def test_target_that_went_by_itself(self):
        """The kernel's target was cleared by another program."""
        self.publish(host(lun(1)))
        self.assertTrue(self.data_plane.is_serving)
        self.new_data_plane()
        self.assertFalse(self.data_plane.is_serving)
        self.publish(host(lun(1)))
        self.assertTrue(self.data_plane.is_serving)

    def test_no_changes_while_quiesced(self):
        self.publish()
        with self.data_plane.quiesced():
            self.assertTrue(self.disks.is_held)
            thread = threading.Thread(
                target=self.publish, args=(host(lun(1)),))
            thread.start()
            # Long enough for a call that does not wait.
            thread.join(0.1)
            self.assertEqual([], self.names('acls'))
        thread.join()
        self.assertEqual({1: ('ab', False)}, self.seen())


class TestOwn(LioTest):
    """All of its own objects are removed, others' are untouched."""

    def test_close(self):
        self.publish(host(lun(1)))
        closed = []
        self.data_plane = self.new_data_plane(
            on_close=lambda: closed.append(True))
        self.publish(host(lun(1)))
        self.data_plane.close()
        self.assertEqual(({}, {}, [True]), (
            self.tree.shown(), self.disks.files, closed))

    def test_close_that_fails(self):
        """The owner of the state is still known."""
        closed = []
        self.data_plane = self.new_data_plane(
            on_close=lambda: closed.append(True))
        self.publish(host(lun(1)))
        self.tree.failing = {f'{GROUP}/enable'}
        self.assertRaises(data_planes.DataPlaneError, self.data_plane.close)
        self.assertEqual([True], closed)

    def test_what_a_killed_process_has_left(self):
        """Even if it was killed while writes were suspended."""
        self.publish(host(lun(1)))
        self.disks.is_held = True
        self.data_plane = self.new_data_plane()
        self.assertEqual(['discovery_auth'],
                         self.tree.names(self.tree.root / 'iscsi'))
        self.assertEqual({}, self.disks.files)
        self.publish(host(lun(1)))
        self.data_plane.close()
        self.assertEqual({}, self.tree.shown())

    def test_killed_at_any_step(self):
        """The next one can export, and leaves nothing behind."""
        self.publish(host(lun(1)))
        steps = {line.partition(' ')[2] for line in self.tree.log}
        for step in sorted(steps - {'iscsi'}):
            with self.subTest(step):
                self.new_kernel()
                self.tree.failing = {step}
                self.assertRaises(data_planes.DataPlaneError, self.publish,
                                  host(lun(1)))
                self.data_plane = self.new_data_plane()
                self.publish(host(lun(1)))
                self.assertEqual({1: ('ab', False)}, self.seen())
                self.data_plane.close()
                self.assertEqual(({}, {}), (
                    self.tree.shown(), self.disks.files))

    def test_others(self):
        other = self.new_data_plane(mark='other')
        other.publish(exports(host(lun(1, 'ef')), target=f'{IQN}others'))
        before = self.tree.shown()
        self.data_plane = self.new_data_plane()
        self.publish(host(lun(1)))
        self.assertEqual({'core/iblock_1'}, {
            str(path.parent.relative_to(self.tree.root))
            for path in self.tree.root.glob(f'core/*/{MARK}*')})
        self.data_plane.close()
        self.assertEqual(before, self.tree.shown())

    def test_target_of_others(self):
        other = self.new_data_plane(mark='other')
        other.publish(exports(host(lun(1, 'ef'))))
        error = self.assertRaises(data_planes.DataPlaneError, self.publish)
        self.assertIn('exists, and does not belong', str(error))

    def test_password_for_discovery_stays(self):
        self.publish()
        path = self.tree.root / 'iscsi' / 'discovery_auth' / 'userid'
        path.write_text('somebody')
        self.data_plane.close()
        self.assertEqual('somebody', path.read_text())


class TestCheck(testtools.TestCase):
    """The error where the kernel's target cannot be used."""

    def refusal(self, **patches):
        for name, value in {'os.geteuid': lambda: 0,
                            'shutil.which': lambda *_, **__: None,
                            **patches}.items():
            self.useFixture(fixtures.MonkeyPatch(name, value))
        directory = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        error = self.assertRaises(
            data_planes.UnavailableError, lio.lio_data_plane, directory)
        self.assertEqual([], os.listdir(directory))
        return str(error)

    def test_not_root(self):
        self.assertIn('as root', self.refusal(**{
            'os.geteuid': lambda: 1000}))

    def test_no_configfs(self):
        self.assertIn('mount -t configfs', self.refusal(**{
            'os.path.ismount': lambda path: False}))

    def test_no_module(self):
        for path, module in (('/sys/kernel/config/target',
                              'target_core_mod'),
                             ('/dev/loop-control', 'loop'),
                             ('/dev/mapper/control', 'dm_mod')):
            self.assertIn(f'{path}; try: modprobe {module}', self.refusal(**{
                'os.path.ismount': lambda path: True,
                'pathlib.Path.exists':
                lambda self, missing=path: str(self) != missing}))

    def fc(self, **patches):
        """Whether FC is exported, and what the log says of it."""
        logger = self.useFixture(fixtures.FakeLogger())
        for name, value in {'check': lambda: None,
                            '_load_modules': self.loaded.append,
                            **patches}.items():
            self.useFixture(fixtures.MonkeyPatch(
                f'k2_sim.data_planes.lio.{name}', value))
        self.useFixture(fixtures.MonkeyPatch(
            'k2_sim.data_planes.lio.LioDataPlane',
            lambda *arguments: arguments[-2] is not None))
        directory = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        return lio.lio_data_plane(directory), logger.output

    def ports(self, *names):
        self.loaded = []
        self.useFixture(fixtures.MonkeyPatch(
            'k2_sim.data_planes.fabrics.local_ports',
            lambda: set(names)))

    def test_fc(self):
        self.ports('50:02:4f:00:00:01:00:00')
        self.useFixture(fixtures.MonkeyPatch('pathlib.Path.mkdir',
                                             lambda path: None))
        self.useFixture(fixtures.MonkeyPatch('pathlib.Path.rmdir',
                                             lambda path: None))
        self.assertEqual((True, ''), self.fc())
        self.assertEqual(['tcm_fc'], self.loaded)

    def test_no_fc_port(self):
        """Then nothing is requested from the kernel."""
        self.ports()
        self.assertEqual(
            (False, 'FC ports are served by the API alone: this machine has'
             ' no FC port\n'), self.fc())
        self.assertEqual([], self.loaded)

    def test_no_fc_in_the_kernel(self):
        self.ports('50:02:4f:00:00:01:00:00')
        has_fc, said = self.fc()
        self.assertFalse(has_fc)
        self.assertIn('API alone: this kernel cannot make', said)

    def test_no_fabric(self):
        def refuse(path):
            raise OSError(errno.EINVAL, 'Invalid argument')

        self.assertIn('Invalid argument; try: modprobe iscsi_target_mod',
                      self.refusal(**{
                          'os.path.ismount': lambda path: True,
                          'pathlib.Path.exists': lambda self: True,
                          'pathlib.Path.mkdir': refuse}))
