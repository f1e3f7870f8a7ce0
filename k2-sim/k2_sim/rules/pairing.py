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

"""The records of a session and its pairs, on one side of it."""

from k2_sim.protocol import peering
from k2_sim.rules.base import Scope
from k2_sim.rules import peers
from k2_sim.rules import replicas
from k2_sim.rules import states
from k2_sim.state import schema
from k2_sim.state.schema import Row


def insert_session(scope: Scope, values: Row, peer_group: str,
                   peer_group_id: int | None) -> Row:
    """Insert an idle session, and the record of its group on the peer."""
    row = scope.store.insert(replicas.SESSIONS, {
        'state': replicas.IDLE, 'stopped': False, 'suspend_reason': '',
        'suspend_reason_code': 'none', 'generation_number': None,
        'latest_replicated_snapshot': None, 'restored_snapshot': None,
        'epoch': 0, 'opened': False, 'version': 0,
        'peer_version': 0, 'last_generation': 0, 'queue': [],
        'next_round': None, 'pending': None, **values})
    group = scope.store.insert(replicas.PEER_GROUPS, {
        'name': peer_group, 'remote_volume_group_id': peer_group_id,
        'local_volume_group': row['local_volume_group'],
        'replication_peer_k2array': row['replication_peer_k2array'],
        'replication_session': replicas.session_ref(row)})
    return replicas.change(scope, row, replication_peer_volume_group=(
        schema.make_ref(replicas.PEER_GROUPS, group['id'])))


def insert_pair(scope: Scope, session: Row, volume: int,
                remote: int | None, name: str) -> Row:
    """Insert the record of a volume's counterpart on the peer.

    remote: its id there, None if it is not yet known.
    """
    return scope.store.insert(replicas.PAIRS, {
        'name': name, 'local_volume': schema.make_ref('volumes', volume),
        'remote_volume_id': remote,
        'replication_session': replicas.session_ref(session),
        'replication_peer_volume_group':
            session['replication_peer_volume_group']})


def find_peer(scope: Scope, sender: peering.Sender) -> Row | None:
    """Find the record of the array that sent a message.

    A peer that was never reached from here is known only by its address; its
    system id is then added to the record.
    """
    for row in scope.store.find(
            replicas.PEERS, 'system_id', sender.system_id):
        return row
    for row in scope.store.find(
            replicas.PEERS, 'mgmt_host', sender.address):
        if not row['system_id']:
            return scope.store.update(
                replicas.PEERS, row['id'], system_id=sender.system_id)
    return None


def session_of_volume(scope: Scope, volume: str) -> Row | None:
    """The session that a volume's pair belongs to, if it has one."""
    pair = replicas.pair_of(scope, volume)
    return None if pair is None else scope.store.at(
        pair['replication_session'])


def is_with(session: Row | None, peer: Row) -> bool:
    """Whether a session is one with this peer."""
    return (session is not None and
            session['replication_peer_k2array'] == peers.ref_of(peer))


def drop(scope: Scope, row: Row) -> None:
    """Remove a session with the group and the volumes created for it."""
    for pair in replicas.pairs_of(scope, row):
        drop_volume(scope, pair)
    states.remove(scope, row)
    resource, number = schema.split_ref(row['local_volume_group'])
    scope.store.remove(resource, number)


def drop_volume(scope: Scope, pair: Row) -> None:
    """Remove a pair with the volume created for it."""
    scope.store.remove(replicas.PAIRS, pair['id'])
    resource, number = schema.split_ref(pair['local_volume'])
    scope.store.remove(resource, number)
