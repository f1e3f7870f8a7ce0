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

"""Volumes and attachments with lost replies and misbehaving arrays."""

from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Sequence
import functools
from typing import Any

from cinder import exception
import ddt

from tests.functional import backend
from tests.functional import base

Act = Callable[..., Any]

# How one request can fail while the operation still has to succeed.
FAULTS: dict[str, dict[str, Any]] = {
    'lost_502': {'kind': 'status', 'status': 502, 'commit': 'after'},
    'lost_500': {'kind': 'status', 'status': 500, 'commit': 'after'},
    'lost_503': {'kind': 'status', 'status': 503, 'commit': 'after'},
    'lost_reset': {'kind': 'reset', 'commit': 'after'},
    'early_502': {'kind': 'status', 'status': 502, 'commit': 'before'},
    'early_reset': {'kind': 'reset', 'commit': 'before'},
    'busy': {'kind': 'busy', 'times': 6},
    'too_fast': {'kind': 'status', 'status': 429, 'times': 6},
    'unavailable': {'kind': 'status', 'status': 503, 'times': 3},
    'empty': {'kind': 'empty'},
    'garbage': {'kind': 'garbage'},
    'truncated': {'kind': 'truncated'},
}


def _operations() -> dict[str, tuple[Act, Act]]:
    """Return, by name, a preparation and the operation on its result."""
    def volume(test: base.FunctionalTest) -> Any:
        return test.backend.create_volume(1)

    def snapshot(test: base.FunctionalTest) -> Any:
        return test.backend.create_snapshot(volume(test))

    def attachment(test: base.FunctionalTest) -> Any:
        return test.backend.attach(volume(test), test.host())

    def attached(test: base.FunctionalTest) -> Any:
        return test.backend.volume(attachment(test).volume_id)

    return {
        'create': (lambda test: None,
                   lambda test, _: test.backend.create_volume(1)),
        'delete': (volume, lambda test, v: test.backend.delete_volume(v)),
        'extend': (volume, lambda test, v: test.backend.extend_volume(v, 2)),
        'snapshot': (volume,
                     lambda test, v: test.backend.create_snapshot(v)),
        'delete_snapshot': (
            snapshot, lambda test, s: test.backend.delete_snapshot(s)),
        'from_snapshot': (
            snapshot, lambda test, s: test.backend.volume_from_snapshot(s)),
        'clone': (volume, lambda test, v: test.backend.clone(v)),
        'delete_clone': (
            lambda test: test.backend.clone(volume(test)),
            lambda test, v: test.backend.delete_volume(v)),
        'attach': (volume,
                   lambda test, v: test.backend.attach(v, test.host())),
        'detach': (attachment, lambda test, a: test.backend.detach(a)),
        'force_detach': (
            attached, lambda test, v: test.backend.force_detach(v)),
    }


OPERATIONS = _operations()
# What an array without X-K2-Sequence may do to a reply.
WITHOUT_SEQUENCES = ('lost_502', 'lost_reset', 'early_502', 'busy', 'empty',
                     'truncated')


def _cases(operation: str, writes: int, kinds: Sequence[str]
           ) -> Iterator[tuple[int, str]]:
    """Yield the number of a write and the kind of its fault.

    These are a lost reply for each write, and three of ``kinds``: different
    ones for each operation, so that together the tests cover all kinds. The
    unit tests of ``rest`` cover how a single write handles each of them.
    """
    yield from ((number, 'lost_502') for number in range(writes))
    first = 3 * list(OPERATIONS).index(operation)
    yield from ((number % writes, kinds[(first + number) % len(kinds)])
                for number in range(3))


@ddt.ddt
class LostRepliesTest(base.FunctionalTest):
    """A write fails once; the operation succeeds, without duplicates."""
    keeps_budgets = False

    @ddt.data(*OPERATIONS)
    def test_iscsi(self, operation: str) -> None:
        self._survives(operation, list(FAULTS))

    @ddt.data('attach', 'detach', 'force_detach')
    def test_fc(self, operation: str) -> None:
        self.use('fc')
        self._survives(operation, list(FAULTS))

    @ddt.data('from_snapshot', 'clone', 'delete_clone')
    def test_thin_clones(self, operation: str) -> None:
        self.use('iscsi', 'sdp')
        self._survives(operation, list(FAULTS))

    @ddt.data(*OPERATIONS)
    def test_without_sequences(self, operation: str) -> None:
        self.switch(sequences=False)
        self._survives(operation, WITHOUT_SEQUENCES)

    def _survives(self, operation: str, kinds: Sequence[str]) -> None:
        before, act = OPERATIONS[operation]
        target = before(self)
        self.array.control.clear_journal()
        act(self, target)
        writes = [f'{entry.method} {entry.path}'
                  for entry in self.array.control.journal()
                  if entry.method != 'GET']
        expected = self.left()
        for number, fault in _cases(operation, len(writes), kinds):
            self.backend.delete_everything()
            target = before(self)
            self.array.control.add_fault(
                {'times': 1, **FAULTS[fault], 'method': 'write',
                 'after': number})
            case = f'{fault} for {writes[number]}'
            try:
                act(self, target)
            except Exception as error:
                raise AssertionError(f'{case}: {error}') from error
            self.array.control.clear_faults()
            self.assertEqual(expected, self.left(), case)


@ddt.ddt
class RefusalsTest(base.FunctionalTest):
    """Each request of an operation is refused in turn.

    The operation may fail. Deleting and detaching must then remove
    everything. A failed attach must clean up by itself, because Cinder never
    detaches it.
    """

    @ddt.data(*OPERATIONS)
    def test_iscsi(self, operation: str) -> None:
        self._clears_up(operation)

    @ddt.data('from_snapshot', 'clone', 'delete_clone')
    def test_thin_clones(self, operation: str) -> None:
        self.use('iscsi', 'sdp')
        self._clears_up(operation)

    @ddt.data('attach', 'detach', 'force_detach')
    def test_fc(self, operation: str) -> None:
        self.use('fc')
        self._clears_up(operation)

    def _clears_up(self, operation: str) -> None:
        before, act = OPERATIONS[operation]
        target = before(self)
        self.array.control.clear_journal()
        act(self, target)
        requests = [f'{entry.method} {entry.path}?{entry.query}'
                    for entry in self.array.control.journal()]
        for number, request in enumerate(requests):
            self.backend.delete_everything()
            target = before(self)
            at_first = self.left()
            self.fault('status', '*', '*', status=403, after=number)
            result = self.together(functools.partial(act, self, target))[0]
            self.array.control.clear_faults()
            failed = isinstance(result, Exception)
            if operation == 'attach' and failed:
                self.assertEqual(at_first, self.left(), request)
            try:
                self.backend.delete_everything()
            except backend.OperationFailed as failure:
                raise AssertionError(f'{request}: {failure}') from failure
            self._forget_idle_hosts()
            self.assertEqual({}, self.left(), request)

    def _forget_idle_hosts(self) -> None:
        """Delete hosts that a warning reports as left on the array.

        They have no volumes, and their next attach uses them again.
        """
        left = self.array.control.leftovers()
        if 'hosts' in left:
            self.assertIn('stays on the array', self.log.errors_text())
        for resource in ('host_iqns', 'host_fc_ports', 'hosts'):
            for found in left.get(resource, []):
                self.admin.delete(resource, found['id'])


@ddt.ddt
class OddArraysTest(base.FunctionalTest):

    def setUp(self) -> None:
        super().setUp()
        self.volume = self.backend.create_volume(1)

    @ddt.data('busy', 'reset', 'garbage')
    def test_for_good(self, kind: str) -> None:
        """The operation fails in time with a clear error; nothing is left."""
        self.fault(kind, 'write', '*', times=9999, commit='before')
        before = self.clock.monotonic()
        failure = self.assertRaises(backend.OperationFailed,
                                    self.backend.create_volume)
        self.assertLess(self.clock.monotonic() - before, 3 * 180)
        self.assertEqual('error', failure.status)
        self.assertIn('127.0.0.1', str(failure.cause))
        self.assertRaises(backend.OperationFailed,
                          self.backend.delete_volume, self.volume)
        self.array.control.clear_faults()
        self.backend.delete_volume(failure.row)
        self.backend.delete_volume(self.backend.volume(self.volume.id),
                                   force=True)
        self.assertNothingLeft()

    @ddt.data('before', 'after')
    def test_the_array_goes_away_during_a_create(self, commit: str) -> None:
        """Deleting the volume removes the leftovers."""
        for number in range(2):
            self._array_goes_away(number, commit)
            failure = self.assertRaises(backend.OperationFailed,
                                        self.backend.create_volume)
            self.array.control.clear_faults()
            self.assertEqual('error', failure.status)
            self.backend.delete_volume(failure.row)
            self.assert_left(volumes=1, volume_groups=1)

    def _array_goes_away(self, number: int, commit: str) -> None:
        """Let all calls after the first ``number`` fail permanently.

        :param commit: ``after`` if the first of them is still carried out
        """
        if commit == 'after':
            self.fault('reset', '*', '*', after=number, commit='after')
        self.fault('reset', '*', '*', times=9999, after=number)

    @ddt.data(('k2', 'before'), ('k2', 'after'), ('sdp', 'before'),
              ('sdp', 'after'))
    @ddt.unpack
    def test_the_array_goes_away_during_a_clone(self, profile: str,
                                                commit: str) -> None:
        self.use('iscsi', profile)
        volume = self.backend.create_volume(1)
        before = self.left()
        for number in range(6):
            self._array_goes_away(number, commit)
            result = self.together(lambda: self.backend.clone(volume))[0]
            self.array.control.clear_faults()
            self.backend.delete_volume(getattr(result, 'row', result))
            self.assertEqual(before, self.left(), f'after {number}')

    @ddt.data('before', 'after')
    def test_the_array_goes_away_during_an_attach(self, commit: str) -> None:
        for number in range(4):
            connector = self.host()
            self._array_goes_away(number, commit)
            result = self.together(functools.partial(
                self.backend.attach, self.volume, connector))[0]
            self.assertIsInstance(
                result, exception.VolumeBackendAPIException)
            self.array.control.clear_faults()
            self.backend.force_detach(self.volume)
            self.assertEqual([], self._mappings())
            # Leftovers must not break a later attach of that host.
            attachment = self.backend.attach(self.volume, connector)
            self.assertEqual(1, len(self._hosts()), f'after {number}')
            self.backend.detach(attachment)
            self.assert_left(volumes=1, volume_groups=1)

    def test_a_lost_array_is_given_up_in_time(self) -> None:
        """k2_retry_timeout for the operation, 30 s to undo each step."""
        self.use('iscsi', 'sdp')
        volume = self.backend.create_volume(1)
        for number in range(2, 5):
            self._array_goes_away(number, 'before')
            before = self.clock.slept
            result = self.together(lambda: self.backend.clone(volume))[0]
            self.array.control.clear_faults()
            self.assertLess(self.clock.slept - before, 180 + 4 * 30)
            self.backend.delete_volume(getattr(result, 'row', result))

    def test_statistics_of_a_lost_array(self) -> None:
        """The back end is reported as down, and up again."""
        self.assertEqual('up', self.backend.stats()['backend_state'])
        self.fault('reset', '*', '*', times=9999)
        self.assertEqual('down', self.backend.stats()['backend_state'])
        self.array.control.clear_faults()
        self.assertEqual('up', self.backend.stats()['backend_state'])

    @ddt.data((True, {'kind': 'empty'}), (False, {'kind': 'empty'}),
              (True, FAULTS['lost_502']), (False, FAULTS['lost_502']))
    @ddt.unpack
    def test_objects_that_show_late(self, sequences: bool,
                                    fault: dict[str, Any]) -> None:
        """OBJ-6: created, reply lost, and not visible at once."""
        self.switch(sequences=sequences)
        for resource in ('volume_groups', 'volumes', 'snapshots'):
            self.fault('late', 'POST', resource, reads=2)
            self.fault(method='POST', path=resource, **fault)
        volume = self.backend.create_volume(1)
        self.backend.create_snapshot(volume)
        self.assert_left(volumes=2, volume_groups=2, snapshots=1)

    def test_deleted_snapshots_that_linger(self) -> None:
        """QRY-10: still listed for a while, and treated as gone."""
        self.switch(linger_reads=5)
        snapshot = self.backend.create_snapshot(self.volume)
        self.backend.delete_snapshot(snapshot)
        self.backend.delete_volume(self.backend.clone(self.volume))
        self.backend.delete_volume(self.volume)
        # The array removes them after a few reads.
        for _ in range(6):
            lingering = self.admin.list('snapshots')
        self.assertEqual([], lingering)

    @ddt.data({'single_envelope': True}, {'create_status': 200},
              {'bulk': ()}, {'snapshot_patch': False},
              {'delete_host_with_initiators': True},
              {'unstable_pages': True, 'page_size': 1},
              {'rate_limit': 200.0, 'rate_burst': 3})
    def test_arrays_that_differ(self, behaviors: dict[str, Any]) -> None:
        """Section 14: where the sources disagree, both alternatives work."""
        self.backend.delete_volume(self.volume)
        for protocol in ('iscsi', 'fc'):
            # Verdicts on such an array must not affect other tests.
            self.own(protocol)
            self.switch(**behaviors)
            volume = self.backend.create_volume(1)
            snapshot = self.backend.create_snapshot(volume)
            clone = self.backend.clone(volume)
            self.backend.volume_from_snapshot(snapshot)
            first = self.backend.attach(volume, self.host())
            self.backend.attach(clone, self.host())
            self.backend.detach(first)
            self.backend.force_detach(clone)
            self.backend.extend_volume(volume, 2)
            self.backend.delete_everything()
            self.assertNothingLeft()
