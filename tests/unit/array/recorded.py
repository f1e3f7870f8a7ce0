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


"""A double of the REST client that records its calls."""

from unittest import mock

from cinder_k2 import rest
import k2_sim
from tests.unit.driver import doubles

KINDS = ('host_auth_profiles', 'host_groups', 'hosts', 'mappings',
         'retention_policies', 'snapshots', 'volsnaps', 'volume_groups',
         'volumes')


class RecordedTest(doubles.TestCase):
    """A test with a client double, whose searches find nothing."""

    def setUp(self):
        super().setUp()
        self.client = mock.Mock(spec_set=[
            *KINDS, 'address', 'concurrently', 'capabilities', 'clock'])
        self.client.address = 'k2.example.org'
        self.client.clock = k2_sim.FakeClock()
        self.client.concurrently = lambda first, second: (first(), second())
        for kind in KINDS:
            setattr(self.client, kind, self._collection(kind))

    def _collection(self, kind):
        made = self.double(kind, rest.Collection)
        made.ref = lambda id: rest.Ref(kind, id)
        made.search.return_value = []
        return made
