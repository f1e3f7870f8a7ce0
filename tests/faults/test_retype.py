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

"""Services that are killed while replication starts, ends or moves."""

from collections.abc import Callable
from collections.abc import Iterator
import contextlib
from typing import Any
from unittest import mock

from cinder_k2.driver.operations import replication
from tests.faults import steps
from tests.faults import test_replication as replication_faults
from tests.faults import test_replication_truth
from tests.functional.replicated import REPLICATED
from tests.functional import test_group_replication as groups
from tests.functional import test_replication


class KilledRetypes(test_replication_truth.TruthTest,
                    replication_faults.FaultsTest):
    """Helpers."""

    def assert_true_when_killed(self, begin: dict[str, str], **specs: str
                                ) -> None:
        """Kill a retype at each step, and before Cinder saves its result."""
        number = 0
        while self.dies_in(steps.killed_at(number), begin, specs):
            number += 1
        self.assertGreater(number, 2)
        self.assertTrue(self.dies_in(self._killed_at_the_end(), begin,
                                     specs))

    @contextlib.contextmanager
    def _killed_at_the_end(self) -> Iterator[None]:
        retype = self.backend.driver.retype

        def die(*args: Any, **kwargs: Any) -> None:
            retype(*args, **kwargs)
            raise steps.Killed

        with mock.patch.object(self.backend.manager.driver, 'retype', die):
            yield

    def dies_in(self, kill: contextlib.AbstractContextManager[None],
                begin: dict[str, str], specs: dict[str, str]) -> bool:
        """Check the row after a retype; return whether it was killed."""
        volume, died = self.backend.create_volume(**begin), True
        self.pass_time()
        with contextlib.suppress(steps.Killed), kill:
            self.backend.retype(volume, **specs)
            died = False
        self.assertTrue(self.backend.restart())
        self.reset_states()
        self.look()
        volume.refresh()
        self.assertIn(volume.replication_status,
                      ['enabled', 'disabled', 'error'])
        if volume.replication_status == 'enabled':
            self.assertIn(('source', 'in_sync'), self.sessions().values())
        self.backend.delete_volume(volume)
        self.assertNothingLeft()
        return died


class KilledRetypeTest(KilledRetypes):
    """The service is killed in a retype, which is not repeated."""

    def test_off(self) -> None:
        self.assert_true_when_killed(REPLICATED)

    def test_on(self) -> None:
        self.assert_true_when_killed({}, **REPLICATED)


class KilledRedirectTest(KilledRetypes, test_replication.ThreeArraysTest):
    """The same in a retype to another target."""

    def test_it(self) -> None:
        self.assert_true_when_killed(REPLICATED, **REPLICATED,
                                     **test_replication.MOON)

    def test_between_the_two(self) -> None:
        with mock.patch.object(replication.Replication, 'protect',
                               autospec=True, side_effect=steps.Killed):
            self.assertTrue(self.dies_in(contextlib.nullcontext(), REPLICATED,
                                         {**REPLICATED,
                                          **test_replication.MOON}))


class KilledGroupCommandTest(groups.GroupsTest,
                             test_replication_truth.TruthTest,
                             replication_faults.FaultsTest):
    """The service is killed while it enables or disables replication."""

    def _has_a_way_out(self, number: int, begin: Callable[[Any], Any],
                       act: Callable[[Any], Any]) -> bool:
        """Kill ``act`` at a step, and recover as the guide describes.

        If the group may be replicated, replication is disabled; then it can
        be enabled again.

        :returns: whether the service was killed
        """
        group = self.group(2, groups.EACH)
        begin(group)
        self.pass_time()
        died = True
        with contextlib.suppress(steps.Killed), steps.killed_at(number):
            act(group)
            died = False
        self.assertTrue(self.backend.restart())
        self.backend.fail_back()
        row = self.backend.group(group.id)
        self.assertIn(row.replication_status,
                      ['enabled', 'disabled', 'error'])
        if row.replication_status != 'disabled':
            self.backend.disable_replication(group)
        self.assert_not_replicated()
        self.backend.enable_replication(group)
        self.backend.delete_group(group)
        self.assertNothingLeft()
        return died

    def test_on(self) -> None:
        number = 0
        while self._has_a_way_out(
                number, lambda group: self.backend.disable_replication(
                    self.backend.enable_replication(group)),
                self.backend.enable_replication):
            number += 1
        self.assertGreater(number, 4)

    def test_off(self) -> None:
        number = 0
        while self._has_a_way_out(number, self.backend.enable_replication,
                                  self.backend.disable_replication):
            number += 1
        self.assertGreater(number, 4)
