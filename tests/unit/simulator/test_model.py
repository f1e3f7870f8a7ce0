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

"""Any requests in any order: what must hold whatever happens."""

import hypothesis
from hypothesis import strategies
import msgspec

from cinder_k2 import simulator
from cinder_k2.simulator import catalogue
from cinder_k2.simulator import schema
from cinder_k2.simulator import table as table_module
from tests.unit.simulator import base

NAMES = strategies.sampled_from(('a', 'b', 'c', 'a' * 43))
NUMBERS = strategies.integers(0, 3)
FIRST = {'volume_groups': 14, 'volumes': 31, 'snapshots': 51, 'hosts': 7,
         'mappings': 61, 'host_iqns': 21, 'host_groups': 5}


def refs(*resources):
    return strategies.builds(
        lambda resource, number: base.ref(
            resource, FIRST[resource] + number),
        strategies.sampled_from(resources), NUMBERS)


def bodies(**fields):
    return strategies.fixed_dictionaries(fields)


RETENTION = strategies.just({'ref': base.RETENTION})
SIZES = strategies.sampled_from((0, 1, 10, 20))
CREATES = {
    'volume_groups': bodies(name=NAMES,
                            quota=strategies.sampled_from((0, 15, 99))),
    'volumes': strategies.one_of(
        bodies(name=NAMES, size=SIZES, volume_group=refs('volume_groups')),
        bodies(name=NAMES, volume_group=refs('volume_groups'),
               is_thin_clone=strategies.just(True),
               source_snapshot=refs('snapshots'),
               source_volume=refs('volumes'))),
    'snapshots': bodies(
        short_name=NAMES, source=refs('volume_groups', 'snapshots'),
        retention_policy=RETENTION, is_exposable=strategies.booleans(),
        is_auto_deleteable=strategies.just(False)),
    'hosts': bodies(name=NAMES, type=strategies.just('Linux')),
    'host_groups': bodies(name=NAMES),
    'host_iqns': bodies(
        iqn=strategies.sampled_from(('iqn.a', 'IQN.A', 'x')),
        host=refs('hosts')),
    'mappings': bodies(host=refs('hosts', 'host_groups'),
                       volume=refs('volumes', 'snapshots')),
}
PATCHES = {
    'volume_groups': strategies.one_of(
        bodies(name=NAMES), bodies(quota=SIZES),
        bodies(last_restored_from=refs('snapshots'))),
    'volumes': strategies.one_of(
        bodies(name=NAMES), bodies(size=SIZES),
        bodies(volume_group=refs('volume_groups'), size=SIZES)),
    'snapshots': bodies(short_name=NAMES),
    'hosts': strategies.one_of(
        bodies(name=NAMES), bodies(host_group=refs('host_groups')),
        bodies(host_group=strategies.none())),
    'mappings': strategies.one_of(
        bodies(lun=strategies.integers(0, 4)),
        bodies(host=refs('hosts', 'host_groups'))),
    'host_iqns': bodies(host=refs('hosts')),
    'host_groups': bodies(name=NAMES),
}


@strategies.composite
def writes(draw):
    """One write: (method, path, body), single or bulk."""
    resource = draw(strategies.sampled_from(sorted(CREATES)))
    method = draw(strategies.sampled_from(
        ('POST', 'POST', 'PATCH', 'DELETE')))
    wanted = {'POST': CREATES, 'PATCH': PATCHES}.get(method, {}).get(
        resource, strategies.just({}))
    items = draw(strategies.lists(wanted, min_size=1, max_size=3))
    numbers = [FIRST[resource] + draw(NUMBERS) for _ in items]
    if draw(strategies.integers(0, 3)) == 0:
        if method != 'POST':
            items = [{**item, 'id': number}
                     for item, number in zip(items, numbers)]
        return method, f'{resource}/__bulk', items
    path = resource if method == 'POST' else f'{resource}/{numbers[0]}'
    return method, path, items[0]


class TestModel(base.ArrayTest):

    @hypothesis.settings(
        deadline=None, max_examples=100, suppress_health_check=[
            hypothesis.HealthCheck.too_slow,
            hypothesis.HealthCheck.data_too_large])
    @hypothesis.given(steps=strategies.lists(
        writes(), min_size=5, max_size=60))
    def test_any_story(self, steps):
        """OBJ-12, OBJ-13, BLK-4: refused or carried out, never between."""
        self.array = simulator.Array(clock=simulator.FakeClock())
        self.control = self.array.control
        self._lay_ground()
        for number, (method, path, body) in enumerate(steps):
            if number % 4 == 0:
                self.check_renderings()
            before = self.control.dump()
            status = self.call(method, path, body).status
            self.assertIn(status, (200, 201, 204, 400, 404))
            if status >= 400:
                self.assertEqual(before, self.control.dump())
        self.check_renderings()
        self._check_references()
        self._check_indexes()
        self._check_groups()
        self._check_mappings()
        self._check_archive()

    def _lay_ground(self):
        group = self.group('g')
        volume = self.volume(group, 'v', 10)
        snapshot = self.snapshot(group)
        self.map(self.host('h'), self.view(snapshot), 'snapshots')
        self.post('volumes', self.clone_body(group, snapshot, volume))

    def _check_references(self):
        """Nothing refers to what is gone, history aside."""
        for resource in catalogue.RESOURCES.values():
            for row in self.array.store.rows(resource.name):
                for field in resource.fields:
                    value = row.get(field.name)
                    if (field.kind == 'ref' and value is not None
                            and field.name != 'last_restored_from'):
                        self.assertTrue(self.array.store.exists(value))

    def _check_indexes(self):
        """Each index gives what looking at every row gives."""
        for table in self.array.store.tables.values():
            rebuilt = table_module.Table(
                table.resource, lambda *change: None)
            for row in table.rows.values():
                rebuilt.put(row)
            self.assertEqual(vars(rebuilt) | {'_changed': table._changed},
                             vars(table))

    def _check_archive(self):
        """What is saved is what can be restored."""
        other = simulator.Array(clock=simulator.FakeClock())
        other.control.restore(msgspec.json.encode(self.control.save()))
        self.assertEqual(self.control.dump(), other.control.dump())

    def _check_groups(self):
        """VOL-11, VG-3, VG-8, SNP-1."""
        for group in self.hits('volume_groups'):
            where = f'volume_group.ref=/volume_groups/{group["id"]}'
            volumes = self.hits(f'volumes?{where}')
            self.assertEqual(len(volumes), group['volumes_count'])
            self.assertEqual(sum(volume['size'] for volume in volumes),
                             group['volumes_provisioned_capacity'])
            if group['quota'] is not None:
                self.assertLessEqual(
                    group['volumes_provisioned_capacity'], group['quota'])
            for snapshot in self.hits(f'snapshots?{where}'):
                self.assertEqual(
                    f'{group["name"]}:{snapshot["short_name"]}',
                    snapshot['name'])

    def _check_mappings(self):
        """MAP-2, MAP-3, MAP-6, MAP-8."""
        seen, luns = set(), set()
        for row in self.array.store.rows('mappings'):
            resource, number = schema.split_ref(row['host'])
            if resource == 'hosts':
                self.assertIsNone(self.array.store.get(
                    'hosts', number)['host_group'])
            key = row['host'], row['volume']
            self.assertNotIn(key, seen)
            seen.add(key)
            if row['lun'] is None:
                self.assertTrue(row['volume'].startswith('/snapshots/'))
            else:
                self.assertNotIn((row['host'], row['lun']), luns)
                luns.add((row['host'], row['lun']))

    @hypothesis.settings(deadline=None, max_examples=150)
    @hypothesis.given(
        body=strategies.dictionaries(
            strategies.sampled_from(tuple(
                name for resource in ('volumes', 'hosts', 'mappings')
                for name in catalogue.RESOURCES[resource].known)),
            strategies.recursive(
                strategies.none() | strategies.booleans()
                | strategies.integers() | strategies.text(max_size=5)
                | strategies.floats(allow_nan=False)
                | strategies.sampled_from(('/volumes/1', 'true', '5')),
                lambda inner: strategies.lists(inner, max_size=2)
                | strategies.dictionaries(
                    strategies.sampled_from(('ref', 'x')), inner,
                    max_size=2),
                max_leaves=3), max_size=6),
        target=strategies.sampled_from(
            (('POST', 'volumes'), ('POST', 'hosts'), ('POST', 'mappings'),
             ('PATCH', 'volume_groups/14'), ('PATCH', 'volumes/31'),
             ('PATCH', 'hosts/7'))))
    def test_any_body(self, body, target):
        """A body of any shape is refused or carried out."""
        if not self.hits('hosts'):
            self.host('h')
            self.volume(self.group('g'), 'v', 10)
        before = self.control.dump()
        status = self.call(*target, body).status
        self.assertIn(status, (200, 201, 400))
        if status == 400:
            self.assertEqual(before, self.control.dump())
