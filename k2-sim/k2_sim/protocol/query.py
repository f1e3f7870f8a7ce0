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

"""The query language of section 2.5: conditions and control parameters."""

from collections.abc import Callable
import functools
import re
import time
from typing import Any
import urllib.parse

import msgspec

from k2_sim import errors
from k2_sim import memoize
from k2_sim.protocol import safe_regex
from k2_sim.state import schema

# How many parsed queries are cached: clients repeat them.
_KEPT = 512
_REGEXP = 'regexp'
_LISTS = ('in', 'm_eq', 'contains_some')
_CONTROLS = ('limit', 'offset', 'sort', 'sort_order', 'fields', 'pretty')
_RESOLUTIONS = {'5s': 5, '5m': 300, '1h': 3600}
_STATISTICS = ('resolution', 'datapoints', 'from_time', 'rw_breakdown',
               'bs_breakdown')


class Condition(msgspec.Struct, frozen=True):
    """One field=value of a search, its value still text.

    by_ref marks the forms with ".ref". values has one item except for the
    operators that take a list.
    """

    field: str
    operator: str
    values: tuple[str, ...]
    by_ref: bool = False


class Query(msgspec.Struct, frozen=True):
    """What a GET asks for. limit None stands for the default page.

    The fields from resolution on are for statistics (section 8): resolution
    in seconds, datapoints, from_time in seconds since the epoch (None: the
    last point ends now), and the breakdowns.
    """

    conditions: tuple[Condition, ...] = ()
    limit: int | None = None
    offset: int = 0
    sort: str = ''
    descending: bool = False
    fields: frozenset[str] = frozenset()
    pretty: bool = False
    resolution: int = 5
    datapoints: int = 1
    from_time: int | None = None
    rw_breakdown: bool = False
    bs_breakdown: bool = False

    def points(self, now: float) -> range:
        """The ends of the intervals asked for, oldest first.

        They are in seconds since the epoch, as is now.
        """
        end = int(now)
        if self.from_time is None:
            begin = end - (self.datapoints - 1) * self.resolution
        else:
            begin = self.from_time + self.resolution
        last = begin + (self.datapoints - 1) * self.resolution
        return range(begin, min(last, end) + 1, self.resolution)


@memoize.short(_KEPT)
def parse(text: str) -> Query:
    """Parse the part of a URL after the question mark (QRY-3, QRY-7).

    Raises ApiError (400) for unknown or invalid control parameters.
    """
    conditions = []
    controls = {}
    for key, value in urllib.parse.parse_qsl(text, keep_blank_values=True):
        if key.startswith('__'):
            controls[key[2:]] = value
        else:
            conditions.append(_condition(key, value))
    return _with_controls(
        controls, tuple(item for item in conditions if item.values))


def _condition(key: str, value: str) -> Condition:
    name, separator, operator = key.rpartition('__')
    if not separator or operator not in (*OPERATORS, _REGEXP):
        # An unknown operator makes an unknown field: no hits (QRY-2).
        name, operator = key, 'eq'
    by_ref = name.endswith('.ref')
    if by_ref:
        name = name[:-len('.ref')]
    values = _split(value) if operator in _LISTS else [_unquote(value)]
    return Condition(name, operator,
                     tuple(item for item in values if item), by_ref)


def _split(value: str) -> list[str]:
    if value.count('"') == 2:
        value = _unquote(value)
    return [_unquote(item) for item in value.split(',')]


def _unquote(value: str) -> str:
    """The value without one pair of double quotes around it (QRY-8)."""
    if len(value) >= 2 and value[0] == value[-1] == '"':
        return value[1:-1]
    return value


def _with_controls(controls: dict[str, str],
                   conditions: tuple[Condition, ...]) -> Query:
    if not controls:
        return Query(conditions)
    for name in controls:
        if name not in _CONTROLS and name not in _STATISTICS:
            raise errors.refused(f'Unknown parameter: __{name}')
    order = controls.get('sort_order') or 'asc'
    if order not in ('asc', 'desc'):
        raise errors.refused('__sort_order must be asc or desc')
    limit = controls.get('limit')
    from_time = controls.get('from_time')
    return Query(
        conditions,
        _natural('limit', limit) if limit else None,
        _natural('offset', controls.get('offset') or '0'),
        controls.get('sort', ''),
        order == 'desc',
        frozenset(filter(None, controls.get('fields', '').split(','))),
        controls.get('pretty', 'false').lower() not in ('false', '0'),
        _resolution(controls.get('resolution') or '5s'),
        _datapoints(controls.get('datapoints') or '1'),
        _natural('from_time', from_time) if from_time else None,
        _flag('rw_breakdown', controls), _flag('bs_breakdown', controls))


def _flag(name: str, controls: dict[str, str]) -> bool:
    value = controls.get(name, '').lower() or 'false'
    if value not in ('true', 'false'):
        raise errors.refused(f'__{name} must be True or False')
    return value == 'true'


def _resolution(value: str) -> int:
    if value not in _RESOLUTIONS:
        raise errors.refused(
            f'__resolution must be one of {", ".join(_RESOLUTIONS)}')
    return _RESOLUTIONS[value]


def _datapoints(value: str) -> int:
    number = _natural('datapoints', value)
    if not 1 <= number <= 999:
        raise errors.refused('__datapoints must be from 1 to 999')
    return number


def _natural(name: str, value: str) -> int:
    if not re.fullmatch('[0-9]{1,18}', value):
        raise errors.refused(f'__{name} must be a number from 0')
    return int(value)


def sort_key(value: Any) -> tuple[Any, ...]:
    """The sort key of a field's value: references by number, null last."""
    if isinstance(value, str) and value.startswith('/'):
        resource, _, number = value.rpartition('/')
        if number.isascii() and number.isdecimal():
            return (0, resource, int(number))
    return (value is None, '' if value is None else value)


def matcher(resource: schema.Resource, condition: Condition,
            offers: Callable[[str], bool]) -> Callable[[Any], bool] | None:
    """A test of one field's value; None if there is no such field (QRY-2).

    offers: whether the array has a feature (see Behaviors.offers).
    """
    field = resource.known.get(condition.field)
    if (field is None or field.write_only or not offers(field.feature)
            or condition.by_ref != (field.kind == 'ref')):
        return None
    test = _Regexp() if condition.operator == _REGEXP \
        else OPERATORS[condition.operator]
    return functools.partial(_test_value, test, field.kind, condition.values)


def _test_value(test: Callable[[str, Any, tuple[str, ...]], bool],
                kind: str, wanted: tuple[str, ...], value: Any) -> bool:
    """Test a value; null meets no condition (QRY-4)."""
    return value is not None and test(kind, value, wanted)


def _equal(kind: str, value: Any, wanted: tuple[str, ...]) -> bool:
    return any(_same(kind, value, item) for item in wanted)


def _same(kind: str, value: Any, wanted: str) -> bool:
    if kind == 'bool':
        return str(value).lower() == wanted.lower()
    if kind in ('int', 'number'):
        return bool(value == schema.to_number(wanted))
    return bool(value == wanted)


def _not_equal(kind: str, value: Any, wanted: tuple[str, ...]) -> bool:
    return not _equal(kind, value, wanted)


def _contains(kind: str, value: Any, wanted: tuple[str, ...]) -> bool:
    return isinstance(value, str) and any(
        item in value for item in wanted)


def _prefix(kind: str, value: Any, wanted: tuple[str, ...]) -> bool:
    return isinstance(value, str) and value.startswith(wanted)


class _Regexp:
    """The tests of one search, with one limit for the time of all of them.

    An expression that would take longer, such as (a+)+b, is refused: no
    other request is served during a test.
    """

    def __init__(self) -> None:
        self._end = time.thread_time() + safe_regex.SECONDS
        self._compiled = functools.cache(safe_regex.compiled)

    def __call__(self, kind: str, value: Any,
                 wanted: tuple[str, ...]) -> bool:
        try:
            return isinstance(value, str) and any(
                self._compiled(item).search(value, timeout=max(
                    0, self._end - time.thread_time())) for item in wanted)
        except ValueError as exc:
            raise errors.refused(f'Bad regular expression: {exc}') from exc
        except TimeoutError as exc:
            raise errors.refused('The regular expression takes too long:'
                                 ' use a simpler one') from exc


def _compare(wins: Callable[[Any, Any], bool], kind: str, value: Any,
             wanted: tuple[str, ...]) -> bool:
    limit = schema.to_number(wanted[0])
    return (kind in ('int', 'number') and limit is not None
            and wins(value, limit))


OPERATORS: dict[str, Callable[[str, Any, tuple[str, ...]], bool]] = {
    'eq': _equal,
    'in': _equal,
    'm_eq': _equal,
    'neq': _not_equal,
    'contains': _contains,
    'contains_some': _contains,
    'prefix': _prefix,
    'gt': functools.partial(_compare, lambda a, b: a > b),
    'lt': functools.partial(_compare, lambda a, b: a < b),
    'gte': functools.partial(_compare, lambda a, b: a >= b),
    'lte': functools.partial(_compare, lambda a, b: a <= b),
}
