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

"""The array's search language (section 2.5 of the API rulebook).

Substring search (``__contains``) is left out on purpose: it has hung a
live array (QRY-9).
"""

from collections.abc import Iterable
from collections.abc import Iterator
import dataclasses
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
    """One condition of a search: ``key=value``, or one of several values.

    ``listed`` values may go in one request, ``alone`` ones need their own.
    """

    key: str
    value: str = ''
    listed: tuple[str, ...] | None = None
    alone: tuple[Pair, ...] = ()

    @property
    def field(self) -> str:
        """The field that it is about."""
        return self.key.partition('__')[0].removesuffix('.ref')

    def variants(self, budget: int) -> list[Pair]:
        """The ``key=value`` pairs, encoded, that ask for it part by part."""
        if self.listed is None:
            return [(self.key, self.value)]
        chunks = [(self.key, ','.join(chunk))
                  for chunk in _chunks(self.listed, budget)]
        return [*chunks, *self.alone]


def equal(field: str, value: Value) -> Condition:
    """``field`` equals ``value``; a reference is that object.

    :raises ValueError: None or an empty string, which the array would
        take for no condition at all (QRY-3, QRY-4)
    """
    return Condition(_key(field, value), _encode(value))


def not_equal(field: str, value: str | int | bool) -> Condition:
    """``field`` differs from ``value``."""
    return Condition(field + '__neq', _encode(value))


def prefix(field: str, value: str) -> Condition:
    """``field`` begins with ``value``."""
    return Condition(field + '__prefix', _encode(value))


def regexp(field: str, value: str) -> Condition:
    """``field`` matches ``value``, unanchored, Python syntax."""
    return Condition(field + '__regexp', _encode(value))


def greater(field: str, value: int) -> Condition:
    """``field`` is greater than ``value``."""
    return Condition(field + '__gt', _encode(value))


def at_least(field: str, value: int) -> Condition:
    """``field`` is ``value`` or greater."""
    return Condition(field + '__gte', _encode(value))


def less(field: str, value: int) -> Condition:
    """``field`` is less than ``value``."""
    return Condition(field + '__lt', _encode(value))


def at_most(field: str, value: int) -> Condition:
    """``field`` is ``value`` or less."""
    return Condition(field + '__lte', _encode(value))


def one_of(field: str, values: Iterable[Value]) -> Condition:
    """``field`` equals one of ``values``; no value at all finds nothing.

    As many values as one likes (QRY-1): long lists become several
    requests. Nobody says how to put a comma or a quote into a list, so a
    value that has one becomes a request of its own.
    """
    values = list(dict.fromkeys(values))
    are_refs = any(isinstance(value, records.Ref) for value in values)
    odd = [v for v in values if isinstance(v, str) and {',', '"'} & set(v)]
    plain = [value for value in values if value not in odd]
    return Condition(
        f'{field}.ref__m_eq' if are_refs else f'{field}__in',
        listed=tuple(map(_encode, plain)),
        alone=tuple((_key(field, v), _encode(v)) for v in odd))


def splits(conditions: Iterable[Condition]) -> Iterator[list[Pair]]:
    """The requests that together ask for all ``conditions``."""
    conditions = list(conditions)
    lists = sum(c.listed is not None for c in conditions) or 1
    variants = [c.variants(_LIST_BUDGET // lists) for c in conditions]
    return map(list, itertools.product(*variants))


def encode(pairs: Iterable[Pair]) -> str:
    """The query string of pairs whose values are encoded already."""
    return '&'.join(f'{key}={value}' for key, value in pairs)


def _key(field: str, value: Value) -> str:
    return f'{field}.ref' if isinstance(value, records.Ref) else field


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
