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

"""Arrays whose replies lack fields, or have fields of other types.

The main operations run with each field of each type of record that they read:
a field that no step needs may be missing, null or of another type.
"""

import contextlib
import itertools
import json
from typing import Any
from unittest import mock

import ddt

from cinder_k2.flows.failover import failback
from cinder_k2.rest import overlooked
from cinder_k2.rest import records
from cinder_k2.rest import transport
from tests.functional import backend
from tests.functional import base
from tests.functional import images
from tests.functional import learned
from tests.functional import replicated

# Fields that a step needs: to find an object, or to tell hosts.
NEEDED = {
    'volumes': {'id', 'name'}, 'volume_groups': {'id', 'name'},
    'snapshots': {'id', 'short_name'}, 'volsnaps': {'id'},
    'mappings': {'id', 'lun'}, 'hosts': {'id', 'name'},
    'host_iqns': {'id', 'iqn', 'host'},
    'retention_policies': {'id', 'name'},
    'system/net_ips': {'id', 'ip_address'},
    'system/state': {'id', 'system_id', 'iscsi_qualified_target_name'},
    'system/capacity': {'id', 'total', 'free'},
}
# The same for replication, on either array.
NEEDED_TO_REPLICATE = {
    'replication/peer_k2arrays': {'id', 'mgmt_host'},
    'replication/peer_volumes': {'id'},
    'replication/sessions': {
        'id', 'name', 'state', 'current_role',
        'generation_number'},
    'volumes': {'id', 'name'},
    'volume_groups': {'id', 'name'},
    'snapshots': {'id', 'generation_number'},
    'system/state': {'id', 'system_id', 'iscsi_qualified_target_name'},
}
KINDS = {kind.RESOURCE: kind for kind in records.Record.__subclasses__()}
# Missing, null, an object, a list, and text.
MISSING = object()
ODD = (MISSING, None, {'odd': 1}, ['odd'], 'odd')


def changed(data: Any, name: str, odd: Any) -> Any:
    """Return a reply with this value in the field of each object."""
    if isinstance(data, dict) and isinstance(data.get('hits'), list):
        return {**data, 'hits': [changed(hit, name, odd)
                                 for hit in data['hits']]}
    if not isinstance(data, dict) or name not in data:
        return data
    if odd is MISSING:
        return {key: data[key] for key in data if key != name}
    return {**data, name: odd}


def with_replies(resource: str, change: Any) -> Any:
    """Change the replies about one resource, with ``change``."""
    decode = transport.Transport.decode

    def odd(connection: Any, request: Any, body: bytes) -> Any:
        data = decode(connection, request, body)
        parts = request.path.strip('/').split('/')
        if parts[-1].isdecimal() or parts[-1] == '__bulk':
            parts.pop()
        return change(data) if '/'.join(parts) == resource else data
    return mock.patch.object(transport.Transport, 'decode', odd)


def bulk_passed_over(method: str) -> Any:
    """Let bulk calls of one method succeed without any effect."""
    send = transport.Transport.exchange

    def exchange(connection: Any, request: Any, *args: Any) -> bytes:
        kind, _, last = request.path.rpartition('/')
        if request.method != method or last != '__bulk':
            return send(connection, request, *args)
        hits = [] if method == 'DELETE' else [json.loads(send(
            connection, transport.Request('GET', f'{kind}/{item["id"]}'),
            *args)) for item in request.body]
        return json.dumps({'hits': hits, 'total': len(hits)}).encode()
    return mock.patch.object(transport.Transport, 'exchange', exchange)


def equal(value: Any) -> Any:
    """Return the value as some arrays may write it."""
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, int):
        return f'{value}.0'
    return value


@ddt.ddt
class OddRepliesTest(images.ImagesTest):
    """The main operations on volumes, snapshots and attachments."""

    keeps_budgets = False

    def setUp(self) -> None:
        super().setUp()
        self.disks.set_scale(64)
        overlooked.TOLD.clear()
        self.addCleanup(overlooked.TOLD.clear)

    def life(self) -> None:
        """Run the main operations; check that nothing is left."""
        volume = self.backend.create_volume(1)
        self.backend.extend_volume(volume, 2)
        snapshot = self.backend.create_snapshot(volume)
        copy = self.backend.volume_from_snapshot(snapshot)
        self.backend.detach(self.backend.attach(copy, self.host()))
        self.backend.revert(volume, snapshot)
        self.backend.stats()
        self.backend.delete_volume(copy)
        self.backend.delete_snapshot(snapshot)
        self.backend.delete_volume(volume)
        self.assertNothingLeft()

    @ddt.data(*sorted(NEEDED))
    def test_odd(self, resource: str) -> None:
        kinds = itertools.cycle(ODD)
        for name in KINDS[resource].field_names():
            if name in NEEDED[resource]:
                continue
            value = next(kinds)
            with self.subTest(field=name, value=str(value)), \
                    with_replies(resource, lambda data: changed(
                        data, name, value)):
                self.life()
        for line in self.log.messages(30, 'cinder_k2.rest.overlooked'):
            self.assertEqual(1, self.log.messages(
                30, 'cinder_k2.rest.overlooked').count(line))

    def test_equal(self) -> None:
        """Numbers as text, and 0 and 1 for booleans, are what they are."""
        def other(data: Any) -> Any:
            hits = data.get('hits', [data]) if isinstance(data, dict) else []
            for hit in hits:
                if isinstance(hit, dict):
                    hit.update({name: equal(value)
                                for name, value in hit.items()})
            return data
        with contextlib.ExitStack() as changes:
            for resource in NEEDED:
                changes.enter_context(with_replies(resource, other))
            self.life()
        self.assertEqual([], self.log.messages(
            30, 'cinder_k2.rest.overlooked'))


@ddt.ddt
class OddReplicationTest(replicated.ReplicatedTest):
    """A replicated volume: create, fail over, fail back, delete."""

    def setUp(self) -> None:
        super().setUp()
        overlooked.TOLD.clear()
        self.addCleanup(overlooked.TOLD.clear)

    def life(self) -> None:
        """Check that no data is lost, and nothing is left."""
        volume = self.replicated()
        self.write(volume, 'first')
        self.pass_time()
        self.assertEqual('failed-over', self.backend.fail_over(
            replicated.TARGET).replication_status)
        self.assertIs(self.secondary, self.holder(volume))
        self.assertEqual('first', self.read(volume))
        self.write(volume, 'second')
        self.assertEqual(
            'enabled', self.backend.fail_back().replication_status)
        self.assert_replicated(volume)
        self.assertIs(self.primary, self.holder(volume))
        self.assertEqual('second', self.read(volume))
        self.backend.delete_volume(volume)
        self.assertNothingLeft()

    @ddt.data(*sorted(NEEDED_TO_REPLICATE))
    def test_odd(self, resource: str) -> None:
        kinds = itertools.cycle(ODD)
        for name in KINDS[resource].field_names():
            if name in NEEDED_TO_REPLICATE[resource]:
                continue
            value = next(kinds)
            with self.subTest(field=name, value=str(value)), \
                    with_replies(resource, lambda data: changed(
                        data, name, value)):
                self.life()

    @ddt.data(('replication/sessions', 'local_volume_group'),
              ('volumes', 'volume_group'))
    @ddt.unpack
    def test_undo(self, resource: str, name: str) -> None:
        """The session does not start, and the array does not show groups."""
        volume = self.backend.create_volume()
        self.fault('status', 'PATCH', 'replication/sessions*', status=400,
                   times=99)
        with with_replies(resource, lambda data: changed(
                data, name, MISSING)):
            self.assertRaises(backend.OperationFailed, self.backend.retype,
                              volume, **replicated.REPLICATED)
        self.array.control.clear_faults()
        self.assert_alone(volume)
        self.assertEqual({}, self.count(self.secondary))

    def test_equal(self) -> None:
        """Numbers as text, and 0 and 1 for booleans, are what they are."""
        def other(data: Any) -> Any:
            hits = data.get('hits', [data]) if isinstance(data, dict) else []
            for hit in hits:
                if isinstance(hit, dict):
                    hit.update({name: equal(value)
                                for name, value in hit.items()})
            return data
        with contextlib.ExitStack() as changes:
            for resource in NEEDED_TO_REPLICATE:
                changes.enter_context(with_replies(resource, other))
            self.life()
        self.assertEqual([], self.log.messages(
            30, 'cinder_k2.rest.overlooked'))


@ddt.ddt
class ArrivalTest(replicated.ReplicatedTest):
    """The array shows a generation number before it has arrived."""

    def early(self, data: Any, value: Any) -> Any:
        """Show the newest generation with the progress of the one before."""
        for hit in data.get('hits', [data]) if isinstance(
                data, dict) else []:
            if isinstance(hit, dict) and hit.get('current_snapshot_id'):
                hit.update(current_snapshot_progress=100,
                           generation_number=max(
                               each['generation_number'] or 0 for each in
                               self.secondary.admin.list('snapshots')))
                hit['current_snapshot_id'] = value
                if value is MISSING:
                    del hit['current_snapshot_id']
        return data

    @ddt.data({'ref': '/snapshots/9'}, 'snapshot-9', MISSING)
    def test_a_failback(self, value: Any) -> None:
        """REP-14: the failback waits for the last writes."""
        volume = self.replicated()
        self.pass_time()
        self.backend.fail_over(replicated.TARGET)
        self.secondary.control.set_behaviors(snapshot_seconds=60)
        self.addCleanup(self.secondary.control.set_behaviors,
                        snapshot_seconds=0)
        hold = failback._Failback._hold

        def write(this: Any, batch: Any) -> Any:
            self.write(volume, 'last')
            return hold(this, batch)
        with mock.patch.object(failback._Failback, '_hold', write), \
                with_replies('replication/sessions',
                             lambda data: self.early(data, value)):
            self.backend.fail_back()
        self.assert_replicated(volume)
        self.assertIs(self.primary, self.holder(volume))
        self.assertEqual('last', self.read(volume))


class LastSnapshotTest(replicated.ReplicatedTest):
    """The array still shows the snapshot that it has copied."""

    def keep(self, data: Any) -> Any:
        for hit in data.get('hits', [data]) if isinstance(
                data, dict) else []:
            if isinstance(hit, dict) and 'current_snapshot' in hit:
                hit['current_snapshot'] = (hit['current_snapshot']
                                           or {'ref': '/snapshots/9'})
        return data

    def test_a_failback(self) -> None:
        """REP-14: nothing is copied, so hosts do not have to wait."""
        self.own(self.protocol, replication_device=self.device(rpo=1800))
        volume = self.replicated()
        self.pass_time()
        self.backend.fail_over(replicated.TARGET)
        self.write(volume, 'last')
        before = self.clock.slept
        with with_replies('replication/sessions', self.keep):
            self.backend.fail_back()
        self.assertLess(self.clock.slept - before, 60)
        self.assert_replicated(volume)
        self.assertIs(self.primary, self.holder(volume))
        self.assertEqual('last', self.read(volume))


class BulkDeletePassedOverTest(base.FunctionalTest):
    """The array replies 204 to bulk deletions, but ignores them (BLK-1)."""

    keeps_budgets = False
    has_learned = False

    def test_a_forced_detach(self) -> None:
        """Mappings, also those of a killed service, are removed one by one."""
        learned.forget()
        self.own(self.protocol)
        volume = self.backend.create_volume(1)
        self.backend.attach(volume, self.host())
        mapping, = self.admin.list('mappings')
        for name in 'ab':
            group = self.make('host_groups', name=name)
            self.make('mappings', volume=mapping['volume'], host={
                'ref': f'/host_groups/{group["id"]}'})
        with bulk_passed_over('DELETE'):
            self.backend.force_detach(volume)
        self.assertEqual([], self.admin.list('mappings'))
        self.assertEqual('refused', learned.verdict(
            self.array.host, 'bulk:mappings:delete'))


class BulkUpdatePassedOverTest(replicated.ReplicatedTest):
    """The array returns the sessions of a bulk update, but ignores it."""

    has_learned = False

    def test_a_failover(self) -> None:
        learned.forget()
        self.own(self.protocol, replication_device=self.device())
        volumes = [self.replicated(), self.replicated()]
        self.pass_time()
        with bulk_passed_over('PATCH'):
            self.assertEqual('failed-over', self.backend.fail_over(
                replicated.TARGET).replication_status)
        for volume in volumes:
            self.assertIs(self.secondary, self.holder(volume))
        self.assertEqual('refused', learned.verdict(
            self.secondary.host, 'bulk:replication/sessions:update'))
