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

"""How many REST calls each operation takes, with warm caches."""

import ddt

from tests.functional import base

MIGRATION = '7e000000-0000-4000-8000-000000000001'


@ddt.ddt
class BudgetsTest(base.FunctionalTest):

    def _warm(self, protocol: str, profile: str = 'k2') -> None:
        """Take a back end that has done everything once."""
        self.use(protocol, profile)
        volume = self.backend.create_volume(1)
        snapshot = self.backend.create_snapshot(volume)
        self.backend.delete_volume(self.backend.clone(volume))
        self.backend.detach(self.backend.attach(volume, self.host()))
        self.backend.delete_snapshot(snapshot)
        self.backend.stats()
        self.volume = volume

    def _initiator_calls(self) -> list[str]:
        """Calls for removing initiators, which HST-3 asks for."""
        return [c for c in self.calls()
                if 'host_iqns' in c or 'host_fc_ports' in c]

    @ddt.data('iscsi', 'fc')
    def test_volume(self, protocol: str) -> None:
        self._warm(protocol)
        with self.assert_calls(2):
            volume = self.backend.create_volume(1)
        with self.assert_calls(1):
            self.backend.extend_volume(volume, 2)
        with self.assert_calls(2):
            self.backend.delete_volume(volume)

    def test_snapshot(self) -> None:
        self._warm('iscsi')
        with self.assert_calls(1):
            snapshot = self.backend.create_snapshot(self.volume)
        with self.assert_calls(1):
            self.backend.delete_snapshot(snapshot)

    @ddt.data('k2', 'sdp')
    def test_copies(self, profile: str) -> None:
        self._warm('iscsi', profile)
        snapshot = self.backend.create_snapshot(self.volume)
        with self.assert_calls(5, least=1):
            self.backend.volume_from_snapshot(snapshot)
        with self.assert_calls(5, least=1):
            self.backend.clone(self.volume)

    def test_larger_copies(self) -> None:
        self._warm('iscsi', 'sdp')
        snapshot = self.backend.create_snapshot(self.volume)
        with self.assert_calls(5, least=1):
            self.backend.volume_from_snapshot(snapshot, 2)
        with self.assert_calls(5, least=1):
            self.backend.clone(self.volume, 2)

    @ddt.data(('iscsi', 4), ('fc', 5))
    @ddt.unpack
    def test_attach(self, protocol: str, first: int) -> None:
        self._warm(protocol)
        host = self.host(ports=2)
        other = self.backend.create_volume(1)
        with self.assert_calls(first, least=4):
            self.backend.attach(self.volume, host)
        with self.assert_calls(2):
            self.backend.attach(other, host)

    @ddt.data('iscsi', 'fc')
    def test_detach(self, protocol: str) -> None:
        self._warm(protocol)
        host = self.host(ports=2)
        other = self.backend.create_volume(1)
        first = self.backend.attach(self.volume, host)
        second = self.backend.attach(other, host)
        with self.assert_calls(3):
            self.backend.detach(first)
        with self.assert_calls(8, least=4):
            self.backend.detach(second)
        # To find the host takes the first of the calls for initiators.
        rest = len(self.calls()) - len(self._initiator_calls()) + 1
        self.assertEqual(4, rest, str(self.calls()))

    def test_forced_detach(self) -> None:
        """One call to find the mappings, and then each of them."""
        self._warm('iscsi')
        for _ in range(2):
            host = self.host()
            self.backend.attach(self.volume, host, MIGRATION)
            self.backend.attach(self.backend.create_volume(1), host)
        with self.assert_calls(1 + 2 * 3, least=3):
            self.backend.force_detach(self.volume)

    def test_statistics(self) -> None:
        self._warm('iscsi')
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
        # Setup, and statistics, which the manager asks for three times.
        self.assertEqual(3 + 3 * 2, len(self.calls()),
                         str(self.calls()))
