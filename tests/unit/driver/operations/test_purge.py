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

from unittest.mock import call

from cinder_k2.array import deferred_deletion
from cinder_k2.driver.operations import purge
from tests.unit.driver import doubles

SYSTEM = doubles.SYSTEM


class PurgeTest(doubles.TestCase):

    def purge(self, found):
        """Purge group 5; ``found`` is the result for each group."""
        self.array.deferred.purge.side_effect = (
            lambda group: found.get(group, deferred_deletion.Purged()))
        purge.run(self.array, 5)
        return self.calls()

    def test_one_group(self):
        """The deadline starts when the group is locked."""
        self.assertEqual(
            [call.hold(5), call.deadline(fresh=True),
             call.array.deferred.purge(5), call.free(5)],
            self.purge({}))

    def test_source_groups_are_purged_before_an_empty_group_is_deleted(self):
        """No two groups are locked at once."""
        found = self.purge({5: deferred_deletion.Purged(
            empty=True, name='cvg-5', source_groups=frozenset({6}))})
        self.assertEqual([
            call.hold(5), call.deadline(fresh=True),
            call.array.deferred.purge(5), call.free(5),
            call.hold(6), call.deadline(fresh=True),
            call.array.deferred.purge(6), call.free(6),
            call.hold(5), call.deadline(fresh=True),
            call.array.volumes.delete_group(5, ['cvg-5']), call.free(5),
            call.forget_group(SYSTEM, 5)], found)

    def test_lock_of_a_missing_group_is_deleted(self):
        found = self.purge({5: deferred_deletion.Purged(gone=True)})
        self.assertEqual([call.free(5), call.forget_group(SYSTEM, 5)],
                         found[-2:])

    def test_groups_that_are_each_others_source(self):
        """After the second, more can be purged in the first."""
        first = iter([
            deferred_deletion.Purged(source_groups=frozenset({6})),
            deferred_deletion.Purged(empty=True, name='cvg-5',
                                     source_groups=frozenset({6}))])
        second = deferred_deletion.Purged(empty=True, name='cvg-6',
                                          source_groups=frozenset({5}))
        self.array.deferred.purge.side_effect = (
            lambda group: next(first) if group == 5 else second)
        purge.run(self.array, 5)
        self.assertEqual(
            [call.array.deferred.purge(5),
             call.array.deferred.purge(6),
             call.array.deferred.purge(5),
             call.array.volumes.delete_group(5, ['cvg-5']),
             call.array.volumes.delete_group(6, ['cvg-6'])],
            self.calls('array'))

    def test_empty_groups_that_are_each_others_source(self):
        """Each is purged once, and both are deleted."""
        found = self.purge({
            5: deferred_deletion.Purged(
                empty=True, name='cvg-5', source_groups=frozenset({6})),
            6: deferred_deletion.Purged(
                empty=True, name='cvg-6', source_groups=frozenset({5}))})
        self.assertEqual(
            [call.array.deferred.purge(5),
             call.array.deferred.purge(6),
             call.array.volumes.delete_group(6, ['cvg-6']),
             call.array.volumes.delete_group(5, ['cvg-5'])],
            [each for each in found if each in self.calls('array')])

    def test_empty_group_is_kept_if_its_source_group_fails(self):
        def fail(group):
            if group == 6:
                raise ZeroDivisionError
            return deferred_deletion.Purged(empty=True,
                                            source_groups=frozenset({6}))

        self.array.deferred.purge.side_effect = fail
        self.assertRaises(ZeroDivisionError, purge.run, self.array, 5)
        self.assertEqual([], self.calls('array.volumes', 'forget_group'))
