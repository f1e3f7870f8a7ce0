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

"""The array's search language (section 2.5 of the API rules).

Substring search (``__contains``) is deliberately not supported: it has hung a
live array (QRY-9).
"""

from collections.abc import Hashable
from collections.abc import Iterable
from collections.abc import Iterator
import dataclasses
import functools
import itertools
from urllib import parse

from cinder_k2.rest import records

Value = str | int | bool | records.Ref
Pair = tuple[str, str]

# A URL stays below 8 KiB: the rest is for host, path, fields and the
# conditions with a single value.
_LIST_BUDGET = 5000
# ':' and '/' need no encoding in a query (QRY-7), and are shorter without.
_SAFE = '/:'


@dataclasses.dataclass(frozen=True)
class Condition:
    """One condition of a search: a field has one of some values.

    :ivar field: as in the record; references without ``.ref``
    :ivar values: without duplicates; none at all finds nothing
    :ivar is_prefix: the field begins with the one value
    """

    field: str
    values: tuple[Value, ...]
    is_prefix: bool = False

    @property
    def key(self) -> str:
        """The query key for a single value."""
        if self.is_prefix:
            return f'{self.field}__prefix'
        return f'{self.field}.ref' if self.is_of_refs else self.field

    @property
    def list_key(self) -> str:
        """The query key for several values at once."""
        return (f'{self.field}.ref__m_eq' if self.is_of_refs
                else f'{self.field}__in')

    @functools.cached_property
    def _wanted(self) -> frozenset[Value]:
        """The values in normal form, to look up the value of a record.

        There may be hundreds of values, and as many records.
        """
        return frozenset(records.normal(self.field, value)
                         for value in self.values)

    @functools.cached_property
    def is_of_refs(self) -> bool:
        """Whether the values are references."""
        return any(isinstance(value, records.Ref) for value in self.values)

    def each(self, first: int = 0) -> 'Iterator[Condition]':
        """Conditions with a single value, together equivalent to this one.

        :param first: number of the value that is the first of them
        """
        return (dataclasses.replace(self, values=(value,))
                for value in self.values[first:])

    def admits(self, record: records.Record) -> bool | None:
        """Whether a record meets it; None if the reply lacks the field."""
        if self.field not in record.READERS or not record.tells(self.field):
            return None
        if self.is_prefix:
            return str(getattr(record, self.field)).startswith(
                str(self.values[0]))
        value = records.normal(self.field, getattr(record, self.field))
        # A field that could not be read may be a JSON object.
        return isinstance(value, Hashable) and value in self._wanted


def equal(field: str, value: Value) -> Condition:
    """``field`` equals ``value``, or refers to it if it is a reference.

    :raises ValueError: None or an empty string, which the array would
        take for no condition at all (QRY-3, QRY-4)
    """
    _encode(value)
    return Condition(field, (value,))


def prefix(field: str, value: str) -> Condition:
    """``field`` begins with ``value``.

    :raises ValueError: as for ``equal``
    """
    _encode(value)
    return Condition(field, (value,), is_prefix=True)


def one_of(field: str, values: Iterable[Value]) -> Condition:
    """``field`` equals one of ``values``; no value at all finds nothing.

    Any number of values (QRY-1): long lists become several requests.

    :raises ValueError: as for ``equal``
    """
    values = tuple(dict.fromkeys(values))
    for value in values:
        _encode(value)
    return Condition(field, values)


def requests(asked: Iterable[tuple[str, Condition]]) -> Iterator[list[Pair]]:
    """The queries that together cover all conditions.

    :param asked: conditions, each under the key to use; several values need a
        key for lists
    """
    asked = list(asked)
    lists = sum(len(c.values) > 1 for _, c in asked) or 1
    variants = [list(_variants(key, c, _LIST_BUDGET // lists))
                for key, c in asked]
    return map(list, itertools.product(*variants))


def encode(pairs: Iterable[Pair]) -> str:
    """The query string of pairs whose values are encoded already."""
    return '&'.join(f'{key}={value}' for key, value in pairs)


def _variants(key: str, condition: Condition, budget: int) -> Iterator[Pair]:
    """The pairs that cover a condition part by part.

    It is not documented how to put a comma or a quote into a list, so a value
    with one becomes a separate request.
    """
    if len(condition.values) == 1:
        yield key, _encode(condition.values[0])
        return
    odd = [v for v in condition.values
           if isinstance(v, str) and {',', '"'} & set(v)]
    plain = [_encode(v) for v in condition.values if v not in odd]
    yield from ((key, ','.join(chunk)) for chunk in _chunks(plain, budget))
    yield from ((condition.key, _encode(v)) for v in odd)


def _encode(value: Value) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    text = str(value)
    if value is None or not text:
        raise ValueError('the array cannot search for an empty value')
    # The array drops one pair of quotes around a value (QRY-8).
    if len(text) > 1 and text[0] == text[-1] == '"':
        text = f'"{text}"'
    return parse.quote(text, safe=_SAFE)


def _chunks(values: Iterable[str], budget: int) -> Iterator[list[str]]:
    chunk: list[str] = []
    length = 0
    for value in values:
        if chunk and length + len(value) + 1 > budget:
            yield chunk
            chunk, length = [], 0
        chunk.append(value)
        length += len(value) + 1
    if chunk:
        yield chunk
