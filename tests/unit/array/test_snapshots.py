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


"""REST calls for snapshots, views and thin clones."""

from unittest import mock

from cinder_k2.array import objects
from cinder_k2.array import snapshots
from cinder_k2 import exceptions
from cinder_k2 import rest
from tests.unit.array import recorded

GROUP = rest.Ref('volume_groups', 3)
REF = rest.Ref('snapshots', 5)
POLICY = rest.Ref('retention_policies', 1)
SNAPSHOT = objects.ArraySnapshot(snapshot=5, group=3, volume=7)
VIEW = rest.Snapshot(9, name='vg:view', short_name='view', source=REF,
                     volume_group=GROUP, is_auto_deleteable=False)
SIBLINGS = mock.call.snapshots.search(volume_group=GROUP)
DELETE = mock.call.snapshots.delete(5, names=['cs-1'], volume_group=GROUP)


class SnapshotsTest(recorded.RecordedTest):

    def setUp(self):
        super().setUp()
        self.policies = self.client.retention_policies
        self.policies.find.return_value = rest.RetentionPolicy(1)
        self.client.volsnaps.search.return_value = [
            rest.Volsnap(8, snapshot=VIEW.ref, source=rest.Ref('volumes', 7))]
        self.client.snapshots.create.return_value = VIEW
        self.snapshots = snapshots.Snapshots(self.client, 'policy')

    def created(self, **more):
        return [mock.call(short_name='new', retention_policy=POLICY, **more)]

    def test_check(self):
        self.snapshots.check()
        self.snapshots.check()
        self.assertEqual([mock.call.retention_policies.find(name='policy')],
                         self.calls())

    def test_check_without_the_policy(self):
        self.policies.find.return_value = None
        error = self.raised(exceptions.ArrayNotSupported, self.snapshots.check)
        self.assertIn('"policy"; correct k2_retention_policy', str(error))

    def test_create(self):
        source = objects.ArrayVolume(group=3, volume=7, shared=True)
        self.assertEqual(
            objects.ArraySnapshot(snapshot=9, group=3, volume=7,
                                  shared=True),
            self.snapshots.create('new', source))
        self.assertEqual(
            self.created(source=GROUP, is_exposable=None,
                         is_auto_deleteable=False),
            self.client.snapshots.create.call_args_list)

    def test_create_of_a_view(self):
        source = objects.ArrayVolume(group=3, view=6, volsnap=1, origin=7)
        self.assertEqual(
            objects.ArraySnapshot(snapshot=9, group=3, volume=7, view=6),
            self.snapshots.create('new', source))

    def test_create_after_policy_was_recreated(self):
        self.policies.find.side_effect = [
            rest.RetentionPolicy(2), rest.RetentionPolicy(1)]
        self.client.snapshots.create.side_effect = [
            rest.Refused('policy'), VIEW]
        self.snapshots.create('new', objects.ArrayVolume(group=3, volume=7))
        self.assertEqual(
            [mock.call(short_name='new', source=GROUP, is_exposable=None,
                       retention_policy=rest.Ref('retention_policies', id),
                       is_auto_deleteable=False) for id in (2, 1)],
            self.client.snapshots.create.call_args_list)

    def test_create_refused(self):
        self.client.snapshots.create.side_effect = rest.Refused('no')
        self.raised(rest.Refused, self.snapshots.create, 'new',
                    objects.ArrayVolume(group=3, volume=7))
        self.assertEqual(1, self.client.snapshots.create.call_count)

    def test_lasting_view(self):
        self.assertEqual(
            objects.ArrayVolume(group=3, view=9, volsnap=8,
                                origin=7, parent=5),
            self.snapshots.create_view('new', SNAPSHOT, lasting=True))
        self.assertEqual(
            self.created(source=REF, is_exposable=True,
                         is_auto_deleteable=False),
            self.client.snapshots.create.call_args_list)

    def test_view_of_several_volumes(self):
        self.client.volsnaps.search.return_value.append(
            rest.Volsnap(6, source=rest.Ref('volumes', 1)))
        self.assertEqual(8, self.snapshots.create_view(
            'new', SNAPSHOT, lasting=True).volsnap)

    def test_temporary_view(self):
        self.client.snapshots.create.return_value = rest.Snapshot(9)
        self.assertEqual(
            objects.ArrayVolume(group=3, view=9, volsnap=8,
                                origin=7, parent=5),
            self.snapshots.create_view('new', SNAPSHOT, lasting=False))
        self.assertEqual(
            self.created(source=REF, is_exposable=True,
                         optional={'is_auto_deleteable': False}),
            self.client.snapshots.create.call_args_list)

    def test_view_that_the_array_may_delete(self):
        self.client.snapshots.create.return_value = rest.Snapshot(9)
        error = self.raised(
            exceptions.StrategyUnknown, self.snapshots.create_view, 'new',
            SNAPSHOT, lasting=True)
        self.assertEqual('the array may delete views on its own', str(error))
        self.assertEqual(
            mock.call.snapshots.delete(9, names=['new'], volume_group=GROUP),
            self.calls()[-1])

    def test_thin_clone(self):
        self.client.volumes.create.return_value = mock.sentinel.clone
        self.assertIs(mock.sentinel.clone,
                      self.snapshots.create_thin_clone('new', SNAPSHOT, 7))
        self.assertEqual([mock.call.volumes.create(
            name='new', is_thin_clone=True, volume_group=GROUP,
            source_snapshot=REF, source_volume=rest.Ref('volumes', 7))],
            self.calls())

    def test_find(self):
        self.assertIsNone(self.snapshots.find('cs-1'))
        self.client.snapshots.find.return_value = VIEW
        self.assertEqual(
            objects.ArraySnapshot(snapshot=9, group=3, view=5,
                                  has_clones=True),
            self.snapshots.find('cs-1'))
        self.client.snapshots.find.return_value = rest.Snapshot(
            9, source=GROUP, volume_group=GROUP)
        self.assertEqual(
            objects.ArraySnapshot(snapshot=9, group=3, has_clones=True),
            self.snapshots.find('cs-1'))
        self.assertEqual([mock.call.snapshots.find(short_name='cs-1')] * 3,
                         self.calls())

    def test_find_without_a_group(self):
        self.client.snapshots.find.return_value = rest.Snapshot(
            9, short_name='cs-1')
        for find in self.snapshots.find, self.snapshots.find_view:
            error = self.raised(exceptions.ObjectMissing, find, 'cs-1')
            self.assertEqual('The array does not show the volume group of '
                             'snapshot cs-1.', str(error))

    def test_find_many(self):
        self.client.snapshots.search.return_value = [
            VIEW, rest.Snapshot(4, volume_group=GROUP)]
        found = self.snapshots.find_many(['view', 'other'])
        self.assertEqual(['view'], list(found))
        self.assertEqual(9, found['view'].snapshot)
        self.client.snapshots.search.assert_called_once_with(
            rest.query.one_of('short_name', ['view', 'other']))

    def test_view_of(self):
        self.assertIsNone(self.snapshots.view_of(SNAPSHOT, 'new'))
        self.client.snapshots.find.return_value = rest.Snapshot(
            9, volume_group=GROUP)
        self.assertEqual(
            objects.ArrayVolume(group=3, view=9, volsnap=8,
                                origin=7, parent=5),
            self.snapshots.view_of(SNAPSHOT, 'new'))
        self.assertEqual(
            [mock.call(short_name='new', source=REF)] * 2,
            self.client.snapshots.find.call_args_list)

    def test_view_of_a_group_of_several_volumes(self):
        self.client.volsnaps.search.return_value.append(
            rest.Volsnap(6, source=rest.Ref('volumes', 1)))
        self.client.snapshots.find.return_value = VIEW
        self.assertEqual(8, self.snapshots.view_of(SNAPSHOT, 'new').volsnap)

    def test_find_id(self):
        self.assertIsNone(self.snapshots.find_id('cs-1'))
        self.client.snapshots.find.return_value = VIEW
        self.assertEqual(9, self.snapshots.find_id('cs-1'))
        self.assertEqual([mock.call.snapshots.find(short_name='cs-1')] * 2,
                         self.calls())

    def test_find_view(self):
        self.assertIsNone(self.snapshots.find_view('new'))
        self.client.snapshots.find.return_value = VIEW
        self.assertEqual((9, 3), self.snapshots.find_view('new'))
        self.assertEqual([mock.call.snapshots.find(short_name='new')] * 2,
                         self.calls())

    def test_delete(self):
        self.client.snapshots.delete.return_value = True
        self.assertIs(True, self.snapshots.delete(5, 3, ['cs-1']))
        self.assertIs(True, self.snapshots.delete_parent(5, 3, ['cs-1']))
        self.assertEqual([DELETE, DELETE], self.calls())

    def refuse(self, *siblings):
        self.client.snapshots.delete.side_effect = rest.Refused('no')
        self.client.snapshots.search.return_value = list(siblings)

    def test_delete_refused(self):
        self.refuse(rest.Snapshot(4, num_of_clones=1), rest.Snapshot(5))
        self.raised(rest.Refused, self.snapshots.delete, 5, 3, ['cs-1'])
        self.assertEqual([DELETE, mock.call.mappings.search(volume=REF),
                          SIBLINGS], self.calls())

    def test_delete_refused_and_incomplete_list(self):
        self.refuse()
        self.client.snapshots.search.side_effect = rest.Incomplete('more')
        self.raised(rest.Refused, self.snapshots.delete, 5, 3, ['cs-1'])

    def test_delete_with_views(self):
        self.refuse(rest.Snapshot(8, name='z', source=REF), VIEW,
                    rest.Snapshot(4, name='other', source=GROUP),
                    rest.Snapshot(6, source=REF))
        error = self.raised(exceptions.ObjectInUse, self.snapshots.delete,
                            5, 3)
        self.assertEqual('Snapshot 5 is needed by: , vg:view, z.', str(error))

    def test_delete_with_clones(self):
        self.refuse(rest.Snapshot(5, num_of_clones=1))
        error = self.raised(exceptions.ObjectInUse, self.snapshots.delete,
                            5, 3)
        self.assertEqual('Snapshot 5 is needed by thin clones.', str(error))

    def test_is_hidden(self):
        self.client.snapshots.search.return_value = [
            rest.Snapshot(5, short_name='ccs-1'),
            rest.Snapshot(6, short_name='cs-1')]
        self.assertEqual([True, False, False], [
            self.snapshots.is_hidden(id, 3) for id in (5, 6, 7)])
        self.assertEqual([SIBLINGS] * 3, self.calls())

    def test_size(self):
        self.client.snapshots.get.return_value = rest.Snapshot(
            5, volsnaps_provisioned_capacity=4)
        self.assertEqual(4, self.snapshots.size(SNAPSHOT))
        self.assertEqual([mock.call.snapshots.get(5, volume_group=GROUP)],
                         self.calls())

    def test_is_imaged(self):
        self.assertIs(False, self.snapshots.is_imaged(7, 3))
        self.client.snapshots.search.return_value = [VIEW]
        self.assertIs(True, self.snapshots.is_imaged(7, 3))
        self.assertEqual([SIBLINGS] * 2, self.calls('snapshots'))
        self.client.volsnaps.search.assert_called_once_with(
            rest.query.one_of('snapshot', [VIEW.ref]),
            source=rest.Ref('volumes', 7))
