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

"""How many REST calls each operation takes, with warm caches.

The operator's page on limits lists these numbers, and explains where fewer
calls would be possible.
"""

import collections
from collections.abc import Iterator
import contextlib

import ddt

from cinder_k2.rest import capability_names
from tests.functional import base
from tests.functional import learned
from tests.functional import replicated

MIGRATION = '7e000000-0000-4000-8000-000000000001'


@ddt.ddt
class BudgetsTest(base.FunctionalTest):

    def _warm(self, protocol: str, profile: str = 'k2') -> None:
        """Use a back end with filled caches for the array."""
        self.use(protocol, profile)
        self.volume = self.backend.create_volume(1)
        self.backend.delete_snapshot(
            self.backend.create_snapshot(self.volume))
        self.backend.detach(self.backend.attach(self.volume, self.host()))

    @ddt.data('iscsi', 'fc')
    def test_volume(self, protocol: str) -> None:
        self._warm(protocol)
        with self.assert_calls(2):
            volume = self.backend.create_volume(1)
        with self.assert_calls(2):
            self.backend.extend_volume(volume, 2)
        with self.assert_calls(3):
            self.backend.delete_volume(volume)

    def test_snapshot(self) -> None:
        self._warm('iscsi')
        with self.assert_calls(2):
            snapshot = self.backend.create_snapshot(self.volume)
        with self.assert_calls(2):
            self.backend.delete_snapshot(snapshot)

    @ddt.data('k2', 'sdp')
    def test_what_had_clones(self, profile: str) -> None:
        """No more calls than the in-tree driver, which copies data."""
        self._warm('iscsi', profile)
        snapshot = self.backend.create_snapshot(self.volume)
        self.backend.delete_volume(
            self.backend.volume_from_snapshot(snapshot))
        self.backend.delete_volume(self.backend.clone(self.volume))
        with self.assert_calls(2):
            self.backend.delete_snapshot(snapshot)
        with self.assert_calls(4):
            self.backend.delete_volume(self.volume)

    @ddt.data(('k2', 'view'), ('sdp', 'view'), ('sdp', 'thin'))
    @ddt.unpack
    def test_what_has_clones(self, profile: str, strategy: str) -> None:
        """Snapshot and volume stay, hidden, until their clones are deleted."""
        self._warm('iscsi', profile)
        specs = {'kaminario__clone_strategy': strategy}
        snapshot = self.backend.create_snapshot(self.volume)
        clones = [self.backend.volume_from_snapshot(snapshot, **specs),
                  self.backend.clone(self.volume, **specs)]
        # Its name, the objects that need it, and the note in the group.
        with self.assert_calls(3):
            self.backend.delete_snapshot(snapshot)
        # Its name, snapshots and group; the note and the new name.
        with self.assert_calls(5):
            self.backend.delete_volume(self.volume)
        for clone in clones:
            self.backend.delete_volume(clone)
        self.assert_left()

    @ddt.data('k2', 'sdp')
    def test_view_that_has_clones(self, profile: str) -> None:
        """One note names the view and its hidden snapshot."""
        self._warm('iscsi', profile)
        specs = {'kaminario__clone_strategy': 'view'}
        view = self.backend.clone(self.volume, **specs)
        clone = self.backend.clone(view, **specs)
        with self.assert_calls(4):
            self.backend.delete_volume(view)
        self.backend.delete_volume(clone)
        self.assert_left(volumes=1, volume_groups=1)

    @ddt.data(('k2', 'view', 3), ('sdp', 'view', 3), ('sdp', 'thin', 4))
    @ddt.unpack
    def test_copies(self, profile: str, strategy: str, calls: int) -> None:
        """No data is copied; a clone takes one more call, for its snapshot."""
        self._warm('iscsi', profile)
        snapshot = self.backend.create_snapshot(self.volume)
        specs = {'kaminario__clone_strategy': strategy}
        with self.assert_calls(calls):
            self.backend.volume_from_snapshot(snapshot, **specs)
        with self.assert_calls(calls + 1):
            self.backend.clone(self.volume, **specs)

    @ddt.data(('k2', 'view', 4), ('sdp', 'view', 4), ('sdp', 'thin', 6))
    @ddt.unpack
    def test_deleting_a_clone(self, profile: str, strategy: str, calls: int
                              ) -> None:
        """The hidden snapshot of the clone is deleted with it."""
        self._warm('iscsi', profile)
        clone = self.backend.clone(self.volume,
                                   kaminario__clone_strategy=strategy)
        with self.assert_calls(calls):
            self.backend.delete_volume(clone)
        self.assert_left(volumes=1, volume_groups=1)

    def test_larger_copies(self) -> None:
        self._warm('iscsi', 'sdp')
        snapshot = self.backend.create_snapshot(self.volume)
        with self.assert_calls(5):
            self.backend.volume_from_snapshot(snapshot, 2)
        with self.assert_calls(6):
            self.backend.clone(self.volume, 2)

    @ddt.data('iscsi', 'fc')
    def test_hosts(self, protocol: str) -> None:
        """Both WWPNs are added, and removed, with one call."""
        self._warm(protocol)
        host = self.host(ports=2)
        other = self.backend.create_volume(1)
        with self.assert_calls(5):
            first = self.backend.attach(self.volume, host)
        with self.assert_calls(3):
            second = self.backend.attach(other, host)
        with self.assert_calls(4):
            self.backend.detach(first)
        # One more than if the array deletes hosts that have initiators.
        with self.assert_calls(7):
            self.backend.detach(second)
        self.assertNotIn('hosts', self.left())

    @ddt.data('iscsi', 'fc')
    def test_hosts_that_go_with_their_initiators(self, protocol: str) -> None:
        """HST-3: as many calls as the in-tree driver."""
        self._warm(protocol)
        # A separate back end: its verdicts must not affect other tests.
        self.own(protocol)
        self.learned(self.array, more=[capability_names.WHOLE_HOSTS])
        self.backend.restart()
        self.switch(delete_host_with_initiators=True)
        self.backend.detach(self.backend.attach(self.volume, self.host()))
        made = self.backend.attach(self.volume, self.host(ports=2))
        with self.assert_calls(6):
            self.backend.detach(made)
        self.assert_left(volumes=1, volume_groups=1)

    def test_a_host_without_bulk_calls(self) -> None:
        self._warm('fc')
        # A separate back end: its verdicts must not affect other tests.
        self.own('fc')
        self.switch(bulk=())
        self.backend.detach(self.backend.attach(self.volume, self.host()))
        with self.assert_calls(6 + 1):
            made = self.backend.attach(self.volume, self.host(ports=2))
        with self.assert_calls(8 + 1):
            self.backend.detach(made)

    @ddt.data(1, 2, 3)
    def test_forced_detach(self, hosts: int) -> None:
        """Four calls for all hosts, and one for each mapping."""
        self._warm('iscsi')
        for _ in range(hosts):
            host = self.host()
            self.backend.attach(self.volume, host, MIGRATION)
            self.backend.attach(self.backend.create_volume(1), host)
        with self.assert_calls(4 + hosts):
            self.backend.force_detach(self.volume)
        self.assertEqual((hosts, hosts), (self.left()['hosts'],
                                          self.left()['mappings']))

    def test_forced_detach_of_the_last(self) -> None:
        """Five more calls for each host that is removed."""
        self._warm('fc')
        self.ignore_call_budget()
        for _ in range(2):
            self.backend.attach(self.volume, self.host(), MIGRATION)
        with self.assert_calls(6 + 2 + 2 * 4):
            self.backend.force_detach(self.volume)
        self.assert_left(volumes=1, volume_groups=1)

    def test_what_the_array_or_nobody_does(self) -> None:
        self._warm('iscsi')
        snapshot = self.backend.create_snapshot(self.volume)
        with self.assert_calls(3):
            self.backend.revert(self.volume, snapshot)
        self.backend.delete_snapshot(snapshot)
        with self.assert_calls(0):
            self.backend.retype(self.volume, vendor__colour='red')
        first, second = self.backend, self.use('fc')
        with self.assert_calls(0):
            first.migrate(self.volume, second)

    def test_managing(self) -> None:
        self._warm('iscsi')
        name = f'cv-{self.volume.id}'
        with self.assert_calls(0):
            self.backend.unmanage(self.volume)
        # Including the size, which the manager requests first.
        with self.assert_calls(6):
            self.backend.manage({'source-name': name})

    def test_groups(self) -> None:
        """A snapshot of all volumes takes as many calls as one of a volume."""
        self._warm('iscsi')
        with self.assert_calls(1):
            group = self.backend.create_group()
        for _ in range(3):
            with self.assert_calls(2):
                self.backend.create_volume(1, group)
        with self.assert_calls(2):
            taken = self.backend.create_group_snapshot(group)
        with self.assert_calls(2):
            self.backend.delete_group_snapshot(taken)

    def test_statistics(self) -> None:
        self._warm('iscsi')
        self.backend.stats()
        with self.assert_calls(2):
            self.backend.stats()
        for _ in range(5):
            self.backend.create_volume(1)
        with self.assert_calls(2):
            self.backend.stats()

    @ddt.data('iscsi', 'fc')
    def test_setup(self, protocol: str) -> None:
        self.use(protocol)
        fresh = self.new_backend(protocol)
        with self.assert_calls(3):
            fresh.driver.do_setup(fresh.context)
            fresh.driver.check_for_setup_error()

    def test_start_with_attached_volumes(self) -> None:
        """The service starts no slower with volumes in use."""
        self._warm('iscsi')
        self.backend.attach(self.volume, self.host())
        self.array.control.clear_journal()
        self.backend.restart()
        # Setup, and statistics, which the manager requests three times, the
        # first time with all counts.
        self.assertEqual(3 + 3 * 2 + 5, len(self.calls()),
                         str(self.calls()))


class ReplicationBudgetsTest(replicated.ReplicatedTest):
    """Calls to the primary, and to the secondary."""

    def setUp(self) -> None:
        super().setUp()
        self.backend.delete_volume(self.replicated())

    @contextlib.contextmanager
    def _calls(self, here: int, there: int) -> Iterator[None]:
        self.secondary.control.clear_journal()
        with self.assert_calls(here):
            yield
        calls = [f'{entry.method} {entry.path}?{entry.query}'
                 for entry in self.secondary.control.journal()]
        self.assertEqual(there, len(calls), '\n'.join(calls))

    def test_volume(self) -> None:
        """The peer creates its part by itself."""
        with self._calls(5, 0):
            volume = self.replicated()
        with self._calls(5, 3):
            self.backend.extend_volume(volume, 2)
        with self._calls(2, 0):
            snapshot = self.backend.create_snapshot(volume)
        with self._calls(2, 0):
            self.backend.delete_snapshot(snapshot)
        # Primary: before the copy is deleted, three calls check that the
        # volume can be deleted, and one that no replication snapshot is in
        # use. Secondary: two calls find the copy and check that it is not
        # mapped, one that it has no snapshots, two wait for states, and one
        # looks for clone sources from a failover.
        with self._calls(12, 11):
            self.backend.delete_volume(volume)

    def test_retype(self) -> None:
        volume = self.backend.create_volume()
        # One call checks by the group that the volume itself is no copy.
        with self._calls(5, 0):
            self.backend.retype(volume, **replicated.REPLICATED)
        # The type does not show the session's RPO, which is read.
        with self._calls(1, 0):
            self.backend.retype(volume, vendor__colour='red',
                                **replicated.REPLICATED)
        with self._calls(2, 0):
            self.backend.retype(volume, kaminario__replication_rpo='300',
                                **replicated.REPLICATED)
        with self._calls(8, 11):
            self.backend.retype(volume)
        with self._calls(0, 0):
            self.backend.retype(volume, vendor__colour='red')

    def test_groups(self) -> None:
        """Consistency groups: calls for the session and for each volume."""
        word = {'replication_enabled': '<is> True'}
        group = self.backend.create_group(
            self.backend.volume_type(**word),
            consistent_group_replication_enabled='<is> True')
        for _ in range(3):
            self.backend.create_volume(1, group, **word)
        # One call finds all volumes by name.
        with self._calls(4 + 3, 0):
            self.backend.enable_replication(group)
        with self._calls(8, 9 + 2 * 3):
            self.backend.disable_replication(group)
        self.backend.enable_replication(group)
        # Two calls check whether the group was created there.
        with self._calls(12 + 3 * 3, 9 + 2 * 3 + 2):
            self.backend.delete_group(group)


class FailoverBudgetsTest(replicated.ReplicatedTest):
    """Failovers of many volumes, by a service without verdicts."""

    COUNT = 30

    def setUp(self) -> None:
        super().setUp()
        self.own(self.protocol, replication_device=self.device())
        for _ in range(self.COUNT):
            self.replicated()
        self.pass_time()

    def _calls(self, target: str) -> collections.Counter[str]:
        """Fail over; return the number of requests by method and path."""
        for array in (self.primary, self.secondary):
            array.control.clear_journal()
        service = self.backend.fail_over(target)
        self.assertEqual(target, service.active_backend_id or 'default',
                         self.log.errors_text())
        return collections.Counter(
            f'{entry.method} {entry.path.partition("v2/")[2]}'
            for array in (self.primary, self.secondary)
            for entry in array.control.journal())

    def _assert_budget(self, target: str, looks: int, others: int) -> None:
        """Check the numbers of session reads and of other requests."""
        calls = self._calls(target)
        self.assertLessEqual(calls.pop('GET replication/sessions'), looks)
        self.assertLessEqual(calls.total(), others, calls)
        # No request is sent per volume.
        self.assertLess(max(calls.values()), self.COUNT // 2, calls)

    def test_there_and_back(self) -> None:
        learned.forget()
        self.backend.restart()
        self._assert_budget(replicated.TARGET, 5, 12)
        # Each of two replication snapshots takes one read of earlier ones,
        # and the first bulk deletion on each array one read to verify it.
        self._assert_budget('default', 20, 31)
        # By now the array's capabilities are known.
        self._assert_budget(replicated.TARGET, 2, 3)
        self._assert_budget('default', 16, 20)
