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

"""Peers and connections to them: section 10.1."""

from collections.abc import Callable
from collections.abc import Iterable
from typing import Any

from k2_sim import errors
from k2_sim.protocol import request_context
from k2_sim.rules import base
from k2_sim.rules.base import Scope
from k2_sim.rules import replicas
from k2_sim.state import replication
from k2_sim.state import schema
from k2_sim.state.schema import Row
from k2_sim.state import store as store_module

LOST = 'disconnected'
_LOGIN = ('mgmt_host', 'username', 'password')


def address_of(row: Row) -> request_context.Address:
    """The address and login of a peer, from its record."""
    return request_context.Address(*(row[name] for name in _LOGIN))


def call(scope: Scope, peer: Row, kind: str, **fields: Any
         ) -> dict[str, Any]:
    """The reply of a peer to a call.

    Raises ApiError if the peer is unreachable (REP-19) or refuses the call,
    and PendingError if the call was not made yet.
    """
    return scope.context.call(address_of(peer), kind, **fields)


def new_row(values: Row) -> Row:
    """The record of a peer that has not been reached yet."""
    return {'bandwidth_limit': None, 'system_id': '', 'capacity': {},
            'mgmt_connectivity_state': LOST, **values}


def note(scope: Scope, row: Row, about: dict[str, Any]) -> None:
    """Store the description that a peer has sent."""
    scope.store.update(
        replicas.PEERS, row['id'], system_id=about['system_id'],
        capacity=about['capacity'], mgmt_connectivity_state='ok')


def _capacity(name: str) -> Callable[[Scope, Row], Any]:
    default = 'ok' if name == 'state' else 0
    return lambda scope, row: row['capacity'].get(name, default)


class PeerRules(base.Rules):
    """REP-19, REP-21: an array may be its own peer."""

    computed = {f'capacity_{name}': _capacity(name)
                for name in (*replication.CAPACITIES, 'state')}

    def create(self, scope: Scope, values: Row) -> Row:
        """Add a peer, and introduce this array to it."""
        self._check_unique(scope, values)
        about = scope.context.call(
            address_of(values), 'introduce',
            login=values['local_username'],
            password=values['local_password'])
        base.check_unique(scope, self.name, 'system_id',
                          about['system_id'], 'Peer')
        row = super().create(scope, new_row(values))
        note(scope, row, about)
        return scope.store.at(self.ref(row))

    def _check_unique(self, scope: Scope, values: Row,
                      own_id: int = 0) -> None:
        for name in ('name', 'mgmt_host'):
            if name in values:
                base.check_name(values[name], 255)
                base.check_unique(
                    scope, self.name, name, values[name], 'Peer', own_id)

    def update(self, scope: Scope, row: Row, values: Row) -> Row:
        """Rename a peer, or change its address or login."""
        self._check_unique(scope, values, row['id'])
        changed = super().update(scope, row, values)
        if any(name in values for name in _LOGIN):
            about = call(scope, changed, 'hello')
            # One of the equipment may not have been reached before.
            if row['system_id'] not in ('', about['system_id']):
                raise errors.refused(
                    f'{changed["mgmt_host"]} is another array')
            base.check_unique(scope, self.name, 'system_id',
                              about['system_id'], 'Peer', row['id'])
            note(scope, changed, about)
        return scope.store.at(self.ref(row))

    def delete(self, scope: Scope, row: Row) -> None:
        """Remove a peer that no session needs."""
        if replicas.sessions_with(scope, row['id']):
            raise errors.refused(f'Peer {row["name"]} has sessions')
        for port in scope.store.find(
                replication.PEER_WAN_PORTS.name, 'replication_peer_k2array',
                self.ref(row)):
            scope.store.remove(replication.PEER_WAN_PORTS.name, port['id'])
        super().delete(scope, row)


class WanPortRules(base.Rules):
    """The replication addresses of the peer, which the array discovers."""

    def create(self, scope: Scope, values: Row) -> Row:
        """Add the peer's next WAN port."""
        ref = values['replication_peer_k2array']
        known = {row['remote_wan_port_ip_address'] for row
                 in scope.store.find(
                     self.name, 'replication_peer_k2array', ref)}
        for name, address in call(
                scope, scope.store.at(ref), 'hello')['wan_ports']:
            if address not in known:
                return super().create(scope, {
                    **values, 'remote_wan_port_name': name,
                    'remote_wan_port_ip_address': address})
        raise errors.refused('The peer has no more WAN ports')


def add(store: store_module.Store, name: str,
        address: request_context.Address) -> None:
    """Add a peer to the equipment; update an existing one of that name."""
    login = dict(zip(_LOGIN, (
        address.host, address.login, address.password)))
    known = store.find(replicas.PEERS, 'name', name)
    for row in known:
        store.update(replicas.PEERS, row['id'], **login, is_factory=True)
    if not known:
        install(store, [new_row({'name': name, **login})])


def equipment(store: store_module.Store) -> list[Row]:
    """The peers of the equipment, in the form that install() takes."""
    return [new_row({name: row[name] for name in ('name', *_LOGIN)})
            for row in store.rows(replicas.PEERS) if row.get('is_factory')]


def install(store: store_module.Store, rows: Iterable[Row]) -> None:
    """Add peers to the equipment."""
    for row in rows:
        store.insert(replicas.PEERS, {**row, 'is_factory': True})


def ref_of(row: Row) -> str:
    """The reference to a peer."""
    return schema.make_ref(replicas.PEERS, row['id'])


RULES: tuple[base.Rules, ...] = (
    PeerRules(replication.PEER_K2ARRAYS),
    WanPortRules(replication.PEER_WAN_PORTS))
