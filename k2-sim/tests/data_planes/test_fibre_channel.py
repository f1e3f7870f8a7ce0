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

"""Fibre Channel ports of the kernel's target, on a fake configfs.

The kernel itself is tested in tests/guest.
"""

import pathlib

import fixtures
import hypothesis
from hypothesis import strategies

from k2_sim.data_planes import base as data_planes
from k2_sim.data_planes import fabrics
from tests import base
from tests.data_planes import serving
from tests.data_planes.serving import exports
from tests.data_planes.serving import lun
from tests.data_planes import test_lio

ARRAY = ('50:02:4f:00:00:01:00:00', '50:02:4f:00:00:02:00:00')
PORTS = [f'21:00:00:24:ff:00:00:0{number}' for number in range(4)]
ABSENT = '50:02:4f:00:00:03:00:00'


def host(*luns, ports=PORTS[:2], initiators=()):
    """A host with FC ports."""
    return data_planes.Access(initiators, luns, None, tuple(ports))


HOSTS = strategies.lists(strategies.builds(
    lambda luns, ports: host(*luns, ports=ports),
    strategies.lists(serving.LUNS, unique_by=lambda item: item.number,
                     min_size=1),
    strategies.sets(strategies.sampled_from(PORTS), min_size=1).map(
        sorted)), max_size=3)


class FibreChannelTest(test_lio.LioTest):

    def new_kernel(self):
        self.local_ports = {*ARRAY, '10:00:00:00:00:00:00:00'}
        super().new_kernel()

    def new_data_plane(self, mark=test_lio.MARK, **options):
        return super().new_data_plane(
            mark, local_ports=lambda: self.local_ports, **options)

    def publish(self, *hosts, fc_ports=ARRAY, **fields):
        super().publish(*hosts, fc_ports=fc_ports, **fields)

    def group(self, target=ARRAY[0]):
        return self.tree.root / 'fc' / target / 'tpgt_1'

    def targets(self):
        return [name for name in self.tree.names(self.tree.root / 'fc')
                if name != 'discovery_auth']

    def admitted(self, target=ARRAY[0]):
        """Ports of hosts that may log in."""
        found = self.tree.names(self.group(target) / 'acls')
        return [name for name in found if not name.startswith('30:00:')]

    def seen(self, port=PORTS[0], target=ARRAY[0]):
        return self.seen_at(self.group(target) / 'acls' / port)

    def seen_by_iqn(self):
        return super().seen()

    def disks_of(self, group):
        return {self.tree.linked(group / 'lun' / name).name
                for name in self.tree.names(group / 'lun')}


class TestFibreChannel(FibreChannelTest):

    def test_a_target_for_each_port(self):
        self.publish()
        self.assertEqual(list(ARRAY), self.targets())
        self.assertEqual([], self.admitted())
        self.assertTrue(self.data_plane.is_serving)

    def test_ports_that_this_machine_has_not(self):
        """One warning; the others are exported."""
        logger = self.useFixture(fixtures.FakeLogger())
        for _ in range(2):
            self.publish(fc_ports=(ABSENT, *ARRAY))
        self.assertEqual(1, logger.output.count(
            f'no FC port with the name {ABSENT}: served by the API alone'))
        self.assertEqual(list(ARRAY), self.targets())

    def test_port_that_comes_and_goes(self):
        self.local_ports.remove(ARRAY[1])
        self.publish(host(lun(1)))
        self.assertEqual([ARRAY[0]], self.targets())
        self.local_ports.add(ARRAY[1])
        self.publish(host(lun(1)))
        self.assertEqual({1: ('ab', False)}, self.seen(target=ARRAY[1]))
        self.local_ports.remove(ARRAY[0])
        self.publish(host(lun(1)))
        self.assertEqual([ARRAY[1]], self.targets())

    def test_known_ports_may_log_in_before_they_see_anything(self):
        """The kernel would not notify them later."""
        self.publish(known_ports=tuple(PORTS))
        for target in ARRAY:
            self.assertEqual(PORTS, self.admitted(target))
            self.assertEqual({}, self.seen(target=target))

    def test_known_ports_may_log_in_afterwards(self):
        """Their sessions continue, with nothing to see."""
        self.publish(host(lun(1)))
        self.publish()
        self.assertEqual(PORTS[:2], self.admitted())
        self.assertEqual(({}, {}), (self.seen(), self.disks.files))

    def test_each_host_sees_its_own_on_each_port(self):
        self.publish(host(lun(1, 'ab'), lun(2, 'cd', is_read_only=True)),
                     host(lun(1, 'cd'), ports=PORTS[2:]))
        for target in ARRAY:
            for port in PORTS[:2]:
                self.assertEqual({1: ('ab', False), 2: ('cd', True)},
                                 self.seen(port, target))
            self.assertEqual({1: ('cd', False)}, self.seen(PORTS[2], target))

    def test_beside_iscsi(self):
        """One disk for both; each target has what its hosts see."""
        self.publish(host(lun(1, 'ab')),
                     serving.host(lun(1, 'ab'), lun(2, 'cd')))
        self.assertEqual({1: ('ab', False)}, self.seen())
        self.assertEqual({1: ('ab', False), 2: ('cd', False)},
                         self.seen_by_iqn())
        self.assertEqual({f'{test_lio.MARK}-ab'},
                         self.disks_of(self.group()))
        self.assertEqual(2, len(self.disks.files))
        self.publish(host(lun(1, 'ab')))
        self.assertEqual({1: ('ab', False)}, self.seen())
        self.assertEqual({f'{test_lio.MARK}-ab'}, set(self.disks.files))

    def test_host_with_both(self):
        self.publish(host(lun(1), initiators=(f'{serving.IQN}a',)))
        self.assertEqual(self.seen(), self.seen_by_iqn())

    @hypothesis.settings(deadline=None, max_examples=15)
    @hypothesis.given(strategies.lists(HOSTS, max_size=4))
    def test_any_change_of_mind(self, publications):
        self.check_changes(publications)

    def check(self, hosts):
        wanted = {port: host for host in hosts for port in host.ports}
        for port in PORTS:
            luns = wanted[port].luns if port in wanted else ()
            for target in ARRAY:
                self.assertEqual(
                    {lun.number: (lun.serial.lstrip('0'), lun.is_read_only)
                     for lun in luns}, self.seen(port, target))
        self.assertEqual(
            {f'{test_lio.MARK}-{lun.serial}' for host in wanted.values()
             for lun in host.luns}, set(self.disks.files))

    def test_target_that_went_by_itself(self):
        self.publish(host(lun(1)))
        self.new_data_plane()
        self.assertFalse(self.data_plane.is_serving)
        self.publish(host(lun(1)))
        self.assertTrue(self.data_plane.is_serving)


class TestOwn(FibreChannelTest):
    """All of its own objects are removed, others' are untouched."""

    def test_close(self):
        self.publish(host(lun(1)), known_ports=(PORTS[3],))
        self.data_plane.close()
        self.assertEqual(({}, {}), (self.tree.shown(), self.disks.files))

    def test_fails_and_is_killed_at_any_step(self):
        """The next publication does what is left, as does the next plane."""
        self.publish(host(lun(1)))
        steps = {line.partition(' ')[2] for line in self.tree.log}
        for step in sorted(steps):
            for is_killed in (False, True):
                with self.subTest(step=step, is_killed=is_killed):
                    self.new_kernel()
                    self.tree.failing = {step}
                    self.assertRaises(data_planes.DataPlaneError, self.publish,
                                      host(lun(1)))
                    if is_killed:
                        self.data_plane = self.new_data_plane()
                    self.publish(host(lun(1)))
                    self.assertEqual({1: ('ab', False)}, self.seen())
                    self.data_plane.close()
                    self.assertEqual(({}, {}), (
                        self.tree.shown(), self.disks.files))

    def test_killed_at_any_step_of_its_end(self):
        self.publish(host(lun(1)))
        self.tree.log.clear()
        self.data_plane.close()
        steps = {line.partition(' ')[2] for line in self.tree.log}
        # An empty group of disks, which other users may have as well.
        for step in sorted(steps - {'core/iblock_0'}):
            with self.subTest(step):
                self.new_kernel()
                self.publish(host(lun(1)))
                self.tree.failing = {step}
                self.assertRaises(
                    data_planes.DataPlaneError, self.data_plane.close)
                self.data_plane = self.new_data_plane()
                self.assertEqual({}, self.disks.files)
                self.publish()
                self.data_plane.close()
                self.assertEqual({}, self.tree.shown())

    def test_others(self):
        other = self.new_data_plane(mark='other')
        other.publish(exports(host(lun(1, 'ef')), fc_ports=ARRAY[1:],
                              target=f'{serving.IQN}others'))
        before = self.tree.shown()
        self.data_plane = self.new_data_plane()
        self.publish(host(lun(1)), fc_ports=ARRAY[:1])
        self.assertEqual({1: ('ab', False)}, self.seen())
        self.data_plane.close()
        self.assertEqual(before, self.tree.shown())

    def test_target_of_others(self):
        other = self.new_data_plane(mark='other')
        other.publish(exports(host(lun(1, 'ef')), fc_ports=ARRAY,
                              target=f'{serving.IQN}others'))
        self.data_plane = self.new_data_plane()
        error = self.assertRaises(data_planes.DataPlaneError, self.publish)
        self.assertIn(f'{ARRAY[0]}/tpgt_1 exists', str(error))


class TestLocalPorts(base.DirectoryTest):

    def test_names(self):
        place = self.directory
        (place / 'host3').mkdir()
        (place / 'host3' / 'port_name').write_text('0x50024f0000010000\n')
        self.assertEqual({ARRAY[0]}, fabrics.local_ports(place))

    def test_none(self):
        self.assertEqual(set(), fabrics.local_ports(
            pathlib.Path('/dev/null/nothing')))
