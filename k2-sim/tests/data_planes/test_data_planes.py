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

"""Data planes: what is exported, and when; for tgtd itself see tests/e2e."""

import contextlib
import dataclasses
import pathlib
import threading

import ddt
import fixtures
import hypothesis
from hypothesis import strategies
import testtools

import k2_sim
from k2_sim.data_planes import base as data_planes
from k2_sim.data_planes import portals as portals_module
from k2_sim.data_planes import publisher
from k2_sim.data_planes import tgt
from k2_sim.data_planes import tgtd
from k2_sim import equipment
from k2_sim.protocol import messages
from k2_sim.state import commits
from tests import base
from tests.data_planes.serving import exports
from tests.data_planes.serving import HOSTS
from tests.data_planes.serving import IQN
from tests.data_planes.serving import lun
from tests.data_planes.serving import SECRET


PORTS = ['21:00:00:24:ff:00:00:01', '21:00:00:24:ff:00:00:02']
EQUIPMENT = equipment.Equipment(fc_ports=(
    '50:02:4f:00:00:01:00:00', '50:02:4f:00:00:02:00:00'))


class RecordingDataPlane:
    """Records its calls; stuck: waits before it carries them out."""

    def __init__(self):
        self.exports = None
        self.failure = None
        self.go_on = threading.Event()
        self.go_on.set()
        self.pauses = 0
        self.is_closed = False
        self.is_serving, self.has_fc = True, False
        self.moved = []
        self.told = threading.Event()

    def traffic(self):
        """The traffic that was set, once."""
        moved, self.moved = self.moved, []
        if not moved:
            self.told.set()
        return moved

    def publish(self, exports):
        self.go_on.wait()
        if self.failure is not None:
            raise self.failure
        self.exports = exports

    @contextlib.contextmanager
    def quiesced(self):
        self.pauses += 1
        yield

    def close(self):
        self.is_closed = True

    def seen_by(self, initiator):
        """The LUNs by number that a host with this initiator sees."""
        return {lun.number: lun for host in self.exports.hosts
                if initiator in host.initiators for lun in host.luns}


class ServedTest(base.ArrayTest):
    """An array with a data plane, a host and a volume."""

    def setUp(self):
        super().setUp()
        self.array = self.new_array()
        self.control = self.array.control
        self.data_plane = RecordingDataPlane()
        self.array.serve(self.data_plane)
        self.vg = self.group()
        self.vol = self.volume(self.vg, size=base.GIB)
        self.node = self.host('node1')
        self.iqn(self.node, 'a')

    def new_array(self, **options):
        directory = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        array = k2_sim.Array(
            self.profile, clock=self.clock, portals=('192.0.2.1', '::1'),
            contents=k2_sim.Contents(directory), **options)
        self.addCleanup(array.close)
        return array

    def iqn(self, host, name):
        return self.post('host_iqns', {
            'iqn': IQN + name, 'host': base.ref('hosts', host)})

    def seen(self, name='a'):
        return self.data_plane.seen_by(IQN + name)


@ddt.ddt
class TestWhatIsServed(ServedTest):

    def test_target(self):
        """NET-1, NET-2, VOL-15."""
        exports = self.data_plane.exports
        state, = self.hits('system/state')
        self.assertEqual(state['iscsi_qualified_target_name'],
                         exports.target)
        self.assertEqual(('192.0.2.1', '::1'), exports.portals)
        self.assertEqual(('SILK', 'SDP'), (exports.vendor, exports.product))
        self.assertEqual((), exports.hosts)

    def test_fibre_channel(self):
        """INI-1, INI-4: hosts' ports, and those without a host."""
        array = self.array = self.new_array(equipment=EQUIPMENT)
        self.data_plane = RecordingDataPlane()
        self.data_plane.has_fc = True
        array.serve(self.data_plane)
        vol = self.volume(self.group(), size=base.GIB)
        node = self.host('node2')
        self.post('host_fc_ports', {'pwwn': PORTS[0]})
        self.assertEqual((EQUIPMENT.fc_ports, tuple(PORTS[:1])), (
            self.data_plane.exports.fc_ports,
            self.data_plane.exports.known_ports))
        self.map(node, vol)
        self.assertEqual((), self.data_plane.exports.hosts)
        for port in PORTS:
            self.post('host_fc_ports', {
                'pwwn': port, 'host': base.ref('hosts', node)})
        seen, = self.data_plane.exports.hosts
        self.assertEqual(((), tuple(PORTS), [base.GIB * 1024]), (
            seen.initiators, seen.ports, [lun.size for lun in seen.luns]))

    def test_plane_without_fibre_channel(self):
        """It is not notified of its ports."""
        self.map(self.node, self.vol)
        before = self.data_plane.exports
        other = self.host('node2')
        self.post('host_fc_ports', {
            'pwwn': PORTS[0], 'host': base.ref('hosts', other)})
        self.assertIs(before, self.data_plane.exports)
        self.map(other, self.vol)
        self.assertEqual([(IQN + 'a',)], [
            host.initiators for host in self.data_plane.exports.hosts])
        self.assertEqual(((), ()), (self.data_plane.exports.fc_ports,
                                    self.data_plane.exports.known_ports))

    def test_names_of_the_older_profile(self):
        """VOL-15."""
        exports = self.new_array_of_k2().serve(RecordingDataPlane())
        self.assertEqual(('KMNRIO', 'K2'),
                         (exports.vendor, exports.product))

    def new_array_of_k2(self):
        self.profile = 'k2'
        return self.new_array()

    def test_another_product(self):
        """VOL-15: from the next LUN on."""
        self.control.set_behaviors(scsi_product='KMNRIO KDP')
        self.map(self.node, self.vol)
        self.assertEqual(('KMNRIO', 'KDP'), (
            self.data_plane.exports.vendor, self.data_plane.exports.product))

    def test_control_lun(self):
        """VOL-14: every host with initiators sees it, and cannot write."""
        self.control.set_behaviors(control_lun=True)
        other = self.host('node2')
        self.iqn(other, 'b')
        control = self.seen('b')[255]
        self.assertEqual((51200 * 1024, True), (
            control.size, control.is_read_only))
        self.assertRegex(control.serial, '^[0-9a-f]{4}0000$')
        self.map(self.node, self.vol)
        self.assertEqual({1, 255}, set(self.seen()))
        self.assertEqual({255}, set(self.seen('b')))
        self.control.set_behaviors(control_lun=False)
        self.iqn(other, 'c')
        self.assertEqual({1}, set(self.seen()))
        self.assertEqual({}, self.seen('b'))

    def test_volume(self):
        """MAP-1, VOL-15: its own file, with its size."""
        self.map(self.node, self.vol)
        lun = self.seen()[1]
        self.assertEqual((2 ** 30, self.vol['scsi_sn'], False),
                         (lun.size, lun.serial, lun.is_read_only))
        self.assertEqual(2 ** 30, lun.path.stat().st_size)

    def test_unmapping(self):
        self.delete(f'mappings/{self.map(self.node, self.vol)["id"]}')
        self.assertEqual((), self.data_plane.exports.hosts)

    def test_host_without_initiator(self):
        """MAP-12, INI-6."""
        other = self.host('node2')
        self.map(other, self.vol)
        self.assertEqual((), self.data_plane.exports.hosts)
        record = self.iqn(other, 'b')
        self.assertEqual({1}, set(self.seen('b')))
        self.delete(f'host_iqns/{record["id"]}')
        self.assertEqual((), self.data_plane.exports.hosts)

    def test_host_group(self):
        """MAP-5, HST-6: its members see what is mapped to it."""
        hosts = self.post('host_groups', {'name': 'hg'})
        for host in (self.node, self.host('node2')):
            self.patch(f'hosts/{host["id"]}',
                       {'host_group': base.ref('host_groups', hosts)})
        self.iqn(host, 'b')
        self.map(hosts, self.vol, host_kind='host_groups')
        self.assertEqual(self.seen('a'), self.seen('b'))
        self.patch(f'hosts/{host["id"]}', {'host_group': None})
        self.assertEqual(({1}, set()),
                         (set(self.seen('a')), set(self.seen('b'))))

    def test_view(self):
        """MAP-3, VSN-4: each volsnap with its own serial."""
        self.volume(self.vg, 'vol-2', size=2 * base.GIB)
        view = self.view(self.snapshot(self.vg))
        self.map(self.node, view, 'snapshots')
        images = self.hits(f'volsnaps?snapshot.ref=/snapshots/{view["id"]}')
        self.assertEqual(
            {1: (images[0]['scsi_sn'], 2 ** 30),
             2: (images[1]['scsi_sn'], 2 ** 31)},
            {number: (lun.serial, lun.size)
             for number, lun in self.seen().items()})

    def test_view_has_its_own_data(self):
        number = self.vol['id']
        self.control.data.write('volumes', number, 0, b'old')
        view = self.view(self.snapshot(self.vg))
        self.control.data.write('volumes', number, 0, b'new')
        self.map(self.node, view, 'snapshots')
        self.map(self.node, self.vol)
        for number, data in ((1, b'old'), (2, b'new')):
            with open(self.seen()[number].path, 'rb') as file:
                self.assertEqual(data, file.read(3))

    def test_growth(self):
        """VOL-3."""
        self.map(self.node, self.vol)
        path = self.seen()[1].path
        self.patch(f'volumes/{self.vol["id"]}', {'size': 2 * base.GIB})
        self.assertEqual((path, 2 ** 31),
                         (self.seen()[1].path, self.seen()[1].size))
        self.assertEqual(2 ** 31, path.stat().st_size)

    def test_read_only(self):
        """VOL-12."""
        self.map(self.node, self.vol)
        for value in (True, False):
            self.patch(f'volumes/{self.vol["id"]}', {'read_only': value})
            self.assertEqual(value, self.seen()[1].is_read_only)

    def test_other_lun(self):
        """MAP-9."""
        record = self.map(self.node, self.vol)
        self.patch(f'mappings/{record["id"]}', {'lun': 99})
        self.assertEqual({99}, set(self.seen()))

    def test_chap(self):
        """CHP-2, CHP-3."""
        self.map(self.node, self.vol)
        profile = self.post('host_auth_profiles', {
            'name': 'p', 'type': 'CHAP', 'username': 'u',
            'password': SECRET})
        self.assertEqual([None], self.accounts())
        self.patch(f'hosts/{self.node["id"]}',
                   {'map_auth_profiles_names': 'p'})
        self.assertEqual([data_planes.Account('u', SECRET)], self.accounts())
        self.patch(f'host_auth_profiles/{profile["id"]}',
                   {'new_password': SECRET[::-1]})
        self.assertEqual([data_planes.Account('u', SECRET[::-1])],
                         self.accounts())
        self.assertNotIn(SECRET[::-1], repr(self.data_plane.exports))
        self.patch(f'hosts/{self.node["id"]}',
                   {'map_auth_profiles_names': None})
        self.assertEqual([None], self.accounts())

    def accounts(self):
        return [host.account for host in self.data_plane.exports.hosts]

    def test_portals_come_and_go(self):
        """NET-1: replication addresses are not portals."""
        interface = {'ref': '/system/net_ports/1'}
        for service, address in (('iscsi', '192.0.2.9'),
                                 ('Replication', '192.0.2.10')):
            row = self.post('system/net_ips', {
                'ip_address': address, 'network_mask': '255.255.255.0',
                'service': service, 'interface': interface})
            self.assertEqual(('192.0.2.1', '::1', '192.0.2.9'),
                             self.data_plane.exports.portals)
        self.delete(f'system/net_ips/{row["id"] - 1}')
        self.assertEqual(('192.0.2.1', '::1'), self.data_plane.exports.portals)

    def test_reset(self):
        self.map(self.node, self.vol)
        self.array.handle('POST', '/sim/v1/reset',
                          headers=base.authorization())
        self.assertEqual((), self.data_plane.exports.hosts)

    @hypothesis.settings(deadline=None, max_examples=25)
    @hypothesis.given(strategies.lists(strategies.tuples(
        strategies.sampled_from(('map', 'iqn', 'join', 'unmap')),
        strategies.integers(0, 2), strategies.integers(0, 3))))
    def test_hosts_see_what_replies_say(self, steps):
        """MAP-1, MAP-5, INI-1: whatever was done before."""
        self.control.reset()
        self.vg = self.group()
        volumes = [self.volume(self.vg, f'v{number}', size=1024)
                   for number in range(4)]
        hosts = [self.host(f'h{number}') for number in range(3)]
        group = self.post('host_groups', {'name': 'hg'})
        for step, first, second in steps:
            if step == 'map':
                owner = base.ref('hosts', hosts[first]) if second % 2 \
                    else base.ref('host_groups', group)
                self.call('POST', 'mappings', {
                    'host': owner,
                    'volume': base.ref('volumes', volumes[second])})
            elif step == 'iqn':
                self.call('POST', 'host_iqns', {
                    'iqn': f'{IQN}{second}',
                    'host': base.ref('hosts', hosts[first])})
            elif step == 'join':
                self.call('PATCH', f'hosts/{hosts[first]["id"]}', {
                    'host_group': base.ref('host_groups', group)
                    if second else None})
            else:
                self.call('DELETE', f'mappings/{61 + first + second}')
        for iqn in self.hits('host_iqns'):
            host = self.get(iqn['host']['ref'][1:])
            self.assertEqual(
                {**self.luns_of(base.ref('hosts', host)),
                 **self.luns_of(host['host_group'])},
                {number: lun.serial for number, lun
                 in self.data_plane.seen_by(iqn['iqn']).items()})

    def luns_of(self, owner):
        """Serials by LUN, as the API shows them."""
        if owner is None:
            return {}
        return {hit['lun']: self.get(hit['volume']['ref'][1:])['scsi_sn']
                for hit in self.hits(f'mappings?host.ref={owner["ref"]}')}


class TestWhenItIsServed(ServedTest):

    def test_served_from_the_start(self):
        """Nothing is stored about exports: the rows define them."""
        self.map(self.node, self.vol)
        again = RecordingDataPlane()
        self.array.serve(again)
        self.assertEqual(self.data_plane.exports, again.exports)

    def test_reply_waits_and_others_do_not(self):
        self.data_plane.go_on.clear()
        self.addCleanup(self.data_plane.go_on.set)
        body = {'host': base.ref('hosts', self.node),
                'volume': base.ref('volumes', self.vol)}
        with self.exchange('POST', 'mappings', body) as mapped:
            self.assertFalse(mapped.publication.done())
            self.assertEqual(1, len(self.hits('mappings')))
            with self.exchange('POST', 'volume_groups',
                               {'name': 'other', 'quota': 0}) as other:
                self.assertIsNone(other.publication)
            late = mapped.settled(limit=0).response
            self.assertEqual((500, {'error_msg': 'The data plane does not'
                                    ' serve the change yet'}),
                             (late.status, late.json()))
            self.data_plane.go_on.set()
            self.assertEqual(201, mapped.settled().response.status)
        self.assertEqual({1}, set(self.seen()))

    def exchange(self, method, path, body):
        return self.array.exchange(
            method, f'/api/v2/{path}', '',
            {**base.authorization(), 'Content-Type': base.JSON},
            messages.reply(200, body).body)

    def test_failure(self):
        """The change is made, and the reply has the error."""
        self.data_plane.failure = data_planes.DataPlaneError('no more LUNs')
        logger = self.useFixture(fixtures.FakeLogger())
        reply = self.call('POST', 'mappings', {
            'host': base.ref('hosts', self.node),
            'volume': base.ref('volumes', self.vol)})
        self.assertEqual((500, {'error_msg': 'no more LUNs'}),
                         (reply.status, reply.json()))
        self.assertIn('no more LUNs', logger.output)
        self.data_plane.failure = None
        self.iqn(self.node, 'b')
        self.assertEqual({1}, set(self.seen('b')))

    def test_failure_at_the_start(self):
        data_plane = RecordingDataPlane()
        data_plane.failure = data_planes.DataPlaneError('no portal')
        self.assertRaises(
            data_planes.DataPlaneError, self.new_array().serve, data_plane)
        self.assertTrue(data_plane.is_closed)

    def test_needs_contents(self):
        array = k2_sim.Array(clock=self.clock)
        self.addCleanup(array.close)
        self.assertRaises(TypeError, array.serve, RecordingDataPlane())

    def test_close(self):
        self.array.close()
        self.assertTrue(self.data_plane.is_closed)

    def test_writes_are_held_up_for_a_snapshot_only_if_served(self):
        self.snapshot(self.vg)
        self.assertEqual(0, self.data_plane.pauses)
        record = self.map(self.node, self.vol)
        self.snapshot(self.vg, 's2')
        self.assertEqual(1, self.data_plane.pauses)
        self.delete(f'mappings/{record["id"]}')
        self.snapshot(self.vg, 's3')
        self.assertEqual(1, self.data_plane.pauses)


class TestTraffic(ServedTest):

    def setUp(self):
        super().setUp()
        self.useFixture(fixtures.MockPatchObject(
            publisher, '_LOOK_SECONDS', 0.01))

    def test_statistics(self):
        """STA-5: of volumes, in bytes; latencies are unknown."""
        self.map(self.node, self.vol)
        view = self.view(self.snapshot(self.vg))
        self.map(self.node, view, 'snapshots')
        image, = self.hits(
            f'volsnaps?snapshot.ref=/snapshots/{view["id"]}')
        self.data_plane.moved = [
            data_planes.Traffic(self.vol['scsi_sn'], 30, 30 * 8192,
                                10, 10 * 65536),
            data_planes.Traffic(image['scsi_sn'], 5, 5, 5, 5),
            data_planes.Traffic('ffff', 5, 5, 5, 5)]
        # It has recorded them before it asks again.
        self.data_plane.told.clear()
        self.assertTrue(self.data_plane.told.wait(20))
        row, = self.hits('stats/volumes')
        self.assertEqual((8, 30 * 8192 // 5 + 10 * 65536 // 5, 0.0), (
            row['iops_avg'], row['throughput_avg'], row['latency_inner']))
        self.assertEqual(base.ref('volumes', self.vol), row['volume'])
        self.assertEqual([('r', '8k_64k', 6), ('w', '64k_256k', 2)], [
            (hit['rw'], hit['bs'], hit['iops_avg']) for hit in self.hits(
                'stats/system?__rw_breakdown=true&__bs_breakdown=true')
            if (hit['rw'], hit['bs']) in (
                ('r', '8k_64k'), ('w', '64k_256k'))])


class FakeTgtd:
    """Handles commands as tgtd does, including those that crash it."""

    def __init__(self):
        self.directory = pathlib.Path('/run/tgt')
        self.is_running = False
        self.starts = 0
        self.failing = []
        self.log = []

    def start(self, portals):
        assert portals and not self.is_running
        self.is_running = True
        self.starts += 1
        self.portals = set(map(portals_module.name, portals))
        self.target = None
        self.accounts, self.sessions = {}, {}
        self._forget_target()

    def _forget_target(self):
        self.luns, self.initiators, self.bound = {}, set(), []
        self.counts = {}

    @contextlib.contextmanager
    def stopped(self):
        self.log.append('stopped')
        yield
        self.log.append('continued')

    def stop(self):
        self.is_running = False

    def command(self, operation, mode, *arguments):
        assert self.is_running
        what = f'{operation}_{mode}'
        self.log.append(what)
        if what in self.failing:
            self.failing.remove(what)
            raise tgtd.CommandError(f'{what} failed')
        words = [str(word) for word in arguments if word != '--force']
        options = dict(zip(words[::2], words[1::2], strict=True))
        method = getattr(self, f'_{what}')
        return method(**{name.strip('-').replace('-', '_'): value
                         for name, value in options.items()
                         if name != '--tid'})

    def _check(self, condition):
        if not condition:
            raise tgtd.CommandError('refused')

    def _new_target(self, targetname):
        self._check(self.target is None)
        self.target = targetname
        self.parameters = {}

    def _update_target(self, name, value):
        self.parameters[name] = value

    def _delete_target(self):
        self.target = None
        self._forget_target()

    def _new_logicalunit(self, lun, backing_store):
        self._check(lun not in self.luns)
        self.luns[lun] = {'path': backing_store}

    def _update_logicalunit(self, lun, params):
        changes = dict(item.split('=') for item in params.split(','))
        self._check('path' not in changes or changes.pop('online') == '0')
        self.luns[lun].update(changes)

    def _delete_logicalunit(self, lun):
        del self.luns[lun]

    def _bind_target(self, initiator_name):
        self._check(initiator_name not in self.initiators)
        self.initiators.add(initiator_name)

    def _unbind_target(self, initiator_name):
        self.initiators.remove(initiator_name)

    def _new_account(self, user, password):
        self._check(user not in self.accounts)
        self.accounts[user] = password

    def _delete_account(self, user):
        assert user not in self.bound, 'crashes later'
        del self.accounts[user]

    def _bind_account(self, user):
        self._check(user not in self.bound)
        self.bound.append(user)

    def _unbind_account(self, user):
        assert user == self.bound.pop(), 'crashes later'

    def _new_portal(self, param):
        self.portals.add(param.removeprefix('portal='))

    def _delete_portal(self, param):
        self.portals.remove(param.removeprefix('portal='))

    def _stat_target(self):
        """In the format of tgtd 1.0.85, including LUN 0."""
        return ('tgt lun sid rd_subm(bytes,cmds) rd_done(bytes,cmds)'
                ' wr_subm(bytes,cmds) wr_done(bytes,cmds) errs\n'
                '  1   0   1            0      0            0      0'
                '            0      0            0      0    0\n'
                ) + ''.join(
            f'  1 {number:3} {session:3}       999999     99 {read:12}'
            f' {reads:6}      9999999     99 {written:12} {writes:6}    2\n'
            for (number, session), (reads, read, writes, written)
            in self.counts.items())

    def _show_conn(self):
        return ''.join(
            f'Session: {number}\n    Connection: 0\n'
            f'        Initiator: {name}\n        IP Address: 127.0.0.1\n'
            for number, name in self.sessions.items())

    def _delete_conn(self, sid, cid):
        self._check((int(sid), cid) in {(s, '0') for s in self.sessions})
        del self.sessions[int(sid)]


class TestTgtDataPlane(testtools.TestCase):

    def setUp(self):
        super().setUp()
        self.new_data_plane()

    def new_data_plane(self):
        self.daemon = FakeTgtd()
        self.data_plane = tgt.TgtDataPlane(self.daemon)

    def publish(self, *hosts, **fields):
        self.data_plane.publish(exports(*hosts, **fields))

    def host(self, *luns, name='a', **fields):
        return data_planes.Access((IQN + name,), luns, **fields)

    def test_target_without_luns(self):
        self.publish()
        self.assertEqual((f'{IQN}target', {'192.0.2.1:3260', '[::1]:3260'}),
                         (self.daemon.target, self.daemon.portals))
        # Writes come in pieces of the same size as reads.
        self.assertEqual({'MaxRecvDataSegmentLength': '262144'},
                         self.daemon.parameters)

    def test_lun(self):
        """VOL-15; a path may not have a comma, so it is relative."""
        self.publish(self.host(lun(7, '2851001f')))
        self.assertEqual({
            'path': '../../dev/null', 'vendor_id': 'SILK',
            'product_id': 'SDP', 'product_rev': '1.0',
            'scsi_sn': '2851001f',
            'scsi_id': '60024f40000000000000000002851001f'[:8]
            + '2851001f'.zfill(24), 'thin_provisioning': '1',
            'readonly': '0'}, self.daemon.luns['7'])

    def test_traffic(self):
        """What was added since the last call, by LUN, of each session."""
        self.assertEqual([], self.data_plane.traffic())
        self.publish(self.host(lun(1, 'aa'), lun(2, 'bb')))
        self.assertEqual([], self.data_plane.traffic())
        self.daemon.counts = {(1, 1): (11, 131821, 2, 1052672),
                              (2, 1): (0, 0, 0, 0), (9, 1): (1, 1, 1, 1)}
        self.assertEqual([data_planes.Traffic('aa', 11, 131821, 2, 1052672)],
                         self.data_plane.traffic())
        self.assertEqual([], self.data_plane.traffic())
        self.daemon.counts.update({(1, 1): (12, 132333, 2, 1052672),
                                   (1, 2): (1, 512, 0, 0),
                                   (2, 1): (0, 0, 1, 4096)})
        self.assertEqual([
            data_planes.Traffic('aa', 1, 512, 0, 0),
            data_planes.Traffic('bb', 0, 0, 1, 4096),
            data_planes.Traffic('aa', 1, 512, 0, 0)],
            self.data_plane.traffic())

    def test_traffic_of_a_new_session(self):
        """tgtd counts from 0 again for a new session or disk."""
        self.publish(self.host(lun(1, 'aa')))
        for counts in ((5, 500, 0, 0), (2, 900, 0, 0)):
            self.daemon.counts = {(1, 1): counts}
            self.assertEqual([data_planes.Traffic('aa', *counts)],
                             self.data_plane.traffic())

    def test_traffic_that_cannot_be_told(self):
        self.publish(self.host(lun(1, 'aa')))
        self.daemon.counts = {(1, 1): (1, 512, 0, 0)}
        self.daemon.failing = ['stat_target']
        self.assertEqual([], self.data_plane.traffic())
        with self.data_plane.quiesced():
            self.assertEqual([], self.data_plane.traffic())
        self.assertEqual(1, len(self.data_plane.traffic()))

    def test_file_that_is_gone(self):
        """The row is gone, too, and that change is published next."""
        gone = dataclasses.replace(
            lun(1), path=pathlib.Path('/dev/null/nothing'))
        self.publish(self.host(gone, lun(2, 'cd')))
        self.assertEqual({'2'}, set(self.daemon.luns))

    @hypothesis.settings(deadline=None)
    @hypothesis.given(strategies.lists(HOSTS, max_size=5))
    def test_any_change_of_mind(self, publications):
        """What was wanted last is exported; the rest is untouched."""
        self.new_data_plane()
        for hosts in publications:
            before = dict(getattr(self.daemon, 'luns', {}))
            self.publish(*hosts)
            self.check(hosts)
            for number, served in self.daemon.luns.items():
                found = before.get(number)
                if found and found['readonly'] == served['readonly']:
                    self.assertIs(found, served)
        self.assertLessEqual(self.daemon.starts, 1)

    def check(self, hosts):
        names = {name for host in hosts for name in host.initiators}
        self.assertEqual(names | {name.lower() for name in names},
                         self.daemon.initiators)
        wanted = {}
        for host in hosts:
            for item in host.luns:
                wanted.setdefault(str(item.number), item)
        self.assertEqual(
            {number: (item.serial, str(int(item.is_read_only)))
             for number, item in wanted.items()},
            {number: (item['scsi_sn'], item['readonly'])
             for number, item in self.daemon.luns.items()})
        accounts = {(host.account.username, host.account.password)
                    for host in hosts if host.account}
        known = {(name, self.daemon.accounts[name])
                 for name in self.daemon.bound}
        self.assertLessEqual(accounts, known)
        self.assertEqual(len(accounts) + bool(accounts), len(known))
        self.assertEqual(set(self.daemon.bound), set(self.daemon.accounts))

    def test_never_open_to_all_while_an_account_goes(self):
        """A secret account is there from first to last."""
        accounts = [data_planes.Account(name, SECRET) for name in 'ab']
        self.publish(*[self.host(lun(1), account=item) for item in accounts])
        bound = self.daemon.bound = WatchedList(self.daemon.bound)
        self.publish(self.host(lun(1), account=accounts[1]))
        self.assertEqual(['b'], bound[1:])
        self.assertEqual(1, bound.least)
        self.publish(self.host(lun(1)))
        self.assertEqual([], bound)

    def test_growth_leaves_the_lun(self):
        self.publish(self.host(lun(1, size=512)))
        self.daemon.log.clear()
        self.publish(self.host(lun(1, size=1024)))
        self.assertEqual(['update_logicalunit'], self.daemon.log)
        self.publish(self.host(lun(1, size=1024)))
        self.assertEqual(['update_logicalunit'], self.daemon.log)

    def test_other_disk_under_the_same_number(self):
        self.publish(self.host(lun(1, 'ab')))
        self.publish(self.host(lun(1, 'cd')))
        self.assertEqual('cd', self.daemon.luns['1']['scsi_sn'])

    def test_lun_with_a_command_that_still_runs(self):
        """Others are not disturbed: no new daemon."""
        self.publish(self.host(lun(1), lun(2, 'cd')))
        self.daemon.failing = ['delete_logicalunit']
        self.publish(self.host(lun(2, 'cd')))
        self.assertEqual((1, {'2'}),
                         (self.daemon.starts, set(self.daemon.luns)))

    def test_sessions_of_who_may_not_log_in_any_more_end(self):
        self.publish(self.host(lun(1)), self.host(lun(1), name='b'))
        self.daemon.sessions = {3: f'{IQN}a', 4: f'{IQN}b', 5: f'{IQN}a'}
        self.publish(self.host(lun(1), name='b'))
        self.assertEqual({4: f'{IQN}b'}, self.daemon.sessions)

    def test_session_that_went_by_itself(self):
        self.publish(self.host(lun(1)))
        self.daemon.sessions = {3: f'{IQN}a'}
        self.daemon.failing = ['delete_conn']
        self.publish()
        self.assertEqual(1, self.daemon.starts)

    def test_two_disks_with_one_number(self):
        """That of the first host is exported, with one warning."""
        logger = self.useFixture(fixtures.FakeLogger())
        for _ in range(2):
            self.publish(self.host(lun(1, 'ab')),
                         self.host(lun(1, 'cd'), name='b'))
        self.assertEqual('ab', self.daemon.luns['1']['scsi_sn'])
        self.assertEqual(1, logger.output.count(
            'LUN 1 is not served with serial cd'))

    def test_other_target(self):
        """A restored state may have another name."""
        self.publish(self.host(lun(1)))
        self.publish(self.host(lun(1)), target=f'{IQN}other')
        self.assertEqual((f'{IQN}other', {'1'}),
                         (self.daemon.target, set(self.daemon.luns)))

    def test_portals(self):
        self.publish()
        self.publish(portals=('192.0.2.1', '192.0.2.3'))
        self.assertEqual({'192.0.2.1:3260', '192.0.2.3:3260'},
                         self.daemon.portals)

    def test_portal_that_this_machine_has_not(self):
        """The rest is exported, and it is retried."""
        logger = self.useFixture(fixtures.FakeLogger())
        self.publish()
        self.daemon.failing = ['new_portal']
        for _ in range(2):
            self.publish(self.host(lun(1)), portals=(
                '192.0.2.1', '::1', '192.0.2.3'))
        self.assertIn('portal 192.0.2.3 is not changed', logger.output)
        self.assertIn('192.0.2.3:3260', self.daemon.portals)
        self.assertEqual(1, self.daemon.starts)

    def test_no_portals(self):
        """tgtd would use all addresses of the machine."""
        self.publish(portals=())
        self.assertEqual(0, self.daemon.starts)
        self.publish()
        self.assertEqual(1, self.daemon.starts)

    def test_daemon_that_died(self):
        self.publish(self.host(lun(1)))
        self.daemon.stop()
        self.publish(self.host(lun(1)))
        self.assertEqual({'1'}, set(self.daemon.luns))

    def test_command_that_fails_once(self):
        """A new daemon is started."""
        self.useFixture(fixtures.FakeLogger())
        self.publish(self.host(lun(1)))
        self.daemon.failing = ['new_logicalunit']
        self.publish(self.host(lun(1), lun(2, 'cd')))
        self.assertEqual((2, {'1', '2'}),
                         (self.daemon.starts, set(self.daemon.luns)))

    def test_command_that_fails_again(self):
        self.useFixture(fixtures.FakeLogger())
        self.publish()
        self.daemon.failing = ['new_logicalunit'] * 2
        self.assertRaises(data_planes.DataPlaneError, self.publish,
                          self.host(lun(1)))
        self.publish(self.host(lun(1)))
        self.assertEqual({'1'}, set(self.daemon.luns))

    def test_no_commands_while_quiesced(self):
        """A stopped daemon would not reply."""
        self.publish()
        with self.data_plane.quiesced():
            thread = threading.Thread(
                target=self.publish, args=(self.host(lun(1)),))
            thread.start()
            # Long enough for a call that does not wait.
            thread.join(0.1)
            self.assertEqual('stopped', self.daemon.log[-1])
        thread.join()
        self.assertIn('new_logicalunit', self.daemon.log[
            self.daemon.log.index('continued'):])

    def test_close(self):
        self.publish()
        self.data_plane.close()
        self.assertFalse(self.daemon.is_running)


class WatchedList(list):
    """Records its minimum length."""

    def __init__(self, items):
        super().__init__(items)
        self.least = len(self)

    def pop(self):
        item = super().pop()
        self.least = min(self.least, len(self))
        return item


class TestCheck(testtools.TestCase):
    """The error where tgtd cannot run."""

    def test_not_installed(self):
        self.useFixture(fixtures.MonkeyPatch(
            'shutil.which', lambda name, path: None))
        error = self.assertRaises(data_planes.UnavailableError, tgtd.check)
        self.assertIn('apt-get install tgt', str(error))

    def test_not_root(self):
        self.useFixture(fixtures.MonkeyPatch(
            'shutil.which', lambda name, path: name))
        self.useFixture(fixtures.MonkeyPatch('os.geteuid', lambda: 1000))
        error = self.assertRaises(data_planes.UnavailableError, tgtd.check)
        self.assertIn('as root', str(error))


class TestExchange(testtools.TestCase):

    def test_disk_comes_first(self):
        """What the disk refused is not reported, exported or not."""
        commit = commits.started()
        commit.set_exception(k2_sim.StateError('disk full'))
        exchange = messages.Exchange(
            messages.reply(200, {}), commit=commit,
            publication=commits.started())
        self.assertEqual(
            {'error_msg': 'disk full'}, exchange.settled().response.json())
