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

"""Some rounds of "make soak", with fixed seeds."""

from tests.soak import rounds


class SoakTest(rounds.Round):
    """A round of each transport and profile."""

    seed = 1
    number = 1

    def test_round(self) -> None:
        self.run_operations()
        # Enough operations succeeded for the round to be meaningful.
        self.assertGreater(self.counts['done'], 10)


class SecondSoakTest(SoakTest):
    """Another round, with other operations."""

    number = 2


class FourthSoakTest(SoakTest):
    """Another round, with other operations."""

    number = 4
