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

import dataclasses
from unittest import mock
from unittest.mock import call

import ddt

from cinder_k2.array import ArrayVolume
from cinder_k2.array import replication as array_replication
from cinder_k2.driver.operations import flatten
from cinder_k2.driver.operations import migration
from cinder_k2.driver.operations import replication
from cinder_k2.driver.operations import resolver
from cinder_k2 import exceptions
from cinder_k2.flows import renames
from cinder_k2.flows import replication as flows
from cinder_k2 import rest
from cinder_k2 import volume_types
from tests.unit.driver import doubles

SYSTEM = doubles.SYSTEM
FOUND = ArrayVolume(group=5, volume=31)
SESSION = array_replication.Session(
    id=3, name='ssn-v1', group=5, role=array_replication.SOURCE,
    state=array_replication.IN_SYNC, peer=1, rpo=300)

ENABLED = {'replication_status': 'enabled',
           'replication_extended_status': None}
DISABLED = {'replication_status': 'disabled',
            'replication_extended_status': None}


def a_type(**specs):
    return mock.Mock(extra_specs={
        f'kaminario:{key}': value for key, value in specs.items()})


class MigrationTestCase(doubles.TestCase):

    def setUp(self):
        super().setUp()
        self.known = self.double('resolver', resolver.Resolver)
        self.known.held.side_effect = self.held
        self.known.find.return_value = FOUND
        self.known.confirm.return_value = FOUND
        self.known.resolve.return_value = FOUND
        self.known.ids.side_effect = (
            lambda backing, name_id: {'provider_id': (backing, name_id)})
        self.sessions = self.double('replication', replication.Replication)
        self.sessions.is_replicated.return_value = False
        self.flattening = self.double('flattening', flatten.Flattening)
        self.flattening.full.return_value = FOUND
        self.volume = doubles.a_volume()
        self.migration = migration.Migration(
            self.array, self.known, self.sessions, self.flattening)

    def done(self):
        return self.calls('deadline', 'replication.protect', 'array.volumes',
                          'replication.unprotect_for_good', 'rename',
                          'replication.tell_unprotected',
                          'array.replication.set_rpo')


@ddt.ddt
class RetypeTest(MigrationTestCase):

    def retype(self, diff=None, **specs):
        return self.migration.retype(None, self.volume, a_type(**specs),
                                     diff or {}, {})

    def test_unchanged_type(self):
        self.assertEqual((True, DISABLED), self.retype())
        self.assertEqual([], self.done())

    def test_types_without_extra_specs(self):
        self.volume.volume_type = mock.Mock(extra_specs=None)
        self.assertEqual((True, DISABLED), self.migration.retype(
            None, self.volume, mock.Mock(extra_specs=None), {}, {}))

    @ddt.data((None, 'nodedup', False), ('nodedup', 'nodedup', True),
              ('nodedup', 'dedup', False), ('dedup', 'dedup', True),
              ('nonsense', 'dedup', False))
    @ddt.unpack
    def test_dedup_cannot_be_changed(self, old, new, done):
        self.volume.volume_type = old and a_type(thin_prov_type=old)
        found = self.retype(thin_prov_type=new)
        self.assertEqual((True, DISABLED) if done else False, found)

    def test_invalid_extra_spec(self):
        self.assertRaises(volume_types.InvalidExtraSpec, self.retype,
                          thin_prov_type='nonsense')

    @ddt.data((('back-end', 'back-end'), False), (('both', None), False),
              ((None, 'both'), False), (('front-end', 'front-end'), True))
    @ddt.unpack
    def test_changed_qos_of_the_back_end_is_refused(self, consumer, done):
        found = self.retype({'qos_specs': {
            'consumer': consumer, 'maxIOPS': ('1', '2')}})
        self.assertEqual((True, DISABLED) if done else False, found)

    def test_unchanged_qos_is_accepted(self):
        self.assertEqual((True, DISABLED), self.retype({'qos_specs': {
            'consumer': ('both', 'both'), 'maxIOPS': ('1', '1')}}))

    # Replication

    FORMER = mock.sentinel.former

    def replicate(self, session=SESSION, *, same=True, former=FORMER,
                  **specs):
        """Retype a replicated volume that has this session."""
        self.volume.replication_status = 'error'
        self.sessions.is_replicated.return_value = True
        self.known.asks_for_replication.return_value = True
        self.array.replication.find.return_value = session
        self.link = mock.create_autospec(flows.Link, instance=True, rpo=300)
        self.link.is_number.return_value = same
        self.sessions.link.return_value = self.link
        self.sessions.link_with.return_value = former
        return self.retype(replication='enabled', **specs)

    def test_disable_replication(self):
        self.sessions.is_replicated.return_value = True
        self.assertEqual((True, DISABLED), self.retype())
        self.assertEqual([call.replication.unprotect_for_good(
            self.volume, FOUND)], self.done())
        self.known.find.assert_called_once_with(self.volume)

    def test_enable_replication(self):
        """A volume that is a view is flattened first."""
        link = self.sessions.link.return_value = mock.sentinel.link
        full = dataclasses.replace(FOUND, group=7)
        self.flattening.full.return_value = full
        self.assertEqual((True, ENABLED), self.retype(
            replication='enabled', replication_rpo='600'))
        self.assertEqual([
            call.replication.link(volume_types.parse({
                'kaminario:replication': 'enabled',
                'kaminario:replication_rpo': '600'})),
            call.flattening.full(
                self.volume, 'which the array cannot replicate'),
            call.resolver.confirm(self.volume, full),
            call.replication.protect(self.volume, FOUND, link)],
            self.calls()[1:])

    def test_enable_replication_after_an_interrupted_attempt(self):
        """The row is marked as replicated, but the type is not."""
        self.sessions.is_replicated.return_value = True
        self.known.asks_for_replication.return_value = False
        self.assertEqual((True, ENABLED), self.retype(replication='enabled'))
        self.assertEqual(1, self.sessions.protect.call_count)

    def test_same_target(self):
        """The replication status is kept: it may be "failed-over"."""
        found = self.replicate(replication_target='moon')
        self.assertEqual((True, {'replication_status': 'error'}), found)
        self.assertEqual([], self.done())
        self.array.replication.find.assert_called_once_with(
            'ssn-v1', 'rssn-v1')
        self.sessions.check_target.assert_called_once_with('moon')

    def test_target_other_than_the_active_array_is_refused(self):
        self.sessions.check_target.side_effect = exceptions.ReplicationError
        self.assertRaises(exceptions.ReplicationError, self.replicate)
        self.assertEqual([], self.calls('array.replication'))

    @ddt.data(None, dataclasses.replace(SESSION, peer=None))
    def test_current_target_is_unknown(self, session):
        found = self.replicate(session, same=False)
        self.assertEqual((True, {'replication_status': 'error'}), found)
        self.assertEqual([], self.done())

    def test_different_rpo(self):
        session = dataclasses.replace(SESSION, rpo=600)
        self.replicate(session)
        self.assertEqual([call.array.replication.set_rpo(session, 300)],
                         self.done())

    def test_rpo_that_the_array_does_not_report(self):
        self.replicate(dataclasses.replace(SESSION, rpo=None))
        self.assertEqual([], self.done())

    def test_rpo_cannot_be_changed_on_the_target(self):
        session = dataclasses.replace(SESSION, rpo=600,
                                      role=array_replication.TARGET)
        error = self.raised(exceptions.ReplicationError, self.replicate,
                            session)
        self.assertEqual(
            'Replication session ssn-v1 has an rpo of 600 seconds, not 300. '
            'It can be changed where it was made only: fail back first.',
            str(error))
        self.assertEqual([], self.done())

    def attempt(self, link):
        """Return the calls that locate and replicate the volume again."""
        return [call.deadline(fresh=True), call.resolver.find(self.volume),
                call.replication.protect(self.volume, FOUND, link)]

    def redirected(self):
        return self.calls('deadline', 'resolver.find', 'replication.protect',
                          'replication.tell_unprotected',
                          'replication.unprotect_for_good')

    def test_different_target(self):
        self.assertEqual((True, ENABLED), self.replicate(same=False))
        self.assertEqual([
            call.resolver.find(self.volume),
            call.replication.unprotect_for_good(self.volume, FOUND),
            *self.attempt(self.link)], self.redirected())
        self.link.is_number.assert_called_once_with(1)
        self.sessions.link_with.assert_called_once_with(SESSION)

    def test_replication_to_the_former_target_is_restored(self):
        self.sessions.protect.side_effect = [ZeroDivisionError(), None]
        self.assertRaises(ZeroDivisionError, self.replicate, same=False)
        self.assertEqual([*self.attempt(self.link),
                          *self.attempt(self.FORMER)], self.redirected()[2:])

    def test_replication_to_the_former_target_cannot_be_restored(self):
        lost = rest.Unreachable('lost')
        self.sessions.protect.side_effect = [ZeroDivisionError(), lost]
        self.assertRaises(ZeroDivisionError, self.replicate, same=False)
        self.assertEqual([call.replication.tell_unprotected(
            [self.volume], lost)], self.redirected()[-1:])

    def test_former_target_is_not_configured_any_more(self):
        self.sessions.protect.side_effect = ZeroDivisionError
        self.assertRaises(ZeroDivisionError, self.replicate, same=False,
                          former=None)
        volumes, error = self.sessions.tell_unprotected.call_args.args
        self.assertEqual([self.volume], volumes)
        self.assertIsInstance(error, exceptions.ReplicationError)
        self.assertEqual('Its former target is no replication_device any '
                         'more.', str(error))
        self.assertEqual(1, self.sessions.protect.call_count)


@ddt.ddt
class MigrateTest(MigrationTestCase):

    def migrate(self, location=f'K2:{SYSTEM}:iSCSI'):
        return self.migration.migrate_volume(None, self.volume, {
            'capabilities': {'location_info': location}})

    def test_to_another_back_end_on_this_array(self):
        self.volume.name_id = 'n1'
        self.assertEqual((True, {'provider_id': (FOUND, 'n1')}),
                         self.migrate())
        self.known.resolve.assert_called_once_with(self.volume)

    def test_volume_is_held_during_the_migration(self):
        """Its ids are resolved while it is held."""
        self.migrate()
        self.assertEqual([call.resolver.held(self.volume),
                          call.resolver.resolve(self.volume),
                          call.released(self.volume)], self.calls()[:3])

    @ddt.data(('volume_attachment', ['one']), ('group_id', 'g'))
    @ddt.unpack
    def test_attached_volume_or_group_member_is_not_migrated(
            self, field, value):
        setattr(self.volume, field, value)
        self.assertEqual((False, None), self.migrate())
        self.assertEqual([], self.calls())

    @ddt.data('K2:moon:iSCSI', None, 'LVM:sys:x')
    def test_to_another_array(self, location):
        self.assertEqual((False, None), self.migrate(location))

    def test_to_a_back_end_without_capabilities(self):
        self.assertEqual((False, None), self.migration.migrate_volume(
            None, self.volume, {'capabilities': None}))

    def test_replicated_volume_is_not_migrated(self):
        """The other back end may not have the peer."""
        self.known.resolve.return_value = dataclasses.replace(
            FOUND, replicated=True)
        self.assertEqual((False, None), self.migrate())


@ddt.ddt
class UpdateMigratedTest(MigrationTestCase):

    KEPT = {'_name_id': 'n1', 'provider_location': None}
    TAKEN = {'_name_id': None, 'provider_location': None}

    def setUp(self):
        super().setUp()
        self.new = doubles.a_volume('n1', name_id='n1')
        self.new.update = lambda values: self.log.update(values)
        self.backing = FOUND
        self.old_backing = None
        self.known.known.side_effect = lambda row: (
            self.backing if row is self.new else self.old_backing)
        self.function(renames, 'rename')

    def update(self):
        return self.migration.update_migrated_volume(
            None, self.volume, self.new, 'available')

    def test_new_volume_is_renamed(self):
        self.assertEqual(self.TAKEN, self.update())
        self.assertEqual([
            call.array.volumes.find('cv-v1'),
            call.array.volumes.find_group('cvg-v1'),
            call.rename(self.array, FOUND, name='cv-v1', old_name='cv-n1',
                        group_name='cvg-v1', old_group_name='cvg-n1'),
            call.resolver.ids(FOUND, 'v1'),
            call.update({'provider_id': (FOUND, 'v1')})],
            self.calls('array', 'rename', 'update', 'resolver.ids'))
        self.known.confirm.assert_called_once_with(self.new, FOUND, 'cv-v1')

    @ddt.data(None, dataclasses.replace(FOUND, replicated=True))
    def test_volume_that_keeps_its_names(self, backing):
        self.backing = backing
        self.assertEqual(self.KEPT, self.update())
        self.assertEqual([], self.calls('array', 'rename', 'update'))

    def test_old_volume_on_this_array_keeps_its_names(self):
        self.old_backing = FOUND
        self.assertEqual(self.KEPT, self.update())
        self.assertEqual([], self.calls('array', 'rename', 'update'))

    @ddt.data((ArrayVolume(group=9, volume=40), None), (None, 9),
              (ArrayVolume(group=9, volume=40), 5))
    @ddt.unpack
    def test_names_in_use_by_other_objects(self, volume, group):
        self.array.volumes.find.return_value = volume
        self.array.volumes.find_group.return_value = group
        self.assertEqual(self.KEPT, self.update())
        self.assertEqual([], self.calls('rename', 'update'))

    def test_volume_already_has_the_names(self):
        """As after a migration by the in-tree driver."""
        self.array.volumes.find.return_value = FOUND
        self.array.volumes.find_group.return_value = 5
        self.assertEqual(self.TAKEN, self.update())
        self.assertEqual(1, len(self.calls('rename')))

    def test_array_does_not_rename(self):
        self.replace(renames, 'rename', mock.Mock(
            side_effect=rest.Unreachable('lost')))
        self.assertEqual(self.KEPT, self.update())
        self.assertEqual([], self.calls('update'))
