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

"""Any requests in any order: invariants that always hold."""

import hypothesis
from hypothesis import strategies
import msgspec

import k2_sim
from k2_sim.state import catalogue
from k2_sim.state import schema
from tests import base

NAMES = strategies.sampled_from(('a', 'b', 'c', 'a' * 43))
NUMBERS = strategies.integers(0, 3)
FIRST = {'volume_groups': 14, 'volumes': 31, 'snapshots': 51, 'hosts': 7,
         'mappings': 61, 'host_iqns': 21, 'host_groups': 5,
         'retention_policies': 3, 'vg_capacity_policies': 1,
         'snapshot_scheduler': 1, 'snapshot_scheduler_mapping': 1,
         'system/net_ips': 1, 'system/net_ports': 1,
         'system/net_portchannels': 1, 'system/net_vlans': 1}


def refs(*resources):
    return strategies.builds(
        lambda resource, number: base.ref(
            resource, FIRST[resource] + number),
        strategies.sampled_from(resources), NUMBERS)


def bodies(**fields):
    return strategies.fixed_dictionaries(fields)


RETENTION = refs('retention_policies')
LIMITS = strategies.sampled_from((0, 1, 2))
PERCENT = strategies.sampled_from((0, 30, 60, 90, 98))
TIMES = strategies.sampled_from(('30m:00h:00d', '00m:01h:00d', '0m:0h:0d'))
INTERFACES = refs('system/net_ports', 'system/net_portchannels')
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
        is_auto_deleteable=strategies.booleans()),
    'hosts': bodies(name=NAMES, type=strategies.just('Linux')),
    'host_groups': bodies(name=NAMES),
    'host_iqns': bodies(
        iqn=strategies.sampled_from(('iqn.a', 'IQN.A', 'x')),
        host=refs('hosts')),
    'mappings': bodies(host=refs('hosts', 'host_groups'),
                       volume=refs('volumes', 'snapshots')),
    'retention_policies': bodies(
        name=NAMES, num_snapshots=LIMITS, weeks=strategies.just(0),
        days=strategies.just(0), hours=LIMITS),
    'vg_capacity_policies': bodies(
        name=NAMES, warning_threshold=PERCENT, error_threshold=PERCENT,
        critical_threshold=PERCENT, snapshot_overhead_threshold=PERCENT),
    'snapshot_scheduler': bodies(
        scheduler_name=NAMES, time_criteria=TIMES,
        retention_policy=RETENTION, is_enabled=strategies.booleans()),
    'snapshot_scheduler_mapping': bodies(
        snapshot_scheduler=refs('snapshot_scheduler'),
        volume_group=refs('volume_groups')),
    'system/net_ips': bodies(
        ip_address=strategies.sampled_from(
            ('192.0.2.11', '203.0.113.1', '2001:db8::1', 'x')),
        network_mask=strategies.just('64'),
        service=strategies.sampled_from(('iscsi', 'Replication')),
        interface=INTERFACES | refs('system/net_vlans')),
    'system/net_portchannels': bodies(
        knode=strategies.sampled_from(('node01', 'node02', 'x'))),
    'system/net_vlans': bodies(
        interface=INTERFACES,
        tag=strategies.sampled_from(('7', '8', '4095'))),
}
PATCHES = {
    'volume_groups': strategies.one_of(
        bodies(name=NAMES), bodies(quota=SIZES),
        bodies(capacity_policy=refs('vg_capacity_policies')),
        bodies(last_restored_from=refs('snapshots'))),
    'volumes': strategies.one_of(
        bodies(name=NAMES), bodies(size=SIZES),
        bodies(volume_group=refs('volume_groups'), size=SIZES)),
    'snapshots': strategies.one_of(
        bodies(short_name=NAMES), bodies(retention_policy=RETENTION)),
    'hosts': strategies.one_of(
        bodies(name=NAMES), bodies(host_group=refs('host_groups')),
        bodies(host_group=strategies.none())),
    'mappings': strategies.one_of(
        bodies(lun=strategies.integers(0, 4)),
        bodies(host=refs('hosts', 'host_groups'))),
    'host_iqns': bodies(host=refs('hosts')),
    'host_groups': bodies(name=NAMES),
    'retention_policies': strategies.one_of(
        bodies(name=NAMES), bodies(num_snapshots=LIMITS, hours=LIMITS)),
    'vg_capacity_policies': strategies.one_of(
        bodies(name=NAMES), bodies(warning_threshold=PERCENT)),
    'snapshot_scheduler': strategies.one_of(
        bodies(name=NAMES), bodies(time_criteria=TIMES),
        bodies(retention_policy=RETENTION, is_enabled=strategies.booleans())),
    'system/net_portchannels': bodies(mtu=strategies.just('9000')),
}


NETWORK = sorted(name for name in CREATES if name.startswith('system/'))
STORAGE = sorted(set(CREATES) - set(NETWORK))


@strategies.composite
def writes(draw, resources):
    """One write: (method, path, body), single or bulk."""
    resource = draw(strategies.sampled_from(resources))
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


class ModelTest(base.ArrayTest):
    """An array that executes any sequence of steps.

    :cvar behaviors: those of the array
    """

    behaviors = {'clones_movable': True}

    def tell(self, steps):
        """Execute the steps, and check the invariants after each of them."""
        self.clock = k2_sim.FakeClock()
        self.array = k2_sim.Array(
            clock=self.clock, behaviors=self.behaviors)
        self.control = self.array.control
        self._lay_ground()
        for number, (method, path, body) in enumerate(steps):
            if number % 4 == 0:
                self.check_renderings()
            self._let_time_pass(number)
            before = self.control.dump()
            status = self.call(method, path, body).status
            self.assertIn(status, (200, 201, 204, 400, 404, 405))
            if status >= 400:
                self.assertEqual(before, self.control.dump())
            else:
                self._check_events(before, method, body)
        self.check_renderings()
        self._check_references()
        self.check_indexes()
        self._check_archive()

    def _let_time_pass(self, number):
        """Do what is due before the next step is checked."""
        if number % 5 == 0:
            self.clock.advance(1800)
        self.get('volumes?__limit=0')

    def _check_events(self, before, method, body):
        """EVT-4: one more for each object that was written.

        Others record which snapshots a policy has expired meanwhile (RET-2).
        """
        written = len(body) if isinstance(body, list) else 1
        last = before['counters'].get('events', 0)
        told = [event['message'].rpartition(' ')[2]
                for event in self.hits(f'events?id__gt={last}')]
        self.assertEqual(written * [{
            'POST': 'created', 'PATCH': 'changed', 'DELETE': 'deleted'
        }[method]], [word for word in told if word != 'ended'])

    def _lay_ground(self):
        group = self.group('g')
        volume = self.volume(group, 'v', 10)
        snapshot = self.snapshot(group)
        self.map(self.host('h'), self.view(snapshot), 'snapshots')
        self.post('volumes', self.clone_body(group, snapshot, volume))
        scheduler = self.post('snapshot_scheduler', {
            'scheduler_name': 's', 'time_criteria': '30m:00h:00d',
            'retention_policy': {'ref': base.RETENTION}})
        self.post('snapshot_scheduler_mapping', {
            'snapshot_scheduler': base.ref('snapshot_scheduler', scheduler),
            'volume_group': base.ref('volume_groups', group)})
        # So that node01 has two free ports.
        for number in (1, 3):
            self.delete(f'system/net_ips/{number}')

    def _check_references(self):
        """Nothing refers to deleted objects, except history."""
        for resource in catalogue.RESOURCES.values():
            for row in self.array.store.rows(resource.name):
                for field in resource.fields:
                    value = row.get(field.name)
                    if (field.kind == 'ref' and value is not None
                            and field.name != 'last_restored_from'):
                        self.assertTrue(self.array.store.exists(value))

    def _check_archive(self):
        """A saved state can be restored."""
        other = k2_sim.Array(clock=k2_sim.FakeClock())
        other.control.restore(msgspec.json.encode(self.control.save()))
        self.assertEqual(self.control.dump(), other.control.dump())

    def check_storage(self):
        """Check volumes, mappings and policies."""
        self._check_groups()
        self._check_mappings()
        self._check_policies()

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

    def _check_policies(self):
        """RET-1, VCP-1, VCP-2."""
        names = [row['name'] for row in self.hits('retention_policies')]
        self.assertEqual(len(set(names)), len(names))
        self.assertEqual(set(), {'CDP', 'Backup', 'Best_Effort_Retention',
                                 'Replication_Retention'} - set(names))
        for row in self.hits('vg_capacity_policies'):
            levels = [row[f'{level}_threshold'] for level in (
                'warning', 'error', 'critical', 'full')]
            self.assertEqual(sorted(set(levels)), levels)
            self.assertEqual(100, levels[-1])

    def _check_network(self):
        """NET-1, NET-3: who shares an interface with whom."""
        addresses = [row['ip_address'] for row in self.hits('system/net_ips')]
        self.assertEqual(len(set(addresses)), len(addresses))
        joined = [row[field]['ref'] for field in ('net_port1', 'net_port2')
                  for row in self.hits('system/net_portchannels')]
        self.assertEqual(len(set(joined)), len(joined))
        tags = []
        for resource in ('system/net_ips', 'system/net_vlans'):
            for row in self.hits(resource):
                places = [row[name]['ref'] for name in (
                    'net_port', 'net_portchannel', 'net_vlan')
                    if row.get(name) is not None]
                self.assertEqual(1, len(places))
                self.assertNotIn(places[0], joined)
                if resource == 'system/net_vlans':
                    tags.append(row['name'])
        self.assertEqual(len(set(tags)), len(tags))


class TestModel(ModelTest):

    @hypothesis.settings(suppress_health_check=[
        hypothesis.HealthCheck.too_slow,
        hypothesis.HealthCheck.data_too_large])
    @hypothesis.given(steps=strategies.lists(
        writes(STORAGE), min_size=5, max_size=60))
    def test_any_story(self, steps):
        """OBJ-12, OBJ-13, BLK-4: refused or carried out, never partly."""
        self.tell(steps)
        self.check_storage()

    @hypothesis.given(steps=strategies.lists(
        writes(NETWORK), min_size=5, max_size=20))
    def test_any_network(self, steps):
        """OBJ-12, OBJ-13, BLK-4: the same for ports and addresses."""
        self.tell(steps)
        self._check_network()

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
        """A body of any shape is either refused or carried out."""
        if not self.hits('hosts'):
            self.host('h')
            self.volume(self.group('g'), 'v', 10)
        before = self.control.dump()
        status = self.call(*target, body).status
        self.assertIn(status, (200, 201, 400))
        if status == 400:
            self.assertEqual(before, self.control.dump())
