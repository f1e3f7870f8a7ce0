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

"""The rows of one resource, in the order of their ids, with indexes.

A row is never changed in place; an update replaces it, so that readers can
keep a row.
"""

import bisect
from collections.abc import Callable
from collections.abc import Sequence

from k2_sim.state import schema
from k2_sim.state.schema import Row

# Called on a change of a resource: the row before, if any, and after.
Listener = Callable[[schema.Resource, Row | None, Row | None], None]


class Table:
    """The rows of one resource, by id and by the indexed fields.

    rows: by id, in no order. numbers: the ids in order. changed is
    called after each change.
    """

    def __init__(self, resource: schema.Resource, changed: Listener) -> None:
        self.resource = resource
        self.rows: dict[int, Row] = {}
        self.numbers: list[int] = []
        self._changed = changed
        self._indexes: dict[str, dict[object, list[int]]] = {
            name: {} for name in resource.indexed}

    def indexed(self, field: str) -> bool:
        """Whether find() works on this field."""
        return field in self._indexes

    def find(self, field: str, value: object) -> Sequence[int]:
        """Ids of the rows whose indexed field has this value, in order.

        It is the index itself: valid until the next change.
        """
        return self._indexes[field].get(value, ())

    def free_number(self, above: int) -> int:
        """The lowest id above a number that no row has."""
        begin = bisect.bisect_right(self.numbers, above)
        # Up to the first gap ids rise by one from place to place.
        return above + 1 + bisect.bisect_left(
            range(len(self.numbers) - begin), True, key=lambda place:
            self.numbers[begin + place] > above + 1 + place)

    def put(self, row: Row) -> None:
        """Add a row, or replace the one with its id."""
        number = row['id']
        old = self.rows.get(number)
        if old is None:
            bisect.insort(self.numbers, number)
        self.rows[number] = row
        self._index(number, old or {}, row)
        self._changed(self.resource, old, row)

    def drop(self, number: int) -> None:
        """Remove a row, if it exists."""
        old = self.rows.pop(number, None)
        if old is not None:
            _take_out(self.numbers, number)
            self._index(number, old, {})
            self._changed(self.resource, old, None)

    def _index(self, number: int, old: Row, new: Row) -> None:
        for field, index in self._indexes.items():
            before, after = old.get(field), new.get(field)
            if before == after:
                continue
            if before is not None:
                _take_out(index[before], number)
                if not index[before]:
                    del index[before]
            if after is not None:
                bisect.insort(index.setdefault(after, []), number)


def _take_out(numbers: list[int], number: int) -> None:
    del numbers[bisect.bisect_left(numbers, number)]
