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

"""Two simulated arrays, and volumes that are replicated between them."""

from collections.abc import Collection
from collections.abc import Iterator
from collections.abc import Sequence
import contextlib
import time
from typing import Any

from oslo_utils import units

from benchmarks import array as arrays
from benchmarks import drivers
from cinder_k2.array import ArrayVolume
from cinder_k2.driver.db import provider_id

_SESSIONS = 'replication/sessions'
_PEERS = 'replication/peer_k2arrays'
_POLICIES = 'retention_policies'
_POLICY = 'Replication_Retention'
# Seconds between two copies, the minimum (REP-4).
_RPO = 60
# Seconds within which the arrays exchange changes (REP-8).
_PATIENCE = 30.0
_PAUSE = 0.5

#: Roles and states of a session on the primary array, and on the other.
HOME = ('source in_sync', 'target in_sync')
AWAY = ('source suspended', 'target failed_over')


class WrongStateError(Exception):
    """Arrays or rows are not in the state that a driver should cause."""


class Site:
    """Two arrays, empty at first."""

    def __init__(self, primary: arrays.Array, secondary: arrays.Array
                 ) -> None:
        self.primary = primary
        self.secondary = secondary
        self._pair = (primary, secondary)

    def options(self) -> dict[str, Any]:
        """Options of a back end with both arrays, for either driver."""
        return {
            'san_ip': self.primary.host, 'san_login': arrays.LOGIN,
            'san_password': arrays.PASSWORD, 'driver_ssl_cert_verify': True,
            'driver_ssl_cert_path': self.primary.authority,
            'replication_device': (
                f'backend_id:{self.secondary.host},login:{arrays.LOGIN},'
                f'password:{arrays.PASSWORD},rpo:{_RPO}')}

    @contextlib.contextmanager
    def slow(self, latency: float) -> Iterator[None]:
        """Make every request in the context take ``latency`` seconds."""
        for array in self._pair:
            array.set_latency(latency)
        yield
        for array in self._pair:
            array.set_latency(0)

    def clear_journals(self) -> None:
        """Reset the request counters of both arrays."""
        for array in self._pair:
            array.clear_journal()

    def calls(self) -> int:
        """The number of requests to both arrays."""
        return sum(array.journal()[0] for array in self._pair)

    # What is on the arrays

    def fill(self, rows: Sequence[Any]) -> None:
        """Create a replicated volume for each row, named as by both drivers.

        :raises WrongStateError: not all of them are replicated
        """
        groups = self.primary.create('volume_groups', [
            {'name': f'cvg-{row.id}', 'quota': 0, 'is_dedup': True}
            for row in rows])
        volumes = self.primary.create('volumes', [
            {'name': f'cv-{row.id}', 'size': row.size * units.Mi,
             'volume_group': _ref('volume_groups', group)}
            for row, group in zip(rows, groups, strict=True)])
        self._replicate(rows, groups, volumes)
        system = _system(self.primary)
        for row, volume, group in zip(rows, volumes, groups, strict=True):
            drivers.keep(row, {'provider_id': provider_id.encode(
                system, ArrayVolume(group=group['id'], volume=volume['id'],
                                    replicated=True), row.name_id)})
        self.check({row.id for row in rows}, HOME)

    def _replicate(self, rows: Sequence[Any], groups: list[arrays.Object],
                   volumes: list[arrays.Object]) -> None:
        sessions = self.primary.create(_SESSIONS, [
            {'name': f'ssn-{row.id}', 'rpo': _RPO,
             'local_volume_group': _ref('volume_groups', group),
             'replication_peer_volume_group_name': f'rcvg-{row.id}',
             'remote_replication_session_name': f'rssn-{row.id}',
             'auto_configure_peer_volumes': False, **self._common()}
            for row, group in zip(rows, groups, strict=True)])
        self.primary.create('replication/peer_volumes', [
            {'name': f'rcv-{row.id}', 'local_volume': _ref('volumes', volume),
             'replication_session': _ref(_SESSIONS, session)}
            for row, volume, session in zip(rows, volumes, sessions,
                                            strict=True)])
        self.primary.change(_SESSIONS, [
            {'id': session['id'], 'state': 'in_sync'}
            for session in sessions])

    def _common(self) -> dict[str, Any]:
        """What all sessions have in common."""
        peer, = self.primary.objects(_PEERS)
        policy = _ref(_POLICIES, next(
            found for found in self.primary.objects(_POLICIES)
            if found['name'] == _POLICY))
        return {'replication_peer_k2array': _ref(_PEERS, peer),
                'retention_policy': policy,
                'external_retention_policy': policy}

    def write_away(self) -> None:
        """Write its own id to each volume that is on the secondary array."""
        for id, volume in _by_id(self.secondary, 'volumes', 'cv').items():
            self.secondary.write(volume['id'], id)

    # Checks

    def check(self, ids: Collection[str], expected: tuple[str, str]) -> None:
        """Wait until the sessions of volumes have the expected state.

        :param ids: Cinder's ids of the volumes
        :param expected: HOME or AWAY
        :raises WrongStateError: they do not reach it within 30 seconds
        """
        end = time.monotonic() + _PATIENCE
        while wrong := self._wrong(ids, expected):
            if time.monotonic() > end:
                raise WrongStateError(f'{len(wrong)} sessions are not '
                                      f'{expected}: {wrong[0]}')
            time.sleep(_PAUSE)

    def _wrong(self, ids: Collection[str], expected: tuple[str, str]
               ) -> list[str]:
        shown = [{id: f'{found["current_role"]} {found["state"]}'
                  for id, found in _by_id(array, _SESSIONS, 'ssn').items()}
                 for array in self._pair]
        return [f'{id} is {found}' for id in ids if (
            found := tuple(one.get(id) for one in shown)) != expected]

    def check_data(self, ids: Collection[str]) -> None:
        """Check that data written on the secondary array was failed back.

        :raises WrongStateError: it was not
        """
        volumes = _by_id(self.primary, 'volumes', 'cv')
        contents = self.primary.contents()
        lost = [id for id in ids if contents[str(volumes[id]['id'])] != id]
        if lost:
            raise WrongStateError(
                f'{len(lost)} volumes were failed back without their data')

    def check_places(self, rows: Sequence[Any], array: arrays.Array) -> None:
        """Check that rows have the ids of an array and of their volumes.

        :raises WrongStateError: they do not
        """
        system = _system(array)
        volumes = _by_id(array, 'volumes', 'cv')
        known = {row.id: provider_id.decode(
            ArrayVolume, system, row.provider_id, row.name_id) for row in rows}
        wrong = [id for id, ids in known.items()
                 if not ids or ids.volume != volumes[id]['id']]
        if wrong:
            raise WrongStateError(f'{len(wrong)} rows do not name their '
                                  f'volumes on the array {system}')


def _by_id(array: arrays.Array, resource: str, kind: str
           ) -> dict[str, arrays.Object]:
    """Objects by the id in their names, without the prefix of the kind."""
    return {found['name'].partition(f'{kind}-')[2]: found
            for found in array.objects(resource)
            if found['name'].startswith((f'{kind}-', f'r{kind}-'))}


def _ref(resource: str, found: arrays.Object) -> dict[str, str]:
    return {'ref': f'/{resource}/{found["id"]}'}


def _system(array: arrays.Array) -> str:
    return str(array.objects('system/state')[0]['system_id'])
