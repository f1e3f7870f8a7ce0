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

"""k2-admin probe on arrays that refuse all but the known requests."""

import contextlib

import ddt

from cinder_k2 import array
from cinder_k2.array import chap
from cinder_k2.array import objects
from cinder_k2 import exceptions
from cinder_k2 import rest
import k2_sim
from tests.integration.probe import test_probe

_LOUD = ('400', '404', '405', '500', '501', 'drop')
_LOST = ('500', '501', 'drop')
_SILENT = ('no_hits', 'ignored')
# What these arrays really do: delete a host with its initiators, and refuse a
# PATCH with an id or of read_only, bulk calls, moves and changes of a LUN.
_TRUE = {'HST-3'}
_NOT_OFFERED = _TRUE | {'OBJ-11', 'VOL-9', 'VOL-12', 'MAP-9', 'BLK-1',
                        'BLK-3'}
# They carry out requests that they do not understand.
_PASSED_OVER = _TRUE | {'OBJ-12', 'SEQ-1', 'CLN-5', 'SNP-4', 'SNP-10',
                        'section 2.5', 'MAP-9', 'BLK-1', 'BLK-3'}
#: The contradicted rules for each way of refusing, and no others.
CONTRADICTED = {
    '400': _NOT_OFFERED,
    # A PATCH of a snapshot is not found, or not allowed.
    '404': _NOT_OFFERED | {'SNP-10'}, '405': _NOT_OFFERED | {'SNP-10'},
    # A server error says nothing about its reason.
    '500': _TRUE, '501': _TRUE, 'drop': _TRUE,
    'no_hits': _PASSED_OVER, 'ignored': _PASSED_OVER | {'QRY-2'}}
# A refusal confirms these rules, unless the array refuses the request anyway.
_BY_REFUSAL = ('VG-3', 'VG-4', 'VOL-10', 'VOL-13', 'RST-2', 'RST-3',
               'section 14: net_vlans', 'CLN-7', 'HST-5', 'HGR-1')


@ddt.ddt
class KnownTest(test_probe.ProbeTest):

    profile = 'known'

    @ddt.data(*CONTRADICTED)
    def test_no_rule_is_contradicted_falsely(self, way):
        report = self.probe(self.array(refuse_unlisted=way))
        rows = self.rows(report)
        self.assertEqual(CONTRADICTED[way], {
            rule for rule, row in rows.items()
            if row['result'] == 'contradicted'})
        self.assertEqual([], [rule for rule in _BY_REFUSAL
                              if rows[rule]['result'] != 'not seen'])
        self.assertEqual([], report['left_on_the_array'])

    @ddt.data(*_LOUD)
    def test_what_all_arrays_do_is_seen(self, way):
        results = self.results(self.probe(self.array(refuse_unlisted=way)))
        for rule in ('OBJ-2', 'OBJ-4', 'OBJ-14', 'QRY-3', 'QRY-8', 'VOL-2',
                     'VOL-3', 'VOL-6', 'VOL-7', 'SNP-6', 'SNP-9', 'SNP-12',
                     'MAP-4', 'MAP-7', 'MAP-8', 'HST-2', 'VG-5', 'VG-9'):
            self.assertEqual('confirmed', results[rule], rule)

    @ddt.data(
        # The rule is not about the request that is refused.
        (('GET * __sort',), 'section 2.5', 'confirmed'),
        (('GET * __limit',), 'section 2.5', 'not seen'),
        (('PATCH volume_groups/# quota',), 'VG-3', 'not seen'),
        (('PATCH volume_groups/# quota',), 'VG-4', 'not seen'),
        (('PATCH volumes/# volume_group',), 'VOL-10', 'not seen'),
        (('PATCH volumes/# read_only',), 'VOL-13', 'not seen'),
        (('PATCH volume_groups/# last_restored_from',), 'RST-3', 'not seen'),
        (('GET events',), 'EVT-3', 'not seen'),
        (('GET events/#',), 'EVT-3', 'not seen'),
        (('GET volumes name__in',), 'QRY-1', 'not seen'),
        (('GET volumes read_only',), 'QRY-6', 'not seen'),
        (('POST vg_capacity_policies',), 'VCP-1', 'confirmed'),
        (('GET system/net_ports/#',), 'NET-3', 'not seen'),
        (('* * x-k2-sequence',), 'SEQ-1', 'not seen'))
    @ddt.unpack
    def test_one_refusal(self, features, rule, result):
        self.profile = 'sdp'
        rows = self.rows(self.probe(self.array(
            refuse_unlisted='400', refuse_only=features)))
        self.assertEqual(result, rows[rule]['result'], rows[rule]['seen'])

    @ddt.data(
        (('PATCH volume_groups/# quota',), 'VG-3'),
        (('PATCH volume_groups/# is_dedup',), 'VG-4'),
        (('PATCH volumes/# volume_group',), 'VOL-10'),
        (('PATCH volumes/# vmware_support',), 'VOL-13'),
        (('PATCH volumes/# read_only',), 'VOL-12'),
        (('PATCH volume_groups/# last_restored_from',), 'RST-3'),
        (('PATCH volume_groups/# last_restored_from',), 'RST-4'),
        (('PATCH hosts/# host_group',), 'HST-5'),
        (('POST mappings lun',), 'MAP-10'),
        (('GET volumes name__in',), 'QRY-1'),
        (('GET volumes read_only',), 'QRY-6'))
    @ddt.unpack
    def test_one_thing_that_is_passed_over(self, features, rule):
        """A request answered with 200 may not have been carried out."""
        self.profile = 'sdp'
        rows = self.rows(self.probe(self.array(
            refuse_unlisted='ignored', refuse_only=features)))
        self.assertEqual('not seen', rows[rule]['result'],
                         rows[rule]['seen'])

    @ddt.data(*CONTRADICTED)
    def test_the_driver_learns_the_same(self, way):
        """Using the driver on such an array leads to the same verdicts."""
        probed = self.probe(
            self.array(refuse_unlisted=way))['capabilities']
        learnt = self.learnt(self.array(refuse_unlisted=way))
        both = probed.keys() & learnt.keys()
        self.assertEqual({name: learnt[name] for name in both},
                         {name: probed[name] for name in both})
        self.assertLessEqual({'sequence'}, both)
        # A 5xx to a request without a fallback counts from the third time.
        self.assertGreaterEqual(len(both), 3 if way in _LOST else 5, both)

    def learnt(self, sim):
        """Return the verdicts of a driver that has used an array."""
        client = rest.Client(
            rest.Settings(address='k2.example.org', login='admin',
                          password=test_probe._PASSWORD),
            k2_sim.RequestsAdapter(sim), sim.clock)
        self.addCleanup(client.close)
        _use(array.Array(client, 'Best_Effort_Retention'), client)
        return {name: verdict.state for name, verdict
                in client.capabilities.all().items()}


def _use(k2, client):
    """Run the driver's operations, and ignore refusals."""
    group = k2.volumes.create_group('cvg-1', True)
    volume = k2.volumes.create('cv-1', 1 << 20, group)
    snapshot = k2.snapshots.create('cs-1', objects.ArrayVolume(
        volume=volume, group=group))
    for step in (
            lambda: k2.snapshots.create_thin_clone(
                'cv-2', snapshot, volume),
            lambda: k2.snapshots.create_view('cv-3', snapshot, lasting=True),
            lambda: k2.snapshots.view_of(snapshot, 'cv-3'),
            lambda: k2.snapshots.find_many(['cs-1', 'cs-2']),
            lambda: client.volume_groups.update(
                group, last_restored_from=snapshot.ref),
            lambda: client.volume_groups.update(group, description='x'),
            lambda: client.volumes.update(volume, description='x'),
            lambda: client.volumes.get(volume),
            lambda: client.snapshots.get(snapshot.snapshot),
            lambda: client.volsnaps.search(source=client.volumes.ref(
                volume)),
            lambda: client.volumes.search(rest.query.one_of(
                'name', ['cv-1', 'cv-2'])),
            client.performance,
            lambda: k2.chap.ensure(chap.Login(
                'cp-1', 'password-of-14'))):
        with contextlib.suppress(rest.RestError, exceptions.K2Error):
            step()
