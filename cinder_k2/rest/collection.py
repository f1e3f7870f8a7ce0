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

"""The objects of one resource: found, made, changed and removed."""

from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence
import functools
from typing import TypeVar

from cinder_k2.rest import errors
from cinder_k2.rest import query
from cinder_k2.rest import reader
from cinder_k2.rest import records
from cinder_k2.rest import retry
from cinder_k2.rest import session as rest_session
from cinder_k2.rest import writes

R = TypeVar('R', bound=records.Record)
T = TypeVar('T')

# What an array says that does not offer bulk calls for a resource: nobody
# knows which of these.
_NO_BULK = (errors.NotFound, errors.MethodNotAllowed, errors.Refused)

# Tries of a bulk call in which an object may be busy, and of its parts.
_TRIES = 8
_TRIES_OF_PART = 3


class Collection(reader.Reader[R]):
    """One resource of one array. Every call may raise errors.RestError."""

    def __init__(self, session: rest_session.Session, kind: type[R]) -> None:
        super().__init__(session, kind)
        # Whether the array takes several objects at once; None: not known.
        self._bulk: bool | None = None

    def create(self, **fields: query.Value | None) -> R:
        """Make one object, exactly once even when the reply is lost.

        A field of None is not sent.

        :raises errors.Refused: also when the name is taken by another
        """
        return self.session.write(writes.Create(self, fields))

    def update(self, id: int, **fields: query.Value | None) -> R:
        """Change fields of one object; None clears a field (OBJ-9).

        :raises errors.NotFound: there is no such object
        """
        return self.session.write(writes.Update(self, id, fields))

    def delete(self, id: int) -> bool:
        """Remove one object; False when it was gone already."""
        try:
            return self.session.write(writes.Delete(
                self.session.transport, f'{self.path}/{id}'))
        except errors.NotFound:
            return False

    def create_many(self, items: Sequence[writes.Fields]) -> list[R]:
        """Make several objects, in one call if the array offers that.

        They come back in the order of ``items``. After an error some may
        exist: all-or-nothing is not promised (BLK-4).
        """
        with self.session.deadline():
            if self._bulk is False or len(items) < 2:
                return [self.create(**fields) for fields in items]
            bulk = writes.BulkCreate(self, items)
            try:
                made = self.session.write(bulk)
            except _NO_BULK as error:
                return self._create_each(items, bulk, error)
            self._bulk = True
            return made

    def delete_many(self, ids: Sequence[int]) -> None:
        """Remove several objects; those that are gone already are fine."""
        bulk = self._bulk_delete(ids)
        with self.session.deadline():
            if self._bulk is False or len(ids) < 2:
                self._delete_each(ids)
                return
            try:
                self._bulk = self.session.write(bulk)
            except _NO_BULK:
                # One of them may be gone, or may have to stay. But if all
                # pass alone, it was the array.
                if self._delete_each(ids) and self._bulk is None:
                    self._bulk = False

    def update_many(self, changes: Mapping[int, writes.Fields]
                    ) -> dict[int, errors.RestError]:
        """Change several objects, in as few calls as the array allows.

        One that the array refuses, or is busy with for long, does not keep
        the others: the list is halved until it is found (BLK-4).

        :param changes: fields by id
        :returns: those that were not changed: id, and why
        """
        with self.session.deadline():
            return {change[0]: error for change, error in self._halve(
                list(changes.items()),
                functools.partial(writes.BulkUpdate, self), self._change,
                _TRIES)}

    def delete_unheld(self, ids: Sequence[int]
                      ) -> dict[int, errors.RestError]:
        """Remove those of several objects that nothing holds.

        As update_many; those that are gone already are fine.

        :returns: those that have to stay: id, and why
        """
        with self.session.deadline():
            return dict(self._halve(ids, self._bulk_delete, self.delete,
                                    _TRIES))

    def _bulk_delete(self, ids: Sequence[int]) -> writes.Delete:
        return writes.Delete(self.session.transport, f'{self.path}/__bulk',
                             [{'id': id} for id in ids])

    def _halve(self, items: Sequence[T],
               bulk: Callable[[Sequence[T]], rest_session.Write[bool]],
               single: Callable[[T], object], tries: int
               ) -> list[tuple[T, errors.RestError]]:
        """Write several objects at once, or as many at once as pass.

        :returns: those that are bad
        """
        if len(items) < 2 or self._bulk is False:
            return [(item, error) for item in items
                    if (error := _failure(single, item))]
        try:
            self._bulk = self.session.write(bulk(items), tries)
            return []
        except errors.RestError as error:
            if not _is_of_one(error):
                raise
            half = len(items) // 2
            bad = [found for part in (items[:half], items[half:])
                   for found in self._halve(part, bulk, single,
                                            _TRIES_OF_PART)]
            if (self._bulk is None and not bad
                    and isinstance(error, _NO_BULK)):
                # All pass alone: it was the array.
                self._bulk = False
            return bad

    def _change(self, change: tuple[int, writes.Fields]) -> None:
        write = writes.Update(self, *change)
        try:
            self.session.write(write, _TRIES)
        except errors.Refused:
            # A bulk call that was refused may have changed it nevertheless.
            if not self._shows(write):
                raise

    def _shows(self, write: writes.Update[R]) -> bool:
        try:
            return write.look(certain=False) is not None
        except errors.NotFound:
            return False

    def _create_each(self, items: Sequence[writes.Fields],
                     bulk: writes.BulkCreate[R], error: errors.RestError
                     ) -> list[R]:
        """Make one by one what a refused bulk call has not made (BLK-4).

        Either one item is bad, or the array has no bulk; then all items
        pass alone, and it is not asked again.
        """
        found: list[R | None] = [None] * len(items)
        if isinstance(error, errors.Refused):
            found = bulk.look_each()
            if self._bulk and not any(found):
                raise error
        made = [there or self.create(**fields)
                for fields, there in zip(items, found, strict=True)]
        if not any(found):
            self._bulk = False
        return made

    def _delete_each(self, ids: Sequence[int]) -> bool:
        """Remove one by one; whether all of them were there."""
        return all([self.delete(id) for id in ids])


def _failure(write: Callable[[T], object], item: T
             ) -> errors.RestError | None:
    """Why an object could not be written.

    :raises errors.RestError: it was not the object
    """
    try:
        write(item)
    except errors.RestError as error:
        if not _is_of_one(error):
            raise
        return error
    return None


def _is_of_one(error: errors.RestError) -> bool:
    """Whether one of several objects may be to blame, or bulk as such."""
    return isinstance(error, _NO_BULK) or retry.is_of_an_object(error)
