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

"""Resources and fields as data, and the reading of request bodies.

References are kept as plain text ("/volumes/31") in the state and become
objects ({"ref": "/volumes/31"}, OBJ-8) in replies only.
"""

from collections.abc import Callable
from collections.abc import Mapping
import dataclasses
import re
from typing import Any

from k2_sim import errors
from k2_sim import memoize

Row = dict[str, Any]
ALL = ('GET', 'POST', 'PATCH', 'DELETE')
_REF = re.compile(r'/([a-z0-9_]+(?:/[a-z0-9_]+)*)/([1-9][0-9]{0,18})')
_LARGEST = 2 ** 63
# How many parsed references are cached.
_REFS = 2 ** 14


@dataclasses.dataclass(frozen=True)
class Field:
    """One field of a resource, as in the tables of the rules.

    kind is one of int, number, string, bool, ref. create is one of no,
    optional, required. null: whether PATCH can clear it. refs: the resources
    that it can refer to. values: all that it can have, any if empty. feature
    names the behavior that the field requires (CLN-5), or after "!" the
    behavior that excludes it; patch_feature the behavior with which PATCH
    accepts it.
    """

    name: str
    kind: str = 'string'
    create: str = 'no'
    patch: bool = False
    default: Any = None
    null: bool = False
    write_only: bool = False
    refs: tuple[str, ...] = ()
    values: tuple[str, ...] = ()
    feature: str = ''
    patch_feature: str = ''


@dataclasses.dataclass(frozen=True)
class Resource:
    """One resource: its name is its path without the leading slash.

    indexed: the fields by which rows can be found, including some that no
    reply shows. passed_over: fields that no array has, but published clients
    send; they are ignored (OBJ-12).
    """

    name: str
    methods: tuple[str, ...] = ('GET',)
    fields: tuple[Field, ...] = ()
    singleton: bool = False
    paged: bool = True
    indexed: tuple[str, ...] = ()
    passed_over: tuple[str, ...] = ()
    known: Mapping[str, Field] = dataclasses.field(init=False, repr=False)
    creatable: tuple[Field, ...] = dataclasses.field(init=False, repr=False)

    def __post_init__(self) -> None:
        known = {field.name: field for field in self.fields}
        object.__setattr__(self, 'known', known)
        object.__setattr__(self, 'creatable', tuple(
            field for field in self.fields if field.create != 'no'))


@dataclasses.dataclass(frozen=True)
class Reading:
    """Options for parsing a body.

    exists(ref): whether an object exists; offered(feature): whether the
    array has a feature; lenient drops read-only fields (bulk, OBJ-12), and
    ignores_unknown unknown ones. ignored is a feature whose fields are
    ignored if the array lacks it (CLN-5).
    """

    exists: Callable[[str], bool]
    offered: Callable[[str], bool]
    lenient: bool = False
    ignored: str = ''
    ignores_unknown: bool = False

    def ignores(self, resource: Resource, name: str) -> bool:
        """Whether an unknown field is ignored."""
        field = resource.known.get(name)
        if field is not None and field.feature == self.ignored:
            return True
        return self.ignores_unknown or name in resource.passed_over


def make_ref(resource: str, number: int) -> str:
    """The reference to one object, as text."""
    return f'/{resource}/{number}'


@memoize.short(_REFS)
def split_ref(ref: str) -> tuple[str, int]:
    """Resource and id of a reference; refuses an invalid one (OBJ-13)."""
    match = _REF.fullmatch(ref)
    if match is None:
        raise errors.refused(f'Not a reference: {ref}')
    return match[1], int(match[2])


def read_create(resource: Resource, body: object, reading: Reading) -> Row:
    """The values of a POST with defaults filled in (OBJ-10, 12, 13)."""
    given = _known_values(
        resource, body, reading, lambda field: field.create != 'no')
    given = {name: value for name, value in given.items()
             if value is not None}
    values: Row = {}
    for field in resource.creatable:
        if field.create == 'required' and field.name not in given:
            raise errors.refused(f'Missing required field: {field.name}')
        if reading.offered(field.feature):
            values[field.name] = given.get(field.name, field.default)
    return values


def read_patch(resource: Resource, body: object, reading: Reading,
               number: int) -> Row:
    """The values of a PATCH of one object (OBJ-9 to OBJ-13).

    Remove unchanged values of a whole object before check_cleared(): it may
    have null for fields that cannot be set to null.
    """
    return _known_values(
        resource, _own_id(body, number), reading,
        lambda field: field.patch or bool(
            field.patch_feature and reading.offered(field.patch_feature)))


def check_cleared(resource: Resource, values: Row) -> None:
    """Refuse null for a field that cannot be cleared (OBJ-9, OBJ-12)."""
    for name, value in values.items():
        if value is None and not resource.known[name].null:
            raise errors.refused(f'Field {name} cannot be cleared')


def _own_id(body: object, number: int) -> object:
    """The body without its own id, which PATCH accepts (OBJ-11)."""
    if not isinstance(body, dict) or 'id' not in body:
        return body
    if _read_int(body['id']) != number:
        raise errors.refused('Field id cannot be changed')
    return {name: value for name, value in body.items() if name != 'id'}


def _known_values(resource: Resource, body: object, reading: Reading,
                  allowed: Callable[[Field], bool]) -> Row:
    if not isinstance(body, dict):
        raise errors.refused('The body must be a JSON object')
    values: Row = {}
    for name, raw in body.items():
        field = resource.known.get(name)
        if field is None or not reading.offered(field.feature):
            if reading.ignores(resource, name):
                continue
            raise errors.refused(f'Unknown field: {name}')
        if allowed(field):
            values[name] = read_value(field, raw, reading)
        elif not reading.lenient:
            raise errors.refused(f'Field {name} is read-only')
    return values


def read_value(field: Field, raw: object, reading: Reading) -> Any:
    """One value in its JSON type; null and empty references are None."""
    if raw is None or field.kind == 'ref' and raw in ({}, ''):
        return None
    if field.kind == 'ref':
        return _read_ref(field, raw, reading)
    value = _READERS[field.kind](raw)
    if value is None:
        raise errors.refused(f'Wrong value for field {field.name}')
    if field.values and value not in field.values:
        raise errors.refused(f'Field {field.name} must be one of '
                             + ', '.join(field.values))
    return value


def _read_ref(field: Field, raw: object, reading: Reading) -> str:
    if not isinstance(raw, dict) or set(raw) != {'ref'}:
        raise errors.refused(f'Field {field.name} must be a reference')
    ref = raw['ref']
    if not isinstance(ref, str):
        raise errors.refused(f'Field {field.name} must be a reference')
    resource, _ = split_ref(ref)
    if resource not in field.refs:
        raise errors.refused(f'Field {field.name} cannot refer to {ref}')
    if not reading.exists(ref):
        raise errors.refused(f'No such object: {ref}')
    return ref


def _read_string(raw: object) -> str | None:
    return raw if isinstance(raw, str) else None


def _read_bool(raw: object) -> bool | None:
    """A boolean, or its name in any case (OBJ-10)."""
    if isinstance(raw, str):
        return {'true': True, 'false': False}.get(raw.lower())
    return raw if isinstance(raw, bool) else None


def _read_number(raw: object) -> float | None:
    """A finite number, or one written in a string (OBJ-10)."""
    if isinstance(raw, str):
        raw = to_number(raw)
    if isinstance(raw, bool) or not isinstance(raw, (int, float)):
        return None
    return raw if abs(raw) < _LARGEST else None


# Compiled in advance, as one query may have ten thousand numbers.
_WHOLE = re.compile('[+-]?[0-9]{1,400}').fullmatch
_DECIMAL = re.compile(
    r'[+-]?[0-9]{1,40}\.?[0-9]{0,40}([eE][+-]?[0-9]{1,3})?').fullmatch


def to_number(text: str) -> int | float | None:
    """The number in a text, or None."""
    if _WHOLE(text):
        return int(text)
    if _DECIMAL(text):
        return float(text)
    return None


def _read_int(raw: object) -> int | None:
    """A whole number, or one written in a string (OBJ-10)."""
    if isinstance(raw, str) and re.fullmatch(r'-?[0-9]{1,19}', raw):
        raw = int(raw)
    if isinstance(raw, float) and raw.is_integer():
        raw = int(raw)
    if isinstance(raw, bool) or not isinstance(raw, int):
        return None
    return raw if -_LARGEST <= raw < _LARGEST else None


_READERS: dict[str, Callable[[object], Any]] = {
    'string': _read_string,
    'bool': _read_bool,
    'number': _read_number,
    'int': _read_int,
}
