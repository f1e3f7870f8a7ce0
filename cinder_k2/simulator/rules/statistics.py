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
import math

from cinder_k2.simulator import catalogue
from cinder_k2.simulator import errors
from cinder_k2.simulator.query import Query
from cinder_k2.simulator.rules.base import Scope
from cinder_k2.simulator.schema import Row

NAME = catalogue.SYSTEM_STATS.name
_FIGURES = {field.name: 0.0 if field.kind == 'number' else 0
            for field in catalogue.SYSTEM_STATS.fields
            if field.name not in ('timestamp', 'resolution')}
# No path leads to it.
_ID = -1


def rows(scope: Scope, query: Query) -> Iterator[Row]:
    """As many points as asked for, the newest last."""
    figures = {**_FIGURES, **(scope.store.get(NAME, _ID) or {})}
    for before in reversed(range(query.datapoints)):
        yield {**figures, 'resolution': query.resolution,
               'timestamp': int(scope.now) - before * query.resolution}


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
