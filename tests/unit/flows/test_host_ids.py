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

"""Lost replies while ids of hosts and initiators are reused (OBJ-7)."""

import contextlib
import itertools
from unittest import mock

import ddt

from cinder_k2.array import chap as array_chap
from cinder_k2.array import host_identity
from cinder_k2.array import initiators
from cinder_k2 import exceptions
from cinder_k2.flows import chap
from cinder_k2.flows import hosts
from cinder_k2.flows import volumes
from cinder_k2 import naming
from cinder_k2 import rest
from cinder_k2.rest import transport
from tests.unit.flows import test_chap
from tests.unit import lost
from tests.unit import simulated

# By resource of the initiators: the registry, the field, the initiators of
# the host, and the foreign one, to which an id is added.
KINDS = {
    'host_iqns': (
        'iscsi_hosts', 'iqn', ['iqn.1994-05.com.example:node1'],
        'iqn.1994-05.com.example:mainframe'),
    'host_fc_ports': (
        'fc_hosts', 'pwwn',
        ['21:00:00:24:ff:00:00:01', '21:00:00:24:ff:00:00:02'],
        '50:00:00:00:00:00:00:')}
# The resource, whether the array carries out the request, whether the foreign
# host has no initiators (so it is easily deleted), and the error.
CASES = [(*case, error) for case, error in zip(itertools.product(
    KINDS, (True, False), (True, False)), itertools.cycle(lost.KINDS))]


class HostIdsTest(simulated.SimulatedTest):

    def setUp(self):
        super().setUp()
        self.sim.control.set_behaviors(reuse_ids=True)
        self.backing = volumes.create(self.array, name='v', group_name='g',
                                      size=simulated.GIB, dedup=True)
        self.theirs = {}

    def verify_volume(self):
        """Look the volume up by its name, as the driver does."""
        if self.array.identity.volume(self.backing, ['v']) is None:
            raise exceptions.ObjectMissing('v')

    def take_volume_id(self):
        """Reuse the id of the volume for a foreign one."""
        for mapping in self.client.mappings.search():
            self.client.mappings.delete(mapping.id)
        number, group = self.backing.volume, self.backing.group
        self.client.volumes.delete(number)
        made = self.client.volumes.create(
            name='payroll', size=simulated.GIB,
            volume_group=self.client.volume_groups.ref(group))
        self.assertEqual(number, made.id)

    def use(self, resource):
        """Select the kind of initiators."""
        self.resource = resource
        registry, self.field, self.initiators, self.other = KINDS[resource]
        self.registry = getattr(self.array, registry)
        self.sought = host_identity.Sought(
            tuple(self.initiators), (naming.host('node1', self.initiators),))
        self.records = getattr(self.client, resource)

    def attach(self, guard=None):
        return hosts.attach(
            self.array, self.registry, self.backing, sought=self.sought,
            look_first=False, hold=mock.Mock(),
            verify_volume=self.verify_volume, guard=guard)

    def attached(self):
        """Attach the volume to a host, and unmap it.

        :returns: the host, and its initiators
        """
        self.attach()
        (number, known), = self.registry.owners(self.sought).items()
        self.array.mappings.unmap(self.backing, number)
        return self.registry.ours(number), known

    def take_ids(self, bare):
        """Reuse the ids of all hosts and initiators for foreign ones."""
        mine = self.client.hosts.search()
        records = self.records.search()
        for mapping in self.client.mappings.search():
            self.client.mappings.delete(mapping.id)
        for record in records:
            self.records.delete(record.id)
        for host in mine:
            self.client.hosts.delete(host.id)
        for host in mine:
            made = self.client.hosts.create(
                name=f'mainframe-{host.id}', type='Linux')
            self.assertEqual(host.id, made.id)
        for number in [] if bare else [each.id for each in records] or [1]:
            made = self.records.create(**{
                self.field: f'{self.other}{number:02x}',
                'host': mine[0].ref if mine else None})
            self.assertEqual(number, made.id)
        self.theirs = self.foreign_objects()

    def take_record(self):
        """Reuse the id of the first initiator for a foreign one."""
        record = self.records.search()[0]
        self.records.delete(record.id)
        mainframe = self.client.hosts.create(name='mainframe', type='Linux')
        made = self.records.create(**{
            self.field: f'{self.other}01', 'host': mainframe.ref})
        self.assertEqual(record.id, made.id)
        self.note_theirs(mainframe)

    def move_record(self):
        """Move the first initiator to a foreign host."""
        record = self.records.search()[0]
        mainframe = self.client.hosts.create(name='mainframe', type='Linux')
        # INI-3: not in one step.
        self.records.update(record.id, host=None)
        self.records.update(record.id, host=mainframe.ref)
        self.note_theirs(mainframe)

    def note_theirs(self, mainframe):
        """Count the initiators of this host, and no others, as foreign."""
        self.mainframe = mainframe
        self.theirs = self.of_mainframe()

    def of_mainframe(self):
        return [record for record in self.records.search()
                if record.host == self.mainframe.ref]

    def assert_mainframe_stays(self):
        self.assertTrue(self.theirs)
        self.assertEqual(self.theirs, self.of_mainframe())

    def hide_initiators(self, hidden):
        """Have the array refuse every search of initiators.

        :param hidden: the exit stack that ends it
        """
        hidden.enter_context(mock.patch.multiple(
            self.registry.records, search=lambda names: None,
            listed=lambda: None))

    def foreign_objects(self):
        return {'hosts': self.client.hosts.search(),
                'records': self.records.search()}

    def assert_theirs_stay(self):
        self.assertTrue(self.theirs)
        self.assertEqual(self.theirs, self.foreign_objects())
        self.assertEqual([], self.client.mappings.search())

    def clear(self):
        """Remove all hosts and initiators."""
        for mapping in self.client.mappings.search():
            self.client.mappings.delete(mapping.id)
        for record in self.records.search():
            self.records.delete(record.id)
        for host in self.client.hosts.search():
            self.client.hosts.delete(host.id)


@ddt.ddt
class AttachTest(HostIdsTest):
    """A host is registered and mapped."""

    def fails(self, method, path, **more):
        with lost.on_request(method, path, **more):
            self.assertRaises(rest.RestError, self.attach)
        self.assert_theirs_stay()

    @ddt.data(*CASES)
    @ddt.unpack
    def test_no_reply_to_initiators(self, resource, sent, bare, error):
        """A repeat would add them to the foreign host."""
        self.use(resource)
        self.fails('POST', f'/{resource}', sent=sent, error=error,
                   act=lambda: self.take_ids(bare))

    @ddt.data(*CASES)
    @ddt.unpack
    def test_no_reply_to_initiators_without_bulk_calls(self, resource, sent,
                                                       bare, error):
        self.sim.control.set_behaviors(bulk=[])
        self.use(resource)
        self.fails('POST', f'/{resource}', sent=sent, error=error,
                   act=lambda: self.take_ids(bare))

    @ddt.data(*CASES)
    @ddt.unpack
    def test_no_reply_to_the_mapping(self, resource, sent, bare, error):
        """A repeat would map the volume to the foreign host."""
        self.use(resource)
        self.fails('POST', '/mappings', sent=sent, error=error,
                   act=lambda: self.take_ids(bare))

    @ddt.data(*[(resource, known, error) for resource in KINDS
                for known in (True, False) for error in lost.KINDS])
    @ddt.unpack
    def test_no_reply_to_the_mapping_and_reused_volume(self, resource, known,
                                                       error):
        """A repeat would map the foreign volume to the host."""
        self.use(resource)
        if known:
            self.attached()
        with lost.on_request('POST', '/mappings', sent=False, error=error,
                             act=self.take_volume_id):
            self.assertRaises(exceptions.ObjectMissing, self.attach)
        self.assertEqual([], self.client.mappings.search())

    @ddt.data(*CASES)
    @ddt.unpack
    def test_no_reply_to_the_mapping_to_a_known_host(
            self, resource, sent, bare, error):
        self.use(resource)
        self.attached()
        self.fails('POST', '/mappings', sent=sent, error=error,
                   act=lambda: self.take_ids(bare))

    @ddt.data(*[(resource, bare) for resource in KINDS
                for bare in (True, False)])
    @ddt.unpack
    def test_a_refused_mapping(self, resource, bare):
        """Objects are looked up before they are deleted."""
        self.use(resource)
        self.fails('POST', '/mappings', sent=False,
                   act=lambda: self.take_ids(bare),
                   error=rest.Forbidden)

    @ddt.data(*CASES)
    @ddt.unpack
    def test_no_reply_to_an_adoption(self, resource, sent, bare, error):
        """INI-2: a repeat would move the foreign initiator."""
        self.use(resource)
        self.records.create(**{self.field: self.initiators[0]})
        self.fails('PATCH', f'/{resource}', sent=sent, error=error,
                   act=lambda: self.take_ids(bare))

    @ddt.data(*KINDS)
    def test_an_adoption_is_undone(self, resource):
        """The id of the record has been reused, so it is not changed."""
        self.use(resource)
        self.records.create(**{self.field: self.initiators[0]})
        self.fails('POST', '/mappings', sent=False,
                   act=lambda: self.take_ids(False),
                   error=rest.Forbidden)

    @ddt.data(*KINDS)
    def test_adopted_initiator_is_replaced_or_moved(self, resource):
        """The id of the host has not been reused.

        The foreign host gets the volume only if it now has the initiator.
        """
        for sent, act in itertools.product(
                (True, False), (self.take_record, self.move_record)):
            self.use(resource)
            self.records.create(**{self.field: self.initiators[0]})
            with self.subTest(sent=sent, act=act.__name__), lost.on_request(
                    'PATCH', f'/{resource}', sent=sent, act=act,
                    error=rest.Unreachable):
                with contextlib.suppress(rest.RestError):
                    self.attach()
                self.assert_mainframe_stays()
                self.assertEqual(
                    [self.mainframe.ref] * (act == self.move_record),
                    [each.host for each in self.client.mappings.search()])
            self.clear()

    @ddt.data(*KINDS)
    def test_adopted_initiator_is_not_shown(self, resource):
        """It is not adopted again; nor is it reported as another."""
        for sent in (True, False):
            self.use(resource)
            self.records.create(**{self.field: self.initiators[0]})
            with self.subTest(sent=sent), contextlib.ExitStack() as shown:
                with lost.on_request(
                        'PATCH', f'/{resource}', sent=sent,
                        act=lambda: self.hide_initiators(shown),
                        error=rest.Unreachable):
                    error = self.assertRaises(rest.OtherObject, self.attach)
            self.assertIn(self.initiators[0], str(error))
            self.assertIn('cannot be looked up', str(error))
            self.assertEqual(self.client.address, error.address)
            self.assertNotIn('any more', str(error))
            self.assertEqual([self.initiators[0]], [
                getattr(record, self.field)
                for record in self.records.search()])
            self.clear()

    @ddt.data(*KINDS)
    def test_adoption_is_undone_after_the_initiator_moved(self, resource):
        for act in (self.take_record, self.move_record):
            self.use(resource)
            self.records.create(**{self.field: self.initiators[0]})
            with self.subTest(act=act.__name__), lost.on_request(
                    'POST', '/mappings', sent=False, act=act,
                    error=rest.Forbidden):
                self.assertRaises(rest.Forbidden, self.attach)
                self.assert_mainframe_stays()
            self.clear()

    @ddt.data(*KINDS)
    def test_no_reply_when_an_adoption_is_undone(self, resource):
        for sent, act in itertools.product(
                (True, False), (self.take_record, self.move_record)):
            self.use(resource)
            self.records.create(**{self.field: self.initiators[0]})
            with self.subTest(sent=sent, act=act.__name__), lost.on_request(
                    'POST', '/mappings', sent=False, act=lambda: None,
                    error=rest.Forbidden), lost.on_request(
                        'PATCH', f'/{resource}', sent=sent, act=act,
                        error=rest.Unreachable, after=1):
                self.assertRaises(rest.Forbidden, self.attach)
                self.assert_mainframe_stays()
            self.clear()

    @ddt.data(*KINDS)
    def test_no_reply_and_the_id_is_in_a_host_group(self, resource):
        """MAP-6: the group of the foreign host would get the volume."""
        def act():
            self.take_ids(True)
            group = self.client.host_groups.create(name='cluster')
            for host in self.client.hosts.search():
                self.client.hosts.update(host.id, host_group=group.ref)
            self.theirs = self.foreign_objects()
        self.use(resource)
        self.fails('POST', '/mappings', sent=False, act=act,
                   error=rest.Unreachable)

    @ddt.data(*[(resource, sent) for resource in KINDS
                for sent in (True, False)])
    @ddt.unpack
    def test_no_reply_and_nothing_has_changed(self, resource, sent):
        """The look-up does not prevent the repeat."""
        for method, path in (('POST', f'/{resource}'), ('POST', '/mappings'),
                             ('POST', '/hosts')):
            self.use(resource)
            with self.subTest(path=path), lost.on_request(
                    method, path, sent=sent, act=lambda: None,
                    error=rest.ServerError):
                self.assertEqual(1, self.attach().lun)
            (host, known), = self.registry.owners(self.sought).items()
            self.assertEqual(sorted(self.initiators), sorted(known))
            self.array.mappings.unmap(self.backing, host)
            hosts.remove(self.array, self.registry, self.registry.ours(host))
            self.assertEqual([], self.client.hosts.search())

    @ddt.data(*KINDS)
    def test_a_reply_about_another_host(self, resource):
        """The id in it is not used."""
        self.use(resource)
        other = self.client.hosts.create(name='mainframe', type='Linux')
        decode = transport.Transport.decode

        def odd(connection, request, body):
            data = decode(connection, request, body)
            if (request.method, request.path) == ('POST', '/hosts'):
                return {**data, 'id': other.id, 'name': other.name}
            return data
        with mock.patch.object(transport.Transport, 'decode', odd):
            self.attach()
        mapping, = self.client.mappings.search()
        self.assertNotEqual(other.ref, mapping.host)
        self.assertEqual({mapping.host}, {
            record.host for record in self.records.search()})

    @ddt.data(*KINDS)
    def test_a_reply_about_another_host_where_none_was_made(self, resource):
        self.use(resource)
        other = self.client.hosts.create(name='mainframe', type='Linux')
        with mock.patch.object(self.client.hosts, 'create',
                               lambda **fields: other):
            error = self.assertRaises(rest.BadReply, self.attach)
        self.assertIn(self.sought.name, str(error))
        self.assertEqual([other], self.client.hosts.search())


@ddt.ddt
class ChapTest(HostIdsTest):
    """A host gets a CHAP profile."""

    def setUp(self):
        super().setUp()
        self.use('host_iqns')
        self.protection = chap.Chap(self.array, self.registry,
                                    test_chap.Secrets(), True)
        self.guard = self.protection.guard(self.initiators)
        self.profile = naming.chap_profile(self.initiators[0])

    def take_ids(self, bare):
        """The foreign host has a profile of its own."""
        for host in self.client.hosts.search():
            self.client.hosts.update(host.id, map_auth_profiles_names=None)
        super().take_ids(bare)
        self.client.host_auth_profiles.create(
            name='payroll', type='CHAP', username='payroll',
            password='0' * 12)
        for host in self.client.hosts.search():
            self.client.hosts.update(host.id,
                                     map_auth_profiles_names='payroll')

    def assert_theirs_stay(self):
        super().assert_theirs_stay()
        self.assertEqual(1, self.client.host_auth_profiles.find(
            name='payroll').hosts_count)
        self.assertIsNone(self.client.host_auth_profiles.find(
            name=self.profile))

    @ddt.data(*itertools.product((True, False), (True, False), lost.KINDS))
    @ddt.unpack
    def test_no_reply_to_a_profile(self, sent, known, error):
        """A repeat would give it to the foreign host."""
        if known:
            self.attached()
        with lost.on_request('PATCH', '/hosts', sent=sent, error=error,
                             act=lambda: self.take_ids(False)):
            self.assertRaises(rest.RestError, self.attach, self.guard)
        self.assert_theirs_stay()

    @ddt.data(*itertools.product((True, False), lost.KINDS))
    @ddt.unpack
    def test_no_reply_when_a_profile_is_taken_back(self, sent, error):
        """From a host that existed before, since the mapping failed."""
        self.attached()
        with lost.on_request(
                'POST', '/mappings', sent=False, act=lambda: None,
                error=rest.Forbidden), lost.on_request(
                    'PATCH', '/hosts', sent=sent, error=error, after=1,
                    act=lambda: self.take_ids(False)):
            self.assertRaises(rest.Forbidden, self.attach, self.guard)
        self.assert_theirs_stay()

    @ddt.data(*lost.KINDS)
    def test_no_reply_and_profiles_are_not_shown(self, error):
        """A repeated delete by id could hit the foreign profile."""
        self.sim.control.set_behaviors(sequences=False)
        made, _ = self.array.chap.ensure(
            array_chap.Login(self.profile, 'x' * 12))

        def act():
            other = self.client.host_auth_profiles.create(
                name='payroll', type='CHAP', username='payroll',
                password='0' * 12)
            self.assertEqual(made.id, other.id)
            known = self.client.capabilities
            for name in ('searches:host_auth_profiles:name',
                         'lists:host_auth_profiles'):
                known._verdicts.pop(name, None)
                known.refuse(name, rest.Refused('no'))
        with lost.on_request(
                'DELETE', '/host_auth_profiles', act=act, error=error), \
                self.assertLogs(chap.LOG.logger, 'WARNING') as logs:
            self.protection.forget(self.initiators)
        warning, = logs.output
        self.assertIn(self.profile, warning)
        self.assertIn('cannot be looked up', warning)
        self.assertIn(f'K2 array {self.client.address}: DELETE', warning)
        self.assertEqual(['payroll'], [
            row['name'] for row in self.sim.store.rows('host_auth_profiles')])

    def test_a_profile_of_another_host_is_not_taken(self):
        self.attached()
        with lost.on_request('POST', '/mappings', sent=False,
                             act=lambda: self.take_ids(False),
                             error=rest.Forbidden):
            self.assertRaises(rest.Forbidden, self.attach, self.guard)
        self.assert_theirs_stay()


@ddt.ddt
class RemoveTest(HostIdsTest):
    """A host is removed."""

    def remove(self, host, known):
        with contextlib.suppress(rest.RestError):
            hosts.remove(self.array, self.registry, host, known)
        self.assert_theirs_stay()

    @ddt.data(*CASES)
    @ddt.unpack
    def test_no_reply_about_the_host(self, resource, sent, bare, error):
        self.use(resource)
        host, known = self.attached()
        with lost.on_request('DELETE', '/hosts', sent=sent, error=error,
                             act=lambda: self.take_ids(bare)):
            self.remove(host, known)

    @ddt.data(*CASES)
    @ddt.unpack
    def test_no_reply_about_the_host_and_its_initiators(self, resource, sent,
                                                        bare, error):
        """HST-3: the driver tries to delete both at once."""
        self.sim.control.set_behaviors(delete_host_with_initiators=True)
        self.use(resource)
        host, known = self.attached()
        with lost.on_request('DELETE', '/hosts', sent=sent, error=error,
                             act=lambda: self.take_ids(bare)):
            self.remove(host, known)

    @ddt.data(*CASES)
    @ddt.unpack
    def test_no_reply_about_the_host_nor_to_the_look_up(self, resource, sent,
                                                        bare, error):
        """The second try and the fallback look the host up as well."""
        self.sim.control.set_behaviors(delete_host_with_initiators=True)
        self.use(resource)
        host, known = self.attached()

        def act():
            self.take_ids(bare)
            self.sim.control.add_fault(
                kind='status', status=500, commit='before', method='GET',
                path='hosts', times=2)
        with lost.on_request('DELETE', '/hosts', sent=sent, act=act,
                             error=error):
            self.remove(host, known)

    @ddt.data(*[(*case, bulk) for case in CASES for bulk in (True, False)])
    @ddt.unpack
    def test_no_reply_about_initiators(self, resource, sent, bare, error,
                                       bulk):
        """Then the host is looked up before it is deleted."""
        if not bulk:
            self.sim.control.set_behaviors(bulk=[])
        self.use(resource)
        host, known = self.attached()
        with lost.on_request('DELETE', f'/{resource}', sent=sent, error=error,
                             act=lambda: self.take_ids(bare)):
            self.remove(host, known)

    @ddt.data(*[(*case, bulk) for case in CASES for bulk in (True, False)])
    @ddt.unpack
    def test_no_reply_about_initiators_nor_to_the_look_up(
            self, resource, sent, bare, error, bulk):
        if not bulk:
            self.sim.control.set_behaviors(bulk=[])
        self.use(resource)
        host, known = self.attached()

        def act():
            self.take_ids(bare)
            self.sim.control.add_fault(
                kind='status', status=500, commit='before', method='GET',
                path=resource, times=2)
        with lost.on_request('DELETE', f'/{resource}', sent=sent, act=act,
                             error=error):
            self.remove(host, known)

    @ddt.data(*[(resource, bare) for resource in KINDS
                for bare in (True, False)])
    @ddt.unpack
    def test_initiators_are_not_restored_to_a_reused_id(self, resource, bare):
        """The id of their host has been reused by then."""
        self.use(resource)
        host, known = self.attached()
        with lost.on_request('DELETE', f'/{resource}', sent=True,
                             act=lambda: self.take_ids(bare),
                             error=rest.Forbidden):
            self.remove(host, known)

    @ddt.data(*KINDS)
    def test_initiators_of_another_host(self, resource):
        """The array refuses, since the foreign host has initiators."""
        self.use(resource)
        host, known = self.attached()
        with lost.on_request('DELETE', f'/{resource}',
                             act=lambda: self.take_ids(False)):
            self.remove(host, known)

    @ddt.data(*KINDS)
    def test_initiator_was_moved_to_another_host(self, resource):
        """Its record still has the same id."""
        self.use(resource)
        host, known = self.attached()
        with lost.on_request('DELETE', f'/{resource}', sent=False,
                             act=self.move_record, error=rest.Unreachable):
            hosts.remove(self.array, self.registry, host, known)
        self.assert_mainframe_stays()
        self.assertEqual([self.mainframe], self.client.hosts.search())

    @ddt.data(*KINDS)
    def test_initiators_are_not_shown(self, resource):
        """No deletion is repeated; the host is deleted with its initiators."""
        self.sim.control.set_behaviors(delete_host_with_initiators=True)
        self.use(resource)
        host, known = self.attached()
        self.client.capabilities.refuse(
            rest.capability_names.WHOLE_HOSTS, rest.Refused('no'))

        def act():
            self.theirs = self.foreign_objects()
            self.hide_initiators(shown)
        with contextlib.ExitStack() as shown, lost.on_request(
                'DELETE', f'/{resource}', sent=False, act=act,
                error=rest.Unreachable), self.assertLogs(
                    initiators.LOG.logger, 'WARNING') as logs:
            hosts.remove(self.array, self.registry, host, known)
        self.assertIn(', '.join(self.initiators), logs.output[0])
        self.assertEqual([], self.client.hosts.search())

    @ddt.data(*[(resource, sent) for resource in KINDS
                for sent in (True, False)])
    @ddt.unpack
    def test_no_reply_when_initiators_are_restored(self, resource, sent):
        self.use(resource)
        host, known = self.attached()
        self.client.capabilities.refuse(
            rest.capability_names.WHOLE_HOSTS, rest.Refused('no'))
        with lost.on_request('DELETE', '/hosts', sent=False,
                             act=lambda: None, error=rest.Forbidden), \
                lost.on_request('POST', f'/{resource}', sent=sent,
                                act=lambda: self.take_ids(True),
                                error=rest.Unreachable):
            self.remove(host, known)


@ddt.ddt
class UndoTest(HostIdsTest):
    """A new host is removed, since its volume cannot be mapped."""

    def undo(self, act=lambda: None, error=rest.Forbidden):
        with lost.on_request('POST', '/mappings', act=act, sent=False,
                             error=error):
            self.assertRaises(rest.RestError, self.attach)

    def left(self):
        return {name: objects for name, objects in self.leftovers().items()
                if name in ('hosts', 'mappings', self.resource) and objects}

    @ddt.data(*itertools.product(KINDS, (rest.Forbidden, *lost.KINDS)))
    @ddt.unpack
    def test_a_mapping_of_another_host(self, resource, error):
        """Another host has reused the id, and has the same volume."""
        def act():
            self.take_ids(bare=True)
            self.client.mappings.create(
                host=self.theirs['hosts'][0].ref,
                volume=self.backing.mappable)
        self.use(resource)
        self.undo(act, error)
        self.assertEqual(self.theirs, self.foreign_objects())
        self.assertEqual(1, len(self.client.mappings.search()))

    @ddt.data(*KINDS)
    def test_initiators_of_another_host(self, resource):
        """An administrator has created another host with them."""
        def act():
            self.take_ids(bare=True)
            for name in self.initiators:
                self.records.create(**{
                    self.field: name, 'host': self.theirs['hosts'][0].ref})
            self.theirs = self.foreign_objects()
        self.use(resource)
        self.undo(act)
        self.assert_theirs_stay()

    @ddt.data(*itertools.product(KINDS, ('hosts', '')))
    @ddt.unpack
    def test_new_objects_show_late(self, resource, path):
        """OBJ-6: not shown does not mean gone."""
        self.use(resource)
        self.sim.control.add_fault(
            kind='late', method='POST', seconds=5, times=9,
            path=path or f'{resource}*')
        self.undo()
        self.sim.control.clear_faults()
        self.clock.sleep(60)
        self.assertEqual({}, self.left())

    @ddt.data(*itertools.product(KINDS, lost.KINDS))
    @ddt.unpack
    def test_host_shows_late_after_a_lost_reply(self, resource,
                                                error):
        """OBJ-6: not shown does not mean that its id was reused."""
        self.use(resource)
        self.sim.control.add_fault(kind='late', method='POST', seconds=1,
                                   times=1, path='hosts')
        with lost.on_request('POST', f'/{resource}', act=lambda: None,
                             sent=False, error=error):
            self.assertEqual(1, self.attach().lun)

    @ddt.data(*KINDS)
    def test_initiators_never_show(self, resource):
        """The array does not show initiators, but deletes them."""
        self.use(resource)
        self.sim.control.set_behaviors(refuse_unlisted='400', refuse_only=[
            f'GET {resource}', *(f'GET {resource} {condition}' for condition
                                 in ('iqn', 'iqn__in', 'host.ref',
                                     'host.ref__m_eq'))])
        for name in self.client.capabilities.all():
            if resource in name and name.startswith((
                    'searches:', 'lists:', 'value-lists:')):
                self.client.capabilities._verdicts.pop(name)
        self.undo()
        self.assertEqual({}, self.left())
