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

"""Ids of replicated objects, on either array (OBJ-7).

A volume, its group and its session are deleted behind Cinder's back. A foreign
volume, which has a snapshot and is mapped, gets the ids of volume and group.
"""

from collections.abc import Callable
from typing import Any

from tests import arrays
from tests.functional import replicated
from tests.functional import test_ids

GIB = 1 << 20
WORD = {'replication_enabled': '<is> True'}
ONE = {'consistent_group_replication_enabled': '<is> True'}
EACH = {'group_replication_enabled': '<is> True'}


class ReplicatedIdsTest(test_ids.IdsTest, replicated.ReplicatedTest):
    """Helpers."""

    def setUp(self) -> None:
        super().setUp()
        for array in (self.primary, self.secondary):
            before = array.control.behaviors()['reuse_ids']
            array.control.set_behaviors(reuse_ids=True)
            self.addCleanup(array.control.set_behaviors, reuse_ids=before)
        self.addCleanup(self._remove_theirs)

    def ids_of(self, array: arrays.Served, prefix: str, key: str,
               group: str) -> tuple[int, int]:
        """Return the ids of a volume and its group on an array."""
        volume, = array.admin.list('volumes', name=f'{prefix}cv-{key}')
        home, = array.admin.list('volume_groups', name=f'{prefix}{group}')
        return volume['id'], home['id']

    def take_ids(self, array: arrays.Served, volume: int, group: int) -> Any:
        """Create a foreign volume and group with these ids.

        The volume is mapped and has a snapshot.
        """
        admin = array.admin
        home = admin.create('volume_groups', name='payroll', quota=0)
        self.assertEqual(group, home['id'])
        made = None
        spare = []
        while made is None or made['id'] != volume:
            made = admin.create(
                'volumes', name=f'payroll-{len(spare)}', size=GIB,
                volume_group={'ref': f'/volume_groups/{group}'})
            spare.append(made['id'])
        for number in spare[:-1]:
            admin.delete('volumes', number)
        host = admin.create('hosts', name=HOST, type='Linux')
        admin.create('mappings', host={'ref': f'/hosts/{host["id"]}'},
                     volume={'ref': f'/volumes/{volume}'})
        policy = admin.list('retention_policies')[0]['id']
        admin.create('snapshots', short_name='nightly',
                     is_auto_deleteable=False,
                     retention_policy={'ref': f'/retention_policies/{policy}'},
                     source={'ref': f'/volume_groups/{group}'})
        return made

    def theirs(self) -> dict[str, Any]:
        """Return all foreign objects on both arrays."""
        return {
            f'{array.port} {resource} {found["id"]}': {
                key: value for key, value in found.items()
                if key in ('name', 'size', 'volume_group', 'volume', 'host',
                           'short_name')}
            for array in (self.primary, self.secondary)
            for resource in ('volumes', 'volume_groups', 'snapshots',
                             'mappings', 'hosts')
            for found in array.admin.list(resource)
            if resource == 'mappings' or 'payroll' in found['name']
            or found['name'] == HOST}

    def _remove_theirs(self) -> None:
        for array in (self.primary, self.secondary):
            for resource in ('mappings', 'hosts', 'snapshots', 'volumes',
                             'volume_groups'):
                for found in array.admin.list(resource):
                    if (resource == 'mappings' or found['name'] == HOST
                            or 'payroll' in found['name']):
                        array.admin.delete(resource, found['id'])

    def stranger_for_replicated(self, *volumes: Any, group: str = '',
                                session: str = '') -> None:
        """Replace volumes by a foreign one with the ids of the first.

        They are deleted on both arrays; it is created on the primary.
        """
        key = volumes[0].id
        ids = self.ids_of(self.primary, '', key, group or f'cvg-{key}')
        keys = [session or key, *[v.id for v in volumes]]
        for array in (self.primary, self.secondary):
            self.remove_all(array, *keys)
        self.take_ids(self.primary, *ids)

    def assert_theirs_stay(self, operation: Callable[[], Any], *,
                           fails: bool = True) -> str:
        """Check that an operation changes no foreign object.

        :param fails: whether the operation has to fail
        :returns: its error as text
        """
        before = self.theirs()
        self.assertTrue(before)
        why = ''
        try:
            operation()
        except Exception as error:
            why = str(error)
        self.assertEqual(before, self.theirs())
        self.assertEqual(fails, bool(why), why)
        return why


# A name like those of the driver's hosts, which it might unmap.
HOST = 'cinder-compute-1-01234567'


class VolumeTest(ReplicatedIdsTest):
    """A volume with its own session."""

    def setUp(self) -> None:
        super().setUp()
        self.volume = self.replicated()

    def test_extend(self) -> None:
        self.stranger_for_replicated(self.volume)
        self.assert_theirs_stay(
            lambda: self.backend.extend_volume(self.volume, 2))

    def test_snapshot(self) -> None:
        self.stranger_for_replicated(self.volume)
        self.assert_theirs_stay(
            lambda: self.backend.create_snapshot(self.volume))

    def test_retype(self) -> None:
        self.stranger_for_replicated(self.volume)
        self.assert_theirs_stay(lambda: self.backend.retype(self.volume))

    def test_retype_to_another_rpo(self) -> None:
        self.stranger_for_replicated(self.volume)
        self.assert_theirs_stay(lambda: self.backend.retype(
            self.volume, kaminario__replication_rpo='300',
            **replicated.REPLICATED), fails=False)

    def test_delete(self) -> None:
        self.stranger_for_replicated(self.volume)
        self.assert_theirs_stay(
            lambda: self.backend.delete_volume(self.volume), fails=False)

    def test_failover(self) -> None:
        """A foreign volume has the ids of the copy."""
        key = self.volume.id
        ids = self.ids_of(self.secondary, 'r', key, f'cvg-{key}')
        for array in (self.primary, self.secondary):
            self.remove_all(array, key)
        self.take_ids(self.secondary, *ids)
        self.assert_theirs_stay(
            lambda: self.backend.fail_over(replicated.TARGET), fails=False)
        self.volume.refresh()
        self.assertEqual('failover-error', self.volume.replication_status)
        self.assert_theirs_stay(self.backend.fail_back, fails=False)

    def test_failback(self) -> None:
        """A foreign volume has the former ids on the primary."""
        key = self.volume.id
        ids = self.ids_of(self.primary, '', key, f'cvg-{key}')
        self.backend.fail_over(replicated.TARGET)
        self.remove_all(self.primary, key)
        self.take_ids(self.primary, *ids)
        self.assert_theirs_stay(self.backend.fail_back, fails=False)
        self.assertIs(self.secondary, self.holder(self.volume))
        self.backend.fail_over(replicated.TARGET)
        self.assert_theirs_stay(
            lambda: self.backend.delete_volume(self.volume), fails=False)
        self.backend.fail_back()

    def test_delete_after_a_failover(self) -> None:
        """A foreign volume has its ids on the secondary."""
        key = self.volume.id
        ids = self.ids_of(self.secondary, 'r', key, f'cvg-{key}')
        self.backend.fail_over(replicated.TARGET)
        for array in (self.primary, self.secondary):
            self.remove_all(array, key)
        self.take_ids(self.secondary, *ids)
        self.assert_theirs_stay(
            lambda: self.backend.driver.initialize_connection(
                self.backend.volume(self.volume.id), self.host()))
        self.assert_theirs_stay(
            lambda: self.backend.delete_volume(self.volume), fails=False)
        self.backend.fail_back()


class SessionTest(ReplicatedIdsTest):
    """A foreign session has the id of a volume's session."""

    def setUp(self) -> None:
        super().setUp()
        self.volume = self.replicated()
        mine = self.ids()
        for array in (self.primary, self.secondary):
            for one in array.admin.list('replication/sessions'):
                self.stop(array, one)
        for array in (self.primary, self.secondary):
            for one in array.admin.list('replication/sessions'):
                array.admin.delete('replication/sessions', one['id'])
        self.make_theirs()
        self.assertEqual(mine, self.ids())
        self.addCleanup(self.remove_session)

    def ids(self) -> list[Any]:
        """Return the ids of the sessions on both arrays."""
        return [one['id'] for array in (self.primary, self.secondary)
                for one in array.admin.list('replication/sessions')]

    def stop(self, array: arrays.Served, one: Any) -> None:
        """Stop a session."""
        first = ('suspended' if one['current_role'] == 'source'
                 else 'failed_over')
        for state in (first, 'idle'):
            if one['state'] not in (state, 'idle'):
                array.admin.update('replication/sessions', one['id'],
                                   name=one['name'], state=state)

    def make_theirs(self) -> None:
        """Create a foreign session, which is idle, and groups for it."""
        admin = self.primary.admin
        group = admin.create('volume_groups', name='payroll', quota=0)
        peer = admin.list('replication/peer_k2arrays')[0]['id']
        admin.create(
            'replication/sessions', name='payroll', rpo=300,
            local_volume_group={'ref': f'/volume_groups/{group["id"]}'},
            replication_peer_k2array={
                'ref': f'/replication/peer_k2arrays/{peer}'},
            replication_peer_volume_group_name='rpayroll',
            remote_replication_session_name='rpayroll',
            auto_configure_peer_volumes='False')

    def theirs(self) -> dict[str, Any]:
        """Return the foreign session on both arrays."""
        return {f'{array.port} {one["id"]}': one
                for array in (self.primary, self.secondary)
                for one in array.admin.list('replication/sessions')
                if 'payroll' in one['name']}

    def remove_session(self) -> None:
        """Delete the foreign session, before its groups are deleted."""
        for array in (self.secondary, self.primary):
            for one in array.admin.list('replication/sessions'):
                array.admin.delete('replication/sessions', one['id'])

    def test_retype(self) -> None:
        self.assert_theirs_stay(
            lambda: self.backend.retype(self.volume), fails=False)

    def test_delete(self) -> None:
        self.assert_theirs_stay(
            lambda: self.backend.delete_volume(self.volume), fails=False)

    def test_failover(self) -> None:
        self.assert_theirs_stay(
            lambda: self.backend.fail_over(replicated.TARGET), fails=False)
        self.assert_theirs_stay(self.backend.fail_back, fails=False)


class GroupTest(ReplicatedIdsTest):
    """Groups with one session for all volumes, or one for each."""

    def enabled(self, specs: dict[str, str]) -> Any:
        """Create a replicated group of two volumes."""
        group = self.backend.create_group(
            self.backend.volume_type(**WORD), **specs)
        self.volumes = [self.backend.create_volume(1, group, **WORD)
                        for _ in range(2)]
        return self.backend.enable_replication(group)

    def taken(self, specs: dict[str, str]) -> Any:
        """Create such a group, and replace its volumes by a foreign one."""
        group = self.enabled(specs)
        one = specs is ONE
        self.stranger_for_replicated(
            *self.volumes, group=f'ccg-{group.id}' if one else '',
            session=group.id if one else '')
        return group

    def test_disable(self) -> None:
        group = self.taken(ONE)
        self.assert_theirs_stay(
            lambda: self.backend.disable_replication(group))

    def test_disable_each(self) -> None:
        group = self.taken(EACH)
        self.assert_theirs_stay(
            lambda: self.backend.disable_replication(group))

    def test_enable(self) -> None:
        group = self.backend.create_group(
            self.backend.volume_type(**WORD), **ONE)
        self.volumes = [self.backend.create_volume(1, group, **WORD)
                        for _ in range(2)]
        self.stranger_for_replicated(
            *self.volumes, group=f'ccg-{group.id}', session=group.id)
        self.assert_theirs_stay(
            lambda: self.backend.enable_replication(group))
        self.assertEqual({}, self.sessions())

    def test_delete(self) -> None:
        group = self.taken(ONE)
        self.assert_theirs_stay(
            lambda: self.backend.delete_group(group), fails=False)

    def test_delete_each(self) -> None:
        group = self.taken(EACH)
        self.assert_theirs_stay(
            lambda: self.backend.delete_group(group), fails=False)

    def test_failover(self) -> None:
        group = self.taken(ONE)
        self.assert_theirs_stay(
            lambda: self.backend.failover_group(group, replicated.TARGET))
