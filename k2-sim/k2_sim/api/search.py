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

"""Answers to GET of a collection: find, order, page, render.

Each part is a generator that yields after every few rows (see slices). All
parts read the same rows: if other requests may change the table in between,
those of a copy that was made when the read began.
"""

from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
import heapq
import operator
from typing import Any
from typing import NamedTuple
from typing import TypeVar

from k2_sim.api import slices
from k2_sim import errors
from k2_sim.faults import visibility as visibility_module
from k2_sim.protocol import query as query_module
from k2_sim.protocol.query import Query
from k2_sim.rules.base import Rules
from k2_sim.rules.base import Scope
from k2_sim.state import schema
from k2_sim.state.schema import Row
from k2_sim.state import table as table_module

# A known client asks for pages of 9999 objects (section 2.5).
LARGEST_PAGE = 10000
_EQUAL = ('eq', 'in', 'm_eq')
Test = tuple[query_module.Condition, Callable[[Any], bool]]
_T = TypeVar('_T')


class Found(NamedTuple):
    """The result of a search: ids in order, and deleted records."""

    numbers: Sequence[int]
    deleted: dict[int, visibility_module.DeletedRecord]


class Source(NamedTuple):
    """The rows of a resource, by id, as they were when a read began."""

    scope: Scope
    rules: Rules
    rows: Mapping[int, Row]

    @property
    def table(self) -> table_module.Table:
        """The table of the resource, as it is now."""
        return self.scope.store.tables[self.rules.name]

    @property
    def may_change(self) -> bool:
        """Whether the table may change between the steps of the read."""
        return self.rows is not self.table.rows

    def value(self, number: int, field: str) -> Any:
        """The value of a field of a row."""
        return self.rules.value(self.scope, self.rows[number], field)


def source(scope: Scope, rules: Rules, may_change: bool) -> Source:
    """The rows of a resource for one read.

    may_change: whether other requests may change them between its steps.
    """
    rows = scope.store.tables[rules.name].rows
    return Source(scope, rules, rows.copy() if may_change else rows)


def is_long(scope: Scope, rules: Rules, query: Query,
            visibility: visibility_module.Visibility) -> bool:
    """Whether a search reads so many rows that others must not wait."""
    table = scope.store.tables[rules.name]
    if len(table.numbers) <= slices.SHORT:
        return False
    tests = _tests(scope, rules, query)
    if tests is None:
        return False
    numbers, tests = _candidates(table, tests)
    if len(numbers) <= slices.SHORT:
        return False
    return (bool(tests) or query.sort not in ('', 'id')
            or not visibility.is_clear
            or _limit(scope, rules, query, len(numbers)) > slices.SHORT)


def find(read: Source, query: Query,
         visibility: visibility_module.Visibility) -> slices.Steps[Found]:
    """All objects that match all conditions, by id."""
    rules = read.rules
    tests = _tests(read.scope, rules, query)
    if tests is None:
        return Found((), {})
    numbers = yield from _matching(read, tests)
    if visibility.is_clear:
        return Found(numbers, {})
    deleted = {}
    for record in visibility.deleted_records(rules.name):
        if all(test(record.value(condition.field))
               for condition, test in tests):
            deleted[record.reply['id']] = record
            visibility.count_read(rules.name, record)
    seen: list[int] = []
    for part in slices.steps_of(numbers):
        seen += [number for number in part
                 if visibility.shows(rules.name, number)]
        yield
    return Found(sorted([*seen, *deleted]), deleted)


def _tests(scope: Scope, rules: Rules, query: Query) -> list[Test] | None:
    """One test per condition; None if a field does not exist (QRY-2).

    With unknown_filter "ignored", conditions on such fields are left out.
    """
    tests: list[Test] = []
    for condition in query.conditions:
        test = query_module.matcher(
            rules.resource, condition, scope.behaviors.offers)
        if test is None:
            if scope.behaviors.unknown_filter == 'ignored':
                continue
            return None
        tests.append((condition, test))
    return tests


def _matching(read: Source, tests: list[Test]
              ) -> slices.Steps[Sequence[int]]:
    """The rows that match all conditions, by an index if possible."""
    numbers, tests = _candidates(read.table, tests)
    if read.may_change:
        numbers = list(numbers)
    if not tests:
        return numbers
    found: list[int] = []
    for part in slices.steps_of(numbers):
        # Computed values of a deleted row may need other deleted rows.
        found += [number for number in part if number in read.table.rows
                  and all(test(read.value(number, condition.field))
                          for condition, test in tests)]
        yield
    return found


def _candidates(table: table_module.Table, tests: list[Test]
                ) -> tuple[Sequence[int], list[Test]]:
    """Ids by an index, if possible, and what remains to be tested."""
    for place, (condition, _) in enumerate(tests):
        known = _looked_up(table, condition)
        if known is not None:
            return known, tests[:place] + tests[place + 1:]
    return table.numbers, tests


def _looked_up(table: table_module.Table, condition: query_module.Condition
               ) -> Sequence[int] | None:
    """The rows that match a condition, if there is an index for it."""
    if condition.operator not in _EQUAL:
        return None
    if condition.field == 'id':
        wanted = set(map(schema.to_number, condition.values))
        return sorted(int(number) for number in wanted
                      if number is not None and number in table.rows)
    kind = table.resource.known[condition.field].kind
    if not table.indexed(condition.field) or kind not in ('string', 'ref'):
        return None
    if len(condition.values) == 1:
        return table.find(condition.field, condition.values[0])
    return sorted({number for value in condition.values
                   for number in table.find(condition.field, value)})


def select(scope: Scope, rules: Rules, query: Query, rows: Iterable[Row]
           ) -> list[Row]:
    """The computed rows that match all conditions, sorted."""
    tests = _tests(scope, rules, query)
    if tests is None:
        return []
    found = [row for row in rows if all(
        test(row.get(condition.field)) for condition, test in tests)]
    field = _sorted_by(rules, query)
    if field not in ('', 'id'):
        found.sort(key=lambda row: query_module.sort_key(row.get(field)),
                   reverse=query.descending)
    return found


def _sorted_by(rules: Rules, query: Query) -> str:
    """The field of __sort, '' if there is none.

    Clients that read page by page sort by id, so it is accepted even if the
    resource has no such field. Raises ApiError (400) for other fields that
    the resource does not have.
    """
    field = rules.resource.known.get(query.sort)
    if query.sort not in ('', 'id') and (field is None or field.write_only):
        raise errors.refused(f'Cannot sort by {query.sort}')
    return query.sort


def order(read: Source, query: Query, found: Found, turn: int
          ) -> slices.Steps[Found]:
    """The result in the order of __sort; without it, rotated by turn."""
    numbers, deleted = found
    field = _sorted_by(read.rules, query)
    if not field:
        turn = turn % len(numbers) if turn and numbers else 0
        return Found([*numbers[turn:], *numbers[:turn]], deleted) \
            if turn else found
    if field == 'id':
        return Found(numbers[::-1], deleted) if query.descending else found
    return Found((yield from _sorted(read, query, found)), deleted)


def _sorted(read: Source, query: Query, found: Found
            ) -> slices.Steps[list[int]]:
    """The ids by the field of __sort: sorted parts, merged."""
    def key_of(number: int) -> tuple[Any, ...]:
        record = found.deleted.get(number)
        return query_module.sort_key(
            read.value(number, query.sort) if record is None
            else record.value(query.sort))

    key = operator.itemgetter(0)
    parts = []
    for part in slices.steps_of(found.numbers):
        parts.append(sorted((
            (key_of(number), number) for number in part
            if number in read.table.rows or number in found.deleted),
            key=key, reverse=query.descending))
        yield
    merged = heapq.merge(*map(_emptied, parts), key=key,
                         reverse=query.descending)
    numbers: list[int] = []
    for batch in slices.batches_of(merged):
        numbers += [number for _, number in batch]
        yield
    return numbers


def _emptied(items: list[_T]) -> Iterator[_T]:
    """Yield the items, each freed after its turn, not all at the end."""
    items.reverse()
    while items:
        yield items.pop()


def page(scope: Scope, rules: Rules, query: Query, found: Sequence[_T],
         show: Callable[[Sequence[_T]], Sequence[object]]
         ) -> slices.Steps[dict[str, Any]]:
    """The envelope of one page (OBJ-1)."""
    total = len(found)
    limit = _limit(scope, rules, query, total)
    hits: list[object] = []
    for part in slices.steps_of(found[query.offset:query.offset + limit]):
        hits += show(part)
        yield
    if not rules.resource.paged:
        return {'hits': hits, 'total': total}
    return {'hits': hits, 'limit': limit, 'offset': query.offset,
            'total': total}


def _limit(scope: Scope, rules: Rules, query: Query, total: int) -> int:
    """The most objects that the page may have."""
    if not rules.resource.paged:
        return total
    return min(LARGEST_PAGE, scope.behaviors.page_size
               if query.limit is None else query.limit)
