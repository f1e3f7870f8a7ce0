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

"""Answers to GET of a collection: find, order, page, render."""

from collections.abc import Callable
from typing import Any
from typing import NamedTuple

from cinder_k2.simulator import errors
from cinder_k2.simulator import query as query_module
from cinder_k2.simulator.query import Query
from cinder_k2.simulator.rules.base import Rules
from cinder_k2.simulator.rules.base import Scope
from cinder_k2.simulator import schema
from cinder_k2.simulator.schema import Row
from cinder_k2.simulator import visibility as visibility_module

_EQUAL = ('eq', 'in', 'm_eq')
Test = tuple[str, Callable[[Any], bool]]


class Hit(NamedTuple):
    """One object found: its row, or the reply kept of a deleted one."""

    number: int
    row: Row
    ghost: visibility_module.Ghost | None = None


def find(scope: Scope, rules: Rules, query: Query,
         visibility: visibility_module.Visibility) -> list[Hit]:
    """Every object that meets all conditions, by id."""
    tests = _tests(scope, rules, query)
    if tests is None:
        return []
    hits = [Hit(row['id'], row) for row in _candidates(scope, rules, query)
            if all(test(rules.value(scope, row, field))
                   for field, test in tests)
            and visibility.shows(rules.name, row['id'])]
    for ghost in visibility.ghosts(rules.name):
        if all(test(ghost.value(field)) for field, test in tests):
            hits.append(Hit(ghost.reply['id'], ghost.reply, ghost))
            visibility.seen(rules.name, ghost)
    return sorted(hits, key=lambda hit: hit.number)


def _tests(scope: Scope, rules: Rules, query: Query) -> list[Test] | None:
    """One test per condition; None if a field does not exist (QRY-2)."""
    tests: list[Test] = []
    for condition in query.conditions:
        test = query_module.matcher(
            rules.resource, condition, scope.switches.offers)
        if test is None:
            if scope.switches.unknown_filter == 'ignored':
                continue
            return None
        tests.append((condition.field, test))
    return tests


def _candidates(scope: Scope, rules: Rules, query: Query) -> list[Row]:
    """The rows that an index leaves to look at, else all."""
    table = scope.store.tables[rules.name]
    for condition in query.conditions:
        if (condition.operator not in _EQUAL
                or condition.field not in rules.resource.known):
            continue
        kind = rules.resource.known[condition.field].kind
        if table.indexed(condition.field) and kind in ('string', 'ref'):
            rows = {row['id']: row for value in condition.values
                    for row in table.find(condition.field, value)}
            return list(rows.values())
        if condition.field == 'id':
            numbers = set(map(schema.to_number, condition.values))
            return [table.rows[int(number)] for number in numbers
                    if number is not None and number in table.rows]
    return scope.store.rows(rules.name)


def order(scope: Scope, rules: Rules, query: Query, hits: list[Hit],
          turn: int) -> list[Hit]:
    """The hits as __sort asks; turn rotates them if it does not."""
    if not query.sort:
        turn = turn % len(hits) if hits else 0
        return hits[turn:] + hits[:turn]
    field = rules.resource.known.get(query.sort)
    if field is None or field.write_only:
        raise errors.refused(f'Cannot sort by {query.sort}')
    if query.sort == 'id':
        return hits[::-1] if query.descending else hits
    return sorted(
        hits, reverse=query.descending, key=lambda hit:
        query_module.sort_key(_value(scope, rules, hit, query.sort)))


def _value(scope: Scope, rules: Rules, hit: Hit, field: str) -> Any:
    if hit.ghost is not None:
        return hit.ghost.value(field)
    return rules.value(scope, hit.row, field)


def show(scope: Scope, rules: Rules, hit: Hit,
         wanted: frozenset[str]) -> Row:
    """A hit as replies show it."""
    if hit.ghost is None:
        return rules.render(scope, hit.row, wanted)
    return {name: value for name, value in hit.row.items()
            if not wanted or name in wanted}


def page(scope: Scope, rules: Rules, query: Query,
         hits: list[Hit]) -> dict[str, Any]:
    """The envelope of one page (OBJ-1)."""
    limit = scope.switches.page_size if query.limit is None else query.limit
    if not rules.resource.paged:
        limit = len(hits)
    shown = [show(scope, rules, hit, query.fields)
             for hit in hits[query.offset:query.offset + limit]]
    if not rules.resource.paged:
        return {'hits': shown, 'total': len(hits)}
    return {'hits': shown, 'limit': limit, 'offset': query.offset,
            'total': len(hits)}
