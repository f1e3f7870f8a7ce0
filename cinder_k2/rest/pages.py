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

"""Reading the results of a search of any length.

The first page is requested as the in-tree driver does, without any control
parameter. If the array reports more objects, that page is discarded, since
without __sort pages may overlap, and all are read in order of the id.

A page begins with the last object of the one before. Otherwise the list has
changed between them, and an object may have moved to a page that was read
already: all pages are read again.
"""

from collections.abc import Iterable
import dataclasses
import itertools
from typing import Any

from cinder_k2.rest import calls
from cinder_k2.rest import capability_names
from cinder_k2.rest import errors
from cinder_k2.rest import query
from cinder_k2.rest import session as rest_session
from cinder_k2.rest import transport

# Objects of a page, and how many there are in all, if the array shows it.
_Page = tuple[list[Any], int | None]
# No upper bound is known, 9999 has been seen; the array may return fewer.
_PAGE = 1000
# Maximum number of reads of a list that changes between pages.
_READINGS = 4
# The smallest known page size. Shorter lists are complete even if the reply
# has no total.
_SMALLEST = 100


@dataclasses.dataclass(frozen=True)
class Listed:
    """The JSON objects of a list, and whether there are more of them."""

    objects: list[Any]
    is_complete: bool = True


class Pages:
    """Lists of one resource.

    :param fields: all fields that are needed of an object
    """

    def __init__(self, session: rest_session.Session, path: str,
                 fields: Iterable[str]) -> None:
        self._session = session
        self._request = transport.Request('GET', path)
        self._fields = ('__fields', ','.join(fields))
        self._fields_name = f'{capability_names.FIELDS}:{path[1:]}'

    def read(self, pairs: list[query.Pair]) -> calls.Steps[Listed]:
        """The objects that meet conditions. One call for a single page.

        :raises errors.BadReply: the reply is no list
        """
        hits, total = yield from self._page(pairs)
        if total is None and len(hits) < _SMALLEST or (
                total is not None and len(hits) >= total):
            return Listed(hits)
        found = yield from self._all(pairs)
        return Listed(hits, False) if found is None else Listed(found)

    def total(self, pairs: list[query.Pair]) -> calls.Steps[int]:
        """How many objects meet conditions, as the array counts. One call.

        :raises errors.BadReply: the reply is no list, or has no total and may
            be incomplete
        """
        hits, total = yield from self._page(pairs)
        if total is None:
            if len(hits) >= _SMALLEST:
                raise self.bad('the reply has no total')
            return len(hits)
        return total

    def first(self) -> calls.Steps[list[Any]]:
        """The objects in the reply to a search without conditions. One call.

        :raises errors.BadReply: the reply is no list
        """
        hits, _ = yield from self._page([])
        return hits

    def bad(self, message: str) -> errors.BadReply:
        """The error for a 2xx reply that violates the API."""
        return errors.BadReply(
            message, self._session.transport.place(self._request), status=200)

    def _all(self, pairs: list[query.Pair]
             ) -> calls.Steps[list[Any] | None]:
        """All pages; None if the array does not offer paging."""
        known = self._session.capabilities
        proven = known.works(capability_names.PAGING)
        if self._session.in_trial and not proven:
            return None
        try:
            found = yield from self._session.attempts.requiring(
                capability_names.PAGING, lambda: self._some(pairs),
                is_read=True)
        except errors.Incomplete:
            # The list kept changing, which says nothing about paging.
            return None
        except errors.RestError as error:
            if not errors.is_refusal(error):
                raise
            if proven:
                known.failed(capability_names.PAGING, error)
            return None
        known.found(capability_names.PAGING)
        return found

    def _some(self, pairs: list[query.Pair]) -> calls.Steps[list[Any]]:
        """As ``_sorted``; zero hits may mean unknown keys (QRY-2).

        :raises errors.Refused: also when nothing is found
        """
        found = yield from self._sorted(pairs)
        if not found:
            raise self._refused('paged requests find nothing')
        return found

    def _sorted(self, pairs: list[query.Pair]) -> calls.Steps[list[Any]]:
        """Read all pages, again if the list has changed meanwhile.

        :raises errors.Refused: the array ignores the parameters
        :raises errors.Incomplete: the list has changed each time
        """
        for _ in range(_READINGS):
            found = yield from self._in_order(pairs)
            if found is not None:
                return found
        raise errors.Incomplete(
            'the list has changed each time that its pages were read',
            self._session.transport.place(self._request))

    def _in_order(self, pairs: list[query.Pair]
                  ) -> calls.Steps[list[Any] | None]:
        """Read all pages; None if the list has changed between two."""
        paged = [*pairs, ('__sort', 'id'), ('__sort_order', 'asc')]
        found: list[Any] = []
        total = 1
        while len(found) < total:
            # The last one again, which shows whether its position is
            # unchanged.
            known = found[-1:]
            hits, said = yield from self._short([
                *paged, ('__limit', str(_PAGE + len(known))),
                ('__offset', str(len(found) - len(known)))], first=not found)
            self._check_order(found, hits)
            new = hits[len(known):]
            # Without a total, the list ends with a page without new objects.
            total = (len(found) + len(new) + bool(new) if said is None
                     else said)
            if not new and len(found) < total:
                # An error is better than to mistake some of the objects for
                # all of them.
                raise self.bad(f'{total} objects promised, {len(found)} sent')
            if list(map(_id, hits[:len(known)])) != list(map(_id, known)):
                return None
            found += new
        return found

    def _check_order(self, before: list[Any], page: list[Any]) -> None:
        """Check that a page is sorted, and not the first one again."""
        ids = [_id(each) for each in page]
        if (None in ids
                or any(a is None or b is None or a >= b
                       for a, b in itertools.pairwise(ids))
                or len(before) > 1 and ids[:1] == [_id(before[0])]):
            raise self._refused('pages overlap or are not sorted')

    def _refused(self, message: str) -> errors.Refused:
        return errors.Refused(message, self._session.transport.place(
            self._request), status=200)

    def _short(self, pairs: list[query.Pair], *, first: bool
               ) -> calls.Steps[_Page]:
        """A page with only the needed fields, if possible."""
        attempts = self._session.attempts
        if self._session.capabilities.works(self._fields_name):
            return (yield from attempts.reading(
                [self._fields_name],
                lambda: self._page([*pairs, self._fields]),
                lambda: self._page(pairs)))
        page = yield from self._page(pairs)
        if first and page[0]:
            yield from attempts.learning(
                self._fields_name, lambda: self._page([*pairs, self._fields]),
                lambda found: self._proves(found, page, pairs))
        return page

    def _proves(self, novel: _Page, before: _Page, pairs: list[query.Pair]
                ) -> calls.Steps[bool | None]:
        """Whether a page is right; None if the list has changed meanwhile."""
        if _ids(novel) == _ids(before):
            return True
        again = yield from self._page(pairs)
        return False if _ids(again) == _ids(before) else None

    def _page(self, pairs: list[query.Pair]) -> calls.Steps[_Page]:
        data = yield from self._session.get(self._request.path,
                                            query.encode(pairs))
        if not isinstance(data, dict) or not isinstance(
                data.get('hits'), list):
            raise self.bad('the reply has no hits')
        return data['hits'], _number(data.get('total'))


def _number(value: Any) -> int | None:
    try:
        return int(float(value))
    except (TypeError, ValueError, OverflowError):
        return None


def _id(data: Any) -> int | None:
    return _number(data.get('id')) if isinstance(data, dict) else None


def _ids(page: _Page) -> list[int | None]:
    return [*map(_id, page[0])]
