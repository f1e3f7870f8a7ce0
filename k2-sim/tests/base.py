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

"""Base classes for tests with an array, and helpers that send it requests."""

import base64
import functools
import json
import pathlib

import fixtures
import testtools

import k2_sim
from k2_sim.adapters import tls
from k2_sim.api import service
from k2_sim.faults import visibility
from k2_sim.protocol import messages
from k2_sim.protocol import request_context
from k2_sim.state import table as table_module
from tests import contexts

GIB = 2 ** 20
JSON = 'application/json'
RETENTION = '/retention_policies/3'


def authorization(login='admin', password='admin'):
    token = base64.b64encode(f'{login}:{password}'.encode()).decode()
    return {'Authorization': f'Basic {token}'}


def ref(resource, record):
    """The reference, as in JSON, to a record of a reply or to an id."""
    number = record if isinstance(record, int) else record['id']
    return {'ref': f'/{resource}/{number}'}


class DirectoryTest(testtools.TestCase):
    """A test with its own directory, which is removed after it."""

    @functools.cached_property
    def directory(self):
        return pathlib.Path(self.useFixture(fixtures.TempDir()).path)

    @property
    def state_path(self):
        """Where a test's array keeps its state."""
        return self.directory / 'state.db'


class ServedTest(DirectoryTest):
    """One array behind TLS for all tests of a class, reset for each."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        place = fixtures.TempDir()
        place.setUp()
        cls.addClassCleanup(place.cleanUp)
        certificate = tls.ensure(place.path, ())
        cls.authority = str(certificate.authority_path)
        cls.array = cls.make_array(place.path)
        cls.addClassCleanup(cls.array.close)
        cls.server = contexts.enter_for_class(
            cls, k2_sim.Server(cls.array, certificate))
        cls.url = cls.server.url

    @classmethod
    def make_array(cls, place):
        """Create the array; place: a directory for its files."""
        return k2_sim.Array(clock=k2_sim.FakeClock())

    def setUp(self):
        super().setUp()
        self.control = self.array.control
        self.control.reset()


class ArrayTest(DirectoryTest):
    """A test with one array in memory; refusals must change nothing."""

    profile = 'sdp'

    def setUp(self):
        super().setUp()
        self.clock = k2_sim.FakeClock()
        self.start_array(seed=1)

    def start_array(self, store=None, **options):
        """Start an array; with the store of a closed one, that one again."""
        self.array = k2_sim.Array(
            self.profile, store, clock=self.clock, **options)
        self.addCleanup(self.array.close)
        self.control = self.array.control

    def call(self, method, path, body=None, **headers):
        """Send a request below /api/v2; body is sent as JSON if not None."""
        path, _, query = path.partition('?')
        data = b'' if body is None else json.dumps(body).encode()
        sent = {**authorization(), 'Content-Type': JSON, **headers}
        return self.array.handle(
            method, f'/api/v2/{path}', query, sent, data)

    def expect(self, status, method, path, body=None, **headers):
        response = self.call(method, path, body, **headers)
        self.assertEqual(status, response.status, response.body)
        return response.json() if response.body else None

    def sim(self, status, method, name, body=None):
        """The reply of the control API, checked to have this status."""
        response = self.array.handle(
            method, f'/sim/v1/{name}', '',
            {**authorization(), 'Content-Type': JSON},
            b'' if body is None else json.dumps(body).encode())
        self.assertEqual(status, response.status, response.body)
        return response.json() if response.body else None

    def get(self, path):
        return self.expect(200, 'GET', path)

    def hits(self, path):
        return self.get(path)['hits']

    def post(self, path, body):
        return self.expect(201, 'POST', path, body)

    def patch(self, path, body):
        return self.expect(200, 'PATCH', path, body)

    def delete(self, path, body=None):
        """Send a DELETE, after which the object must not exist."""
        self.expect(204, 'DELETE', path, body)
        resource, _, number = path.rpartition('/')
        if number.isdecimal():
            self.assertIsNone(self.array.store.get(resource, int(number)))

    def refused(self, method, path, body=None, status=400, **headers):
        """The error text of a request that must change nothing."""
        before = self.control.dump()
        response = self.call(method, path, body, **headers)
        self.assertEqual(status, response.status, response.body)
        self.assertEqual({'Content-Type': JSON}, response.headers)
        self.assertEqual(before, self.control.dump())
        reply = response.json()
        self.assertEqual(['error_msg'], list(reply))
        return reply['error_msg']

    def check_renderings(self):
        """Check that replies do not depend on caches."""
        known = list(self.array.store.listeners)
        fresh = service.Service(
            self.array.store, self.array.behaviors, self.array.clock,
            visibility.Visibility(self.array.clock), self.array.core.io)
        whole = fresh.answer(
            messages.Request('GET', '__full', role='admin'),
            visibility.StaleReads(), request_context.RequestContext())
        self.array.store.listeners[:] = known
        self.assertEqual(whole.json(), self.get('__full'))

    def check_indexes(self):
        """Check that each index equals one built from all rows."""
        for table in self.array.store.tables.values():
            rebuilt = table_module.Table(
                table.resource, lambda *change: None)
            for row in table.rows.values():
                rebuilt.put(row)
            self.assertEqual(vars(rebuilt) | {'_changed': table._changed},
                             vars(table))

    def group(self, name='vg-a', **fields):
        return self.post('volume_groups',
                         {'name': name, 'quota': 0, **fields})

    def volume(self, group, name='vol-1', size=10 * GIB, **fields):
        return self.post('volumes', {
            'name': name, 'size': size,
            'volume_group': ref('volume_groups', group), **fields})

    def snapshot_body(self, source, name, **fields):
        return {'short_name': name, 'source': source,
                'retention_policy': {'ref': RETENTION},
                'is_auto_deleteable': False, **fields}

    def snapshot(self, group, name='snap-1', **fields):
        return self.post('snapshots', self.snapshot_body(
            ref('volume_groups', group), name, **fields))

    def view(self, snapshot, name='view-1', **fields):
        return self.post('snapshots', self.snapshot_body(
            ref('snapshots', snapshot), name, is_exposable=True, **fields))

    def clone_body(self, group, snapshot, volume, name='clone-1'):
        return {'name': name, 'is_thin_clone': 'true',
                'volume_group': ref('volume_groups', group),
                'source_snapshot': ref('snapshots', snapshot),
                'source_volume': ref('volumes', volume)}

    def host(self, name='node1', **fields):
        return self.post('hosts', {'name': name, 'type': 'Linux', **fields})

    def map(self, host, volume, kind='volumes', host_kind='hosts'):
        return self.post('mappings', {
            'host': ref(host_kind, host), 'volume': ref(kind, volume)})

    def refuse_map(self, host, volume, kind='volumes', host_kind='hosts'):
        return self.refused('POST', 'mappings', {
            'host': ref(host_kind, host), 'volume': ref(kind, volume)})
