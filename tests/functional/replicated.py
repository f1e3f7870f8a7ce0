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

"""Tests with two arrays that replicate to each other."""

from collections.abc import Iterator
import contextlib
import json
from typing import Any
from unittest import mock

from cinder_k2.driver import config
from tests import arrays
from tests import contexts
from tests.functional import backend
from tests.functional import base
from tests.functional import disks

GIB = 1 << 20
TARGET = 'dr-site'
REPLICATED = {'kaminario__replication': 'enabled'}

RESOURCES = {'ssn': 'replication/sessions', 'cv': 'volumes',
             'cvg': 'volume_groups'}


class ReplicatedTest(base.FunctionalTest):
    """A test of a back end with a replication target.

    ``self.primary`` and ``self.secondary`` are the arrays; both must be
    empty when a test ends. The arrays' clocks advance when the driver waits.
    """

    keeps_budgets = False

    def use(self, protocol: str, profile: str | None = None, **options: Any
            ) -> backend.Backend:
        """Use the two arrays and a back end on them."""
        self.primary, self.secondary = arrays.pair(profile or self.profile)
        self.array, self.admin = self.primary, self.primary.admin
        self._systems = {}
        for array in (self.primary, self.secondary):
            array.control.clear_journal()
            state, = array.admin.list('system/state')
            self._systems[state['system_id']] = array
        if self.has_learned and self.primary.profile != 'known':
            self.learned(self.primary, self.secondary)
        self.backend = self._shared(protocol, **{
            'replication_device': self.device(), **options})
        return self.backend

    def device(self, **more: Any) -> str:
        """Return a replication_device for the secondary array."""
        found = {'backend_id': TARGET, 'san_ip': self.secondary.address,
                 'port': self.secondary.port, 'login': arrays.LOGIN,
                 'password': arrays.PASSWORD, 'rpo': 60, **more}
        return ','.join(f'{key}:{value}' for key, value in found.items())

    def setUp(self) -> None:
        super().setUp()
        before = self.clock.sleep

        def sleep(seconds: float) -> None:
            for array in (self.primary, self.secondary):
                array.control.advance(seconds)
            before(seconds)
        self.clock.sleep = sleep

    def _calm(self) -> None:
        for array in (self.primary, self.secondary):
            array.control.restore_link()
            array.control.clear_faults()
            array.control.set_latency(0)

    def left(self) -> dict[str, int]:
        """Return the number of users' objects by type, on both arrays."""
        found: dict[str, int] = {}
        for array in (self.primary, self.secondary):
            for resource, objects in array.control.leftovers().items():
                if objects:
                    found[resource] = found.get(resource, 0) + len(objects)
        return found

    # Rows and their objects

    def replicated(self, size: int = 1, **specs: str) -> Any:
        """Create a replicated volume."""
        return self.backend.create_volume(size, **{**REPLICATED, **specs})

    def ids(self, row: Any) -> dict[str, Any]:
        """Refresh a row; return the ids of the array in it."""
        row.refresh()
        return json.loads(row.provider_id)

    def holder(self, row: Any) -> arrays.Served:
        """Return the array that a volume is on, according to its row."""
        return self._systems[self.ids(row)['system']]

    def write(self, row: Any, token: str) -> None:
        """Write to a volume, on the array in its row."""
        self.holder(row).control.write(self.ids(row)['volume'], token)

    def read(self, row: Any) -> Any:
        """Return the data of a volume, on the array in its row."""
        return self.holder(row).control.read(self.ids(row)['volume'])

    def sessions(self) -> dict[str, tuple[str, str]]:
        """Return role and state of the sessions on both arrays, by name."""
        return {s['name']: (s['current_role'], s['state'])
                for array in (self.primary, self.secondary)
                for s in array.admin.list('replication/sessions')}

    def clear(self, array: arrays.Served, row: Any) -> None:
        """Check that the log names all leftovers of a row, and remove them."""
        key = row.name_id
        for name in (f'ssn-{key}', f'rssn-{key}', f'cv-{key}', f'rcv-{key}',
                     f'cvg-{key}', f'rcvg-{key}'):
            if array.admin.list(RESOURCES[name.lstrip('r').split('-')[0]],
                                name=name):
                self.assertIn(name, self.log.errors_text())
        self.remove(array, row)

    @classmethod
    def remove(cls, array: arrays.Served, row: Any) -> None:
        """Delete all objects of a detached volume, as administrators."""
        cls.remove_all(array, row.name_id)

    @staticmethod
    def remove_all(array: arrays.Served, *keys: str) -> None:
        """Delete all objects with one of the keys in the name.

        Sessions are stopped and deleted first.
        """
        admin = array.admin
        for one in admin.list('replication/sessions'):
            if one['name'].endswith(keys):
                stop = ('suspended' if one['current_role'] == 'source'
                        else 'failed_over')
                for state in (stop, 'idle'):
                    if one['state'] not in (state, 'idle'):
                        admin.update('replication/sessions', one['id'],
                                     name=one['name'], state=state)
                admin.delete('replication/sessions', one['id'])
        for resource in ('snapshots', 'volumes', 'volume_groups'):
            for one in admin.list(resource):
                if any(key in one['name'] for key in keys):
                    admin.delete(resource, one['id'])

    def pass_time(self, seconds: float = 400) -> None:
        """Advance both arrays' clocks, so that they copy what is due."""
        for array in (self.primary, self.secondary):
            array.control.advance(seconds)

    def on_both(self, volume: Any) -> tuple[dict[str, int], dict[str, int]]:
        """Return names and sizes (GiB) of a volume's objects on each array.

        The array in its row comes first. Groups and sessions have the size
        of their volumes.
        """
        here = self.holder(volume)
        there, = {self.primary, self.secondary} - {here}
        return self._named(here, volume), self._named(there, volume)

    def _named(self, array: arrays.Served, volume: Any) -> dict[str, int]:
        owner = volume.name_id
        groups = {f'/volume_groups/{g["id"]}': g['name']
                  for g in array.admin.list('volume_groups')}
        volumes = [v for v in array.admin.list('volumes')
                   if v['name'].endswith(owner)]
        found = {v['name']: v['size'] // GIB for v in volumes}
        sizes = {groups[v['volume_group']['ref']]: v['size'] // GIB
                 for v in volumes}
        for session in array.admin.list('replication/sessions'):
            group = groups[session['local_volume_group']['ref']]
            if group in sizes:
                sizes[session['name']] = sizes[group]
        return {**found, **sizes}

    def assert_replicated(self, *volumes: Any, size: int = 1) -> None:
        """Check that all are complete on both arrays, and sessions running."""
        for volume in volumes:
            volume.refresh()
            self.assertEqual('enabled', volume.replication_status)
            self.assertTrue(self.ids(volume)['replicated'])
            made, copy = names_of(volume.name_id)
            self.assertEqual((dict.fromkeys(made, size),
                              dict.fromkeys(copy, size)),
                             self.on_both(volume))
            roles = self.sessions()
            self.assertEqual(
                [('source', 'in_sync'), ('target', 'in_sync')],
                [roles[made[2]], roles[copy[2]]])

    def assert_alone(self, *volumes: Any) -> None:
        """Check that they are not replicated, and that their rows agree."""
        for volume in volumes:
            volume.refresh()
            self.assertEqual('disabled', volume.replication_status)
            self.assertNotIn('replicated', self.ids(volume))
            self.assertEqual({}, self.on_both(volume)[1])
            for name in (f'ssn-{volume.name_id}', f'rssn-{volume.name_id}'):
                self.assertNotIn(name, self.sessions())

    def count(self, array: arrays.Served) -> dict[str, int]:
        """Return the number of users' objects of each type on one array."""
        return {resource: len(objects) for resource, objects
                in array.control.leftovers().items() if objects}

    def expose_copies(self) -> None:
        """Expose copies read-only, as administrators may choose (REP-17)."""
        for array in (self.primary, self.secondary):
            self._expose(array, 'Read Only')
            self.addCleanup(self._expose, array, 'unmapped')

    def _expose(self, array: arrays.Served, how: str) -> None:
        array.admin.update('system/state', 1,
                           replication_default_target_exposure=how)

    @staticmethod
    def sweep(array: arrays.Served) -> None:
        """Delete all users' objects, as administrators do."""
        for resource in ('replication/sessions', 'snapshots', 'volumes',
                         'volume_groups'):
            for found in array.control.leftovers().get(resource, []):
                array.admin.delete(resource, found['id'])

    def keep_devices(self, number: int) -> None:
        """Restart with only the first ``number`` replication devices."""
        read = config.replication_targets
        contexts.enter(self, mock.patch.object(
            config, 'replication_targets',
            lambda configuration: read(configuration)[:number]))
        self.assertTrue(self.backend.restart())

    def map_to_a_stranger(self, array: arrays.Served, name: str) -> None:
        """Map a volume to a host that the driver did not create."""
        host = array.admin.create('hosts', name='stranger', type='Linux')
        volume = array.admin.list('volumes', name=name)[0]
        array.admin.create(
            'mappings', host={'ref': f'/hosts/{host["id"]}'},
            volume={'ref': f'/volumes/{volume["id"]}'})

    def remove_the_stranger(self, array: arrays.Served) -> None:
        """Undo ``map_to_a_stranger``."""
        host = array.admin.list('hosts', name='stranger')[0]
        for mapping in array.admin.list('mappings'):
            if mapping['host']['ref'] == f'/hosts/{host["id"]}':
                array.admin.delete('mappings', mapping['id'])
        array.admin.delete('hosts', host['id'])

    @contextlib.contextmanager
    def lost(self, array: arrays.Served) -> Iterator[None]:
        """Make an array unreachable for its peer and Cinder."""
        array.control.cut_link()
        array.control.add_fault(
            {'kind': 'reset', 'method': '*', 'path': '*'})
        yield
        array.control.clear_faults()
        array.control.restore_link()


class ReplicatedDisksTest(ReplicatedTest, disks.DisksTest):
    """The same, with data that Cinder's host can read and write."""

    def install_disks(self, *served: arrays.Served) -> disks.Disks:
        """Install the disks of both arrays, whatever ``served`` is."""
        return super().install_disks(self.primary, self.secondary)


def names_of(owner: str) -> tuple[list[str], list[str]]:
    """Return the names of volume, group and session, and of their copies."""
    made = [f'cv-{owner}', f'cvg-{owner}', f'ssn-{owner}']
    return made, [f'r{name}' for name in made]
