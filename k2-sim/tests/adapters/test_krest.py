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

"""krest, the vendor's client, against the array over HTTPS.

Two versions are tested: 1.3.7, with which the in-tree driver works, and 1.3.8,
with which it does not (objects of 1.3.8 copy their connection, in which that
driver keeps a lock). Therefore 1.3.8 is installed in a directory of its own by
tools/bootstrap.
"""

import importlib.util
import io
import json
import logging
import pathlib
import sys
import threading

import fixtures
import krest
import requests
import testtools

import k2_sim
from tests import base
from tests import pairs

NEW_KREST = pathlib.Path(sys.prefix) / 'krest-1.3.8/krest.py'


class KrestTest(base.ServedTest):

    krest = krest
    version = '1.3.7'

    @classmethod
    def make_array(cls, place):
        array = super().make_array(place)
        k2_sim.connect(array)
        return array

    def setUp(self):
        super().setUp()
        # It logs every request, and every refusal as an error.
        self.useFixture(fixtures.FakeLogger('krest', logging.CRITICAL))
        self.useFixture(fixtures.EnvironmentVariable('NO_PROXY', '127.0.0.1'))
        self.ep = self.endpoint()

    def endpoint(self, password='admin', **retries):
        """A connection; retries: settings of its RetryCfg."""
        class EndPoint(self.krest.EndPoint):
            RetryCfg = type('RetryCfg', (self.krest.EndPoint.RetryCfg,), {
                'not_reachable_pause': 0, **retries})

        return EndPoint(f'127.0.0.1:{self.server.port}', 'admin', password,
                        ssl_validate=self.authority)

    def volume(self, name='vg1'):
        """A group with this name and its volume."""
        group = self.ep.new('volume_groups', name=name, quota=0).save()
        return group, self.ep.new('volumes', name=f'{name}-v', size=2 ** 20,
                                  volume_group=group).save()

    def snapshot(self, source, name, **fields):
        return self.ep.new(
            'snapshots', source=source, short_name=name,
            retention_policy=self.ep.search('retention_policies').hits[0],
            **fields).save()


class Documented:
    """The examples of krest's README."""

    def test_version(self):
        self.assertEqual(self.version, self.krest.__version__)

    def test_hosts(self):
        """DIS-1, OBJ-3: objects are created, changed, found and removed."""
        group = self.ep.new('host_groups')
        group.name = 'hg1'
        group.save()
        host = self.ep.new('hosts', name='h1', type='Linux',
                           host_group=group).save()
        host.type = 'Windows'
        host.name = 'h2'
        host.save()
        found, = self.ep.search('hosts', name='h2').hits
        self.assertEqual((host.id, 'Windows', 'hg1'), (
            found.id, found.type, found.host_group.name))
        for query in (group, [group], self.ep.search('host_groups')):
            self.assertEqual([host.id], [hit.id for hit in self.ep.search(
                'hosts', host_group=query).hits])
        for event in self.ep.search('events', level='INFO',
                                    message__contains='h1',
                                    name__contains='HOST'):
            self.assertIn('h1', event.message)
        host.host_group = None
        host.save()
        host.delete()
        self.assertEqual(0, self.ep.search('hosts').total)

    def test_volumes_and_luns(self):
        """MAP-5, MAP-9: a volume for a host group and a host."""
        policy = self.ep.search('vg_capacity_policies').hits[0]
        group = self.ep.new('volume_groups', name='vg1', quota=100 * 2 ** 20)
        group.capacity_policy = policy
        group.save()
        volume = self.ep.new('volumes', name='v1', size=10 * 2 ** 20,
                             volume_group=group).save()
        self.assertEqual(volume.id, self.ep.get('volumes', volume.id).id)
        hosts = self.ep.new('host_groups', name='hg1').save()
        mapping = self.ep.new('mappings', volume=volume, host=hosts)
        mapping.save()
        lun = mapping.lun + 10
        mapping.lun += 10
        mapping.save()
        self.assertEqual(lun, self.ep.get('mappings', mapping.id).lun)
        alone = self.ep.new('hosts', name='standalone', type='Linux').save()
        self.ep.new('mappings', volume=volume, host=alone).save()
        self.assertEqual(2, self.ep.search('mappings', volume=volume).total)

    def test_view_and_its_lun(self):
        """SNP-8: a view is mapped; its LUN is found by its volsnap."""
        group, volume = self.volume()
        taken = self.snapshot(group, 's1')
        view = self.snapshot(taken, 'r1', is_exposable=True)
        host = self.ep.new('hosts', name='h1', type='Linux').save()
        self.ep.new('mappings', volume=view, host=host).save()
        image, = self.ep.search('volsnaps', snapshot=view).hits
        self.assertEqual(volume.id, image.source.id)
        mapping, = self.ep.search('mappings', volume=image, host=host).hits
        self.assertTrue(1 <= mapping.lun <= 254)

    def test_restore(self):
        """RST-1, RST-4."""
        group, volume = self.volume()
        self.control.write(volume.id, 'old')
        taken = self.snapshot(group, 's1')
        self.control.write(volume.id, 'new')
        group.last_restored_from = taken
        group.save()
        self.assertEqual('old', self.control.read(volume.id))
        volume.refresh()
        self.assertEqual(taken.id, volume.last_restored_from.id)


class Searches:
    """More than one page, and a subset of the fields."""

    def fill(self, count=23):
        request = self.ep.new('host_groups', bulk=True)
        for number in range(count):
            request.add(self.ep.new('host_groups', name=f'hg{number}'))
        return request.post()

    def test_autofetch(self):
        """OBJ-1, QRY paging: all objects, chunk by chunk, each once."""
        self.assertEqual(23, self.fill().total)
        self.control.clear_journal()
        found = self.ep.search('host_groups', __limit=10, __sort='id')
        found.autofetch = True
        self.assertEqual([f'hg{number}' for number in range(23)],
                         [hit.name for hit in found])
        self.assertEqual(23, len(found))
        # The last chunk is empty: krest does not count.
        self.assertEqual(4, len(self.control.journal()))

    def test_chunks_of_the_default_size(self):
        self.control.set_behaviors(page_size=9)
        self.fill()
        found = self.ep.search('host_groups', __sort='id',
                               __sort_order='desc')
        chunks = []
        while found.hits:
            chunks.append(len(found.hits))
            self.assertEqual((9, 23), (found.limit, found.total))
            last = found.hits[-1].name
            found.next_chunk()
        self.assertEqual(([9, 9, 5], 'hg0'), (chunks, last))

    def test_no_hits_but_their_number(self):
        self.fill()
        found = self.ep.search('host_groups', __limit=0)
        self.assertEqual(([], 23), (found.hits, found.total))

    def test_fields(self):
        for volume in (self.ep.get('volumes', 1, __fields=['id', 'name']),
                       self.ep.search('volumes', id=1,
                                      __fields=['id', 'name']).hits[0]):
            self.assertEqual({'id', 'name'}, set(volume._current))
            self.assertEqual('CTRL', volume.name)

    def test_delete_all(self):
        self.fill()
        self.ep.search('host_groups').delete_all()
        self.assertEqual(0, self.ep.search('host_groups').total)

    def test_dump(self):
        """All objects of all resources, streamed to a file."""
        self.fill()
        plain, pretty = io.BytesIO(), io.BytesIO()
        self.ep.dump_all(plain, read_chunk=64)
        self.ep.dump_all(pretty, pretty=True)
        dumped = json.loads(plain.getvalue())
        self.assertEqual(set(self.ep.resources), set(dumped))
        self.assertEqual(23, len(dumped['host_groups']))
        self.assertEqual(dumped, json.loads(pretty.getvalue()))
        self.assertGreater(pretty.getvalue().count(b'\n'), 500)

    def test_raw(self):
        stream = io.BytesIO()
        self.ep.search('volumes', options={'raw': True, 'fp': stream})
        self.assertEqual(1, json.loads(stream.getvalue())['total'])


class Writes:
    """Bulk calls, sequence numbers, errors and retries."""

    def test_bulk(self):
        """BLK-1, BLK-2, BLK-3: snapshots of several groups in one call."""
        groups = [self.volume(f'vg{number}')[0] for number in range(3)]
        policy = self.ep.search('retention_policies').hits[0]
        request = self.ep.new('snapshots', bulk=True)
        for group in groups:
            request.add(self.ep.new(
                'snapshots', short_name=f's-{group.name}', source=group,
                retention_policy=policy))
        taken = request.post()
        self.assertEqual(['s-vg0', 's-vg1', 's-vg2'],
                         [hit.short_name for hit in taken])
        request = self.ep.new('snapshots', bulk=True)
        request.add(taken)
        request.delete()
        self.assertEqual(0, self.ep.search('snapshots').total)

    def test_bulk_changes(self):
        """OBJ-12: krest sends whole objects."""
        for number in range(3):
            self.volume(f'vg{number}')
        request = self.ep.new('volume_groups', bulk=True)
        request.add(self.ep.search('volume_groups', __sort='id'))
        for number, item in enumerate(request):
            item.description = f'number {number}'
        self.assertEqual(['number 0', 'number 1', 'number 2'],
                         [hit.description for hit in request.patch()])

    def test_sequences(self):
        """SEQ-1: each number must go up, else 409 and nothing is used."""
        sent = {'a': 1, 'b': 1, 'c': 1}
        self.ep.new('host_groups', name='hg1').save({'sequence': sent})
        again = self.ep.new('host_groups', name='hg2')
        for name in sent:
            error = self.assertRaises(
                requests.HTTPError, again.save, {'sequence': sent})
            self.assertEqual(409, error.response.status_code)
            sent[name] = 2
        again.save({'sequence': sent})
        self.assertEqual(2, self.ep.search('host_groups').total)

    def test_wrong_password(self):
        """DIS-4: the constructor fails; it reads the index."""
        error = self.assertRaises(
            requests.HTTPError, self.endpoint, 'wrong')
        self.assertEqual(401, error.response.status_code)

    def test_refusal(self):
        """ERR-8, CON-6: krest shows the array's text."""
        self.volume()
        error = self.assertRaises(
            requests.HTTPError, self.ep.new('volumes', name='vg1-v').save)
        self.assertEqual(400, error.response.status_code)
        self.assertIn('Missing required field', str(error))

    def test_not_found(self):
        """EVT-3."""
        error = self.assertRaises(
            requests.HTTPError, self.ep.get, 'events', 0)
        self.assertEqual(404, error.response.status_code)

    def test_empty_reply(self):
        """OBJ-3: krest needs the object."""
        self.control.add_fault(kind='empty', method='POST')
        self.assertRaises(self.krest.KrestProtocolError, self.ep.new(
            'host_groups', name='hg').save)

    def test_change_without_reading(self):
        """OBJ-11: an object with an ID only."""
        group, _ = self.volume()
        self.ep.new('volume_groups', id=group.id, description='d').save()
        self.assertEqual('d', self.ep.get(
            'volume_groups', group.id).description)

    def test_repeats(self):
        """ERR-3: server errors and broken connections, 429 if configured."""
        ep = self.endpoint(on_toofast_error=True, toofast_pause=0)
        for fault in ({'kind': 'status', 'status': 503},
                      {'kind': 'status', 'status': 429}, {'kind': 'reset'}):
            self.control.add_fault(**fault, times=1)
        self.assertEqual('CTRL', ep.get('volumes', 1).name)
        self.assertEqual([1, 1, 1], [
            rule['triggered'] for rule in self.control.faults()])

    def test_too_fast(self):
        """ERR-5: two clients in a loop exceed the limit."""
        self.control.set_behaviors(rate_limit=1.0, rate_burst=20)

        def load(found):
            try:
                for _ in range(100):
                    self.ep.get('system/state', 1)
            except requests.HTTPError as exc:
                found.append(exc.response.status_code)

        found = []
        threads = [threading.Thread(target=load, args=(found,))
                   for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual([429, 429], found)


class References:
    """DIS-2: whatever a reference can name is in the index."""

    def make_everything(self):
        """Create objects of every kind; the array is its own peer."""
        new = self.ep.new
        group, volume = self.volume()
        hosts = new('host_groups', name='hg').save()
        host = new('hosts', name='h', type='Linux', host_group=hosts).save()
        chap = new('host_auth_profiles', name='chap', type='CHAP',
                   username='user', password='secret-secret').save()
        host.map_auth_profiles_names = chap.name
        host.save()
        new('host_iqns', iqn='iqn.2026-01.example:1', host=host).save()
        new('host_fc_ports', pwwn='50:00:00:00:00:00:00:01',
            host=host).save()
        self.replicate(group, volume)
        view = self.snapshot(self.snapshot(group, 's1'), 'r1',
                             is_exposable=True)
        for mapped in (volume, view):
            new('mappings', host=hosts, volume=mapped).save()

    def replicate(self, group, volume):
        session = self.ep.new('replication/sessions', **pairs.session_body(
            {'id': group.id, 'name': group.name})).save()
        self.ep.new(
            'replication/peer_volumes', name='there', local_volume=volume,
            replication_session=session).save()
        session.state = 'in_sync'
        session.save()

    def test_every_reference(self):
        self.make_everything()
        seen = {name for resource in self.ep.resources
                for hit in self.ep.search(resource).hits
                for name in self._references(hit)}
        self.assertLess({
            'host_groups', 'hosts', 'replication/peer_k2arrays',
            'replication/peer_volumes', 'replication/rpo_history',
            'replication/sessions', 'replication/stats/volumes',
            'retention_policies', 'snapshots', 'stats/volumes',
            'system/hardware_states', 'system/net_ports', 'system/servers',
            'system/wan_ports', 'volume_groups', 'volumes', 'volsnaps'},
            seen)

    def test_unparsed(self):
        """OBJ-8: without parsing, a reference is what the array sends."""
        group, volume = self.volume()
        self.ep.parse_references = False
        self.assertEqual(
            {'ref': f'/volume_groups/{group.id}'},
            self.ep.get('volumes', volume.id).volume_group)

    def _references(self, hit):
        """Read the resource of each reference of an object."""
        for value in hit._current.values():
            for proxy in value if isinstance(value, list) else [value]:
                if isinstance(proxy, self.krest.RestObjectProxy):
                    proxy()
                    yield proxy._resource_type


class TestKrest(Documented, Searches, Writes, References, KrestTest):
    pass


@testtools.skipUnless(NEW_KREST.exists(),
                      'krest 1.3.8 is missing: tools/bootstrap installs it')
class TestNewKrest(Documented, Searches, Writes, References, KrestTest):

    version = '1.3.8'

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        spec = importlib.util.spec_from_file_location('krest138', NEW_KREST)
        cls.krest = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(cls.krest)
