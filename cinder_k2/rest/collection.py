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

"""The objects of one resource: finding, creating, changing, deleting."""

from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
import contextlib
from typing import TypeVar

from cinder_k2.rest import calls
from cinder_k2.rest import errors
from cinder_k2.rest import forms
from cinder_k2.rest import query
from cinder_k2.rest import reads
from cinder_k2.rest import records
from cinder_k2.rest import retry
from cinder_k2.rest import session as rest_session
from cinder_k2.rest import transport
from cinder_k2.rest import writes

R = TypeVar('R', bound=records.Record)
T = TypeVar('T')

# Tries of a bulk call in which an object may be busy, and of its parts.
_TRIES = 8
_TRIES_OF_PART = 3
# Seconds before each check of the result of a bulk call, which may show late
# (OBJ-6).
_PAUSES = (0.0, 0.2, 0.4, 0.8, 1.6)


#: Checks that an id still belongs to the intended object (OBJ-7).
Verify = Callable[[], object]
#: Writes one of several objects, and looks for it first on request.
Act = Callable[[T, rest_session.OutcomeCheck], calls.Steps[object]]
#: Writes several objects at once.
Bulk = writes.BulkDelete | writes.BulkUpdate[R]


class _NotBulk(Exception):
    """Some of several objects were there, were gone, or could not be written.

    They may be the reason why a bulk call failed, so the failure proves
    nothing about bulk calls.
    """


class Collection(reads.Reads[R]):
    """One resource of one array. Every call may raise errors.RestError.

    Bodies that the in-tree driver does not send are capabilities of the
    array, see ``cinder_k2.rest.capabilities``.
    """

    def __init__(self, session: rest_session.Session, kind: type[R]) -> None:
        super().__init__(session, kind)
        self._known = session.capabilities
        self._attempts = session.attempts

    def create(self, *, optional: writes.Fields | None = None,
               slow: bool = False, verify: Verify | None = None,
               needs_id: bool = True, **fields: query.Value | None) -> R:
        """Create one object, exactly once even if the reply is lost.

        A field of None is not sent.

        :param optional: fields that may be omitted if the array does not
            accept them
        :param slow: the array may need longer than the limit for learning
        :param verify: called when a reply is lost, before anything else;
            raises errors.OtherObject if the request refers to an id that is
            another object's by now (OBJ-7)
        :param needs_id: as for ``writes.Create``
        :raises errors.Refused: also when another object has the name
        :raises errors.NotOffered: the array does not accept the fields
        """
        return self.session.run(self._create(
            fields, optional, slow=slow, verify=verify, needs_id=needs_id))

    def _create(self, fields: writes.Fields,
                optional: writes.Fields | None = None, *,
                find: writes.Find[R] | None = None,
                outcome_unknown: bool = False, slow: bool = False,
                verify: Verify | None = None,
                needs_id: bool = True) -> calls.Steps[R]:
        def write(values: writes.Fields) -> calls.Steps[R]:
            return self.session.write(writes.Create(
                self, values, find, needs_id=needs_id), outcome=outcome)
        sent = {name: value for name, value in fields.items()
                if value is not None}
        # If the array carries out an interrupted request late, the name is
        # taken by then, and the request is refused.
        outcome = rest_session.OutcomeCheck(
            open=outcome_unknown, is_unique=not slow and find is None
            and writes.is_named(self.kind, sent), verify=verify)
        if optional:
            return (yield from self._attempts.preferring(
                self._creation(optional), lambda: write({**sent, **optional}),
                lambda: write(sent), is_unique=outcome.is_unique))
        if forms.is_known_creation(self.kind.RESOURCE, sent):
            return (yield from write(sent))
        return (yield from self._attempts.requiring(
            self._creation(sent), lambda: write(sent)))

    def update(self, id: int, *, optional: writes.Fields | None = None,
               names: Sequence[str] = (),
               shows: Callable[[R], bool] | None = None,
               verify: Verify | None = None,
               outcome: rest_session.OutcomeCheck | None = None,
               **fields: query.Value | None) -> R:
        """Change fields of one object; None clears a field (OBJ-9).

        :param optional: fields that may stay unchanged if the array does not
            accept them
        :param names: names that the object may have. After a lost reply, the
            request is not repeated if the id is another object's by then
            (OBJ-7).
        :param shows: tells, given the object in the reply, whether the array
            has made the change; called until the change is known to work
        :param verify: as for ``create``
        :param outcome: in place of ``verify``; it is open afterwards if a
            reply was lost. If it is ``slow``, the array may need longer than a
            reply may take: then the request is not repeated but its error
            raised, and the reply need not show the change yet.
        :raises errors.NotFound: there is no such object
        :raises errors.NotOffered: the array does not accept the fields
        """
        return self.session.run(self._update(
            id, fields, optional, names=names, shows=shows,
            outcome=outcome or rest_session.OutcomeCheck(verify=verify)))

    def _update(self, id: int, fields: writes.Fields,
                optional: writes.Fields | None, *, names: Sequence[str],
                shows: Callable[[R], bool] | None,
                outcome: rest_session.OutcomeCheck) -> calls.Steps[R]:
        def write(values: writes.Fields) -> calls.Steps[R]:
            update = writes.Update(self, id, values, names)
            changed = yield from self.session.write(update, outcome=outcome)
            if not outcome.slow:
                self._check_taken(changed, values, update.request)
            return changed

        def confirm(changed: R) -> None:
            if shows is not None and not shows(changed):
                raise self._passed_over(id, fields)
        if optional:
            return (yield from self._attempts.preferring(
                self._change_name(optional),
                lambda: write({**fields, **optional}), lambda: write(fields)))
        if forms.is_known_update(self.kind.RESOURCE, fields):
            return (yield from write(fields))
        try:
            return (yield from self._attempts.requiring(
                self._change_name(fields), lambda: write(fields),
                of_object=True, slow=outcome.slow, confirm=confirm))
        except errors.NotOffered as error:
            if isinstance(error.__cause__, errors.NotFound):
                yield from self._check_there(id)
            raise

    def _passed_over(self, id: int, fields: writes.Fields
                     ) -> errors.PassedOver:
        return errors.PassedOver(
            f'it has not changed {", ".join(sorted(fields))}',
            self.session.transport.place(transport.Request(
                'PATCH', f'{self.path}/{id}')), status=200)

    def _check_taken(self, changed: R, fields: writes.Fields,
                     request: transport.Request) -> None:
        """Check that an array has not ignored unknown fields.

        :raises errors.Refused: its reply shows another value
        """
        for name in self._novel(fields, forms.UPDATES):
            if (name in changed.READERS and changed.tells(name)
                    and not records.matches(changed, {name: fields[name]})):
                raise errors.Refused(
                    f'it has not changed {name}',
                    self.session.transport.place(request), status=200)

    def _check_there(self, id: int) -> calls.Steps[None]:
        """Check that an object exists, if the array can show it.

        :raises errors.NotFound: it is gone
        """
        with contextlib.suppress(errors.NotOffered, errors.Incomplete):
            yield from self.getting(id)

    def delete(self, id: int, *, names: Sequence[str] = (),
               outcome: rest_session.OutcomeCheck | None = None,
               **identity: query.Value | None) -> bool:
        """Remove one object; False when it was gone already.

        After a lost reply, the object is looked for before the request is
        repeated: the id may be another object's by then (OBJ-7).

        :param names: names that the object may have
        :param outcome: outcome of an earlier deletion of the object; if that
            is unknown, the object is looked for first
        :param identity: values that identify the object
        :raises errors.NotOffered: the array does not delete such objects
        """
        return self.session.run(self._delete(id, identity, names, outcome))

    def _delete(self, id: int, identity: writes.Fields,
                names: Sequence[str] = (),
                outcome: rest_session.OutcomeCheck | None = None,
                find: writes.FindIds | None = None) -> calls.Steps[bool]:
        # Learning takes several tries: each must look for the object first.
        shared = outcome or rest_session.OutcomeCheck()

        def write() -> calls.Steps[bool]:
            return self.session.write(
                writes.Delete(self, id, identity, names, find), outcome=shared)
        try:
            if self.kind.RESOURCE in forms.DELETIONS:
                return (yield from write())
            return (yield from self._attempts.requiring(
                self.deletion, write, of_object=True))
        except errors.NotFound:
            return False

    @property
    def deletion(self) -> str:
        """The capability to delete such objects, if one is needed."""
        return f'deletions:{self.kind.RESOURCE}'

    # Several objects

    def create_many(self, items: Sequence[writes.Fields],
                    finds: Sequence[writes.Find[R]] = (),
                    verify: Verify | None = None, *,
                    needs_ids: bool = True) -> list[R]:
        """Make several objects, in one call if the array offers that.

        They come back in the order of ``items``. After an error some may
        exist: all-or-nothing is not guaranteed (BLK-4).

        :param finds: for each of the items, a function that finds it after a
            lost reply; needed if the resource has no key
        :param verify: as for ``create``
        :param needs_ids: as for ``writes.Create``; a bulk call needs them
        """
        looks: Sequence[writes.Find[R] | None] = finds or [None] * len(items)
        with self.session.deadline():
            steps = self._create_each if len(items) < 2 else self._create_bulk
            return self.session.run(steps(items, looks, verify, needs_ids))

    def _create_each(self, items: Sequence[writes.Fields],
                     finds: Sequence[writes.Find[R] | None],
                     verify: Verify | None, needs_ids: bool
                     ) -> calls.Steps[list[R]]:
        made = []
        for fields, find in zip(items, finds, strict=True):
            made.append((yield from self._create(
                fields, find=find, verify=verify, needs_id=needs_ids)))
        return made

    def _create_bulk(self, items: Sequence[writes.Fields],
                     finds: Sequence[writes.Find[R] | None],
                     verify: Verify | None, needs_ids: bool
                     ) -> calls.Steps[list[R]]:
        def at_once() -> calls.Steps[list[R]]:
            try:
                return (yield from self.session.write(bulk, outcome=outcome))
            except errors.RestError as error:
                left.append(not isinstance(error, (
                    errors.NotFound, errors.MethodNotAllowed)))
                raise
        bulk = writes.BulkCreate(self, items, finds)
        outcome = rest_session.OutcomeCheck(verify=verify)
        # Whether some may have been created.
        left: list[bool] = []
        made: list[R] = []
        one_by_one: list[bool] = []

        def each() -> calls.Steps[list[R]]:
            one_by_one.append(True)
            found: Sequence[R | None] = [None] * len(items)
            if any(left):
                if verify is not None:
                    verify()
                found = yield from bulk.look_each()
            for fields, find, there in zip(items, finds, found, strict=True):
                made.append(there or (yield from self._create(
                    fields, find=find, outcome_unknown=outcome.open,
                    verify=verify, needs_id=needs_ids)))
            if any(found):
                raise _NotBulk
            return made
        try:
            try:
                return (yield from self._attempts.preferring(
                    self._bulk('create'), at_once, each, has_own_path=True))
            except errors.OtherObject:
                raise
            except errors.Refused:
                # Some may have been created before a reply was lost: then a
                # repeat of all is refused for these (ERR-8).
                if one_by_one or not outcome.open:
                    raise
                return (yield from each())
        except _NotBulk:
            # It accepted the bulk call, if not all of it (BLK-4).
            return made

    def delete_many(self, identities: Mapping[int, writes.Fields],
                    names: Mapping[int, str] | None = None, *,
                    find: writes.FindIds | None = None,
                    outcome: rest_session.OutcomeCheck | None = None) -> None:
        """Delete several objects; missing ones are no error.

        :param identities: by id: as for ``delete``
        :param names: by id: that of the object, where it is known
        :param find: finds the existing ones after a lost reply, instead of
            ``identities`` and ``names``
        :param outcome: as for ``delete``; it is open afterwards if a reply was
            lost
        """
        with self.session.deadline():
            self.session.run(self._delete_many(
                identities, names or {}, find,
                outcome or rest_session.OutcomeCheck()))

    def _delete_many(self, identities: Mapping[int, writes.Fields],
                     names: Mapping[int, str], find: writes.FindIds | None,
                     outcome: rest_session.OutcomeCheck) -> calls.Steps[None]:
        if len(identities) < 2:
            yield from self._delete_each(identities, names, find, outcome)
            return
        bulk = writes.BulkDelete(self, identities, names, find)
        try:
            yield from self._attempts.preferring(
                self._bulk('delete'),
                lambda: self.session.write(bulk, outcome=outcome),
                lambda: self._delete_each(bulk.left, names, find, outcome,
                                          learning=True),
                has_own_path=True,
                proves=lambda _: self._is_done(bulk, outcome))
        except _NotBulk:
            pass
        except (errors.Refused, errors.BadReply):
            # One of them may be gone, or may have to stay.
            yield from self._delete_each(bulk.left, names, find, outcome)

    def update_many(self, changes: Mapping[int, writes.Fields],
                    names: Mapping[int, str] | None = None
                    ) -> dict[int, errors.RestError]:
        """Change several objects, in as few calls as the array allows.

        One that the array refuses, or that stays busy, does not block the
        others: the list is halved until it is found (BLK-4).

        :param changes: fields by id
        :param names: by id: that of the object, where it is known. After a
            lost reply they are looked up by these before anything is sent
            again; one whose id is another's by then is not changed (OBJ-7).
        :returns: the errors of the objects that were not changed, by id
        """
        known = names or {}
        with self.session.deadline():
            bad = self.session.run(self._halve(
                self._bulk('update'), list(changes.items()),
                lambda part: writes.BulkUpdate(self, part, known),
                lambda change, outcome: self._change(
                    change, known.get(change[0]), outcome), _TRIES))
            return {change[0]: error for change, error in bad}

    def delete_unheld(self, identities: Mapping[int, writes.Fields],
                      names: Mapping[int, str] | None = None
                      ) -> dict[int, errors.RestError]:
        """Delete those of several objects that nothing holds.

        Works like ``update_many``; missing objects are no error.

        :param identities: by id: as for ``delete``
        :param names: by id: that of the object, where it is known
        :returns: the errors of the objects that have to stay, by id
        """
        known = names or {}
        with self.session.deadline():
            return dict(self.session.run(self._halve(
                self._bulk('delete'), list(identities),
                lambda ids: writes.BulkDelete(
                    self, {id: identities[id] for id in ids}, known),
                lambda id, outcome: self._delete(id, identities[id], [
                    known.get(id, '')], outcome), _TRIES)))

    # Internal

    def _creation(self, fields: Iterable[str]) -> str:
        """The capability of a POST that is not a known form."""
        novel = self._novel(fields, forms.CREATIONS) or sorted(fields)
        return f'creations:{self.kind.RESOURCE}:{novel[0]}'

    def _novel(self, fields: Iterable[str],
               known: Mapping[str, tuple[frozenset[str], ...]]) -> list[str]:
        """The fields that are in no known body."""
        return sorted(set(fields) - frozenset().union(*known.get(
            self.kind.RESOURCE, ())))

    def _change_name(self, fields: Iterable[str]) -> str:
        """The capability of a PATCH that is not a known form."""
        novel = self._novel(fields, forms.UPDATES) or sorted(fields)
        return f'updates:{self.kind.RESOURCE}:{novel[0]}'

    def _bulk(self, what: str) -> str:
        return f'bulk:{self.kind.RESOURCE}:{what}'

    def _halve(self, name: str, items: Sequence[T],
               bulk: Callable[[Sequence[T]], Bulk[R]],
               single: Act[T], tries: int,
               earlier: rest_session.OutcomeCheck | None = None
               ) -> calls.Steps[list[tuple[T, errors.RestError]]]:
        """Write several objects in as few calls as the array allows.

        :param tries: tries of a call in which an object may be busy
        :param earlier: that of an earlier request for them
        :returns: the items that could not be written, with their errors
        """
        outcome = _after(earlier or rest_session.OutcomeCheck())
        if len(items) < 2 or self._known.refused(name):
            return (yield from _failures(single, items, outcome))
        if not self._known.works(name):
            return (yield from self._learn_bulk(name, items, bulk, single,
                                                outcome))
        try:
            yield from self.session.write(bulk(items), tries, outcome)
            return []
        except errors.RestError as error:
            if not _is_of_one(error):
                raise
        half = len(items) // 2
        bad: list[tuple[T, errors.RestError]] = []
        for part in items[:half], items[half:]:
            bad += yield from self._halve(
                name, part, bulk, single, _TRIES_OF_PART, outcome)
        return bad

    def _learn_bulk(self, name: str, items: Sequence[T],
                    bulk: Callable[[Sequence[T]], Bulk[R]],
                    single: Act[T], outcome: rest_session.OutcomeCheck
                    ) -> calls.Steps[list[tuple[T, errors.RestError]]]:
        bad: list[tuple[T, errors.RestError]] = []
        gone: list[T] = []
        at_once = bulk(items)

        def write(item: T, own: rest_session.OutcomeCheck
                  ) -> calls.Steps[None]:
            if (yield from single(item, own)) is False:
                gone.append(item)

        def each() -> calls.Steps[bool]:
            bad.extend((yield from _failures(write, items, outcome)))
            if bad or gone:
                raise _NotBulk
            return True
        # A failure may be about one of the objects, not about bulk calls.
        with contextlib.suppress(_NotBulk):
            try:
                yield from self._attempts.preferring(
                    name, lambda: self.session.write(
                        at_once, _TRIES, outcome), each,
                    proves=lambda _: self._is_done(at_once, outcome))
            except errors.OtherObject:
                yield from each()
        return bad

    def _is_done(self, bulk: Bulk[R], outcome: rest_session.OutcomeCheck
                 ) -> calls.Steps[bool | None]:
        """Whether the array carried out what it answered with 2xx.

        None if that cannot be seen. Unless the call was carried out, each
        object is looked for before it is written (OBJ-7).

        :param outcome: that of the bulk call
        """
        outcome.unseen = True
        done = None
        for pause in _PAUSES:
            if pause:
                self.session.clock.sleep(pause)
            seen = yield from bulk.is_done()
            # A failed check does not disprove an earlier observation.
            done = done if seen is None else seen
            if done is not False:
                outcome.unseen = False
                return done
        return False

    def _change(self, change: tuple[int, writes.Fields], name: str | None,
                outcome: rest_session.OutcomeCheck) -> calls.Steps[None]:
        write = writes.Update(self, *change, [name] if name else ())
        try:
            # Without a name, a read does not show whose the id is.
            yield from self.session.write(write, _TRIES,
                                          outcome if name else None)
        except errors.OtherObject:
            raise
        except errors.Refused:
            # A refused bulk call may nevertheless have changed it.
            if not (yield from self._shows(write)):
                raise

    def _shows(self, write: writes.Update[R]) -> calls.Steps[bool]:
        try:
            return (yield from write.look(certain=False)) is not None
        except (errors.NotFound, errors.NotOffered, errors.Incomplete):
            return False

    def _delete_each(self, identities: Mapping[int, writes.Fields],
                     names: Mapping[int, str], find: writes.FindIds | None,
                     outcome: rest_session.OutcomeCheck, *,
                     learning: bool = False
                     ) -> calls.Steps[bool]:
        there = []
        for id, identity in identities.items():
            # Each is looked for by itself.
            own = rest_session.OutcomeCheck(unseen=outcome.unseen)
            try:
                there.append((yield from self._delete(
                    id, identity, [names.get(id, '')], own, find)))
            finally:
                outcome.open |= own.open
        if learning and not all(there):
            raise _NotBulk
        return True


def _after(outcome: rest_session.OutcomeCheck) -> rest_session.OutcomeCheck:
    """The check of a write that replaces a part of an earlier one."""
    return rest_session.OutcomeCheck(
        unseen=outcome.unseen or outcome.open,
        replaces=outcome.replaces or outcome.open)


def _failures(write: Act[T], items: Sequence[T],
              outcome: rest_session.OutcomeCheck
              ) -> calls.Steps[list[tuple[T, errors.RestError]]]:
    """Write objects one by one; return the failed ones with their errors.

    :param outcome: that of an earlier request for them
    """
    found = []
    for item in items:
        error = yield from _failure(write(item, _after(outcome)))
        if error is not None:
            found.append((item, error))
    return found


def _failure(write: calls.Steps[object]
             ) -> calls.Steps[errors.RestError | None]:
    """Why an object could not be written.

    :raises errors.RestError: the object was not the reason
    """
    try:
        yield from write
    except errors.RestError as error:
        if not _is_of_one(error):
            raise
        return error
    return None


def _is_of_one(error: errors.RestError) -> bool:
    """Whether one object may be the reason, or bulk calls as such."""
    return retry.is_of_an_object(error) or isinstance(error, (
        errors.NotFound, errors.MethodNotAllowed, errors.Refused))
