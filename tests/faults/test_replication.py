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

"""Replication while services are killed, and arrays or replies are lost."""

from collections.abc import Callable
from collections.abc import Iterator
import contextlib
import dataclasses
import itertools
import re
from typing import Any
from unittest import mock

import ddt

from cinder_k2.flows import replication
from tests import arrays
from tests.faults import steps
from tests.functional import replicated

FAILED_OVER = 'failed-over'

Act = Callable[['FaultsTest', Any], Any]


@dataclasses.dataclass(frozen=True)
class Operation:
    """An operation on a volume.

    :ivar before: creates the volume, or prepares that of the last round
    :ivar act: the step that fails; returns the volume if it creates it
    :ivar again: the user's next action
    :ivar good: checks the final state
    """

    before: Act
    act: Act
    again: Act
    good: Act


def _replicated(test: 'FaultsTest', volume: Any) -> Any:
    volume = volume or test.replicated()
    test.write(volume, 'data')
    test.pass_time()
    return volume


def _here(test: 'FaultsTest', volume: Any) -> Any:
    if test.backend.service().active_backend_id:
        test.backend.fail_back()
    return _replicated(test, volume)


def _away(test: 'FaultsTest', volume: Any) -> Any:
    volume = _here(test, volume)
    test.write(volume, 'older')
    test.backend.fail_over()
    test.write(volume, 'data')
    return volume


def _plain(test: 'FaultsTest', volume: Any) -> Any:
    if volume is not None:
        test.backend.delete_volume(volume)
    volume = test.backend.create_volume(1)
    test.write(volume, 'data')
    return volume


def _nothing(test: 'FaultsTest', _: Any) -> None:
    pass


def _gone(test: 'FaultsTest', _: Any) -> None:
    test.come_home()


def _extend(test: 'FaultsTest', volume: Any) -> Any:
    return test.backend.extend_volume(volume, volume.size + 1)


def _delete(test: 'FaultsTest', volume: Any) -> None:
    if volume is not None and volume.id in [
            row.id for row in test.backend.volumes()]:
        test.backend.delete_volume(volume, force=True)


def _retype_on(test: 'FaultsTest', volume: Any) -> Any:
    return test.backend.retype(volume, **replicated.REPLICATED)


def _retype_off(test: 'FaultsTest', volume: Any) -> Any:
    return test.backend.retype(volume)


OPERATIONS = {
    'create': Operation(
        _nothing, lambda test, _: test.replicated(), _delete, _gone),
    'delete': Operation(
        lambda test, _: _replicated(test, None), _delete, _delete, _gone),
    'retype_on': Operation(
        _plain, _retype_on, _retype_on,
        lambda test, v: test.assert_runs(v, test.primary)),
    'retype_off': Operation(
        lambda test, v: _replicated(test, v and _retype_on(test, v)),
        _retype_off, _retype_off, lambda test, v: test.assert_plain(v)),
    'extend': Operation(
        _replicated, _extend, _extend,
        lambda test, v: test.assert_runs(v, test.primary)),
    'fail_over': Operation(
        _here, lambda test, _: test.backend.fail_over(),
        lambda test, _: test.backend.fail_over(),
        lambda test, v: test.assert_away(v)),
    'fail_back': Operation(
        _away, lambda test, _: test.backend.fail_back(),
        lambda test, _: test.backend.fail_back(),
        lambda test, v: test.assert_runs(v, test.primary)),
}


# The driver method that Cinder calls for each operation.
METHODS = {'create': 'create_volume', 'delete': 'delete_volume',
           'retype_on': 'retype', 'retype_off': 'retype',
           'extend': 'extend_volume', 'fail_over': 'failover_host',
           'fail_back': 'failover_host'}


class FaultsTest(replicated.ReplicatedTest):
    """Helpers."""

    # Fewer retries to a lost array, and fewer checks for missing objects.
    options = {'k2_retry_timeout': 20, 'k2_failback_timeout': 300}

    def assert_runs(self, row: Any, array: arrays.Served) -> None:
        """Check that a volume exists, complete and replicated."""
        self.assertIs(array, self.holder(row))
        self.assertEqual(('enabled', 'available'), (
            row.replication_status, row.status),
            row.replication_extended_status)
        self.assertEqual('data', self.read(row))
        found = self.sessions()
        self.assertEqual({('source', 'in_sync'), ('target', 'in_sync')},
                         set(found.values()), found)
        self.pass_time()
        self.assertEqual(['data', 'data'], [
            content for each in (self.primary, self.secondary)
            for content in each.control.contents().values()])
        self.assertEqual([row.size << 20] * 2, [
            volume['size'] for each in (self.primary, self.secondary)
            for volume in each.admin.list('volumes')
            if 'cv-' in volume['name']])

    def assert_plain(self, row: Any) -> None:
        """Check that a volume exists, complete, and nothing else does."""
        row.refresh()
        self.assertEqual(('disabled', 'available'), (
            row.replication_status, row.status))
        self.assertEqual('data', self.read(row))
        self.assert_left(volumes=1, volume_groups=1)

    def assert_away(self, row: Any) -> None:
        """Check that a volume is on the secondary, which is active."""
        self.assertIs(self.secondary, self.holder(row))
        self.assertEqual((FAILED_OVER, 'available'), (
            row.replication_status, row.status),
            row.replication_extended_status)
        self.assertEqual('data', self.read(row))
        self.assertEqual('up', self.backend.stats()['backend_state'])

    def come_home(self) -> None:
        """Fail back and delete everything, for the next round."""
        if self.backend.service().active_backend_id:
            self.backend.fail_back()
        self.backend.enable()
        self.backend.delete_everything()
        self.assertNothingLeft()

    def reset_states(self) -> None:
        """Reset states, as an operator does after a killed operation."""
        for row in self.backend.volumes():
            if row.status not in ('available', 'error'):
                row.update({'status': 'available', 'migration_status': None})
                row.save()

    def tries(self, operation: Operation, volume: Any) -> BaseException | None:
        """Run an operation; return its error, or None."""
        try:
            operation.act(self, volume)
        except (Exception, steps.Killed) as error:
            return error
        return None

    def goes_on(self, operation: Operation, volume: Any, case: str) -> None:
        """Repeat the operation as a user; then check the final state."""
        self.reset_states()
        rows = self.backend.volumes()
        volume = volume or (rows[0] if rows else None)
        try:
            if volume is not None:
                operation.again(self, volume)
            operation.good(self, volume)
        except Exception as error:
            raise AssertionError(f'{case}: {error}') from error


@ddt.ddt
class KilledTest(FaultsTest):
    """The service is killed at each step of an operation in turn."""

    @ddt.data(*OPERATIONS)
    def test_at(self, name: str) -> None:
        operation, volume = OPERATIONS[name], None
        for number in itertools.count():
            volume = operation.before(self, volume)
            with steps.killed_at(number):
                error = self.tries(operation, volume)
            if not isinstance(error, steps.Killed):
                break
            self.assertTrue(self.backend.restart(), self.log.errors_text())
            self.goes_on(operation, volume, f'at step {number}')
        self.assertIsNone(error)
        self.assertGreater(number, 1)
        self.come_home()

    @ddt.data(*OPERATIONS)
    def test_at_the_end(self, name: str) -> None:
        """The driver has done everything, but Cinder has not saved it yet."""
        operation = OPERATIONS[name]
        volume = operation.before(self, None)
        driver, method = self.backend.manager.driver, METHODS[name]
        done = getattr(driver, method)

        def die(*args: Any, **kwargs: Any) -> None:
            done(*args, **kwargs)
            raise steps.Killed

        with mock.patch.object(driver, method, die):
            self.assertIsInstance(self.tries(operation, volume), steps.Killed)
        self.assertTrue(self.backend.restart(), self.log.errors_text())
        self.goes_on(operation, volume, name)
        self.come_home()


@ddt.ddt
class NeverMadeTest(FaultsTest):
    """A volume whose creation was interrupted before a failover."""

    @ddt.data(*itertools.product((True, False), ('deleted first', 'moved')))
    @ddt.unpack
    def test_killed(self, away: bool, how: str) -> None:
        """Whichever array is active when it is deleted, nothing is left."""
        for specs in (replicated.REPLICATED, {}):
            for number in itertools.count():
                if away:
                    self.backend.fail_over()
                    self.backend.enable()
                with steps.killed_at(number):
                    error = self.tries(self._creation(specs), None)
                self.assertTrue(self.backend.restart())
                if away == (how == 'moved'):
                    self.backend.fail_back()
                else:
                    self.backend.fail_over()
                self.reset_states()
                for row in self.backend.volumes():
                    self.backend.delete_volume(row, force=True)
                self.come_home()
                if not isinstance(error, steps.Killed):
                    break
            self.assertIsNone(error)

    @ddt.data(True, False)
    def test_a_snapshot(self, away: bool) -> None:
        """A snapshot without ids, whose volume may be on the other array."""
        volume = self.replicated()
        self.pass_time()
        if away:
            self.backend.fail_over()
        take = self.backend.driver.create_snapshot

        def die(*args: Any) -> None:
            take(*args)
            raise steps.Killed

        with mock.patch.object(self.backend.manager.driver,
                               'create_snapshot', die), \
                contextlib.suppress(steps.Killed):
            self.backend.create_snapshot(volume)
        self.assertTrue(self.backend.restart())
        self.backend.fail_over('default' if away else None)
        snapshot, = self.backend.snapshots()
        self.backend.delete_snapshot(snapshot)
        self.backend.delete_volume(volume)
        self.assertNothingLeft()
        self.come_home()

    def test_the_primary_is_lost_with_it(self) -> None:
        """The log names leftovers on the primary; the secondary has none."""
        for number in itertools.count():
            with steps.killed_at(number):
                error = self.tries(self._creation(replicated.REPLICATED),
                                   None)
            if not isinstance(error, steps.Killed):
                break
            with self.lost(self.primary):
                self.assertTrue(self.backend.restart())
                self.backend.fail_over()
                volume, = self.backend.volumes()
                with mock.patch.object(replication, 'sweep',
                                       self._slow_sweep):
                    self.backend.delete_volume(volume)
                self.assertEqual({}, self.count(self.secondary), number)
            self.assertIn(f'Whether something of volume {volume.id} is left '
                          f'on the array at 127.0.0.1:{self.primary.port}',
                          self.log.errors_text())
            self.remove(self.primary, volume)
            self.come_home()
        self.assertIsNone(error)
        self.come_home()

    def _slow_sweep(self, *args: Any,
                    sweep: Callable[..., None] = replication.sweep) -> None:
        """Use up the deadline of the operation first, as a lost array may."""
        self.clock.sleep(self.options['k2_retry_timeout'])
        sweep(*args)

    @staticmethod
    def _creation(specs: dict[str, str]) -> Operation:
        return dataclasses.replace(
            OPERATIONS['create'],
            act=lambda test, _: test.backend.create_volume(1, **specs))


# How each call may fail once without failing the operation.
FAULTS = {'lost_502': {'kind': 'status', 'status': 502, 'commit': 'after'},
          'lost_reset': {'kind': 'reset', 'commit': 'after'},
          'early_500': {'kind': 'status', 'status': 500, 'commit': 'before'},
          'busy': {'kind': 'busy', 'times': 3},
          'truncated': {'kind': 'truncated'}}


@ddt.ddt
class LostRepliesTest(FaultsTest):
    """Every call fails once; the operation succeeds."""

    @ddt.data(*OPERATIONS)
    def test_at(self, name: str) -> None:
        operation = OPERATIONS[name]
        calls = self.learn(operation)
        self.assertIn('PATCH', {method for _, method, _ in calls} | (
            {'PATCH'} if name == 'create' else set()))
        for kind, fault in FAULTS.items():
            volume = operation.before(self, None)
            for array, method, path in calls:
                array.control.add_fault({
                    'times': 1, **fault, 'method': method, 'path': path})
            error = self.tries(operation, volume)
            self._calm()
            self.assertIsNone(error, kind)
            operation.good(self, volume or self.backend.volumes()[0])
            self.come_home()

    def learn(self, operation: Operation) -> Any:
        """Return the calls of an operation: array, method, path pattern."""
        volume = operation.before(self, None)
        every = (self.primary, self.secondary)
        for array in every:
            array.control.clear_journal()
        operation.act(self, volume)
        calls = {(array, entry.method, re.sub(r'/\d+$', '/*', entry.path))
                 for array in every for entry in array.control.journal()}
        operation.good(self, volume)
        self.come_home()
        return sorted(calls, key=str)


@ddt.ddt
class LostArrayTest(FaultsTest):
    """An array is lost at a call to it, and comes back later."""

    @ddt.data(*itertools.product(OPERATIONS, ('primary', 'secondary')),
              ('fail_back', 'link'))
    @ddt.unpack
    def test_at(self, name: str, which: str) -> None:
        operation, volume = OPERATIONS[name], None
        array = self.primary if which == 'link' else getattr(self, which)
        for number in itertools.count():
            volume = operation.before(self, volume)
            with self.goes_away(array, number, which) as lost:
                error = self.tries(operation, volume)
            if not lost:
                break
            if error is None and name in ('delete', 'retype_off'):
                # It ended on one array only; the log names the leftovers.
                self.clear(self.secondary, volume)
                operation.good(self, volume)
                continue
            self.goes_on(operation, volume, f'at step {number}, {error}')
        self.assertIsNone(error)
        self.come_home()

    @ddt.data(*OPERATIONS)
    def test_without_link(self, name: str) -> None:
        """The arrays cannot reach each other; the driver reaches both."""
        operation = OPERATIONS[name]
        volume = operation.before(self, None)
        self.primary.control.cut_link()
        error = self.tries(operation, volume)
        self._calm()
        if name == 'create':
            self.assertIn('peer', str(error))
            self.assertEqual('error', self.backend.volumes()[0].status)
        self.goes_on(operation, volume, str(error))
        self.come_home()

    @contextlib.contextmanager
    def goes_away(self, array: arrays.Served, number: int, which: str
                  ) -> Iterator[list[str]]:
        """Lose an array at a step that begins with a call to it."""
        lost: list[str] = []

        def lose() -> None:
            lost.append(array.address)
            array.control.cut_link()
            if which != 'link':
                array.control.add_fault(
                    {'kind': 'reset', 'method': '*', 'path': '*'})

        here = steps.Steps(lambda url: f':{array.port}/' in url)
        with here.on(number, lose):
            yield lost
        self._calm()
