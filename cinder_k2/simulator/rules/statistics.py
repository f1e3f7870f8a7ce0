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

"""Statistics of the system as a whole: section 8.

Nothing is measured, for no data flows. The figures are 0 until somebody
sets others through the control API, and then the same at all times.
"""

from collections.abc import Iterator
from collections.abc import Mapping
import itertools
import math

from cinder_k2.simulator import catalogue
from cinder_k2.simulator import errors
from cinder_k2.simulator.query import Query
from cinder_k2.simulator.rules import base
from cinder_k2.simulator.rules.base import Scope
from cinder_k2.simulator.schema import Row

_RESOURCE = catalogue.SYSTEM_STATS
NAME = _RESOURCE.name
_MAXIMA = ('iops_max', 'throughput_max')
_FIGURES = {field.name: 0.0 if field.kind == 'number' else 0
            for field in catalogue.SYSTEM_STATS.fields
            if field.name not in ('timestamp', 'resolution', 'rw', 'bs')}
# No path leads to it.
_ID = -1


def rows(scope: Scope, query: Query) -> Iterator[Row]:
    """As many points as asked for, the newest last.

    A breakdown has a row for each class instead, with an equal share of the
    load and without the maxima (STA-4).
    """
    figures = {**_FIGURES, **(scope.store.get(NAME, _ID) or {})}
    figures.pop('id', None)
    classes = _classes(query)
    for end in query.points(scope.now):
        point = {'resolution': query.resolution, 'timestamp': end}
        for names in classes:
            yield {**(_share(figures, len(classes)) if names else figures),
                   **point, **names}


def _classes(query: Query) -> list[dict[str, str]]:
    """The classes of a breakdown, by pairs for both (STA-4)."""
    known = _RESOURCE.known
    kinds = {'rw': known['rw'].values if query.rw_breakdown else ('',),
             'bs': known['bs'].values if query.bs_breakdown else ('',)}
    return [{name: value for name, value in zip(kinds, pair) if value}
            for pair in itertools.product(*kinds.values())]


def _share(figures: Row, classes: int) -> Row:
    return {name: value if name.startswith('latency') else value // classes
            for name, value in figures.items() if name not in _MAXIMA}


class StatisticsRules(base.Rules):
    """Rows that have some of the fields only (STA-4)."""

    def render(self, scope: Scope, row: Row,
               wanted: frozenset[str] = frozenset()) -> Row:
        """The row as it is; nothing in it is a reference."""
        return {name: value for name, value in row.items()
                if not wanted or name in wanted}


def set_figures(scope: Scope, figures: Mapping[str, object]) -> None:
    """Change some of the figures; raises ApiError (400) for nonsense."""
    before = scope.store.get(NAME, _ID) or {}
    scope.store.insert_as(NAME, _ID, {**before, **{
        name: _figure(name, value) for name, value in figures.items()}})


def _figure(name: str, value: object) -> int | float:
    if name not in _FIGURES:
        raise errors.refused(f'Unknown figure: {name}')
    if (isinstance(value, bool) or not isinstance(value, (int, float))
            or not 0 <= value < math.inf):
        raise errors.refused(f'{name} must be a number from 0')
    return int(value) if isinstance(_FIGURES[name], int) else value


RULES: tuple[base.Rules, ...] = (StatisticsRules(_RESOURCE),)
