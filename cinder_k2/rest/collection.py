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

from collections.abc import Sequence
from typing import TypeVar

from cinder_k2.rest import errors
from cinder_k2.rest import query
from cinder_k2.rest import reader
from cinder_k2.rest import records
from cinder_k2.rest import session as rest_session
from cinder_k2.rest import writes

R = TypeVar('R', bound=records.Record)

# What an array says that does not offer bulk calls for a resource: nobody
# knows which of these.
_NO_BULK = (errors.NotFound, errors.MethodNotAllowed, errors.Refused)


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
        bulk = writes.Delete(self.session.transport, f'{self.path}/__bulk',
                             [{'id': id} for id in ids])
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
