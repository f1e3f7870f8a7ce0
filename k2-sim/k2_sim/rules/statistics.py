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

"""Statistics of the system and of volumes: section 8.

The figures come from the requests that were counted, unless others are set for
the system through the control API.
"""

from collections.abc import Iterator
from collections.abc import Mapping
import itertools
import math

from k2_sim import errors
from k2_sim.protocol.query import Query
from k2_sim.recording.performance import Load
from k2_sim.recording.performance import Performance
from k2_sim.rules import base
from k2_sim.rules.base import Scope
from k2_sim.rules import replicas
from k2_sim.state import catalogue
from k2_sim.state import schema
from k2_sim.state.schema import Row

_RESOURCE = catalogue.SYSTEM_STATS
NAME = _RESOURCE.name
OF_VOLUMES = catalogue.VOLUME_STATS.name
_MAXIMA = ('iops_max', 'throughput_max')
_FIGURES = {field.name: 0.0 if field.kind == 'number' else 0
            for field in catalogue.SYSTEM_STATS.fields
            if field.name not in ('timestamp', 'resolution', 'rw', 'bs')}
# The id of the figures that were set, which no path reaches.
_ID = -1


def rows(scope: Scope, io: Performance, query: Query) -> Iterator[Row]:
    """The requested number of points, the newest last.

    A breakdown has a row for each class instead, without maxima (STA-4).
    """
    figures = scope.store.get(NAME, _ID)
    for end in query.points(scope.now):
        if figures is None:
            yield from _measured(io, query, end)
        else:
            yield from _set_by_hand(figures, query, end)


def rows_of_volumes(scope: Scope, io: Performance, query: Query,
                    volume: Row | None = None) -> Iterator[Row]:
    """The points of each volume, or of one, without idle ones (STA-3)."""
    points = query.points(scope.now)
    active = [io.volumes(end, query.resolution) for end in points]
    numbers = set().union(*active) if volume is None else {volume['id']}
    for number in sorted(numbers):
        row = scope.store.get('volumes', number)
        if row is not None:
            about = _about(scope, row)
            for end, busy in zip(points, active):
                if number in busy:
                    for point in _measured(io, query, end, number):
                        yield {**point, **about}


def _about(scope: Scope, row: Row) -> Row:
    """The volume, and the array to which it is replicated."""
    session = replicas.session_of(scope, row['volume_group'])
    return {'volume': schema.make_ref('volumes', row['id']),
            'volume_name': row['name'],
            'peer_k2_name': None if session is None else scope.store.at(
                session['replication_peer_k2array'])['name']}


def _measured(io: Performance, query: Query, end: int,
              volume: int | None = None) -> Iterator[Row]:
    for names in _classes(query):
        load = io.load(end, query.resolution, volume, **names)
        figures = _figures(load, query.resolution)
        yield {**(_without_maxima(figures) if names else figures),
               'resolution': query.resolution, 'timestamp': end, **names}


def _figures(load: Load, seconds: int) -> Row:
    """STA-5: bytes per second and milliseconds.

    How the two latencies differ is not known: here they are the same.
    """
    latency = 1000 * load.seconds / load.requests if load.requests else 0.0
    most_requests, most_bytes = load.busiest
    return {
        'iops_avg': round(load.requests / seconds),
        'iops_max': round(most_requests),
        'throughput_avg': round(load.size / seconds),
        'throughput_max': round(most_bytes),
        'latency_inner': latency, 'latency_outer': latency}


def _set_by_hand(given: Row, query: Query, end: int) -> Iterator[Row]:
    """Each class has an equal share of the load that was set."""
    figures = {name: given.get(name, value)
               for name, value in _FIGURES.items()}
    classes = _classes(query)
    for names in classes:
        yield {**(_share(figures, len(classes)) if names else figures),
               'resolution': query.resolution, 'timestamp': end, **names}


def _classes(query: Query) -> list[dict[str, str]]:
    """The classes of a breakdown; pairs of classes for both (STA-4)."""
    known = _RESOURCE.known
    kinds = {'rw': known['rw'].values if query.rw_breakdown else ('',),
             'bs': known['bs'].values if query.bs_breakdown else ('',)}
    return [{name: value for name, value in zip(kinds, pair) if value}
            for pair in itertools.product(*kinds.values())]


def _share(figures: Row, classes: int) -> Row:
    return {name: value if name.startswith('latency') else value // classes
            for name, value in _without_maxima(figures).items()}


def _without_maxima(figures: Row) -> Row:
    return {name: value for name, value in figures.items()
            if name not in _MAXIMA}


class StatisticsRules(base.Rules):
    """Rows that have some of the fields only (STA-4)."""

    def render(self, scope: Scope, row: Row,
               wanted: frozenset[str] = frozenset()) -> Row:
        """The fields that the row has."""
        return {name: {'ref': value} if name == 'volume' else value
                for name, value in row.items()
                if not wanted or name in wanted}


def set_figures(scope: Scope, figures: Mapping[str, object]) -> None:
    """Change some of the figures; raises ApiError (400) for invalid ones."""
    before = scope.store.get(NAME, _ID) or {}
    scope.store.insert_as(NAME, _ID, {**before, **{
        name: _figure(name, value) for name, value in figures.items()}})


def clear_figures(scope: Scope) -> None:
    """Show the counted figures again."""
    if scope.store.get(NAME, _ID) is not None:
        scope.store.remove(NAME, _ID)


def _figure(name: str, value: object) -> int | float:
    if name not in _FIGURES:
        raise errors.refused(f'Unknown figure: {name}')
    if (isinstance(value, bool) or not isinstance(value, (int, float))
            or not 0 <= value < math.inf):
        raise errors.refused(f'{name} must be a number from 0')
    return int(value) if isinstance(_FIGURES[name], int) else value


RULES: tuple[base.Rules, ...] = (
    StatisticsRules(_RESOURCE), StatisticsRules(catalogue.VOLUME_STATS))
