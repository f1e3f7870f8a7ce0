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

"""Cinder's requirements for a member of an active-active cluster."""

from tests.functional import base


@base.pairwise_variants
class MembershipTest(base.FunctionalTest):
    """Cinder's requirements for a member of a cluster."""

    feature = 'active-active cluster'

    def test_joining_a_cluster(self) -> None:
        mine = self.own(self.protocol)
        volume = mine.create_volume(1)
        mine.cluster = f'cluster@{mine.name}'
        self.assertTrue(mine.restart(), self.log.errors_text())
        self.assertEqual(mine.cluster, mine.manager.service_topic_queue)
        joined = mine.volume(volume.id)
        self.assertEqual(f'{mine.cluster}#{mine.name}', joined.cluster_name)
        attachment = mine.attach(joined, self.host())
        mine.detach(attachment)
        mine.delete_volume(mine.clone(joined))

    def test_marks_of_another_service_are_seen(self) -> None:
        """A row that was read before the snapshot had clones."""
        self.ignore_call_budget()
        snapshot = self.backend.create_snapshot(
            self.backend.create_volume(1))
        other = self.backend.snapshot(snapshot.id)
        self.backend.volume_from_snapshot(snapshot)
        self.array.control.clear_journal()
        self.backend.driver.delete_snapshot(other)
        self.assertEqual([], [call for call in self.calls()
                              if call.startswith('DELETE')])

    def test_killed_before_cinder_knew_the_ids(self) -> None:
        """The clone's source is purged, though the array does not show it."""
        self.ignore_call_budget()
        source = self.backend.create_volume(1)
        snapshot = self.backend.create_snapshot(source)
        volume = self.backend.volume_from_snapshot(snapshot)
        volume.update({'provider_id': None, 'status': 'error'})
        volume.save()
        self.backend.delete_snapshot(snapshot)
        self.backend.delete_volume(volume)
        self.assert_left(volumes=1, volume_groups=1)
