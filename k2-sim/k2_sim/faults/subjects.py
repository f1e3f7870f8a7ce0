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

"""The subject of a request: the objects and values that it names."""

from collections.abc import Iterator
import json
import re
import urllib.parse

from k2_sim.protocol.messages import Request
from k2_sim.state import store as store_module

#: The values of each field, as text; a reference is its path.
Subject = dict[str, set[str]]
_SUFFIX = re.compile(r'(?<=.)(?:\.ref)?(?:__([a-z_]+))?$')
_ID = re.compile('[1-9][0-9]{0,18}')
_LISTS = ('in', 'm_eq', 'contains_some')


def of(request: Request, store: store_module.Store) -> Subject:
    """The fields of the object in the path, of the query and of the body.

    The path of the request does not include the base path of the API. An
    object's values are those before the request.
    """
    path = request.path.strip('/')
    resource, _, last = path.rpartition('/')
    subject: Subject = {}
    items = _items(request.body)
    numbers = [last]
    if last == '__bulk':
        numbers = [str(item.get('id')) for item in items]
    for number in numbers:
        _add(subject, _stored(store, resource, number))
    for name, value in _conditions(request.query):
        subject.setdefault(name, set()).add(value)
    for item in items:
        _add(subject, item)
    return subject


def _items(body: bytes) -> list[dict[str, object]]:
    """The objects of a body; none if it is not JSON."""
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        return []
    items = value if isinstance(value, list) else [value]
    return [item for item in items if isinstance(item, dict)]


def _stored(store: store_module.Store, resource: str,
            number: str) -> dict[str, object]:
    if resource not in store.tables or not _ID.fullmatch(number):
        return {}
    return store.get(resource, int(number)) or {}


def _conditions(query: str) -> Iterator[tuple[str, str]]:
    """Each value of a query with its field, whatever the operator."""
    for name, value in urllib.parse.parse_qsl(query):
        suffix = _SUFFIX.search(name)
        operator = suffix[1] if suffix else None
        field = name[:suffix.start()] if suffix else name
        for item in value.split(',') if operator in _LISTS else [value]:
            yield field, item


def _add(subject: Subject, values: dict[str, object]) -> None:
    for name, value in values.items():
        subject.setdefault(name, set()).add(_text(value))


def _text(value: object) -> str:
    if isinstance(value, dict) and set(value) == {'ref'}:
        value = value['ref']
    if isinstance(value, str):
        return value
    return json.dumps(value)
