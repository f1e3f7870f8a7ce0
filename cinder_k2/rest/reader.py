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

"""The objects of one resource, read only: by id, by search, counted."""

from collections.abc import Iterator
from typing import Any
from typing import Generic
from typing import TypeVar

from cinder_k2.rest import errors
from cinder_k2.rest import overlooked
from cinder_k2.rest import query
from cinder_k2.rest import records
from cinder_k2.rest import session as rest_session
from cinder_k2.rest import transport

R = TypeVar('R', bound=records.Record)

# No upper bound is known, 9999 has been seen; the array may give less.
_PAGE = 1000


class Reader(Generic[R]):
    """Reads one resource. Every call may raise errors.RestError.

    Where a field has a value, a string, number, bool or Ref is taken.
    """

    def __init__(self, session: rest_session.Session, kind: type[R]) -> None:
        self.session = session
        self.kind = kind
        self.path = f'/{kind.RESOURCE}'
        self._request = transport.Request('GET', self.path)
        self._all_fields = False

    def ref(self, id: int) -> records.Ref:
        """A reference to the object with this id."""
        return records.Ref(self.kind.RESOURCE, id)

    def get(self, id: int) -> R:
        """The object with this id, also one marked as deleted.

        :raises errors.NotFound: there is none
        """
        request = transport.Request('GET', f'{self.path}/{id}')
        data = self._ask(request.path, [])
        if isinstance(data, dict) and data.get('hits') == []:
            raise errors.NotFound(
                'no such object', self.session.transport.place(request))
        return self.one(data, request)

    def first(self, *pairs: query.Pair) -> R:
        """The one object of resources that have just one.

        ``pairs`` are control parameters (section 2.5).
        """
        return self.one(self._ask(self.path, list(pairs)), self._request)

    def find(self, **equal: query.Value) -> R | None:
        """The first live object whose fields equal all these values.

        :raises ValueError: an empty value, see :func:`query.equal`
        """
        return next(iter(self.search(**equal)), None)

    def search(self, *conditions: query.Condition, **equal: query.Value
               ) -> list[R]:
        """All live objects that meet all conditions, in order of their id.

        What is deleted may stay listed for a while: it is left out
        (QRY-10, VOL-17). ``equal`` is compared again here (QRY-5).

        :raises errors.BadReply: also when an object may be one of them, and
            its fields do not tell
        :raises ValueError: an empty value, see :func:`query.equal`
        """
        found: dict[int, R] = {}
        with self.session.deadline():
            for pairs in query.splits([*conditions, *_conditions(equal)]):
                found.update((r.id, r) for r in self._pages(pairs))
        return self._matching(
            [found[id] for id in sorted(found)
             if not records.is_going(found[id])], conditions, equal)

    def count(self, *conditions: query.Condition, **equal: query.Value
              ) -> int:
        """How many objects meet all conditions, as the array counts.

        :raises ValueError: an empty value, see :func:`query.equal`
        """
        asked = query.splits([*conditions, *_conditions(equal)])
        with self.session.deadline():
            return sum(
                self._total(self.session.get(
                    self.path, query.encode([*pairs, ('__limit', '0')])))
                for pairs in asked)

    def one(self, data: Any, request: transport.Request) -> R:
        """Read a bare object, or the only one in an envelope (OBJ-2).

        :raises errors.BadReply: it is neither
        """
        if isinstance(data, dict) and 'hits' in data:
            data = next(iter(self.hits(data, request)), None)
        return self._parse(data, request)

    def hits(self, data: Any, request: transport.Request) -> list[Any]:
        """The objects in the envelope of a collection (OBJ-1).

        :raises errors.BadReply: it is none
        """
        if isinstance(data, dict) and isinstance(data.get('hits'), list):
            return list(data['hits'])
        raise self.bad('the reply has no hits', request)

    def bad(self, message: str, request: transport.Request
            ) -> errors.BadReply:
        """The error for a 2xx reply that the API does not promise."""
        return errors.BadReply(
            message, self.session.transport.place(request), status=200)

    def _matching(self, found: list[R],
                  conditions: tuple[query.Condition, ...],
                  equal: dict[str, query.Value]) -> list[R]:
        """Those with these values; nothing is taken for gone by mistake."""
        matching = [r for r in found if records.matches(r, equal)]
        if matching and self.kind.KEY and set(self.kind.KEY) <= equal.keys():
            # Keys are unique: whatever the others are, it is none of them.
            return matching
        others = [condition.field for condition in conditions]
        for record in found:
            if records.is_undecided(record, equal, others):
                raise self.bad(f'object {record.id} lacks what it was '
                               'searched by, or has it in another form',
                               self._request)
        return matching

    def _pages(self, pairs: list[query.Pair]) -> Iterator[R]:
        paged = [*pairs, ('__sort', 'id'), ('__sort_order', 'asc'),
                 ('__limit', str(_PAGE))]
        offset, total = 0, 1
        while offset < total:
            data = self._ask(self.path, [*paged, ('__offset', str(offset))])
            hits, total = self.hits(data, self._request), self._total(data)
            if not hits and offset < total:
                # Taking part of the objects for all of them is worse.
                raise self.bad(f'{total} objects promised, {offset} sent',
                               self._request)
            yield from (self._parse(hit, self._request) for hit in hits)
            offset += len(hits)

    def _ask(self, path: str, pairs: list[query.Pair]) -> Any:
        names = ('__fields', ','.join(self.kind.field_names()))
        if self._all_fields:
            return self.session.get(path, query.encode(pairs))
        try:
            return self.session.get(path, query.encode([*pairs, names]))
        except errors.Refused:
            # An older array may not know __fields, or one of the fields.
            data = self.session.get(path, query.encode(pairs))
            self._all_fields = True
            return data

    def _total(self, data: Any) -> int:
        try:
            return int(data['total'])
        except (TypeError, KeyError, ValueError, OverflowError):
            raise self.bad('the reply has no total', self._request) from None

    def _parse(self, data: Any, request: transport.Request) -> R:
        try:
            return self.kind.from_json(data, self._overlook)
        except ValueError as error:
            raise self.bad(f'no use in the reply: {error}', request
                           ) from None

    def _overlook(self, name: str, value: Any) -> None:
        overlooked.warn(self.session.transport.address, self.kind, name, value)


def _conditions(equal: dict[str, query.Value]) -> list[query.Condition]:
    return [query.equal(name, value) for name, value in equal.items()]
