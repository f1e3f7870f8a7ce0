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

"""Two arrays that replicate, and helpers that send them requests."""

import k2_sim
from tests import base

GIB = base.GIB
HOSTS = ('k2-a.example.org', 'k2-b.example.org')
SESSIONS = 'replication/sessions'
PEERS = 'replication/peer_k2arrays'
PAIRS = 'replication/peer_volumes'


def talk(array):
    """A test case whose helpers send requests to an array."""
    test = base.ArrayTest('call')
    test.array, test.control = array, array.control
    return test


def session_body(group, name='ssn-1', **fields):
    return {'name': name, 'rpo': 300, 'replication_peer_k2array':
            base.ref(PEERS, 1), 'local_volume_group':
            base.ref('volume_groups', group),
            'replication_peer_volume_group_name': f'r{group["name"]}',
            'remote_replication_session_name': f'r{name}',
            'auto_configure_peer_volumes': 'False', **fields}


class PairTest(base.DirectoryTest):
    """Arrays a and b; session 9 (ssn-1) on a has 1009 (rssn-1) on b."""

    def setUp(self):
        super().setUp()
        self.clock = k2_sim.FakeClock()
        self.a, self.b = (self.make(name) for name in ('a', 'b'))
        self.join()

    def make(self, name, store=None):
        array = k2_sim.Array(
            store=store, clock=self.clock, name=f'k2-{name}')
        self.addCleanup(array.close)
        return talk(array)

    def join(self):
        k2_sim.connect(self.a.array, self.b.array, hosts=HOSTS)

    def prepare(self, name='1', size=GIB, **fields):
        """Create a session with one volume, and do not start it."""
        self.group = self.a.group(f'vg-{name}')
        self.volume = self.a.volume(self.group, f'vol-{name}', size)
        self.session = self.a.post(SESSIONS, session_body(
            self.group, f'ssn-{name}', **fields))
        self.pair = self.add_volume(self.volume)
        self.there = self.b.get(
            f'{SESSIONS}/{self.session["remote_replication_session_id"]}')
        self.remote = self.pair['remote_volume_id']

    def pair_body(self, volume, session=None):
        return {'name': f'r{volume["name"]}',
                'local_volume': base.ref('volumes', volume),
                'replication_session': base.ref(
                    SESSIONS, session or self.session)}

    def add_volume(self, volume):
        return self.a.post(PAIRS, self.pair_body(volume))

    def source_path(self):
        return f'{SESSIONS}/{self.session["id"]}'

    def target_path(self):
        return f'{SESSIONS}/{self.there["id"]}'

    def write(self, state):
        """Send a command to a, the array that was the source at first."""
        return self.a.patch(self.source_path(), {'state': state})

    def write_there(self, state, **fields):
        return self.b.patch(self.target_path(), {'state': state, **fields})

    def here(self):
        return self.a.get(self.source_path())

    def over_there(self):
        return self.b.get(self.target_path())

    def start(self, token='one', **fields):
        self.prepare(**fields)
        self.a.control.write(self.volume['id'], token)
        self.write('in_sync')

    def states(self):
        """State and role on both sides."""
        return tuple((row['state'], row['current_role'])
                     for row in (self.here(), self.over_there()))

    def assertStates(self, here, there):
        """Check states and roles, such as 'in_sync source', 'idle target'."""
        self.assertEqual((here, there), tuple(
            ' '.join(pair) for pair in self.states()))

    def refused(self, side, method, path, body=None):
        """The text of a refusal that changes nothing on either side."""
        other = self.b if side is self.a else self.a
        for array in (other, side):
            array.control.tick()
        before = other.control.dump()['objects']
        text = side.refused(method, path, body)
        self.assertEqual(before, other.control.dump()['objects'])
        return text

    def command_refused(self, side, state, **fields):
        path = self.source_path() if side is self.a else self.target_path()
        return self.refused(side, 'PATCH', path, {'state': state, **fields})

    def contents(self):
        """The data of the volume on both sides, as tokens."""
        return (self.a.control.read(self.volume['id']),
                self.b.control.read(self.remote))

    def take(self, side, session):
        """Take a replication snapshot."""
        return side.post('snapshots', {
            'replication_session': base.ref(SESSIONS, session),
            'is_application_consistent': 'False'})
