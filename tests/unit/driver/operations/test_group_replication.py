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
from cinder_k2.driver.operations import deletion
from cinder_k2.driver.operations import flatten
from cinder_k2.driver.operations import group_replication
from cinder_k2.driver.operations import groups
from cinder_k2.driver.operations import placement
from cinder_k2.driver.operations import replication
from cinder_k2.driver.operations import resolver
from cinder_k2 import exceptions
from cinder_k2.flows import replication as flows
from cinder_k2 import rest
from cinder_k2 import volume_types
from tests.unit.driver import doubles

FIRST = ArrayVolume(group=5, volume=31, shared=True)
SECOND = ArrayVolume(group=5, volume=32, shared=True)
LINK = mock.sentinel.link

ENABLED = {'replication_status': 'enabled'}
DISABLED = {'replication_status': 'disabled'}
ERROR = {'replication_status': 'error'}


def replicated(backing):
    return dataclasses.replace(backing, replicated=True)


def updates(*found):
    """Return updates of v1, v2 from pairs of status and reason."""
    return [{'id': f'v{number}', 'replication_status': status,
             'replication_extended_status': why}
            for number, (status, why) in enumerate(found, 1)]


ON, OFF = ('enabled', None), ('disabled', None)


class GroupReplicationTestCase(doubles.TestCase):

    consistent = True

    def setUp(self):
        super().setUp()
        self.objects = {'v1': FIRST, 'v2': SECOND}
        self.known = self.double('resolver', resolver.Resolver)
        for name in ('known', 'resolve'):
            getattr(self.known, name).side_effect = (
                lambda volume: self.objects[volume.id])
        self.known.confirm.side_effect = lambda volume, stored: stored
        self.members = self.double('groups', groups.Groups)
        self.members.members.side_effect = lambda volumes: [
            self.objects[volume.id] for volume in volumes]
        self.members.seen.return_value = {'v1', 'v2'}
        self.sessions = self.double('replication', replication.Replication)
        self.sessions.link.return_value = LINK
        self.sessions.session_name.return_value = 'ssn-g'
        self.sessions.member.side_effect = (
            lambda volume, backing: (volume.id, backing))
        self.sessions.noted.side_effect = self.noted
        self.deletion = self.double('deletion', deletion.Deletion)
        self.flattening = self.double('flattening', flatten.Flattening)
        self.flattening.full.side_effect = (
            lambda volume, what: self.objects[volume.id])
        self.function(placement, 'is_consistent').return_value = (
            self.consistent)
        self.group = doubles.Row(id='g')
        self.one = doubles.a_volume('v1')
        self.two = doubles.a_volume('v2')
        self.volumes = [self.one, self.two]
        self.replication = group_replication.GroupReplication(
            self.array, self.known, self.members, self.sessions,
            self.deletion, self.flattening)

    def noted(self, pairs, order):
        """Log when the context that marks the rows is left."""
        noted = mock.MagicMock()
        noted.__exit__.side_effect = lambda *error: self.log.noted_end()
        return noted

    def are_replicated(self):
        self.objects = {'v1': replicated(FIRST), 'v2': replicated(SECOND)}

    def enable(self):
        return self.replication.enable_replication(None, self.group,
                                                   self.volumes)

    def disable(self):
        return self.replication.disable_replication(None, self.group,
                                                    self.volumes)


@ddt.ddt
class ConsistencyGroupTest(GroupReplicationTestCase):
    """A consistency group has one session for all its volumes."""

    def test_enable(self):
        self.assertEqual((ENABLED, updates(ON, ON)), self.enable())
        order = flows.SessionRequest(LINK, 'ssn-g', 5, 'ccg-g', [
            ('v1', FIRST), ('v2', SECOND)])
        pairs = [(self.one, FIRST), (self.two, SECOND)]
        self.assertEqual([
            call.groups.members(self.volumes),
            call.groups.check_together(self.volumes, [FIRST, SECOND]),
            call.replication.session_name('g', 5, 'ccg-g'),
            call.replication.member(self.one, FIRST),
            call.replication.member(self.two, SECOND),
            call.replication.noted(pairs, order),
            call.replication.begin(self.volumes, order), call.noted_end()],
            self.calls('groups', 'replication', 'noted_end')[2:])

    def test_enable_again(self):
        self.are_replicated()
        self.assertEqual((ENABLED, updates(ON, ON)), self.enable())
        self.assertEqual([], self.calls('replication.begin'))

    def test_enable_after_an_interrupted_attempt(self):
        """One volume is marked as replicated, the other is not."""
        self.objects['v1'] = replicated(FIRST)
        self.enable()
        self.assertEqual(1, self.sessions.begin.call_count)

    def test_enable_with_volumes_in_different_volume_groups(self):
        self.members.check_together.side_effect = exceptions.GroupNotSupported
        self.assertRaises(exceptions.GroupNotSupported, self.enable)
        self.assertEqual([], self.calls('replication.noted',
                                        'replication.begin'))

    def test_enable_with_different_targets(self):
        self.sessions.link.side_effect = [LINK, mock.sentinel.other]
        error = self.raised(exceptions.GroupNotSupported, self.enable)
        self.assertEqual(
            'the types of its volumes differ in '
            f'{volume_types.TARGET.key} or {volume_types.RPO.key}, which are '
            'one for all volumes of a replicated group.', str(error))
        self.assertEqual([], self.calls('groups'))

    def test_group_without_volumes(self):
        self.volumes = []
        self.assertEqual((ENABLED, []), self.enable())
        self.assertEqual((DISABLED, []), self.disable())
        self.assertEqual([], self.calls('groups', 'replication'))

    def ended(self, *known, rows=('v1', 'v2')):
        """Return the calls that stop the session and mark the rows."""
        by_id = {'v1': self.one, 'v2': self.two}
        return [call.replication.end('g', 5, 'ccg-g', {
            id: by_id[id] for id in rows}), call.deadline(fresh=True),
            *[call.replication.note_unreplicated(volume, backing)
              for volume, backing in known]]

    def test_disable(self):
        self.are_replicated()
        self.assertEqual((DISABLED, updates(OFF, OFF)), self.disable())
        self.assertEqual([
            call.groups.seen(self.volumes), *self.ended(
                (self.one, replicated(FIRST)),
                (self.two, replicated(SECOND)))],
            self.calls('groups', 'replication', 'deadline'))

    def test_disable_again(self):
        self.assertEqual((DISABLED, updates(OFF, OFF)), self.disable())
        self.assertEqual([], self.calls('groups', 'replication'))

    def test_disable_with_a_volume_that_was_never_created(self):
        self.objects['v1'] = replicated(FIRST)
        self.known.resolve.side_effect = [
            replicated(FIRST), exceptions.ObjectMissing('v2')]
        self.disable()
        self.assertEqual(self.ended((self.one, replicated(FIRST))),
                         self.calls('replication', 'deadline'))

    def test_disable_with_missing_volumes(self):
        self.are_replicated()
        self.members.seen.return_value = set()
        error = self.raised(exceptions.ObjectMissing, self.disable)
        self.assertEqual(
            f'The array at {self.array.address} has none of the volumes '
            'cv-v1, cv-v2 in volume group 5, where they were.', str(error))
        self.assertEqual([], self.calls('replication'))

    # Deletion

    def delete(self):
        self.members.delete.return_value = (
            {'status': 'deleted'}, [{'id': 'v1', 'status': 'deleted'},
                                    {'id': 'v2', 'status': 'deleted'}])
        return self.replication.delete_group(None, self.group, self.volumes)

    def test_delete_a_group_that_is_not_replicated(self):
        self.assertEqual(({'status': 'deleted'}, [
            {'id': 'v1', 'status': 'deleted'},
            {'id': 'v2', 'status': 'deleted'}]), self.delete())
        self.assertEqual([
            call.groups.seen(self.volumes),
            call.groups.delete(self.group, self.volumes, {'v1', 'v2'})],
            self.calls('groups', 'deletion', 'replication'))

    def test_replication_is_stopped_before_volumes_are_deleted(self):
        self.are_replicated()
        self.assertEqual(
            ({'status': 'deleted', **DISABLED}, [
                {'id': 'v1', 'status': 'deleted', **DISABLED},
                {'id': 'v2', 'status': 'deleted', **DISABLED}]),
            self.delete())
        self.assertEqual([
            call.deletion.check_deletable(replicated(FIRST)),
            call.deletion.check_deletable(replicated(SECOND)),
            *self.ended((self.one, replicated(FIRST)),
                        (self.two, replicated(SECOND))),
            call.groups.delete(self.group, self.volumes, {'v1', 'v2'})],
            self.calls()[3:])

    def test_nothing_is_deleted_if_one_volume_is_needed(self):
        self.are_replicated()
        self.deletion.check_deletable.side_effect = [
            None, exceptions.ObjectInUse('cv-v2', 'is needed')]
        self.assertEqual(({'status': 'error'}, [
            {'id': 'v1', 'status': 'available'},
            {'id': 'v2', 'status': 'available'}]), self.delete())
        self.assertEqual([], self.calls('replication', 'groups.delete'))

    @ddt.data(({'v2'}, True), (set(), False))
    @ddt.unpack
    def test_volumes_that_are_not_found_are_ignored(self, seen, ends):
        self.are_replicated()
        self.objects['v1'] = None
        self.members.seen.return_value = seen
        self.delete()
        self.assertEqual(self.ended((self.two, replicated(SECOND)))
                         if ends else [],
                         self.calls('replication', 'deadline'))
        self.members.delete.assert_called_once_with(
            self.group, self.volumes, seen)


@ddt.ddt
class GenericGroupTest(GroupReplicationTestCase):
    """A generic group has a session for each volume."""

    consistent = False

    def test_enable(self):
        """Volumes that are replicated already keep their sessions."""
        self.objects['v2'] = replicated(SECOND)
        self.assertEqual((ENABLED, updates(ON, ON)), self.enable())
        what = 'which the array cannot replicate'
        self.assertEqual([
            call.deadline(fresh=True), call.flattening.full(self.one, what),
            call.resolver.confirm(self.one, FIRST),
            call.replication.protect(self.one, FIRST, LINK),
            call.deadline(fresh=True), call.flattening.full(self.two, what),
            call.resolver.confirm(self.two, replicated(SECOND))],
            self.calls()[3:])

    @ddt.data((rest.Unreachable('lost'), 1), (
        exceptions.ReplicationError('refused'), 2), (
        rest.Refused('refused'), 2))
    @ddt.unpack
    def test_enable_fails_for_some(self, error, attempts):
        """If the array is unreachable, other volumes are not attempted."""
        self.sessions.protect.side_effect = [error, None]
        group, found = self.enable()
        self.assertEqual(ERROR, group)
        expected = [('error', str(error)), ON if attempts == 2 else (
            'error', str(error))]
        self.assertEqual(updates(*expected), found)
        self.assertEqual(attempts, self.sessions.protect.call_count)

    def test_other_errors_are_raised(self):
        self.sessions.protect.side_effect = ZeroDivisionError
        self.assertRaises(ZeroDivisionError, self.enable)

    def test_disable(self):
        self.are_replicated()
        self.assertEqual((DISABLED, updates(OFF, OFF)), self.disable())
        self.assertEqual([
            call.resolver.confirm(self.one, replicated(FIRST)),
            call.replication.unprotect_for_good(
                self.one, replicated(FIRST)),
            call.resolver.confirm(self.two, replicated(SECOND)),
            call.replication.unprotect_for_good(
                self.two, replicated(SECOND))],
            self.calls('resolver.confirm', 'replication'))

    def test_disable_again_or_with_a_missing_volume(self):
        self.known.resolve.side_effect = [
            FIRST, exceptions.ObjectMissing('v2')]
        self.assertEqual((DISABLED, updates(OFF, OFF)), self.disable())
        self.assertEqual([], self.calls('replication'))

    def test_disable_fails_for_some(self):
        """The group is in error; the other volume's reason says what to do."""
        self.are_replicated()
        self.sessions.unprotect_for_good.side_effect = [
            None, exceptions.ReplicationError('refused')]
        group, found = self.disable()
        self.assertEqual(ERROR, group)
        self.assertEqual('refused', found[1]['replication_extended_status'])
        self.assertIn('disable the replication of the group again',
                      found[0]['replication_extended_status'])
        self.assertEqual(['error'] * 2,
                         [each['replication_status'] for each in found])
