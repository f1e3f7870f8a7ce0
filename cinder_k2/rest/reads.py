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

from typing import Any
from typing import Generic
from typing import TypeVar

from cinder_k2.rest import calls
from cinder_k2.rest import capability_names
from cinder_k2.rest import errors
from cinder_k2.rest import overlooked
from cinder_k2.rest import query
from cinder_k2.rest import records
from cinder_k2.rest import search
from cinder_k2.rest import session as rest_session
from cinder_k2.rest import transport

R = TypeVar('R', bound=records.Record)


class Reads(Generic[R]):
    """Reads one resource. Every call may raise errors.RestError.

    Values to search for are strings, numbers, bools or Refs.
    """

    def __init__(self, session: rest_session.Session, kind: type[R]) -> None:
        self.session = session
        self.kind = kind
        self.path = f'/{kind.RESOURCE}'
        self._request = transport.Request('GET', self.path)
        self._search = search.Search(session, kind)

    def ref(self, id: int) -> records.Ref:
        """A reference to the object with this id."""
        return records.Ref(self.kind.RESOURCE, id)

    def get(self, id: int, **hints: query.Value) -> R:
        """The object with this id, see ``getting``."""
        return self.session.run(self.getting(id, **hints))

    def getting(self, id: int, **hints: query.Value) -> calls.Steps[R]:
        """The object with this id, also one marked as deleted.

        :param hints: values of fields that it has, by which an array that
            does not read such objects by id can find it
        :raises errors.NotFound: there is none
        """
        with self.session.deadline():
            found = yield from self._search.run([query.equal('id', id),
                                                 *_conditions(hints)])
        for record in found.objects.values():
            return record
        if not found.is_complete:
            raise self._incomplete()
        raise errors.NotFound('no such object', self.session.transport.place(
            transport.Request('GET', f'{self.path}/{id}')))

    def first(self, *pairs: query.Pair) -> R:
        """The object of a resource that has only one.

        ``pairs`` are control parameters (section 2.5).
        """
        return self.session.run(self.reading_first(*pairs))

    def reading_first(self, *pairs: query.Pair) -> calls.Steps[R]:
        """The steps of ``first``."""
        data = yield from self.session.get(self.path, query.encode(pairs))
        return self.one(data, self._request)

    def find(self, **equal: query.Value) -> R | None:
        """The first live object whose fields equal all these values.

        :raises errors.Incomplete: the array shows only a part of the list, and
            the object is not in it
        :raises ValueError: an empty value, see :func:`query.equal`
        """
        found, complete = self.session.run(self.living(**equal))
        if not found and not complete:
            raise self._incomplete()
        return next(iter(found), None)

    def search(self, *conditions: query.Condition, **equal: query.Value
               ) -> list[R]:
        """All live objects that meet all conditions, in order of their id.

        Deleted objects may stay listed for a while: they are omitted (QRY-10,
        VOL-17). All conditions are compared again here (QRY-5).

        :raises errors.BadReply: also when an object may be one of them, and
            its fields do not show it
        :raises errors.Incomplete: the array shows only a part of them
        :raises ValueError: an empty value, see :func:`query.equal`
        """
        return self.session.run(self.searching(*conditions, **equal))

    def searching(self, *conditions: query.Condition, **equal: query.Value
                  ) -> calls.Steps[list[R]]:
        """The steps of ``search``."""
        found, complete = yield from self.living(*conditions, **equal)
        if not complete:
            raise self._incomplete()
        return found

    def some(self, *conditions: query.Condition, **equal: query.Value
             ) -> tuple[list[R], bool]:
        """As ``search``, also where the array shows only a part of them.

        :returns: the objects, and whether they are complete
        """
        return self.session.run(self.living(*conditions, **equal))

    def prove(self, **equal: query.Value) -> None:
        """Learn whether a search works that should now find an object."""
        with self.session.deadline():
            self.session.run(self._search.prove(_conditions(equal)))

    def count(self, *conditions: query.Condition, **equal: query.Value
              ) -> int:
        """How many objects meet all conditions, as the array counts.

        :raises ValueError: an empty value, see :func:`query.equal`
        """
        with self.session.deadline():
            return self.session.run(self._search.count(
                [*conditions, *_conditions(equal)]))

    def one(self, data: Any, request: transport.Request) -> R:
        """Read a bare object, or the only one in an envelope (OBJ-2).

        :raises errors.BadReply: it is neither
        """
        if isinstance(data, dict) and 'hits' in data:
            data = next(iter(self.hits(data, request)), None)
        try:
            return self.kind.from_json(data, self._overlook)
        except ValueError as error:
            raise self.bad(f'unusable reply: {error}', request
                           ) from None

    def hits(self, data: Any, request: transport.Request) -> list[Any]:
        """The objects in the envelope of a collection (OBJ-1).

        :raises errors.BadReply: there is no such envelope
        """
        if isinstance(data, dict) and isinstance(data.get('hits'), list):
            return list(data['hits'])
        raise self.bad('the reply has no hits', request)

    def bad(self, message: str, request: transport.Request
            ) -> errors.BadReply:
        """The error for a 2xx reply that violates the API."""
        return errors.BadReply(
            message, self.session.transport.place(request), status=200)

    def living(self, *conditions: query.Condition, **equal: query.Value
               ) -> calls.Steps[tuple[list[R], bool]]:
        """The steps of ``some``."""
        with self.session.deadline():
            found = yield from self._search.run(
                [*conditions, *_conditions(equal)])
        return [found.objects[id] for id in sorted(found.objects)
                if not records.is_going(found.objects[id])], found.is_complete

    def _incomplete(self) -> errors.Incomplete:
        verdict = self.session.capabilities.verdict(capability_names.PAGING)
        why = f': {verdict.words}' if verdict.words else ''
        return errors.Incomplete(
            f'it shows a part of the list only, and gives no further pages'
            f'{why}', self.session.transport.place(self._request))

    def _overlook(self, name: str, value: Any) -> None:
        overlooked.warn(self.session.transport.address, self.kind, name, value)


def _conditions(equal: dict[str, query.Value]) -> list[query.Condition]:
    return [query.equal(name, value) for name, value in equal.items()]
