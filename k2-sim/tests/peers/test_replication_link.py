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

"""Arrays that replicate over HTTPS, each with its own server."""

import threading

import ddt
import fixtures

import k2_sim
from k2_sim.adapters import tls
from k2_sim.peers import links
from k2_sim.peers import transport
from tests import pairs

_PASSWORD = 'Example-Pw-07'


class LinkTest(pairs.PairTest):

    secure = True

    def setUp(self):
        self.certificate = None
        if self.secure:
            self.certificate = tls.ensure(self.directory, ())
        self.servers = {}
        super().setUp()

    def make(self, name, store=None):
        array = k2_sim.Array(
            clock=self.clock, name=f'k2-{name}',
            users=[k2_sim.User('repl', _PASSWORD)])
        self.addCleanup(array.close)
        array.links.transport.plain = not self.secure
        array.links.transport.ca = self.directory / 'ca.crt'
        return pairs.talk(array)

    def serve(self, name, port=0):
        side = getattr(self, name)
        server = k2_sim.Server(
            side.array, self.certificate, port=port)
        server.start()
        self.addCleanup(server.stop)
        self.servers[name] = server
        side.array.links.address = f'127.0.0.1:{server.port}'

    def lose(self, name):
        self.servers[name].stop()

    def find_again(self, name):
        self.serve(name, self.servers[name].port)

    def join(self):
        for name in 'ab':
            self.serve(name)
        for name, other in ('ab', 'ba'):
            getattr(self, name).array.links.add_peer(
                f'k2-{other}', k2_sim.Address(
                    f'127.0.0.1:{self.servers[other].port}', 'repl',
                    _PASSWORD))

    def look_again(self, side):
        """Lost peers are retried once per second of real time."""
        for state in side.array.links._states.values():
            state.tried = float('-inf')
        side.control.tick()


@ddt.ddt
class TestHttps(LinkTest):

    def test_life(self):
        self.start()
        self.assertStates('in_sync source', 'in_sync target')
        self.a.control.write(self.volume['id'], 'two')
        self.clock.advance(300)
        self.assertEqual(('two', 'two'), self.contents())
        self.write_there('failed_over')
        self.assertStates('suspended source', 'failed_over target')
        self.write_there('in_sync')
        self.assertStates('in_sync target', 'in_sync source')
        peer = self.a.hits(pairs.PEERS)[0]
        self.assertEqual('ok', peer['mgmt_connectivity_state'])
        self.assertNotIn(_PASSWORD, str(self.a.control.dump()))

    def test_server_is_gone(self):
        self.start()
        self.lose('b')
        self.look_again(self.a)
        self.assertEqual('suspended', self.here()['state'])
        self.refused(self.a, 'PATCH', self.source_path(),
                     {'state': 'in_sync'})
        self.find_again('b')
        self.look_again(self.a)
        self.assertStates('suspended source', 'suspended target')
        self.write('in_sync')
        self.assertStates('in_sync source', 'in_sync target')

    def test_who_returns_is_tried_at_once(self):
        """Not only after the second that a lost peer has to wait."""
        self.start()
        self.lose('b')
        self.look_again(self.a)
        self.find_again('b')
        self.assertEqual('suspended', self.here()['state'])
        self.assertEqual('disconnected', self.a.hits(pairs.PEERS)[0][
            'mgmt_connectivity_state'])
        self.look_again(self.b)
        self.assertEqual('ok', self.a.hits(pairs.PEERS)[0][
            'mgmt_connectivity_state'])

    def test_who_answers_is_met_at_once(self):
        """A request within that second ends with a link that is up."""
        self.useFixture(fixtures.MockPatchObject(
            links, '_PROBE_EVERY', float('inf')))
        self.lose('b')
        self.a.control.tick()
        self.find_again('b')
        group = self.a.group()
        self.a.volume(group)
        session = self.a.post(pairs.SESSIONS, pairs.session_body(
            group, auto_configure_peer_volumes='True'))
        self.assertEqual('ok', self.a.hits(pairs.PEERS)[0][
            'mgmt_connectivity_state'])
        self.a.patch(f'{pairs.SESSIONS}/{session["id"]}',
                     {'state': 'in_sync'})

    def test_nobody_waits_for_a_silent_peer(self):
        """Maintenance probes the peer; requests go on meanwhile."""
        self.start()
        self.a.array.core.has_maintenance = True
        probing, done = threading.Event(), threading.Event()

        def send(*args):
            probing.set()
            done.wait(10)
            raise transport.LinkDownError('timed out')

        self.useFixture(fixtures.MockPatchObject(
            self.a.array.links.transport, 'send', send))
        self.clock.advance(300)
        self.assertEqual('in_sync', self.here()['state'])
        self.assertFalse(probing.is_set())
        prober = threading.Thread(target=self.a.control.tick)
        prober.start()
        self.addCleanup(prober.join)
        self.addCleanup(done.set)
        self.assertTrue(probing.wait(10))
        self.assertEqual('in_sync', self.here()['state'])
        done.set()
        prober.join()
        self.assertEqual('suspended', self.here()['state'])

    @ddt.data('', '/__bulk', '/1', '%2F1', '/')
    def test_what_makes_a_peer_may_wait(self, rest):
        array = k2_sim.Array()
        self.addCleanup(array.close)
        for path in (pairs.PEERS, 'replication/peer%5Fk2arrays'):
            self.assertTrue(array.may_wait(f'/api/v2/{path}{rest}'))
        self.assertFalse(array.may_wait('/api/v2/volumes'))

    def test_link_is_cut(self):
        """To the other process it looks like a busy server."""
        self.start()
        self.b.control.cut_link()
        self.look_again(self.a)
        self.assertEqual('suspended', self.here()['state'])

    def test_login_is_refused(self):
        self.assertEqual(400, self.a.call(
            'PATCH', f'{pairs.PEERS}/1', {'password': 'wrong'}).status)
        self.a.array.links.add_peer('k2-b', k2_sim.Address(
            f'127.0.0.1:{self.servers["b"].port}', 'repl', 'wrong'))
        self.a.control.tick()
        self.assertEqual('disconnected', self.a.hits(pairs.PEERS)[0][
            'mgmt_connectivity_state'])

    def test_login_of_the_equipment_is_corrected(self):
        """Of a peer that was never reached."""
        for side in (self.a, self.b):
            side.delete(f'{pairs.PEERS}/1')
        self.a.array.links.add_peer('k2-b', k2_sim.Address(
            f'127.0.0.1:{self.servers["b"].port}', 'repl', 'wrong'))
        path = f'{pairs.PEERS}/{self.a.hits(pairs.PEERS)[0]["id"]}'
        self.a.patch(path, {'password': _PASSWORD})
        self.assertEqual('ok', self.a.get(path)['mgmt_connectivity_state'])

    def test_certificate_of_somebody_else(self):
        """Verified with the file of --peer-ca, whenever it appears."""
        other = self.directory / 'other'
        other.mkdir()
        self.a.array.links.transport.ca = other / 'ca.crt'
        states = []
        for step in (lambda: None, lambda: tls.ensure(other, ()),
                     lambda: (other / 'ca.crt').write_bytes(
                         (self.directory / 'ca.crt').read_bytes())):
            step()
            self.a.array.links.reset()
            states.append(self.a.hits(pairs.PEERS)[0][
                'mgmt_connectivity_state'])
        self.assertEqual(['disconnected', 'disconnected', 'ok'], states)

    @ddt.data(b'', b'[]', b'\xff', b'{}', b'{"views": 5}')
    def test_peer_that_answers_nonsense(self, body):
        """Whatever is at the address: the peer is lost, nothing else."""
        self.start()
        self.useFixture(fixtures.MockPatchObject(
            self.a.array.links.transport, '_post',
            lambda *args: k2_sim.Response(200, {}, body)))
        self.look_again(self.a)
        self.assertEqual('suspended', self.here()['state'])
        self.command_refused(self.a, 'in_sync')

    def test_posted(self):
        """Each side learns the address of the other."""
        for side in (self.a, self.b):
            side.delete(f'{pairs.PEERS}/1')
        self.a.post(pairs.PEERS, {
            'name': 'b', 'mgmt_host': self.b.array.links.address,
            'username': 'repl', 'password': _PASSWORD,
            'local_username': 'repl', 'local_password': _PASSWORD})
        back = self.b.hits(pairs.PEERS)[0]
        self.assertEqual((self.a.array.links.address, 'ok'), (
            back['mgmt_host'], back['mgmt_connectivity_state']))
        for side in (self.a, self.b):
            self.assertNotIn(_PASSWORD, str(side.control.dump()))


class TestHttp(LinkTest):

    secure = False

    def test_life(self):
        self.start()
        self.assertStates('in_sync source', 'in_sync target')
        self.assertEqual(('one', 'one'), self.contents())
