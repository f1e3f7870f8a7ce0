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

"""Choosing the form of a search.

Every search uses a form that all arrays support, where there is one
(``cinder_k2.rest.forms``); conditions that do not fit into it are compared
here. All other forms are capabilities. A search that finds nothing counts only
for a known form, or for one that has found something on this array before: an
array returns zero hits for a condition that it does not know (QRY-2).
"""

from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Sequence
import contextlib
import dataclasses
from typing import Any
from typing import Generic
from typing import TypeVar

from cinder_k2.rest import calls
from cinder_k2.rest import capability_names
from cinder_k2.rest import errors
from cinder_k2.rest import forms
from cinder_k2.rest import overlooked
from cinder_k2.rest import pages
from cinder_k2.rest import query
from cinder_k2.rest import records
from cinder_k2.rest import session as rest_session
from cinder_k2.rest import transport

R = TypeVar('R', bound=records.Record)
Conditions = Sequence[query.Condition]

# If a list is longer than _MANY, and its first _MISSES values find nothing,
# one call for any existing object is worth it: searching for that object shows
# whether the array supports lists of values.
_MANY = 8
_MISSES = 3
# Maximum number of values in a list that is sent to learn that.
_SAMPLE = 3


@dataclasses.dataclass(frozen=True)
class Found(Generic[R]):
    """Objects by id, and whether they are complete."""

    objects: dict[int, R] = dataclasses.field(default_factory=dict)
    is_complete: bool = True

    def __bool__(self) -> bool:
        return bool(self.objects)

    def shows(self, other: 'Found[R]') -> bool:
        """Whether an object of another result is in this one."""
        return not self.objects.keys().isdisjoint(other.objects)


#: Sends a search, or one for a single value.
Ask = Callable[[], calls.Steps[Found[R]]]
AskFor = Callable[[Any], calls.Steps[Found[R]]]


@dataclasses.dataclass(frozen=True)
class _Plan:
    """The conditions to send, and those to compare here.

    :ivar asked: conditions with the keys of a single value
    :ivar kept: the conditions to compare here
    :ivar capability: the one that the array needs; '' for a known form
    """

    asked: tuple[tuple[str, query.Condition], ...]
    kept: tuple[query.Condition, ...]
    capability: str = ''

    @property
    def listed(self) -> query.Condition | None:
        """A condition with more values than any known form takes at once."""
        return next((condition for key, condition in self.asked
                     if len(condition.values) > 1
                     and key != condition.list_key), None)

    def asking(self, values: Iterable[query.Value]) -> '_Plan':
        """The plan with other values instead of those of ``listed``."""
        listed = self.listed
        return self if listed is None else dataclasses.replace(
            self, asked=tuple(
                (key, dataclasses.replace(c, values=tuple(values))
                 if c is listed else c) for key, c in self.asked))

    def in_one_go(self) -> '_Plan':
        """The plan with the keys of lists where there are several values."""
        return dataclasses.replace(self, asked=tuple(
            (c.list_key if len(c.values) > 1 else key, c)
            for key, c in self.asked))


class Search(Generic[R]):
    """Searches of one resource."""

    def __init__(self, session: rest_session.Session, kind: type[R]) -> None:
        self._session = session
        self._known = session.capabilities
        self._attempts = session.attempts
        self._kind = kind
        self._path = f'/{kind.RESOURCE}'
        self._pages = pages.Pages(session, self._path, kind.field_names())

    def run(self, conditions: Conditions) -> calls.Steps[Found[R]]:
        """The objects that meet all conditions.

        :raises errors.NotOffered: the array does not offer such a search
        """
        if any(not condition.values for condition in conditions):
            return Found()
        number = next((c for c in conditions if c.field == 'id'), None)
        if number is not None:
            return (yield from self._by_ids(number, [
                c for c in conditions if c is not number]))
        plan = self._plan(conditions)
        listed = plan.listed
        if listed is not None:
            return (yield from self._several(
                plan, listed, lambda one: self.run([
                    one if c is listed else c for c in conditions])))
        if not plan.capability:
            return (yield from self._ask_known(plan, conditions))
        if forms.is_known_search(self._kind.RESOURCE, ()):
            return (yield from self._prefer(plan, lambda: self._ask(
                _Plan((), tuple(conditions)))))
        return (yield from self._require(plan))

    def count(self, conditions: Conditions) -> calls.Steps[int]:
        """How many objects meet all conditions.

        The array counts them, in one call, if it is known to support the
        search; else they are read and counted here.

        :raises errors.NotOffered: the array does not offer such a search
        """
        plan = self._plan(conditions)
        if plan.kept or plan.listed or plan.capability and not (
                self._known.works(plan.capability)):
            found = yield from self.run(conditions)
            if not found.is_complete:
                raise self._pages.bad('the list ends early')
            return len(found.objects)
        total = 0
        for pairs in query.requests(plan.asked):
            total += yield from self._pages.total(pairs)
        return total

    def prove(self, conditions: Conditions) -> calls.Steps[None]:
        """Learn whether a search works that should find something.

        No call is made where that is known, or no capability is needed.
        """
        plan = self._plan(conditions)
        if plan.capability:
            yield from self._attempts.learning(
                plan.capability, lambda: self._ask(plan, strict=True), bool)

    # Choice of the form

    def _plan(self, conditions: Conditions) -> _Plan:
        """The known form with the most conditions, else all as they are."""
        best: tuple[tuple[str, query.Condition], ...] = ()
        for form in forms.SEARCHES.get(self._kind.RESOURCE, ()):
            asked = _provided(form, conditions)
            if asked is not None and _weight(asked) > _weight(best):
                best = asked
        if best or not conditions and forms.is_known_search(
                self._kind.RESOURCE, ()):
            chosen = [condition for _, condition in best]
            return _Plan(best, tuple(c for c in conditions
                                     if c not in chosen))
        return _Plan(tuple((c.key, c) for c in conditions), (),
                     self._name(conditions))

    def _name(self, conditions: Conditions) -> str:
        if not conditions:
            return f'lists:{self._kind.RESOURCE}'
        fields = ','.join(sorted({
            c.key if c.is_prefix else c.field for c in conditions}))
        return f'searches:{self._kind.RESOURCE}:{fields}'

    def _needs(self, plan: _Plan) -> list[str]:
        """Capabilities for one request with lists."""
        lists = [f'{capability_names.VALUE_LISTS}:{self._kind.RESOURCE}:'
                 f'{plan.listed.list_key}'] if plan.listed else []
        return [*lists, *([plan.capability] if plan.capability else [])]

    # Ways of searching

    def _prefer(self, plan: _Plan, older: Ask[R]
                ) -> calls.Steps[Found[R]]:
        """Send one request if the array is known to support that."""
        known, go, needs = self._known, plan.in_one_go(), self._needs(plan)
        if any(map(known.refused, needs)):
            return (yield from older())
        unknown = [name for name in needs if not known.works(name)]
        if not unknown:
            return (yield from self._ask_proven(go, needs, older))
        found = yield from older()
        if found and len(unknown) == 1:
            yield from self._attempts.learning(
                unknown[0], lambda: self._ask(go, strict=True),
                lambda novel: self._proves(novel, found, older))
        return found

    def _ask_proven(self, go: _Plan, needs: list[str],
                    older: Ask[R]) -> calls.Steps[Found[R]]:
        return (yield from self._attempts.reading(
            needs, lambda: self._ask(go), older))

    @staticmethod
    def _proves(novel: Found[R], before: Found[R],
                older: Ask[R]) -> calls.Steps[bool | None]:
        """Whether a search works; None if all objects may be gone by now."""
        if novel.shows(before):
            return True
        again = yield from older()
        return False if again.shows(before) else None

    def _several(self, plan: _Plan, listed: query.Condition,
                 single: AskFor[R]) -> calls.Steps[Found[R]]:
        """Search for several values, in one request if supported.

        If that is not known, the first value that finds something shows it,
        and the rest are searched for in one request.

        :param single: searches for one value
        """
        needs = self._needs(plan)
        found: list[Found[R]] = []
        for number, one in enumerate(listed.each()):
            left = listed.values[number:]
            if len(left) > 1 and all(map(self._known.works, needs)):
                found.append((yield from self._ask_proven(
                    plan.asking(left).in_one_go(), needs,
                    lambda: _each(single, listed.each(number)))))
                break
            found.append((yield from single(one)))
            # It could not be determined which of several capabilities failed.
            if len(needs) == 1:
                whole = yield from self._learn_lists(plan, listed, found,
                                                     single)
                if whole:
                    return whole
        return _merged(found)

    def _learn_lists(self, plan: _Plan, listed: query.Condition,
                     found: Sequence[Found[R]],
                     single: AskFor[R]
                     ) -> calls.Steps[Found[R] | None]:
        """Learn whether the array supports lists, with an existing object.

        :param found: the results of single searches for all values
        :returns: the results of all values, if there are few
        """
        name, = self._needs(plan)
        if self._known.works(name) or self._known.refused(name):
            return None
        value, there = listed.values[len(found) - 1], found[-1]
        if len(found) == _MISSES < _MANY < len(listed.values) and not any(
                found):
            value, there = yield from self._witness(listed.field)
        if not there:
            return None
        # In the middle, in case the array uses only the first or last one.
        others = [each for each in listed.values if each != value]
        sample = [*others[:1], value, *others[1:_SAMPLE - 1]]
        go = plan.asking(sample).in_one_go()
        novel = yield from self._attempts.learning(
            name, lambda: self._ask(go, strict=True),
            lambda novel: self._proves(novel, there, lambda: single(
                dataclasses.replace(listed, values=(value,)))))
        return novel if novel and novel.is_complete and set(
            sample) == set(listed.values) else None

    def _witness(self, field: str
                 ) -> calls.Steps[tuple[query.Value, Found[R]]]:
        """A value of a field, and an object that has it. One call."""
        name, seen = f'lists:{self._kind.RESOURCE}', self._pages.first
        hits: list[Any] | None = None
        with contextlib.suppress(errors.RestError):
            if self._known.works(name) or forms.is_known_search(
                    self._kind.RESOURCE, ()):
                hits = yield from seen()
            else:
                # An empty list proves nothing.
                hits = yield from self._attempts.learning(
                    name, seen, lambda hits: bool(hits) or None)
        for record in map(self._parse, hits or ()):
            value = getattr(record, field, None)
            if value and not records.is_going(record):
                return value, Found({record.id: record})
        return '', Found()

    def _ask_known(self, plan: _Plan, conditions: Conditions
                   ) -> calls.Steps[Found[R]]:
        """Search by a known form; a refused list, value by value."""
        try:
            return (yield from self._ask(plan))
        except errors.RestError as error:
            many = next((c for _, c in plan.asked if len(c.values) > 1), None)
            if many is None or not errors.is_refusal(error):
                raise
            return (yield from _each(lambda one: self.run(
                [one if c is many else c for c in conditions]), many.each()))

    def _require(self, plan: _Plan) -> calls.Steps[Found[R]]:
        """Search by a form that has no fallback."""
        name = plan.capability
        proven = self._known.works(name)
        found = yield from self._attempts.requiring(
            name, lambda: self._proved(plan, proven), is_read=True)
        # Paging is not learned while another capability is.
        if proven or found.is_complete:
            return found
        return (yield from self._ask(plan))

    def _proved(self, plan: _Plan, proven: bool) -> calls.Steps[Found[R]]:
        found = yield from self._ask(plan)
        if not found and plan.asked and not proven:
            raise errors.Unproven(
                'it finds nothing, and has never been seen to find anything '
                f'that way (capability {plan.capability})',
                self._session.transport.place(self._request))
        return found

    @property
    def _request(self) -> transport.Request:
        return transport.Request('GET', self._path)

    def _ask(self, plan: _Plan, *, strict: bool = False
             ) -> calls.Steps[Found[R]]:
        """Send the search, and compare again (QRY-5).

        :param strict: raise errors.Refused if the array ignores a condition
        """
        records_: dict[int, R] = {}
        complete = True
        for pairs in query.requests(plan.asked):
            listed = yield from self._pages.read(pairs)
            complete &= listed.is_complete
            records_.update((record.id, record) for record in map(
                self._parse, listed.objects))
        if strict and any(condition.admits(record) is False
                          for record in records_.values()
                          for _, condition in plan.asked):
            raise self._passed_over()
        return self._matching(Found(records_, complete), [
            condition for _, condition in plan.asked], plan.kept)

    def _matching(self, found: Found[R], asked: Conditions, kept: Conditions
                  ) -> Found[R]:
        """The objects that meet all conditions; none is mistaken for gone.

        A reference that the reply does not show, or shows as null, counts as
        the one searched for, unless there were several.

        :raises errors.BadReply: it is unknown whether an object matches
        """
        matching = {id: record for id, record in found.objects.items()
                    if all(_is_asked_for(record, c) for c in asked)
                    and all(c.admits(record) is not False
                            and self._tells(record, c) for c in kept)}
        # Keys are unique: one object matches, so the others cannot.
        key = set(self._kind.KEY)
        if not (matching and key and key <= {
                c.field for c in (*asked, *kept)}):
            self._check_decided(found, matching, [*asked, *kept])
        return Found(matching, found.is_complete)

    def _check_decided(self, found: Found[R], matching: dict[int, R],
                       conditions: Conditions) -> None:
        for id, record in found.objects.items():
            if id not in matching and all(
                    c.admits(record) is not False for c in conditions):
                raise self._pages.bad(
                    f'object {id} lacks what it was searched by, or has it '
                    'in another form')

    @staticmethod
    def _tells(record: R, condition: query.Condition) -> bool:
        return (condition.field not in record.READERS
                or record.tells(condition.field))

    def _passed_over(self) -> errors.Refused:
        return errors.Refused(
            'a condition of the search was ignored',
            self._session.transport.place(self._request), status=200)

    # By id

    def _by_ids(self, number: query.Condition, others: Conditions
                ) -> calls.Steps[Found[R]]:
        """Objects by their ids, among those that meet other conditions."""
        if len(number.values) > 1 and not others:
            plan = _Plan(((number.key, number),), ())
            if forms.is_known_search(self._kind.RESOURCE, ()):
                return (yield from self._prefer(
                    plan, lambda: self._among(number, ())))
            return (yield from self._several(
                plan, number, lambda one: self._by_ids(one, ())))
        if self._kind.RESOURCE in forms.READS:
            found = yield from _each(self._read, number.values)
            return self._matching(found, (), others)
        if others:
            return (yield from self._among(number, others))
        name = f'reads:{self._kind.RESOURCE}'
        if self._known.works(name):
            return (yield from self._attempts.reading(
                [name], lambda: self._read(number.values[0]),
                lambda: self._by_other_ways(name, number)))
        return (yield from self._by_other_ways(name, number))

    def _by_other_ways(self, name: str, number: query.Condition
                       ) -> calls.Steps[Found[R]]:
        """An object by its id, until reading by id is known to work.

        :param name: the capability
        """
        if not forms.is_known_search(self._kind.RESOURCE, ()):
            return (yield from self._attempts.requiring(
                name, lambda: self._certainly(number),
                of_object=True, is_read=True))

        def listed() -> calls.Steps[Found[R]]:
            inside = yield from self._among(number, ())
            return dataclasses.replace(
                inside, is_complete=bool(inside) or inside.is_complete)
        found = yield from listed()
        if found or not found.is_complete:
            novel = yield from self._attempts.learning(
                name, lambda: self._read(number.values[0]),
                # One that the list does not show may not be there at all.
                lambda novel: self._proves(novel, found, listed) if found
                else bool(novel) or None)
            found = novel or found
        return found

    def _among(self, number: query.Condition, others: Conditions
               ) -> calls.Steps[Found[R]]:
        """Those of the ids that meet other conditions, in one search."""
        inside = yield from self.run(others)
        return Found(
            {id: inside.objects[id] for id in map(_as_id, number.values)
             if id in inside.objects}, inside.is_complete)

    def _certainly(self, number: query.Condition) -> calls.Steps[Found[R]]:
        """Read an object by id, where a 404 may be about the path."""
        found = yield from self._read(number.values[0])
        if not found:
            raise errors.Unproven(
                'it knows no such object, or does not read objects by id '
                f'(capability reads:{self._kind.RESOURCE})',
                self._session.transport.place(self._request), status=404)
        return found

    def _read(self, id: query.Value) -> calls.Steps[Found[R]]:
        path = f'{self._path}/{id}'
        try:
            data = yield from self._session.get(path)
        except errors.NotFound:
            return Found()
        if isinstance(data, dict) and isinstance(data.get('hits'), list):
            # OBJ-2: some arrays might answer with an envelope.
            return Found({each.id: each for each in (
                self._parse(hit, path) for hit in data['hits'])
                if each.id == _as_id(id)})
        record = self._parse(data, path)
        return Found({record.id: record})

    def _overlook(self, name: str, value: Any) -> None:
        overlooked.warn(self._session.transport.address, self._kind, name,
                        value)

    def _parse(self, data: Any, path: str = '') -> R:
        try:
            return self._kind.from_json(data, self._overlook)
        except ValueError as error:
            place = self._session.transport.place(
                transport.Request('GET', path or self._path))
            raise errors.BadReply(f'unusable reply: {error}', place,
                                  status=200) from None


def _merged(parts: Iterable[Found[R]]) -> Found[R]:
    """All partial results; the later version of an object counts."""
    found = list(parts)
    return Found({id: each for part in found
                  for id, each in part.objects.items()},
                 all(part.is_complete for part in found))


def _each(ask: AskFor[R], values: Iterable[Any]
          ) -> calls.Steps[Found[R]]:
    """All results of several values, searched for one by one."""
    found = []
    for one in values:
        found.append((yield from ask(one)))
    return _merged(found)


def _is_asked_for(record: records.Record, condition: query.Condition
                  ) -> bool:
    """Whether a record meets a condition that was sent to the array."""
    if (condition.is_of_refs and len(condition.values) == 1
            and getattr(record, condition.field, None) is None):
        # A reference that is null or cannot be read.
        return True
    return bool(condition.admits(record))


def _provided(form: frozenset[str], conditions: Conditions
              ) -> tuple[tuple[str, query.Condition], ...] | None:
    """The conditions that fill all keys of a form, each under its key."""
    asked = []
    for key in sorted(form):
        filled = [c for c in conditions if key in (c.key, c.list_key)
                  and (key == c.key or not c.is_prefix)]
        if not filled:
            return None
        asked.append((key, filled[0]))
    return tuple(asked)


def _weight(asked: Sequence[tuple[str, query.Condition]]
            ) -> tuple[int, bool]:
    """The number of conditions, and whether each key suits its values.

    Several values need a key for lists, a single value any other key.
    """
    return len(asked), all((key == c.list_key) == (len(c.values) > 1)
                           for key, c in asked)


def _as_id(value: query.Value) -> int:
    return int(str(value))
