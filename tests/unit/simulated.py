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

"""The driver's array layer on a simulated array, without sockets."""

import logging

from oslotest import base

from cinder_k2 import array
from cinder_k2 import rest
import k2_sim
from tests import offered

GIB = 1 << 20


# As by default in Cinder: taskflow logs too much otherwise.
logging.getLogger('taskflow').setLevel(logging.WARNING)


class SimulatedTest(base.BaseTestCase):
    """A test with a simulated array and a client of it."""

    profile = 'sdp'

    def setUp(self):
        super().setUp()
        self.clock = k2_sim.FakeClock()
        self.sim = k2_sim.Array(self.profile, clock=self.clock,
                                behaviors={'clones_movable': True})
        self.addCleanup(self.sim.close)
        self.client = rest.Client(
            rest.Settings(address='k2.example.org', login='admin',
                          password='admin'),
            adapter=k2_sim.RequestsAdapter(self.sim), clock=self.clock)
        self.addCleanup(self.client.close)
        # Like a service that has used the array for a while.
        for name in offered.names(self.profile):
            self.client.capabilities.found(name)
        self.array = array.Array(self.client, 'Best_Effort_Retention')

    def leftovers(self):
        """The names of all objects on the array, by resource."""
        return {kind: sorted(str(o.get('short_name') or o.get('name')
                                 or o.get('iqn') or o.get('pwwn')
                                 or o['id']) for o in objects)
                for kind, objects in self.sim.control.leftovers().items()}

    def calls(self):
        """The requests so far: method and path below /api/v2."""
        return [f'{e.method} {e.path.removeprefix("/api/v2/")}'
                for e in self.sim.control.journal()]
