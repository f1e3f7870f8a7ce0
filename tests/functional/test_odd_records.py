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

"""Unexpected fields in replies, for operations not in test_odd_replies.

These are groups, clones, managing, migration, Fibre Channel, CHAP and host
groups.
"""

from collections.abc import Iterator
import contextlib
import itertools
from typing import Any

import ddt
import testtools

from cinder_k2.rest import overlooked
from cinder_k2.rest import records
from tests.functional import backend
from tests.functional import base
from tests.functional import disks
from tests.functional import learned
from tests.functional import test_odd_replies as odd

MIGRATION = '7e000000-0000-4000-8000-000000000001'
GIB = 1 << 20

NEEDED_BY_GROUPS = {
    'volumes': {'id', 'name'},
    # Notes in descriptions name the objects that clones need.
    'volume_groups': {'id', 'name', 'description'},
    'snapshots': {'id', 'short_name'},
    # Snapshots and views of a volume are found by these.
    'volsnaps': {'id', 'snapshot', 'source'}}
# Fields that decide whether an object can be managed.
NEEDED_TO_MANAGE = {
    'volumes': {'id', 'name', 'size', 'volume_group', 'description',
                'read_only'},
    'volume_groups': {'id', 'name', 'description', 'volumes_count',
                      'replication_session', 'replication_sessions'},
    'snapshots': {'id', 'short_name', 'source', 'is_auto_deleteable',
                  'volume_group', 'name', 'generation_number',
                  'is_locked_by_replication'},
    'volsnaps': {'id'}}
NEEDED_BY_FC = {
    # Hosts in a host group are mapped through it.
    'hosts': {'id', 'name', 'host_group'},
    'host_fc_ports': {'id', 'pwwn', 'host'},
    # A forced detach needs the hosts of mappings.
    'host_groups': {'id'}, 'mappings': {'id', 'lun', 'host'},
    'system/fc_ports': {'id', 'pwwn'}, 'stats/system': set[str]()}
NEEDED_BY_CHAP = {
    'hosts': {'id', 'name', 'host_group'},
    'host_iqns': {'id', 'iqn', 'host'},
    # A profile is kept if it may be in use.
    'host_auth_profiles': {
        'id', 'name', 'hosts_count', 'host_groups_count'},
    'mappings': {'id', 'lun', 'host'}}
ALL = (NEEDED_BY_GROUPS, NEEDED_TO_MANAGE, NEEDED_BY_FC, NEEDED_BY_CHAP,
       odd.NEEDED, odd.NEEDED_TO_REPLICATE)


class EveryRecordTest(testtools.TestCase):
    """Which types of records the tests cover."""

    def test_every_record(self) -> None:
        self.assertEqual(
            {kind.RESOURCE for kind in records.Record.__subclasses__()},
            {resource for needed in ALL for resource in needed})


class OddTest(base.FunctionalTest):
    """Runs ``life`` with unexpected fields in replies."""

    keeps_budgets = False

    def setUp(self) -> None:
        super().setUp()
        overlooked.TOLD.clear()
        self.addCleanup(overlooked.TOLD.clear)

    def life(self) -> None:
        """All operations; nothing may be left of it."""
        raise NotImplementedError

    def go_over(self, resource: str, needed: set[str]) -> None:
        """Run ``life`` once for each field that is not needed."""
        for name in odd.KINDS[resource].field_names():
            if name in needed:
                continue
            kinds = itertools.cycle(odd.ODD)
            with self.subTest(field=name), odd.with_replies(
                    resource, lambda data: changed(data, name, kinds)):
                self.life()


def changed(data: Any, name: str, kinds: Iterator[Any]) -> Any:
    """Return a reply with the next kind of value in each object's field."""
    if isinstance(data, dict) and isinstance(data.get('hits'), list):
        return {**data, 'hits': [odd.changed(hit, name, next(kinds))
                                 for hit in data['hits']]}
    return odd.changed(data, name, next(kinds))


def _fields(needed: dict[str, set[str]]) -> Iterator[tuple[str, str]]:
    """Yield resource and name of each field that is not needed."""
    for resource in sorted(needed):
        for name in odd.KINDS[resource].field_names():
            if name not in needed[resource]:
                yield resource, name


class OddDisksTest(disks.DisksTest):
    """Runs ``life``, with data, with unexpected fields in replies."""

    profile = 'sdp'
    keeps_budgets = False

    def setUp(self) -> None:
        super().setUp()
        self.disks.set_scale(1024)
        overlooked.TOLD.clear()
        self.addCleanup(overlooked.TOLD.clear)

    def life(self) -> None:
        """All operations; nothing may be left of it."""
        raise NotImplementedError

    def live_with(self, resource: str, name: str) -> None:
        """Run ``life`` with unexpected values, in turn, of one field."""
        kinds = itertools.cycle(odd.ODD)
        with odd.with_replies(
                resource, lambda data: changed(data, name, kinds)):
            self.life()


@ddt.ddt
class OddClonesTest(OddDisksTest):
    """Clones of every strategy."""

    def life(self) -> None:
        """Clone volumes and snapshots; delete the sources first."""
        volume = self.backend.create_volume(1)
        snapshot = self.backend.create_snapshot(volume)
        made = [self.backend.clone(
            volume, kaminario__clone_strategy=strategies)
            for strategies in ('thin,copy', 'view,copy')]
        made += [self.backend.volume_from_snapshot(
            snapshot, kaminario__clone_strategy=strategies)
            for strategies in ('thin,copy', 'view,copy', 'copy')]
        self.backend.delete_snapshot(snapshot)
        self.backend.delete_volume(volume)
        for clone in made:
            self.backend.delete_volume(clone)
        self.assertNothingLeft()

    @ddt.data(*_fields(NEEDED_BY_GROUPS))
    @ddt.unpack
    def test_odd(self, resource: str, name: str) -> None:
        self.live_with(resource, name)


@ddt.ddt
class OddGroupsTest(OddDisksTest):
    """Consistency groups and their snapshots."""

    def life(self) -> None:
        """Let volumes join and leave a group, take snapshots, and copy it."""
        other, group = self.backend.create_volume(1), (
            self.backend.create_group())
        first = self.backend.create_volume(1, group)
        self.backend.update_group(group, add=[other])
        self.backend.extend_volume(first, 2)
        taken = self.backend.create_group_snapshot(group)
        copies = [self.backend.group_from(taken),
                  self.backend.group_from(group)]
        self.backend.delete_group_snapshot(taken)
        for copy in copies:
            self.backend.delete_group(copy)
        self.backend.update_group(group, remove=[other])
        self.backend.delete_volume(other)
        self.backend.delete_group(group)
        self.assertNothingLeft()

    @ddt.data(*_fields(NEEDED_BY_GROUPS))
    @ddt.unpack
    def test_odd(self, resource: str, name: str) -> None:
        self.live_with(resource, name)

    @ddt.data(('volumes', 'volume_group'), ('volumes', 'size'),
              ('volume_groups', 'volumes_count'), ('snapshots', 'source'),
              ('snapshots', 'volume_group'), ('volsnaps', 'source'))
    @ddt.unpack
    def test_undo(self, resource: str, name: str) -> None:
        """The array moves only one of two volumes, and a field is missing."""
        volumes = [self.backend.create_volume(1) for _ in range(2)]
        group = self.backend.create_group()
        self.backend.create_volume(1, group)
        homes = [each['volume_group'] for each in self._found_of(volumes)]
        last = self._found_of(volumes)[-1]['id']
        with odd.with_replies(resource, lambda data: odd.changed(
                data, name, odd.MISSING)):
            self.fault('status', 'PATCH', f'volumes/{last}', status=400,
                       times=99)
            self.assertRaises(backend.OperationFailed, lambda:
                              self.backend.update_group(group, add=volumes))
            self.array.control.clear_faults()
            self.assertEqual(homes, [
                each['volume_group'] for each in self._found_of(volumes)])
            taken = self.backend.create_group_snapshot(group)
            before = self.left()
            self.fault('status', 'POST', 'volumes', status=400, times=99)
            self.assertRaises(backend.OperationFailed,
                              self.backend.group_from, taken)
            self.array.control.clear_faults()
            self.assertEqual(before, self.left())
        # The array is asked for the location of volumes being moved.
        self.backend.delete_everything()
        self.assertNothingLeft()

    def _found_of(self, volumes: list[Any]) -> list[Any]:
        """Return the array's objects of volumes."""
        return [found for each in volumes for found in self.admin.list(
            'volumes', name=f'cv-{each.id}')]


@ddt.ddt
class PassedOverMoveTest(disks.DisksTest):
    """An array that ignores moves, and does not show a volume's group."""

    profile = 'sdp'
    has_learned = False

    @ddt.data(odd.MISSING, None, {'ref': 'none'})
    def test_a_clone_is_copied(self, value: Any) -> None:
        """VOL-10: in the group of its source, a revert would overwrite it."""
        self.disks.set_scale(1024)
        learned.forget()
        self.switch(refuse_unlisted='ignored',
                    refuse_only=['PATCH volumes/# volume_group'])
        self.own(self.protocol)
        with odd.with_replies('volumes', lambda data: changed(
                data, 'volume_group', itertools.repeat(value))):
            source = self.backend.create_volume(1)
            clone = self.backend.clone(source,
                                       kaminario__clone_strategy='thin,copy')
            taken = self.backend.create_snapshot(source)
            image, = self.admin.list('volsnaps')
            self.assertTrue(image['name'].endswith(f':cv-{source.id}'))
            self.backend.revert(source, taken)
            first, second = [
                row['volume_group'] for row in self.admin.list('volumes')
                if row['name'] in (f'cv-{source.id}', f'cv-{clone.id}')]
            self.assertNotEqual(first, second)
            self.backend.create_snapshot(clone)
            self.backend.delete_everything()
        self.assertNothingLeft()


@ddt.ddt
class UntoldGroupTest(base.FunctionalTest):
    """An array that does not show in which group a volume is."""

    keeps_budgets = False

    def untold(self, value: Any) -> contextlib.AbstractContextManager[None]:
        return odd.with_replies('volumes', lambda data: changed(
            data, 'volume_group', itertools.repeat(value)))

    @ddt.data(odd.MISSING, None)
    def test_a_lost_reply(self, value: Any) -> None:
        """Creation of a volume, and of a member of a consistency group."""
        group = self.backend.create_group()
        with self.untold(value):
            for owner in (None, group):
                self.fault('reset', 'POST', 'volumes', commit='after')
                self.backend.create_volume(1, owner)
            self.backend.delete_everything()
        self.assertNothingLeft()

    def test_a_member_without_ids(self) -> None:
        """The volume is not assumed to be gone."""
        group = self.backend.create_group()
        volume = self.backend.create_volume(1, group)
        volume.provider_id = None
        volume.save()
        with self.untold(odd.MISSING):
            self.assertRaises(backend.OperationFailed,
                              self.backend.delete_group, group)
        self.assertEqual(1, self.left()['volumes'])
        self.assertEqual('error_deleting',
                         self.backend.volumes()[0].status)
        self.backend.delete_everything()
        self.assertNothingLeft()


@ddt.ddt
class OddManageTest(OddTest):
    """Managing and unmanaging volumes and snapshots."""

    def life(self) -> None:
        group = self.admin.create('volume_groups', name='db', quota=0)
        ref = {'ref': f'/volume_groups/{group["id"]}'}
        self.admin.create('volumes', name='db-data', size=GIB,
                          volume_group=ref)
        policy = self.admin.list('retention_policies')[0]['id']
        self.admin.create(
            'snapshots', short_name='nightly', is_auto_deleteable=False,
            retention_policy={'ref': f'/retention_policies/{policy}'},
            source=ref)
        self.backend.manageable()
        volume = self.backend.manage({'source-name': 'db-data'})
        self.backend.manageable_snapshots()
        snapshot = self.backend.manage_snapshot(
            volume, {'source-name': 'nightly'})
        self.backend.delete_volume(
            self.backend.volume_from_snapshot(snapshot))
        self.backend.retype(volume, vendor__colour='red')
        self.backend.unmanage_snapshot(snapshot)
        snapshot = self.backend.manage_snapshot(
            volume, {'source-name': 'nightly'})
        self.backend.delete_snapshot(snapshot)
        self.backend.unmanage(volume)
        volume = self.backend.manage({'source-name': f'cv-{volume.id}'})
        self.backend.delete_volume(volume)
        self.assertNothingLeft()

    @ddt.data(*sorted(NEEDED_TO_MANAGE))
    def test_odd(self, resource: str) -> None:
        self.go_over(resource, NEEDED_TO_MANAGE[resource])


class OddAttachmentsTest(OddTest):
    """Hosts of the driver, and hosts of an administrator."""

    def life(self) -> None:
        volume, other = (self.backend.create_volume(1) for _ in range(2))
        host = self.host()
        first = self.backend.attach(volume, host, MIGRATION)
        second = self.backend.attach(other, host)
        self.backend.attach(volume, self.host(), MIGRATION)
        self.backend.detach(second)
        self.backend.detach(first)
        self.backend.force_detach(volume)
        self._in_a_host_group(volume)
        # Let the cached statistics expire.
        self.clock.sleep(600)
        self.backend.stats()
        for each in (volume, other):
            self.backend.delete_volume(each)
        self.assertNothingLeft()

    def _in_a_host_group(self, volume: Any) -> None:
        connector = self.host()
        group = self.admin.create('host_groups', name='cluster')
        host = self.admin.create(
            'hosts', name='theirs', type='Linux',
            host_group={'ref': f'/host_groups/{group["id"]}'})
        ref = {'ref': f'/hosts/{host["id"]}'}
        if self.protocol == 'fc':
            for number in connector['wwpns']:
                self.admin.create('host_fc_ports', pwwn=number, host=ref)
        else:
            self.admin.create('host_iqns', iqn=connector['initiator'],
                              host=ref)
        self.backend.detach(self.backend.attach(volume, connector))
        self.admin.update('hosts', host['id'], host_group=None)
        for resource in ('host_iqns', 'host_fc_ports'):
            for found in self.admin.list(resource):
                if found['host'] == ref:
                    self.admin.delete(resource, found['id'])
        self.admin.delete('hosts', host['id'])
        self.admin.delete('host_groups', group['id'])


@ddt.ddt
class OddFCTest(OddAttachmentsTest):
    """Over Fibre Channel."""

    protocol = 'fc'

    @ddt.data(*sorted(NEEDED_BY_FC))
    def test_odd(self, resource: str) -> None:
        self.go_over(resource, NEEDED_BY_FC[resource])


@ddt.ddt
class OddChapTest(OddAttachmentsTest):
    """Over iSCSI, with CHAP."""

    options = {'use_chap_auth': True}

    @ddt.data(*sorted(NEEDED_BY_CHAP))
    def test_odd(self, resource: str) -> None:
        self.go_over(resource, NEEDED_BY_CHAP[resource])
