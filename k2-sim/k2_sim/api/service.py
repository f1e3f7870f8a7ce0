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

"""The REST API: from a request of an authenticated user to its reply."""

from collections.abc import Iterable
from collections.abc import Sequence
import re
from typing import Any

import msgspec

from k2_sim.api import renderings
from k2_sim.api import search
from k2_sim.api import slices
from k2_sim import clock as clock_module
from k2_sim import errors
from k2_sim.faults import visibility as visibility_module
from k2_sim import profiles
from k2_sim.protocol import messages
from k2_sim.protocol.messages import Request
from k2_sim.protocol.messages import Response
from k2_sim.protocol import query as query_module
from k2_sim.protocol import request_context
from k2_sim.recording import performance
from k2_sim.rules.base import Rules
from k2_sim.rules.base import Scope
from k2_sim.rules import events
from k2_sim.rules import network
from k2_sim.rules import registry
from k2_sim.rules import replicas
from k2_sim.rules import retention
from k2_sim.rules import schedulers
from k2_sim.rules import snapshots
from k2_sim.rules import statistics
from k2_sim.rules import system
from k2_sim.rules import traffic
from k2_sim.rules import transfers
from k2_sim.state import catalogue
from k2_sim.state import schema
from k2_sim.state.schema import Row
from k2_sim.state import store as store_module

_PER_VOLUME = (statistics.OF_VOLUMES, *traffic.OF_VOLUMES)
_STATISTICS = (statistics.NAME, statistics.OF_VOLUMES, *traffic.NAMES)
_OTHER_VLANS = 'system/netvlans'
_EVERYTHING = '__full'
_BULK_METHODS = ('POST', 'PATCH', 'DELETE')


class Service:
    """Serves requests on one state. Not thread-safe."""

    def __init__(self, store: store_module.Store,
                 behaviors: profiles.Behaviors, clock: clock_module.Clock,
                 visibility: visibility_module.Visibility,
                 io: performance.Performance) -> None:
        self._store = store
        self._behaviors = behaviors
        self._clock = clock
        self._visibility = visibility
        self._io = io
        self._renderings = renderings.Renderings(store)
        self._retention = retention.Retention(store)
        self._turn = 0

    def answer(self, request: Request, stale: visibility_module.StaleReads,
               context: request_context.RequestContext
               ) -> Response | slices.Slices[Response]:
        """The reply to one request, or the slices of a read that may pause.

        stale: how long reads do not see a write (OBJ-6).
        Raises ApiError for a refusal, and PendingError if a peer must
        be asked first (see context.pending); then nothing has changed.
        """
        scope = Scope(self._store, self._behaviors, self._clock,
                      request.role, request.login, context=context)
        try:
            self.expire(scope)
        except request_context.PendingError:
            # Left to Array.run_maintenance(): this request need not wait.
            context.begin()
        self._renderings.check(self._behaviors)
        path = self._known_path(request.path.strip('/'))
        if path == '':
            return self._index(request)
        if path == _EVERYTHING:
            return self._read_in(
                request, self._everything(scope, request))
        self._check_online(request, path)
        if path.startswith('stats/') and not self._behaviors.statistics:
            raise errors.no_resource()
        if request.method == 'GET':
            return self._read_in(request, self._read(scope, request, path))
        return self._write(scope, request, path, stale)

    def is_long(self, method: str, path: str, query: str) -> bool:
        """Whether a request reads so many rows that others must not wait.

        path: below the base path of the API.
        """
        if method != 'GET':
            return False
        path = self._known_path(path.strip('/'))
        if path == _EVERYTHING:
            return any(len(table.numbers) > slices.SHORT
                       for table in self._store.tables.values())
        rules = registry.RULES.get(path)
        if rules is None or path in _STATISTICS \
                or len(self._store.tables[path].numbers) <= slices.SHORT:
            return False
        if len(query) > slices.SHORT_QUERY:
            # Parsing it takes milliseconds, and it has many values.
            return True
        try:
            return search.is_long(
                Scope(self._store, self._behaviors, self._clock), rules,
                query_module.parse(query), self._visibility)
        except errors.ApiError:
            # It will be refused.
            return False

    @staticmethod
    def _read_in(request: Request, steps: slices.Steps[Response]
                 ) -> Response | slices.Slices[Response]:
        """A read in slices if the request may pause, or else its reply."""
        return slices.Slices(steps) if request.may_pause \
            else slices.whole(steps)

    def _known_path(self, path: str) -> str:
        """The path under its usual name (section 14)."""
        if self._behaviors.netvlans and path.startswith(_OTHER_VLANS):
            return path.replace(_OTHER_VLANS, network.VLANS, 1)
        return path

    def expire(self, scope: Scope) -> None:
        """Take due snapshots; remove expired ones, and others for space.

        Raises PendingError if copies must be made first.
        """
        due = schedulers.due(scope)
        if due:
            own = _own(scope)
            with self._store.transaction():
                own.context.for_each(due, lambda row: schedulers.run(own, row))
        rows = self._retention.expired(scope)
        if rows:
            own = _own(scope)
            with self._store.transaction():
                for row in rows:
                    snapshots.remove(own, row)
                    events.record_retired(own, row)
        if system.free(scope) <= 0:
            self._make_room(_own(scope))

    def _make_room(self, scope: Scope) -> None:
        """Delete auto-deletable snapshots, the oldest first (SNP-4)."""
        row = snapshots.next_deletable(scope)
        if row is None:
            return
        with self._store.transaction():
            while row is not None and system.free(scope) <= 0:
                snapshots.remove(scope, row)
                events.record_reclaimed(scope, row)
                row = snapshots.next_deletable(scope)

    def _check_online(self, request: Request, path: str) -> None:
        """Refuse (503) writes and statistics while not ONLINE (ERR-6)."""
        if not self._behaviors.serves and (
                request.method != 'GET' or path.startswith('stats/')):
            raise errors.ApiError(503, 'System is not online')

    def _index(self, request: Request) -> Response:
        """All resources (DIS-1)."""
        if request.method != 'GET':
            raise errors.wrong_method()
        return messages.reply(200, catalogue.index(),
                              query_module.parse(request.query).pretty)

    def _everything(self, scope: Scope, request: Request
                    ) -> slices.Steps[Response]:
        """All objects of all resources."""
        if request.method != 'GET':
            raise errors.wrong_method()
        pretty = query_module.parse(request.query).pretty
        shown: dict[str, msgspec.Raw] = {}
        for name, rules in registry.RULES.items():
            hits: list[bytes] = []
            table = self._store.tables[name]
            for part in slices.steps_of(list(table.numbers)):
                hits += map(bytes, self._renderings.of_all(
                    scope, rules, filter(table.rows.__contains__, part)))
                yield
            # Joining them is much faster than encoding them again.
            shown[name] = msgspec.Raw(b'[%s]' % b','.join(hits))
        return messages.reply(200, shown, pretty)

    def _read(self, scope: Scope, request: Request, path: str
              ) -> slices.Steps[Response]:
        query = query_module.parse(request.query)
        value = yield from self._value(scope, path, query, request.may_pause)
        return messages.reply(200, value, query.pretty)

    def _value(self, scope: Scope, path: str, query: query_module.Query,
               may_pause: bool) -> slices.Steps[object]:
        """What a GET returns: an object, or a page of objects."""
        if path in registry.RULES:
            return (yield from self._collection(
                scope, registry.RULES[path], query, may_pause))
        rules, rest = _split(path)
        if rest == '__bulk':
            raise errors.wrong_method()
        if rules.name in _PER_VOLUME:
            volume = _existing(self._store, registry.RULES['volumes'], rest)
            return (yield from _page_of(scope, rules, query, self._statistics(
                scope, rules.name, query, volume)))
        if rules.name == traffic.HISTORY:
            session = _existing(
                self._store, registry.RULES[replicas.SESSIONS], rest)
            return (yield from _page_of(
                scope, rules, query, transfers.history(scope, session)))
        return self._single(scope, rules, rest, query)

    def _collection(self, scope: Scope, rules: Rules,
                    query: query_module.Query, may_pause: bool
                    ) -> slices.Steps[dict[str, Any]]:
        if rules.name in _STATISTICS:
            return (yield from _page_of(
                scope, rules, query,
                self._statistics(scope, rules.name, query)))
        read = search.source(scope, rules, may_pause)
        found = yield from search.find(read, query, self._visibility)
        self._turn += 1
        turn = self._turn if self._behaviors.unstable_pages else 0
        found = yield from search.order(read, query, found, turn)
        return (yield from search.page(
            scope, rules, query, found.numbers,
            lambda numbers: self._shown(read, found, numbers, query)))

    def _statistics(self, scope: Scope, resource: str,
                    query: query_module.Query, volume: Row | None = None
                    ) -> Iterable[Row]:
        """Computed rows, which no table has (sections 8 and 10.5)."""
        if resource == statistics.NAME:
            return statistics.rows(scope, self._io, query)
        if resource == statistics.OF_VOLUMES:
            return statistics.rows_of_volumes(scope, self._io, query, volume)
        return traffic.rows(scope, resource, query, volume)

    def _shown(self, read: search.Source, found: search.Found,
               numbers: Sequence[int], query: query_module.Query
               ) -> Sequence[object]:
        """Some objects of a search, without those deleted meanwhile."""
        scope, rules, rows = read.scope, read.rules, read.table.rows
        numbers = [number for number in numbers
                   if number in rows or number in found.deleted]
        if not found.deleted and not query.fields and (
                not read.may_change
                or all(rows[each] is read.rows[each] for each in numbers)):
            return self._renderings.of_all(scope, rules, numbers)
        return [found.deleted[number].shown(query.fields)
                if number in found.deleted
                else self._row(scope, rules, read.rows[number], query.fields)
                for number in numbers]

    def _row(self, scope: Scope, rules: Rules, row: Row,
             fields: frozenset[str]) -> object:
        if fields or self._store.tables[rules.name].rows[row['id']] is not row:
            return rules.render(scope, row, fields)
        return self._renderings.of(scope, rules, row)

    def _single(self, scope: Scope, rules: Rules, number: str,
                query: query_module.Query) -> object:
        """One object, bare or in an envelope, see single_envelope (OBJ-2)."""
        value = self._show(scope, rules, number, query.fields)
        if not self._behaviors.single_envelope:
            return value
        return {'hits': [value], 'limit': self._behaviors.page_size,
                'offset': 0, 'total': 1}

    def _show(self, scope: Scope, rules: Rules, number: str,
              fields: frozenset[str]) -> object:
        record = self._visibility.deleted_record(rules.name, _number(number))
        if record is not None:
            self._visibility.count_read(rules.name, record)
            return record.shown(fields)
        row = _existing(self._store, rules, number)
        if not self._visibility.shows(rules.name, row['id']):
            raise errors.missing(f'/{rules.name}/{number}')
        return self._row(scope, rules, row, fields)

    def _write(self, scope: Scope, request: Request, path: str,
               stale: visibility_module.StaleReads) -> Response:
        """Carry out a write atomically."""
        rules, rest = _split(path)
        self._check_method(scope, request.method, rules, rest)
        body = _body(request, rest)
        with self._store.transaction():
            self._use_sequences(request.headers.get('x-k2-sequence', ''))
            if rest == '__bulk':
                rows = self._bulk(scope, request.method, rules, body)
            else:
                rows = [self._one(scope, request.method, rules, rest, body)]
            events.record_write(scope, request.method, rules.name, rows)
        self._after_write(scope, request.method, rules, rows, stale)
        return self._written(scope, request.method, rules, rest, rows)

    def _check_method(self, scope: Scope, method: str, rules: Rules,
                      rest: str) -> None:
        """405 for methods that the resource or path does not support."""
        wanted = {'': ('POST',), '__bulk': _BULK_METHODS}.get(
            rest, ('PATCH', 'DELETE'))
        if method not in wanted or not rules.offers(scope, method):
            raise errors.wrong_method()
        if rest == '__bulk' and not self._behaviors.offers_bulk(rules.name):
            raise errors.no_resource()

    def _use_sequences(self, header: str) -> None:
        """X-K2-Sequence: each number must go up (SEQ-1, SEQ-2)."""
        if not header.strip() or not self._behaviors.sequences:
            return
        for item in header.split(','):
            match = re.fullmatch(r'([^=]+)=([0-9]{1,18})', item.strip())
            if match is None:
                raise errors.refused('X-K2-Sequence must be <id>=<number>')
            self._store.use_sequence(match[1].strip(), int(match[2]))

    def _one(self, scope: Scope, method: str, rules: Rules, number: str,
             body: Any, lenient: bool = False) -> Row:
        """Carry out one write; returns the new, changed or deleted row."""
        ignores = self._behaviors.unknown_fields == 'ignored'
        reading = schema.Reading(
            self._store.exists, self._behaviors.offers, lenient or ignores,
            'thin_clones' if self._behaviors.ignore_clone_fields else '',
            ignores)
        if method == 'POST':
            return rules.create(
                scope, schema.read_create(rules.resource, body, reading))
        row = _existing(self._store, rules, number)
        if method == 'DELETE':
            rules.delete(scope, row)
            return row
        values = schema.read_patch(
            rules.resource, body, reading, row['id'])
        if lenient and _is_from_reply(rules, body):
            values = {name: value for name, value in values.items()
                      if rules.resource.known[name].write_only
                      or value != rules.value(scope, row, name)}
        schema.check_cleared(rules.resource, values)
        return rules.update(scope, row, values)

    def _bulk(self, scope: Scope, method: str, rules: Rules,
              body: Any) -> list[Row]:
        """A list of writes in order (BLK-1, BLK-4)."""
        if not isinstance(body, list):
            raise errors.refused('The body must be a JSON array')
        rows = []
        for item in body:
            number = ''
            if method != 'POST':
                number = _own_number(item)
            try:
                rows.append(self._one(
                    scope, method, rules, number, item, lenient=True))
            except request_context.PendingError:
                # Peers are called for all items together.
                continue
            except errors.ApiError:
                if not scope.context.is_pending:
                    raise
        if scope.context.is_pending:
            raise request_context.PendingError('a bulk call')
        return rows

    def _after_write(self, scope: Scope, method: str, rules: Rules,
                     rows: list[Row],
                     stale: visibility_module.StaleReads) -> None:
        if method == 'POST':
            for row in rows:
                self._visibility.hide(rules.name, row['id'], stale.late)
        if method == 'DELETE':
            for row in rows:
                self._visibility.forget(rules.name, row['id'])
        for resource, reply in scope.deleted:
            self._visibility.linger(
                resource, reply, self._linger(resource, stale))

    def _linger(self, resource: str, stale: visibility_module.StaleReads
                ) -> visibility_module.StaleWindow:
        """How long a deleted record is still listed (QRY-10, VOL-17)."""
        if resource == 'volumes':
            return visibility_module.StaleWindow(
                seconds=self._behaviors.delete_seconds)
        return stale.linger or visibility_module.StaleWindow(
            self._behaviors.linger_reads, self._behaviors.linger_seconds)

    def _written(self, scope: Scope, method: str, rules: Rules, rest: str,
                 rows: list[Row]) -> Response:
        """The reply to a write (OBJ-3 to OBJ-5, BLK-2)."""
        if method == 'DELETE':
            return Response(204)
        status = self._behaviors.create_status if method == 'POST' else 200
        if method == 'POST' and self._behaviors.create_reply == 'empty':
            return Response(status)
        # A later item of a bulk call may have changed an earlier one, or
        # retired it (RET-2).
        shown = [rules.render(
            scope, self._store.get(rules.name, row['id']) or row)
            for row in rows]
        if rest == '__bulk':
            return messages.reply(
                status, {'hits': shown, 'total': len(shown)})
        return messages.reply(status, shown[0])


def _own(scope: Scope) -> Scope:
    """The scope for actions of the array itself."""
    return msgspec.structs.replace(scope, login='')


def _body(request: Request, rest: str) -> Any:
    """The JSON of a write; DELETE of one object ignores it (OBJ-15)."""
    if request.method != 'DELETE':
        return request.json()
    return request.any_json() if rest == '__bulk' else None


def _split(path: str) -> tuple[Rules, str]:
    """The resource of a path, and an id, __bulk or ''."""
    if path in registry.RULES:
        return registry.RULES[path], ''
    name, _, rest = path.rpartition('/')
    if name not in registry.RULES or rest == '__meta':
        raise errors.no_resource()
    return registry.RULES[name], rest


def _number(text: str) -> int:
    """An id in a path; 0, which no object has, if invalid."""
    return int(text) if re.fullmatch('[1-9][0-9]{0,18}', text) else 0


def _is_from_reply(rules: Rules, body: dict[str, Any]) -> bool:
    """Whether an object to PATCH comes from a reply, with changes.

    It has read-only fields (OBJ-12). Only in such an object unchanged
    values are ignored.
    """
    return any(not rules.resource.known[name].patch
               for name in body if name != 'id')


def _own_number(item: object) -> str:
    """The id of an object in a bulk call (BLK-1)."""
    number = item.get('id') if isinstance(item, dict) else None
    if isinstance(number, bool) or not isinstance(number, (int, str)):
        raise errors.refused('Each object of a bulk call needs its id')
    return str(number)


def _page_of(scope: Scope, rules: Rules, query: query_module.Query,
             rows: Iterable[Row]) -> slices.Steps[dict[str, Any]]:
    """An envelope of rows without ids (STA-1)."""
    found = search.select(scope, rules, query, rows)
    return (yield from search.page(scope, rules, query, found, lambda rows: [
        rules.render(scope, row, query.fields) for row in rows]))


def _existing(store: store_module.Store, rules: Rules, number: str) -> Row:
    row = store.get(rules.name, _number(number))
    if row is None:
        raise errors.missing(f'/{rules.name}/{number}')
    return row
