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

"""Statistics of replication: section 10.5.

They are derived from the rounds in the history: what arrived in an interval
counts as sent in it.
"""

from collections.abc import Iterable
from collections.abc import Iterator

from k2_sim.protocol.query import Query
from k2_sim.rules.base import Scope
from k2_sim.rules import replicas
from k2_sim.state import replication
from k2_sim.state import schema
from k2_sim.state.schema import Row

HISTORY = replication.RPO_HISTORY.name
OF_SYSTEM = replication.SYSTEM_STATS.name
OF_VOLUMES = (replication.VOLUME_STATS.name, replication.STATS.name)
NAMES = (OF_SYSTEM, *OF_VOLUMES)
_KINDS = ('logical', 'physical')
_WAYS = {'source': 'out', 'target': 'in'}


def rows(scope: Scope, resource: str, query: Query,
         volume: Row | None = None) -> Iterator[Row]:
    """The requested number of points, newest last, for each volume."""
    if resource == OF_SYSTEM:
        yield from _points(scope, query, scope.store.rows(HISTORY), None)
        return
    if resource not in OF_VOLUMES:
        return
    for session in scope.store.rows(replicas.SESSIONS):
        peer = scope.store.at(session['replication_peer_k2array'])
        rounds = scope.store.find(
            HISTORY, 'session', replicas.session_ref(session))
        for member in scope.store.find(
                'volumes', 'volume_group', session['local_volume_group']):
            if volume is None or member['id'] == volume['id']:
                for point in _points(scope, query, rounds, member['id']):
                    yield {**point, 'volume': schema.make_ref(
                        'volumes', member['id']),
                        'volume_name': member['name'],
                        'peer_k2_name': peer['name']}


def _points(scope: Scope, query: Query, rounds: Iterable[Row],
            volume: int | None) -> Iterator[Row]:
    rounds = list(rounds)
    for end in query.points(scope.now):
        sent = {(kind, way): 0 for kind in _KINDS for way in _WAYS.values()}
        for row in rounds:
            if end - query.resolution < row['round_end'] <= end:
                for kind, size in zip(_KINDS, _bytes(row, volume)):
                    sent[kind, _WAYS[row['role']]] += size
        yield {**{'_'.join(name): size // query.resolution
                  for name, size in sent.items()},
               'resolution': query.resolution, 'timestamp': end}


def _bytes(row: Row, volume: int | None) -> Iterable[int]:
    """Bytes before and after compression, of all volumes or one."""
    if volume is None:
        return (row[f'bytes_transmitted_{kind}'] for kind in _KINDS)
    size: Iterable[int] = row['volumes'].get(str(volume), ())
    return size
