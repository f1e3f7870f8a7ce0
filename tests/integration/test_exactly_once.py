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

"""Writes against the simulated array with faults.

Whatever happens to the replies, a write that returns was carried out once, and
a write that raises was carried out once or not at all. The array may support
X-K2-Sequence or ignore it (SEQ-1), show objects late (OBJ-6) and lose the
reply to any write or read.
"""

import unittest

from hypothesis import given
from hypothesis import strategies as st

from cinder_k2 import rest
import k2_sim
from tests.unit.rest import scripted

GIB = 1048576
COMMIT = st.sampled_from(['before', 'after'])
# Faults that retries overcome, and faults that end a call.
PASSING = st.one_of(
    st.fixed_dictionaries({
        'kind': st.just('busy'), 'code': st.sampled_from(
            rest.errors.BUSY_CODES)}),
    st.fixed_dictionaries({
        'kind': st.just('status'), 'status': st.sampled_from([429, 503])}),
    st.fixed_dictionaries({
        'kind': st.just('status'), 'commit': COMMIT,
        'status': st.sampled_from([500, 502])}),
    st.fixed_dictionaries({
        'kind': st.sampled_from(
            ['reset', 'garbage', 'truncated', 'empty']), 'commit': COMMIT}),
    st.fixed_dictionaries({
        'kind': st.just('hang'), 'commit': COMMIT,
        'seconds': st.sampled_from([1.0, 100.0])}))
FATAL = st.one_of(
    st.fixed_dictionaries({
        'kind': st.just('status'), 'commit': COMMIT,
        'status': st.sampled_from([401, 403])}),
    st.fixed_dictionaries({
        'kind': st.just('busy'), 'commit': st.just('after')}),
    st.fixed_dictionaries({
        'kind': st.just('status'), 'commit': st.just('after'),
        'status': st.sampled_from([429, 503])}))
# Capabilities that are known to work. Otherwise zero hits of a search prove
# nothing, neither to the client nor to these tests, and 5xx replies to the
# creation of host groups block that call for a minute.
KNOWN = ('searches:host_groups:name', 'searches:host_iqns:host',
         'creations:host_groups:name')
LATE = st.integers(0, 4)
FAULTS = st.lists(PASSING, max_size=5)
ANY_FAULTS = st.lists(PASSING | FATAL, max_size=5)


class Site:
    """A simulated array, a client of it, and what most tests need."""

    def __init__(self, sequences=True, bulk=('*',)):
        self.array = k2_sim.Array(
            'sdp', clock=k2_sim.FakeClock())
        self.array.control.set_behaviors(sequences=sequences, bulk=bulk)
        self.clock = scripted.FakeClock()
        self.client = c = rest.Client(
            rest.Settings(address='k2', login='admin', password='admin'),
            k2_sim.RequestsAdapter(self.array), self.clock)
        for name in KNOWN:
            c.capabilities.found(name)
        self.policy = c.retention_policies.find(name='Best_Effort_Retention')
        self.group = c.volume_groups.create(name='vg', quota=0)
        self.other = c.volume_groups.create(name='vg-2', quota=0)
        self.volume, self.second = [
            c.volumes.create(name=f'v-{group.id}', size=GIB,
                             volume_group=group.ref)
            for group in (self.group, self.other)]
        self.snapshot = self.snap('s')
        self.host = c.hosts.create(name='node', type='Linux')
        self.array.control.log_in('host_iqns', 'iqn.2005-03.org:Seen')

    def snap(self, short_name):
        return self.client.snapshots.create(
            short_name=short_name, source=self.group.ref,
            retention_policy=self.policy.ref, is_auto_deleteable=False)

    def trouble(self, faults, late=0, reads=()):
        """Add faults: ``faults`` for writes, ``reads`` for reads.

        :param late: reads in which the next new object is not yet visible
        """
        if late:
            self.array.control.add_fault(
                kind='late', method='POST', times=1, reads=late)
        for method, listed in (('write', faults), ('GET', reads)):
            for fault in listed:
                self.array.control.add_fault(
                    fault | {'method': method, 'times': 1})

    def calm(self):
        self.array.control.clear_faults()

    def ids(self, resource, **key):
        """Return the ids of all objects, once late ones are visible."""
        for _ in range(5):
            found = resource.search(**key)
        return [record.id for record in found]


def _group(site):
    return 'volume_groups', {'name': 'new', 'quota': 0}


def _volume(site):
    return 'volumes', {'name': 'new', 'size': GIB,
                       'volume_group': site.group.ref}


def _clone(site):
    return 'volumes', {
        'name': 'new', 'volume_group': site.group.ref,
        'source_snapshot': site.snapshot.ref, 'is_thin_clone': True,
        'source_volume': site.volume.ref}


def _snapshot(site):
    return 'snapshots', {
        'short_name': 'new', 'source': site.group.ref,
        'retention_policy': site.policy.ref, 'is_auto_deleteable': False}


def _view(site):
    return 'snapshots', {
        'short_name': 'new', 'source': site.snapshot.ref,
        'retention_policy': site.policy.ref, 'is_exposable': True}


def _mapping(site):
    return 'mappings', {'host': site.host.ref, 'volume': site.volume.ref}


def _host(site):
    return 'hosts', {'name': 'new', 'type': 'Linux'}


def _host_group(site):
    return 'host_groups', {'name': 'new'}


def _iqn(site):
    return 'host_iqns', {'iqn': 'iqn.1993-08.org.debian:01:new',
                         'host': site.host.ref}


def _seen_iqn(site):
    return 'host_iqns', {'iqn': 'iqn.2005-03.org:seen',
                         'host': site.host.ref}


def _fc_port(site):
    return 'host_fc_ports', {'pwwn': '5001438024D0C29E',
                             'host': site.host.ref}


CREATES = st.sampled_from([
    _group, _volume, _clone, _snapshot, _view, _mapping, _host, _host_group,
    _iqn, _seen_iqn, _fc_port])


def _key_of(collection, fields):
    """Return a search for the objects that these tests create."""
    if collection in ('host_iqns', 'host_fc_ports', 'mappings'):
        return {'host': fields['host']}
    key = 'short_name' if collection == 'snapshots' else 'name'
    return {key: 'new'}


class ExactlyOnceTest(unittest.TestCase):

    def _create(self, site, make):
        collection, fields = make(site)
        resource = getattr(site.client, collection)
        made = resource.create(**fields)
        site.calm()
        self.assertEqual([made.id], site.ids(
            resource, **_key_of(collection, fields)))

    @given(CREATES, FAULTS, LATE, FAULTS)
    def test_create_gets_through(self, make, faults, late, reads):
        site = Site()
        site.trouble(faults, late, reads)
        self._create(site, make)

    @given(CREATES, FAULTS, LATE, FAULTS)
    def test_create_gets_through_without_sequences(
            self, make, faults, late, reads):
        site = Site(sequences=False)
        site.trouble(faults, late, reads)
        self._create(site, make)

    @given(CREATES, ANY_FAULTS, LATE, ANY_FAULTS, st.booleans())
    def test_create_never_makes_two(
            self, make, faults, late, reads, sequences):
        site = Site(sequences)
        site.trouble(faults, late, reads)
        try:
            self._create(site, make)
        except rest.RestError:
            site.calm()
            collection, fields = make(site)
            self.assertLessEqual(len(site.ids(
                getattr(site.client, collection),
                **_key_of(collection, fields))), 1)

    @given(FAULTS, FAULTS, st.booleans())
    def test_delete(self, faults, reads, sequences):
        site = Site(sequences)
        site.trouble(faults, 0, reads)
        self.assertIs(True, site.client.volumes.delete(
            site.second.id, name=site.second.name))
        site.calm()
        self.assertIsNone(site.client.volumes.find(name=site.second.name))
        self.assertIs(False, site.client.volumes.delete(site.second.id))

    @given(ANY_FAULTS, ANY_FAULTS, st.booleans())
    def test_delete_with_any_faults(self, faults, reads, sequences):
        site = Site(sequences)
        site.trouble(faults, 0, reads)
        try:
            site.client.volumes.delete(site.second.id)
        except rest.RestError:
            return
        site.calm()
        self.assertIsNone(site.client.volumes.find(name=site.second.name))

    @given(FAULTS, FAULTS, st.booleans())
    def test_update(self, faults, reads, sequences):
        site = Site(sequences)
        site.trouble(faults, 0, reads)
        grown = site.client.volumes.update(site.volume.id, size=2 * GIB)
        site.calm()
        self.assertEqual(2 * GIB, grown.size)
        self.assertEqual(grown, site.client.volumes.get(site.volume.id))

    @given(ANY_FAULTS, ANY_FAULTS, st.booleans())
    def test_update_with_any_faults(self, faults, reads, sequences):
        site = Site(sequences)
        site.trouble(faults, 0, reads)
        try:
            expected = {site.client.volumes.update(
                site.volume.id, size=2 * GIB).size}
        except rest.RestError:
            expected = {GIB, 2 * GIB}
        site.calm()
        self.assertIn(site.client.volumes.get(site.volume.id).size, expected)

    @given(st.sampled_from([('*',), (), ('volumes',)]),
           FAULTS, LATE, FAULTS, st.booleans())
    def test_bulk(self, bulk, faults, late, reads, sequences):
        site = Site(sequences, bulk)
        items = [_snapshot(site)[1] | {'source': group.ref}
                 for group in (site.other, site.group)]
        site.trouble(faults, late, reads)
        made = site.client.snapshots.create_many(items)
        site.calm()
        self.assertEqual([item['source'] for item in items],
                         [snapshot.source for snapshot in made])
        self.assertEqual(
            sorted(snapshot.id for snapshot in made),
            site.ids(site.client.snapshots, short_name='new'))
        site.trouble(faults, 0, reads)
        site.client.snapshots.delete_many({
            s.id: {'short_name': s.short_name} for s in made})
        site.calm()
        self.assertEqual(0, site.client.snapshots.count(short_name='new'))

    @given(st.sampled_from([('*',), (), ('snapshots',)]), FAULTS, FAULTS,
           st.booleans())
    def test_bulk_update(self, bulk, faults, reads, sequences):
        site = Site(sequences, bulk)
        site.trouble(faults, 0, reads)
        self.assertEqual({}, site.client.volumes.update_many({
            site.volume.id: {'size': 2 * GIB},
            site.second.id: {'size': 3 * GIB}}))
        site.calm()
        self.assertEqual([2 * GIB, 3 * GIB], [
            site.client.volumes.get(volume.id).size
            for volume in (site.volume, site.second)])

    @given(st.sampled_from([('*',), ()]), ANY_FAULTS, ANY_FAULTS,
           st.booleans())
    def test_bulk_update_with_any_faults(self, bulk, faults, reads, sequences):
        """Objects not reported as bad are changed."""
        site = Site(sequences, bulk)
        site.trouble(faults, 0, reads)
        sizes = {site.volume.id: 2 * GIB, site.second.id: 3 * GIB}
        try:
            bad = site.client.volumes.update_many(
                {id: {'size': size} for id, size in sizes.items()})
        except rest.RestError:
            return
        site.calm()
        for id, size in sizes.items():
            if id not in bad:
                self.assertEqual(size, site.client.volumes.get(id).size)

    @given(CREATES, st.booleans())
    def test_what_others_made_is_not_ours(self, make, sequences):
        site = Site(sequences)
        collection, fields = make(site)
        resource = getattr(site.client, collection)
        resource.create(**fields)
        site.trouble([{'kind': 'busy'}, {'kind': 'status', 'status': 429}])
        if collection in ('host_iqns', 'host_fc_ports'):
            return  # Giving an initiator to its own host again is fine.
        with self.assertRaises(rest.Refused):
            resource.create(**fields)
