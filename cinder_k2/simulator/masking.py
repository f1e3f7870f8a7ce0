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

"""Secrets taken out of what is recorded."""

from collections.abc import Mapping
import json
from typing import Any
import urllib.parse

#: As long as the shortest CHAP secret, so that it can be replayed.
MASK = '*' * 12
_HEADERS = ('authorization', 'proxy-authorization', 'cookie', 'set-cookie')
_FIELDS = ('password', 'secret', 'token')


def headers(values: Mapping[str, str]) -> dict[str, str]:
    """Headers without what lets anybody in."""
    return {name: MASK if name.lower() in _HEADERS else value
            for name, value in values.items()}


def query(text: str) -> str:
    """A query without the values of secret fields."""
    items = urllib.parse.parse_qsl(text, keep_blank_values=True)
    if not any(_is_secret(name) for name, _ in items):
        return text
    return urllib.parse.urlencode([
        (name, MASK if _is_secret(name) else value)
        for name, value in items])


def body(data: bytes) -> bytes:
    """JSON without its secrets; what is no JSON is left out.

    It could hold a secret in any form.
    """
    if not data:
        return data
    try:
        return json.dumps(_masked(json.loads(data))).encode()
    except (ValueError, RecursionError):
        return b'(%d bytes that are no JSON)' % len(data)


def _masked(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: MASK if _is_secret(name) and item is not None
                else _masked(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_masked(item) for item in value]
    return value


def _is_secret(name: str) -> bool:
    return any(part in name.lower() for part in _FIELDS)
