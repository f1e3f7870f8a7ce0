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

"""Masking of secrets in recordings."""

from collections.abc import Mapping
import json
import re
from typing import Any
import urllib.parse

#: As long as the shortest CHAP secret, so that it can be replayed.
MASK = '*' * 12
# Headers known not to be secret; all others may be.
_OPEN = frozenset((
    'accept', 'accept-charset', 'accept-encoding', 'accept-language',
    'accept-ranges', 'age', 'allow', 'cache-control', 'connection',
    'content-disposition', 'content-encoding', 'content-language',
    'content-length', 'content-range', 'content-type', 'date', 'dnt', 'etag',
    'expect', 'expires', 'from', 'host', 'if-match', 'if-modified-since',
    'if-none-match', 'if-range', 'if-unmodified-since', 'keep-alive',
    'last-modified', 'max-forwards', 'origin', 'pragma', 'range',
    'retry-after', 'server', 'te', 'trailer', 'transfer-encoding', 'upgrade',
    'user-agent', 'vary', 'via', 'x-forwarded-for', 'x-forwarded-host',
    'x-forwarded-proto', 'x-k2-sequence', 'x-request-id'))
_FIELDS = ('password', 'passwd', 'passphrase', 'secret', 'token', 'credential',
           'api_key', 'apikey', 'api-key', 'private_key', 'authorization')
_ENCODED_NAME = re.compile('(?:^|&)[^=&]*%')


def headers(values: Mapping[str, str]) -> dict[str, str]:
    """Headers, masked unless they are known not to be secret."""
    return {name: value if name.lower() in _OPEN else MASK
            for name, value in values.items()}


def query(text: str) -> str:
    """A query with the values of secret fields masked."""
    # Most queries have no secrets.
    if not _is_secret(text) and _ENCODED_NAME.search(text) is None:
        return text
    items = urllib.parse.parse_qsl(text, keep_blank_values=True)
    if not any(_is_secret(name) for name, _ in items):
        return text
    return urllib.parse.urlencode([
        (name, MASK if _is_secret(name) else value)
        for name, value in items])


def body(data: bytes) -> bytes:
    """JSON with its secrets masked; other content is dropped.

    Other content could hold a secret in any form.
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
    lower = name.lower()
    # Faster than any(), as this runs for each request.
    for part in _FIELDS:
        if part in lower:
            return True
    return False
