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

"""The writes of one resource, and checks of their outcome."""

from collections.abc import Callable
from collections.abc import Collection
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any
from typing import Generic
from typing import TypeVar

from cinder_k2.rest import calls
from cinder_k2.rest import errors
from cinder_k2.rest import query
from cinder_k2.rest import reads as rest_reads
from cinder_k2.rest import records
from cinder_k2.rest import transport

R = TypeVar('R', bound=records.Record)
Fields = Mapping[str, query.Value | None]
#: Finds a created object; None if it does not exist.
Find = Callable[[], R | None]
#: Finds the ids of existing objects among several, and no others.
FindIds = Callable[[], Collection[int]]

# The array may keep these in another form than ours (INI-4, INI-5), so they
# are compared here, and searched for only if there is nothing else to search
# by.
_OTHER_FORM = ('iqn', 'pwwn')

# Id of an object that the array has created, but does not show.
_NO_ID = 0


def is_named(kind: type[records.Record], fields: Fields) -> bool:
    """Whether the array refuses to create a second one (ERR-8, SNP-1).

    :param fields: those with a value
    """
    key = set(kind.KEY)
    return key <= fields.keys() and bool(key & {'name', 'short_name'})


class Create(Generic[R]):
    """POST of one object.

    :param find: finds the object after a lost reply, instead of a search by
        its key
    :param needs_id: whether a 2xx reply that does not show the object is an
        error if the array offers no way to look it up; if not, the object
        counts as created, with id 0
    """

    def __init__(self, reads: rest_reads.Reads[R], fields: Fields,
                 find: Find[R] | None = None, *,
                 needs_id: bool = True) -> None:
        self._reads = reads
        self._needs_id = needs_id
        self._find = find
        self._fields = {name: value for name, value in fields.items()
                        if value is not None}
        self.request = transport.Request(
            'POST', reads.path, body=to_json(self._fields))

    def accept(self, reply: bytes) -> calls.Steps[R]:
        """Read the new object (OBJ-3)."""
        data = None
        if self._needs_id or reply.strip():
            data = self._reads.session.transport.decode(self.request, reply)
        try:
            return self._reads.one(data, self.request)
        except errors.BadReply:
            made = None if self._needs_id else (yield from self._unseen())
            if made is None:
                raise
            return made

    def _unseen(self) -> calls.Steps[R | None]:
        """The object as it was sent, if there is no way to look it up."""
        try:
            return (yield from self.look(certain=True))
        except errors.RestError as error:
            if not (errors.is_refusal(error)
                    or isinstance(error, errors.Incomplete)):
                return None
        return self._reads.one({**self.request.body, 'id': _NO_ID},
                               self.request)

    def look(self, certain: bool) -> calls.Steps[R | None]:
        """Find the object by its natural key and its parents.

        If the key has a name, a parent that the array does not show may match:
        there is no second object with that name.
        """
        if self._find is not None:
            return self._find()
        if not self._key():
            return None
        wanted = self._key() | self._parents()
        sought = self._key() if is_named(self._reads.kind, self._fields) else (
            {name: value for name, value in wanted.items()
             if name not in _OTHER_FORM} or wanted)
        found = yield from self._reads.searching(**sought)
        return next((record for record in found if records.matches(
            record, {name: value for name, value in wanted.items()
                     if name in sought or record.tells(name)})), None)

    def _key(self) -> dict[str, query.Value]:
        names = self._reads.kind.KEY
        if not all(name in self._fields for name in names):
            return {}
        return {name: self._fields[name] for name in names}

    def _parents(self) -> dict[str, query.Value]:
        known = self._reads.kind.field_names()
        return {name: value for name, value in self._fields.items()
                if isinstance(value, records.Ref) and name in known}


class Update(Generic[R]):
    """PATCH of one object.

    :param names: names that the object may have; any if empty
    """

    def __init__(self, reads: rest_reads.Reads[R], id: int,
                 fields: Fields, names: Sequence[str] = ()) -> None:
        self._reads = reads
        self._names = names
        self._id = id
        self._fields = fields
        self.request = transport.Request(
            'PATCH', f'{reads.path}/{id}', body=to_json(fields))

    def accept(self, reply: bytes) -> calls.Steps[R]:
        """Read the object, or get it when the reply is empty."""
        if not reply.strip():
            record = yield from self._reads.getting(self._id)
            if not records.matches(record, self._fields):
                raise self._reads.bad('2xx, but nothing has changed',
                                      self.request)
            return record
        data = self._reads.session.transport.decode(self.request, reply)
        return self._reads.one(data, self.request)

    def look(self, certain: bool) -> calls.Steps[R | None]:
        """Get the object; None if it does not show the values.

        :raises errors.OtherObject: the id is another object's by now (OBJ-7)
        """
        record = yield from self._reads.getting(self._id)
        name = getattr(record, 'name', '')
        if self._names and name not in self._names:
            raise errors.OtherObject(
                f'its id is that of {name} now, not of '
                f'{" or ".join(self._names)} any more',
                self._reads.session.transport.place(self.request))
        return record if _shows(record, self._fields, certain) else None


class Delete:
    """DELETE of one object.

    :param identity: values that identify the object
    :param names: names that the object may have; any if empty
    :param find: shows whether the object exists, instead of ``identity`` and
        ``names``
    """

    def __init__(self, reads: rest_reads.Reads[Any], id: int,
                 identity: Fields, names: Sequence[str] = (),
                 find: FindIds | None = None) -> None:
        self._reads = reads
        self._find = find
        self._id = id
        self._identity = {name: value for name, value in identity.items()
                          if value is not None}
        self._names = [name for name in names if name]
        self.request = transport.Request('DELETE', f'{reads.path}/{id}')

    def accept(self, reply: bytes) -> bool:
        """Accept nothing (OBJ-5) or JSON; a web page is not from the array."""
        if reply.strip():
            self._reads.session.transport.decode(self.request, reply)
        return True

    def look(self, certain: bool) -> calls.Steps[bool | None]:
        """Check that the object is gone; None if it exists.

        :raises errors.OtherObject: the array does not show such objects, so
            the id may be another's (OBJ-7)
        """
        if self._find is not None:
            return self._id not in self._find() or None
        if not (self._identity or self._names):
            return (yield from self._is_gone()) if certain else None
        named = self._reads.kind.KEY[:1]
        for sought in [self._identity] if self._identity else [
                {name: value} for value in self._names for name in named]:
            try:
                found, complete = yield from self._reads.living(**sought)
            except errors.NotOffered as error:
                raise self._unknown(sought) from error
            if not complete or any(self._is_it(record) for record in found):
                return None
        return True

    def _unknown(self, sought: Fields) -> errors.OtherObject:
        what = ', '.join(f'{name} {value}' for name, value in sought.items())
        return errors.OtherObject(
            f'it may be left on the array: whether the id is still that of '
            f'{what} cannot be looked up',
            self._reads.session.transport.place(self.request))

    def _is_it(self, record: records.Record) -> bool:
        """Whether the id is not another object's by now (OBJ-7)."""
        name = getattr(record, self._reads.kind.KEY[0], None)
        return record.id == self._id and (
            not self._names or not name or name in self._names)

    def _is_gone(self) -> calls.Steps[bool | None]:
        try:
            yield from self._reads.getting(self._id)
        except errors.NotFound:
            return True
        return None


class BulkDelete:
    """DELETE of several objects at once (BLK-1).

    :param identities: by id: values that identify the object
    :param names: by id: that of the object, where it is known
    :param find: as for ``Delete``
    :ivar left: the identities of those not seen to be gone
    """

    def __init__(self, reads: rest_reads.Reads[Any],
                 identities: Mapping[int, Fields],
                 names: Mapping[int, str] | None = None,
                 find: FindIds | None = None) -> None:
        self._reads = reads
        self._find = find
        self._names = names or {}
        self.left = dict(identities)

    @property
    def request(self) -> transport.Request:
        """The request for those that are left."""
        return transport.Request('DELETE', f'{self._reads.path}/__bulk',
                                 body=[{'id': id} for id in self.left])

    def accept(self, reply: bytes) -> bool:
        """Accept nothing (OBJ-5) or JSON; a web page is not from the array."""
        if reply.strip():
            self._reads.session.transport.decode(self.request, reply)
        return True

    def look(self, certain: bool) -> calls.Steps[bool | None]:
        """Check which are gone; their ids may be others' now (OBJ-7)."""
        if self._find is not None:
            there = self._find()
            self.left = {id: identity for id, identity in self.left.items()
                         if id in there}
            return None if self.left else True
        left = {}
        for id, identity in self.left.items():
            gone = yield from Delete(self._reads, id, identity, [
                self._names.get(id, '')]).look(certain)
            if not gone:
                left[id] = identity
        self.left = left
        return None if left else True

    def is_done(self) -> calls.Steps[bool | None]:
        """Whether they are gone after a 2xx; None if that cannot be seen.

        One search. If some are seen to exist, ``left`` is reduced to these.
        """
        if not self.left:
            return True
        try:
            there, complete = yield from self._there()
        except errors.RestError:
            return None
        if not complete:
            return False if there else None
        if there:
            self.left = {id: self.left[id] for id in there}
        return not there

    def _there(self) -> calls.Steps[tuple[list[int], bool]]:
        """The ones seen to exist, and whether that is complete.

        :raises errors.BadReply: the array does not show it
        """
        if self._find is not None:
            found = self._find()
            return [id for id in self.left if id in found], True
        condition = self._condition()
        if condition is None:
            return [], False
        living, complete = yield from self._reads.living(condition)
        shown = {record.id: record for record in living}
        return [id for id in self.left
                if id in shown and self._is_it(shown[id])], complete

    def _condition(self) -> query.Condition | None:
        """A condition that finds all of them, and few others, or None."""
        wanted = [self._wanted(id) for id in self.left]
        fields = {name: [each[name] for each in wanted]
                  for name in next(iter(wanted), {})
                  if all(name in each for each in wanted)}
        if not fields:
            return None
        return query.one_of(*min(
            fields.items(), key=lambda field: len(set(field[1]))))

    def _wanted(self, id: int) -> dict[str, query.Value]:
        """The values that identify an object."""
        values = dict(self.left[id])
        if self._names.get(id):
            values[self._reads.kind.KEY[0]] = self._names[id]
        return {name: value for name, value in values.items()
                if value is not None and value != ''}

    def _is_it(self, record: records.Record) -> bool:
        """Whether an object that has one of the ids is one of them (OBJ-7).

        :raises errors.BadReply: the array does not show it
        """
        wanted = self._wanted(record.id)
        if records.is_undecided(record, wanted):
            raise self._reads.bad('the reply does not identify the object',
                                  self.request)
        return records.matches(record, wanted)


class BulkCreate(Generic[R]):
    """POST of several objects at once (BLK-1).

    :param finds: as for ``Create``, one for each of the items
    """

    def __init__(self, reads: rest_reads.Reads[R],
                 items: Sequence[Fields],
                 finds: Sequence[Find[R] | None]) -> None:
        self._reads = reads
        self._items = [Create(reads, fields, find) for fields, find
                       in zip(items, finds, strict=True)]
        self.request = transport.Request(
            'POST', f'{reads.path}/__bulk',
            body=[item.request.body for item in self._items])

    def accept(self, reply: bytes) -> list[R]:
        """Read the new objects, in the order of the request (BLK-2)."""
        data = self._reads.session.transport.decode(self.request, reply)
        made = [self._reads.one(hit, self.request)
                for hit in self._reads.hits(data, self.request)]
        if len(made) != len(self._items):
            raise self._reads.bad(
                f'{len(self._items)} objects sent, {len(made)} in the reply',
                self.request)
        return made

    def look(self, certain: bool) -> calls.Steps[list[R] | None]:
        """Find all of them, or nothing."""
        there = yield from self.look_each()
        found = [record for record in there if record]
        return found if len(found) == len(self._items) else None

    def look_each(self) -> calls.Steps[list[R | None]]:
        """The existing ones of them (BLK-4)."""
        found = []
        for item in self._items:
            found.append((yield from item.look(certain=False)))
        return found


class BulkUpdate(Generic[R]):
    """PATCH of several objects at once (BLK-1).

    :param names: by id: that of the object, where it is known
    """

    def __init__(self, reads: rest_reads.Reads[R],
                 changes: Sequence[tuple[int, Fields]],
                 names: Mapping[int, str] | None = None) -> None:
        self._reads = reads
        self._changes = changes
        self._names = {id: names[id] for id, _ in changes
                       if names and id in names}
        self._hits: Sequence[Any] = ()
        self._seen = False
        self.request = transport.Request(
            'PATCH', f'{reads.path}/__bulk',
            body=[{'id': id, **to_json(fields)} for id, fields in changes])

    def accept(self, reply: bytes) -> calls.Steps[bool]:
        """Check that the reply has as many objects as the request (BLK-2)."""
        if not reply.strip():
            if not (yield from self.look(certain=False)):
                raise self._reads.bad('2xx, but not all have changed',
                                      self.request)
            return True
        data = self._reads.session.transport.decode(self.request, reply)
        self._hits = self._reads.hits(data, self.request)
        if len(self._hits) != len(self._changes):
            raise self._reads.bad(
                f'{len(self._changes)} objects sent, {len(self._hits)} in '
                f'the reply', self.request)
        return True

    def look(self, certain: bool) -> calls.Steps[bool | None]:
        """Get the objects; None if one does not show the values.

        They are looked up by their names if all are known, else by id.

        :raises errors.OtherObject: an id is another one's by now (OBJ-7)
        """
        found = yield from self._found()
        shown = all(id in found and _shows(found[id], fields, certain)
                    for id, fields in self._changes)
        self._seen = shown and not certain
        return shown or None

    def is_done(self) -> calls.Steps[bool | None]:
        """Whether all have changed after a 2xx; None if that is not shown.

        The reply may show it; if not, they are looked up.

        :raises errors.OtherObject: an id is another one's by now (OBJ-7)
        """
        if self._seen or self._is_in_reply():
            return True
        try:
            found = yield from self._found()
        except errors.OtherObject:
            raise
        except errors.RestError:
            return None
        told = {_tells(found[id], fields) if id in found else None
                for id, fields in self._changes}
        return False if False in told else None if None in told else True

    def _is_in_reply(self) -> bool:
        try:
            changed = [self._reads.one(hit, self.request)
                       for hit in self._hits]
        except errors.BadReply:
            return False
        return len(changed) == len(self._changes) and all(
            record.id == id and _shows(record, fields, certain=False)
            for record, (id, fields) in zip(
                changed, self._changes, strict=True))

    def _found(self) -> calls.Steps[dict[int, R]]:
        """Look up the objects; return them by id.

        :raises errors.OtherObject: an id is another one's by now (OBJ-7)
        """
        by_name = len(self._names) == len(self._changes)
        there = yield from self._reads.searching(
            query.one_of('name', list(self._names.values())) if by_name
            else query.one_of('id', [id for id, _ in self._changes]))
        found = {record.id: record for record in there}
        for id, name in self._names.items():
            if getattr(found.get(id), 'name', '') != name:
                raise self._other(id, name)
        return found

    def _other(self, id: int, name: str) -> errors.OtherObject:
        return errors.OtherObject(
            f'{name} does not have id {id} any more',
            self._reads.session.transport.place(self.request))


def _shows(record: records.Record, fields: Fields, certain: bool) -> bool:
    """Whether an object has the values that a PATCH sent.

    With ``certain``, values that do not show (yet) count as done: those not in
    the record, and commands, which show later (REP-8).
    """
    if not certain:
        return (set(fields) <= set(record.field_names())
                and records.matches(record, fields))
    return records.matches(record, {
        name: value for name, value in fields.items()
        if name in record.READERS and name not in record.COMMANDS
        and record.tells(name)})


def _tells(record: records.Record, fields: Fields) -> bool | None:
    """Whether an object has the values; None if not all are shown."""
    told = {name: value for name, value in fields.items()
            if name in record.READERS and record.tells(name)}
    if not records.matches(record, told):
        return False
    return True if len(told) == len(fields) else None


def to_json(fields: Fields) -> dict[str, Any]:
    """The fields as sent over the wire; None clears one (OBJ-9)."""
    return {name: value.to_json() if isinstance(value, records.Ref)
            else value for name, value in fields.items()}
