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

from unittest import mock

import ddt

from cinder_k2.array import host_identity
from cinder_k2 import exceptions
from cinder_k2.flows import hosts
from cinder_k2.flows import volumes
from cinder_k2 import naming
from cinder_k2 import rest
from tests.unit import lost
from tests.unit import simulated

IQN = 'iqn.1994-05.com.example:node1'
PORTS = ['21:00:00:24:ff:00:00:01', '21:00:00:24:ff:00:00:02']


def sought(initiators):
    return host_identity.Sought(
        tuple(initiators), (naming.host('node1', initiators),))


class HostsBase(simulated.SimulatedTest):
    """A test with a volume to attach."""

    def setUp(self):
        super().setUp()
        self.backing = volumes.create(self.array, name='v', group_name='g',
                                      size=simulated.GIB, dedup=True)
        self.before = self.leftovers()

    def attach(self, registry, initiators, backing=None, hold=None):
        return hosts.attach(
            self.array, registry, backing or self.backing,
            sought=sought(initiators), look_first=False,
            hold=hold or mock.Mock(),
            verify_volume=mock.Mock()).lun

    def seen(self, host):
        """A host as it is now, without a REST call."""
        found, = [each for each in self.sim.control.leftovers()['hosts']
                  if each['id'] == host]
        return rest.Host(host, found['name'])


@ddt.ddt
class HostsTest(HostsBase):

    def detach(self, registry, initiators):
        host = registry.locate(sought(initiators)).host
        self.assertFalse(self.array.mappings.unmap(self.backing, host).busy)
        hosts.remove(self.array, registry, self.seen(host))
        self.assertEqual(self.before, self.leftovers())

    def test_new_iscsi_host(self):
        self.assertEqual(1, self.attach(self.array.iscsi_hosts, [IQN]))
        self.assertEqual([IQN], self.leftovers()['host_iqns'])
        self.detach(self.array.iscsi_hosts, [IQN])

    def test_new_fc_host_adopts_logged_in_ports(self):
        """INI-1, INI-2."""
        self.sim.control.log_in('host_fc_ports', PORTS[0])
        self.attach(self.array.fc_hosts, PORTS)
        self.assertEqual(PORTS, self.leftovers()['host_fc_ports'])
        self.detach(self.array.fc_hosts, PORTS)

    def test_known_host_gets_its_second_port(self):
        self.attach(self.array.fc_hosts, PORTS[:1])
        self.assertEqual(1, self.attach(self.array.fc_hosts, PORTS))
        self.assertEqual(1, len(self.leftovers()['hosts']))
        self.detach(self.array.fc_hosts, PORTS)

    def test_iqns_are_compared_without_case(self):
        """INI-5."""
        host = self.client.hosts.create(name='admins', type='Linux')
        self.client.host_iqns.create(iqn=IQN.lower(), host=host.ref)
        found = self.array.iscsi_hosts.locate(sought([IQN.upper()]))
        self.assertEqual(host.id, found.host)
        self.assertTrue(found.complete)

    def test_initiators_of_two_hosts_are_refused(self):
        for number, port in enumerate(PORTS):
            host = self.client.hosts.create(name=f'h{number}', type='Linux')
            self.client.host_fc_ports.create(pwwn=port, host=host.ref)
        error = self.assertRaises(exceptions.HostConflict,
                                  self.array.fc_hosts.locate, sought(PORTS))
        for text in (*PORTS, 'h0', 'h1'):
            self.assertIn(text, str(error))

    # Each write fails once, whether it was carried out or not.
    @ddt.data(*[(path, commit, status)
                for path in ('hosts', 'host_fc_ports', 'mappings')
                for commit, status in (('before', 403), ('after', 500))])
    @ddt.unpack
    def test_failures_leave_nothing(self, path, commit, status):
        self.sim.control.log_in('host_fc_ports', PORTS[0])
        loose = self.leftovers()
        fault = self.sim.control.add_fault(
            kind='status', status=status, commit=commit, method='write',
            path=f'{path}*', times=1)
        try:
            self.attach(self.array.fc_hosts, PORTS)
        except rest.RestError:
            self.assertEqual(1, fault.triggered)
            self.assertEqual(loose, self.leftovers())
        else:
            self.detach(self.array.fc_hosts, PORTS)

    def _array(self, bulk):
        """Let the array offer bulk calls or not."""
        if not bulk:
            self.sim.control.set_behaviors(bulk=[])

    @ddt.data((True, 1), (False, 2))
    @ddt.unpack
    def test_initiators_are_added_and_removed_together(self, bulk, calls):
        self._array(bulk)
        # A capability that worked is dropped after three refusals.
        for _ in range(3):
            self.attach(self.array.fc_hosts, PORTS)
            self.detach(self.array.fc_hosts, PORTS)
        self.sim.control.clear_journal()
        self.attach(self.array.fc_hosts, PORTS)
        self.assertEqual(3 + calls, len(self.calls()), self.calls())
        registry = self.array.fc_hosts
        (host, known), = registry.owners(sought(PORTS)).items()
        self.array.mappings.unmap(self.backing, host)
        self.sim.control.clear_journal()
        hosts.remove(self.array, registry, self.seen(host), known)
        self.assertEqual(calls + 1, len(self.calls()), self.calls())
        self.assertEqual(self.before, self.leftovers())

    def test_host_and_initiators_are_deleted_in_one_call(self):
        """HST-3."""
        self.sim.control.set_behaviors(delete_host_with_initiators=True)
        registry = self.array.fc_hosts
        self.attach(registry, PORTS)
        (host, known), = registry.owners(sought(PORTS)).items()
        self.array.mappings.unmap(self.backing, host)
        self.sim.control.clear_journal()
        hosts.remove(self.array, registry, self.seen(host), known)
        self.assertEqual(1, len(self.calls()), self.calls())
        self.assertEqual(self.before, self.leftovers())

    @ddt.data(*[(bulk, known, after, commit, status)
                for bulk in (True, False) for known in (True, False)
                for after in (0, 1, 2)
                for commit, status in (('before', 403), ('before', 400),
                                       ('after', 500))])
    @ddt.unpack
    def test_initiators_partly_added(self, bulk, known, after, commit,
                                     status):
        """BLK-4: those that were added are removed, and nothing else."""
        self._array(bulk)
        if known:
            self.client.host_fc_ports.create(
                pwwn='21:00:00:24:ff:00:00:09',
                host=self.client.hosts.create(name='admins',
                                              type='Linux').ref)
        initiators = [*PORTS, '21:00:00:24:ff:00:00:09'][:3 if known else 2]
        before = self.leftovers()
        self.sim.control.add_fault(
            kind='status', status=status, commit=commit, method='POST',
            path='host_fc_ports*', times=1, after=after)
        try:
            self.attach(self.array.fc_hosts, initiators)
        except rest.RestError:
            self.assertEqual(before, self.leftovers())
        else:
            self.assertEqual(sorted(initiators),
                             self.leftovers()['host_fc_ports'])

    @ddt.data(*[(bulk, path, after, commit, status)
                for bulk in (True, False)
                for path, after in (('host_fc_ports*', 0),
                                    ('host_fc_ports*', 1),
                                    ('host_fc_ports*', 2), ('hosts/*', 0))
                for commit, status in (('before', 403), ('after', 500))])
    @ddt.unpack
    def test_failed_removal_restores_initiators(
            self, bulk, path, after, commit, status):
        self._array(bulk)
        registry = self.array.fc_hosts
        self.attach(registry, PORTS)
        (host, known), = registry.owners(sought(PORTS)).items()
        self.array.mappings.unmap(self.backing, host)
        before = self.leftovers()
        self.sim.control.add_fault(
            kind='status', status=status, commit=commit, method='DELETE',
            path=path, times=1, after=after)
        try:
            hosts.remove(self.array, registry, self.seen(host), known)
        except rest.RestError:
            self.assertEqual(before, self.leftovers())
            hosts.remove(self.array, registry, self.seen(host))
        self.assertEqual(self.before, self.leftovers())

    def test_initiators_added_by_others_are_deleted_too(self):
        registry = self.array.fc_hosts
        self.attach(registry, PORTS[:1])
        (host, known), = registry.owners(sought(PORTS[:1])).items()
        self.client.host_fc_ports.create(
            pwwn=PORTS[1], host=self.client.hosts.ref(host))
        self.array.mappings.unmap(self.backing, host)
        hosts.remove(self.array, registry, self.seen(host), known)
        self.assertEqual(self.before, self.leftovers())

    def test_a_host_with_initiators_of_another_kind_stays(self):
        registry = self.array.fc_hosts
        self.attach(registry, PORTS)
        (host, known), = registry.owners(sought(PORTS)).items()
        self.client.host_iqns.create(iqn=IQN,
                                     host=self.client.hosts.ref(host))
        self.array.mappings.unmap(self.backing, host)
        before = self.leftovers()
        self.assertRaises(rest.Refused, hosts.remove, self.array, registry,
                          self.seen(host), known)
        self.assertEqual(before, self.leftovers())

    def test_host_that_stays_keeps_its_initiators(self):
        """HST-3: the array refuses to delete a host mapped meanwhile."""
        self.attach(self.array.iscsi_hosts, [IQN])
        host = self.array.iscsi_hosts.locate(sought([IQN])).host
        self.assertRaises(rest.Refused, hosts.remove, self.array,
                          self.array.iscsi_hosts, self.seen(host))
        self.assertEqual(
            host, self.array.iscsi_hosts.locate(sought([IQN])).host)
        self.detach(self.array.iscsi_hosts, [IQN])

    def test_members_of_a_host_group_are_mapped_through_it(self):
        """MAP-6."""
        group = self.client.host_groups.create(name='cluster')
        host = self.client.hosts.create(name='admins', type='Linux',
                                        host_group=group.ref)
        self.client.host_iqns.create(iqn=IQN, host=host.ref)
        lun = self.attach(self.array.iscsi_hosts, [IQN])
        self.assertEqual(lun, self.attach(self.array.iscsi_hosts, [IQN]))
        mapping = self.client.mappings.find(host=group.ref,
                                            volume=self.backing.mappable)
        self.assertEqual(lun, mapping.lun)
        self.assertFalse(
            self.array.mappings.unmap(self.backing, host.id).found)
        self.array.mappings.unmap_from_group(
            self.backing, self.array.mappings.group_of(host.id))
        self.assertEqual(0, self.client.mappings.count())


@ddt.ddt
class SharedRegistrationTest(HostsBase):
    """A new host is shared with the operations that wait for it."""

    def setUp(self):
        super().setUp()
        self.hold = mock.Mock(is_alone=True)
        self.hold.share.side_effect = self.share

    def share(self):
        if self.hold.is_alone:
            self.when_shared = self.leftovers()
        self.hold.is_alone = False

    def assert_registered(self, left):
        """The array has the host with its initiator, and no mapping."""
        self.assertEqual((1, [IQN]), (len(left['hosts']), left['host_iqns']))
        self.assertEqual(self.before.get('mappings'), left.get('mappings'))

    def test_before_the_volume_is_mapped(self):
        self.attach(self.array.iscsi_hosts, [IQN], hold=self.hold)
        self.assert_registered(self.when_shared)

    def test_host_stays_when_mapping_fails(self):
        """The mapping, which may have been created, is removed."""
        def fail(*args, **how):
            send(*args, **how)
            raise rest.Unreachable('no reply')

        send = self.array.mappings.map
        with mock.patch.object(self.array.mappings, 'map', fail):
            self.assertRaises(rest.Unreachable, self.attach,
                              self.array.iscsi_hosts, [IQN], hold=self.hold)
        self.hold.share.assert_called_once_with()
        self.assert_registered(self.leftovers())

    def test_refused_mapping_is_not_tried_again(self):
        fault = self.sim.control.add_fault(
            kind='status', status=400, method='POST', path='mappings*',
            times=9999)
        self.assertRaises(rest.Refused, self.attach,
                          self.array.iscsi_hosts, [IQN], hold=self.hold)
        self.assertEqual(1, fault.triggered)

    def test_host_that_others_cannot_find_is_shared_after_mapping(self):
        """By its name alone it counts as incomplete until it is mapped."""
        registry = self.array.iscsi_hosts
        with mock.patch.object(registry.records, 'search', autospec=True,
                               return_value=None):
            self.attach(registry, [IQN], hold=self.hold)
        self.hold.share.assert_called_once_with()
        self.assertEqual(1, len(self.when_shared['mappings']))

    def test_host_is_shared_after_mapping_if_told_so(self):
        hosts.attach(
            self.array, self.array.iscsi_hosts, self.backing,
            sought=sought([IQN]), look_first=False, hold=self.hold,
            verify_volume=mock.Mock(), share_early=False)
        self.hold.share.assert_called_once_with()
        self.assertEqual(1, len(self.when_shared['mappings']))

    def test_host_that_gets_a_port_is_shared_after_mapping(self):
        """A failed attach must not leave the port on a foreign host."""
        host = self.client.hosts.create(name='admins', type='Linux')
        self.client.host_fc_ports.create(pwwn=PORTS[0], host=host.ref)
        self.attach(self.array.fc_hosts, PORTS, hold=self.hold)
        self.hold.share.assert_called_once_with()
        self.assertEqual(1, len(self.when_shared['mappings']))

    def test_host_goes_when_it_cannot_be_completed(self):
        """It is not shared then."""
        self.sim.control.add_fault(
            kind='status', status=403, method='POST', path='host_iqns*',
            times=9999)
        self.assertRaises(rest.RestError, self.attach,
                          self.array.iscsi_hosts, [IQN], hold=self.hold)
        self.hold.share.assert_not_called()
        self.assertEqual(self.before, self.leftovers())


class InitiatorDeletionTest(HostsBase):
    """It is not known yet whether the array deletes initiators.

    It refuses the first deletion, as of an initiator that is logged in.
    """

    def setUp(self):
        super().setUp()
        self.known = self.client.capabilities
        # A new version clears the verdicts.
        self.known.note_version('before')
        self.known.note_version('now')
        self.attach(self.array.iscsi_hosts, [IQN])
        self.host = self.seen(self.array.iscsi_hosts.locate(
            sought([IQN])).host)
        self.array.mappings.unmap(self.backing, self.host.id)
        self.sim.control.add_fault(kind='status', status=400, times=1,
                                   method='DELETE', path='host_iqns/*')

    def remove(self):
        hosts.remove(self.array, self.array.iscsi_hosts, self.host)

    def state(self):
        return self.known.verdict('deletions:host_iqns').state

    def test_host_is_deleted_with_them(self):
        self.sim.control.set_behaviors(delete_host_with_initiators=True)
        self.known.refuse(rest.capability_names.WHOLE_HOSTS,
                          rest.Refused('no'))
        self.remove()
        self.assertEqual(self.before, self.leftovers())
        self.assertEqual('refused', self.state())

    def test_another_host_is_deleted(self):
        """That proves nothing about the host that stays."""
        self.assertRaises(rest.Refused, self.remove)
        registry = self.array.iscsi_hosts
        registry.delete(self.seen(registry.create(
            naming.host('node2', ['iqn.1994-05.com.example:node2']))))
        self.assertEqual('unknown', self.state())
        self.remove()
        self.assertEqual(self.before, self.leftovers())
        self.assertEqual('works', self.state())

    def test_host_is_gone(self):
        """Someone else has deleted it."""
        self.known.refuse(rest.capability_names.WHOLE_HOSTS,
                          rest.Refused('no'))
        with lost.on_request('DELETE', '/hosts', act=lambda: None,
                             error=rest.NotFound):
            self.remove()
        self.assertEqual('unknown', self.state())


class Hold:
    """The lock of a host; records calls to the array before each use.

    :param calls: returns the calls so far
    """

    is_alone = True

    def __init__(self, calls):
        self._calls = calls
        self.uses = []

    def share(self):
        self.uses.append(('share', self._calls()))

    def claim(self):
        self.uses.append(('claim', self._calls()))


@ddt.ddt
class HoldTest(HostsBase):
    """When a host is locked, and what a failed attachment leaves of it."""

    def setUp(self):
        super().setUp()
        self.other = volumes.create(self.array, name='w', group_name='h',
                                    size=simulated.GIB, dedup=True)
        self.before = self.leftovers()
        self.sim.control.clear_journal()
        self.hold = Hold(self.calls)
        self.registry = self.array.fc_hosts

    def map(self, initiators=PORTS, **more):
        return hosts.attach(
            self.array, self.registry, self.backing,
            sought=sought(initiators), hold=self.hold,
            verify_volume=lambda: None, **{'look_first': False, **more})

    def test_new_host(self):
        """It is claimed before any write, and shared when it is complete."""
        self.map()
        (claim, reads), (share, before), _ = self.hold.uses
        self.assertEqual(('claim', 'share'), (claim, share))
        self.assertFalse([call for call in reads if call[:3] != 'GET'])
        self.assertEqual([*before, 'POST mappings'], self.calls())

    def test_known_host(self):
        """It is shared before the volume is mapped, and never claimed."""
        self.attach(self.registry, PORTS, self.other)
        self.sim.control.clear_journal()
        self.map()
        (use, seen), = self.hold.uses
        self.assertEqual('share', use)
        self.assertEqual([*seen, 'POST mappings'], self.calls())

    def test_known_host_that_lacks_a_port(self):
        self.attach(self.registry, PORTS[:1], self.other)
        self.map()
        self.assertEqual(['claim', 'share'],
                         [use for use, _ in self.hold.uses])

    def test_repeated_attachment(self):
        """MAP-8: the mapping is looked for first, and found."""
        lun = self.map().lun
        self.sim.control.clear_journal()
        self.assertEqual(lun, self.map(look_first=True).lun)
        self.assertNotIn('POST mappings', self.calls())

    def lose_mapping(self):
        """Carry out a request for a mapping, and do not show it once."""
        self.sim.control.add_fault(kind='status', status=500, method='POST',
                                   path='mappings', commit='after', times=1)
        self.sim.control.add_fault(kind='status', status=403, method='GET',
                                   path='mappings', times=1)

    def test_no_reply_to_the_mapping_to_a_new_host(self):
        """HST-2: the host could not be deleted with it."""
        self.lose_mapping()
        self.assertRaises(rest.Forbidden, self.map)
        self.assertEqual(self.before, self.leftovers())

    def test_no_reply_to_the_mapping_to_a_known_host(self):
        """The mapping stays: it may be that of another attachment."""
        self.attach(self.registry, PORTS[:1], self.other)
        self.lose_mapping()
        self.assertRaises(rest.Forbidden, self.map)
        self.assertEqual(2, len(self.sim.control.leftovers()['mappings']))
        self.assertEqual(PORTS[:1], self.leftovers()['host_fc_ports'])

    def test_no_reply_when_a_new_host_is_deleted_again(self):
        """The deletion is repeated by its name."""
        self.sim.control.add_fault(kind='status', status=403, method='POST',
                                   path='mappings')
        self.sim.control.add_fault(kind='status', status=500, times=1,
                                   method='DELETE', path='hosts/*')
        self.assertRaises(rest.Forbidden, self.map)
        self.assertEqual(self.before, self.leftovers())

    @ddt.data('admins', naming.host('node1', [IQN]))
    def test_known_host_in_another_spelling(self, name):
        """QRY-5: it is found when the array refuses its initiator."""
        self.registry = self.array.iscsi_hosts
        host = self.client.hosts.create(name=name, type='Linux')
        self.client.host_iqns.create(iqn=IQN[:-5] + 'NODE1', host=host.ref)
        self.map([IQN])
        self.assertEqual([host.id], [mapping.host.id for mapping
                                     in self.client.mappings.search()])
        self.assertEqual([name], self.leftovers()['hosts'])
        self.assertEqual([IQN[:-5] + 'NODE1'], self.leftovers()['host_iqns'])
        self.assertEqual(['claim', 'share'],
                         [use for use, _ in self.hold.uses])
