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

"""Sends the requests of a recording again, and compares the replies.

A recording is an HTTP Archive, as the simulated array exports one. It can
be replayed against any array; nothing here needs the simulator. Ids are
translated: an object that a replayed request makes has an id of its own.
"""

from collections.abc import Iterator
from collections.abc import Sequence
import dataclasses
import fnmatch
import json
import re
import secrets
from typing import Any
import urllib.parse

import requests

BASE = '/api/v2'
#: What always differs: times, SCSI identifiers, texts of errors (ERR-7).
VOLATILE = ('*_time', '*timestamp', 'scsi_*', 'error_msg')
# Faults that do not change the reply, if there is one.
_HARMLESS = ('', 'latency', 'hang', 'slow_loris')
_REF = re.compile(r'(/[a-z_/]+[a-z])/([0-9]+)')
# Collections whose ids are those of another one.
_DERIVED = {'/stats/volumes': '/volumes',
            '/replication/stats/volumes': '/volumes',
            '/replication/rpo_history': '/replication/sessions'}
# Refusals due to the credentials or the pace of the recorded requests.
_NOT_ADMITTED = (401, 403, 429)
_TIMEOUT = 60


class RecordingError(Exception):
    """The recording cannot be used; the text says why."""


@dataclasses.dataclass(frozen=True)
class Difference:
    """One difference: where in the reply, and both values.

    number: of the request in the recording, from 1. field: "status", or the
    path of a value in the body, such as hits.0.name.
    """

    number: int
    request: str
    field: str
    recorded: Any
    replayed: Any


def entries(archive: object) -> list[dict[str, Any]]:
    """The entries of an HTTP Archive; raises RecordingError for others."""
    try:
        found = list(archive['log']['entries'])  # type: ignore[index]
        for entry in found:
            _check(entry)
    except (AttributeError, KeyError, TypeError, ValueError) as exc:
        raise RecordingError('the file is not an HTTP Archive') from exc
    return found


def _check(entry: dict[str, Any]) -> None:
    """Check everything that is used later.

    Raises AttributeError, KeyError, TypeError or ValueError.
    """
    asked, answer = entry['request'], entry['response']
    texts = [asked['method'], asked['url'], entry.get('_fault', '')]
    texts += [_text(asked.get('postData')), _text(answer.get('content'))]
    for header in asked.get('headers') or ():
        texts += [header['name'], header['value']]
    if not all(isinstance(text, str) for text in texts) or type(
            answer['status']) is not int:
        raise TypeError('a value of another type')
    _url(entry)


def _url(entry: dict[str, Any]) -> urllib.parse.SplitResult:
    return urllib.parse.urlsplit(str(entry['request']['url']))


class Replay:
    """One run of a recording against an array.

    session: with credentials and the array's certificates. url: of the
    array, without a path. ignore: globs of fields that are not compared.
    """

    def __init__(self, session: requests.Session, url: str,
                 ignore: Sequence[str] = VOLATILE) -> None:
        self._session = session
        self._url = url
        self._ignore = tuple(ignore)
        self._refs: dict[str, str] = {}
        self._run = secrets.token_hex(4)
        self.sent = self.compared = self.skipped = 0

    def run(self, recording: Sequence[dict[str, Any]]
            ) -> Iterator[Difference]:
        """Send all requests that were carried out, and yield differences.

        If a fault changed the reply, the request is sent, but the replies
        are not compared. Requests refused with 401, 403 or 429 are skipped,
        as they could be accepted now. Raises requests.RequestException when
        the array cannot be reached.
        """
        for number, entry in enumerate(recording, 1):
            if not entry.get('_carriedOut', True):
                continue
            if entry['response']['status'] in _NOT_ADMITTED:
                self.skipped += 1
                continue
            reply = self._send(entry)
            self.sent += 1
            recorded, replayed = _json(
                _text(entry['response'].get('content'))), _json(reply.text)
            resource = self._resource(entry)
            self._learn(resource, recorded, replayed)
            if entry.get('_fault', '') not in _HARMLESS:
                continue
            self.compared += 1
            label = (f'{entry["request"]["method"]}'
                     f' {_url(entry).path} {_url(entry).query}').strip()
            for field, old, new in self._differences(
                    entry, resource, recorded, reply.status_code, replayed):
                yield Difference(number, label, field, old, new)

    def _send(self, entry: dict[str, Any]) -> requests.Response:
        asked, url = entry['request'], _url(entry)
        query = urllib.parse.urlencode([
            (name, self._texts(entry, name, value)) for name, value
            in urllib.parse.parse_qsl(url.query, keep_blank_values=True)])
        path = self._path(url.path)
        target = f'{self._url}{path}' + (f'?{query}' if query else '')
        body = _text(asked.get('postData'))
        value = _json(body) if body else None
        if value is not None:
            body = json.dumps(self._translated(
                value, self._resource(entry)))
        return self._session.request(
            asked['method'], target, headers=self._headers(asked),
            data=body, timeout=_TIMEOUT, allow_redirects=False)

    def _headers(self, asked: dict[str, Any]) -> dict[str, str]:
        """The headers of the API; sequence ids are of this run (SEQ-2)."""
        sent = {}
        for header in asked.get('headers') or ():
            name, value = header['name'].lower(), header['value']
            if name == 'content-type':
                sent[name] = value
            elif name == 'x-k2-sequence':
                sent[name] = re.sub('(?==[0-9]+ *(,|$))', self._run, value)
        return sent

    def _path(self, path: str) -> str:
        """The path with ids of the array, not of the recording."""
        head, _, below = path.partition(BASE)
        if not below:
            return path
        return f'{head}{BASE}{self._ref(below.rstrip("/"))}'

    def _ref(self, text: str) -> str:
        head, slash, number = text.rpartition('/')
        origin = _DERIVED.get(head)
        if origin is None:
            return self._refs.get(text, text)
        return head + self._ref(
            f'{origin}{slash}{number}').removeprefix(origin)

    def _texts(self, entry: dict[str, Any], name: str, value: str) -> str:
        """A value of a query, in which ids or references may be listed."""
        if name.partition('__')[0] != 'id':
            return ','.join(map(self._ref, value.split(',')))
        head = f'{self._resource(entry)}/'
        return ','.join(self._ref(head + item).removeprefix(head)
                        for item in value.split(','))

    @staticmethod
    def _resource(entry: dict[str, Any]) -> str:
        """The collection of a request, with a leading slash."""
        below = _url(entry).path.partition(BASE)[2].rstrip('/')
        head, _, last = below.rpartition('/')
        return head if last.isdecimal() or last == '__bulk' else below

    def _translated(self, value: Any, resource: str) -> Any:
        """References and ids of the recording as the array has them."""
        if isinstance(value, list):
            return [self._translated(item, resource) for item in value]
        if not isinstance(value, dict):
            return value
        if set(value) == {'ref'} and isinstance(value['ref'], str):
            return {'ref': self._ref(value['ref'])}
        return {name: self._own_id(resource, item) if name == 'id'
                else self._translated(
                    item, resource if name == 'hits' else '')
                for name, item in value.items()}

    def _own_id(self, resource: str, number: Any) -> Any:
        known = _REF.fullmatch(self._ref(f'{resource}/{number}'))
        if not resource or known is None or not isinstance(number, int):
            return number
        return int(known[2])

    def _learn(self, resource: str, recorded: Any, replayed: Any) -> None:
        """Note which object of the array is which of the recording."""
        for old, new in _same(recorded, replayed):
            if 'id' in old and 'id' in new:
                self._refs[f'{resource}/{old["id"]}'] = \
                    f'{resource}/{new["id"]}'

    def _differences(self, entry: dict[str, Any], resource: str,
                     recorded: Any, status: int, replayed: Any
                     ) -> Iterator[tuple[str, Any, Any]]:
        if entry['response']['status'] != status:
            yield 'status', entry['response']['status'], status
            return
        yield from self._compare(
            '', self._translated(recorded, resource), replayed)

    def _compare(self, field: str, old: Any, new: Any
                 ) -> Iterator[tuple[str, Any, Any]]:
        if isinstance(old, dict) and isinstance(new, dict):
            for name in sorted(old.keys() | new.keys()):
                if not any(fnmatch.fnmatchcase(name, glob)
                           for glob in self._ignore):
                    yield from self._compare(f'{field}.{name}', old.get(
                        name), new.get(name))
        elif (isinstance(old, list) and isinstance(new, list)
                and len(old) == len(new)):
            for number, (first, second) in enumerate(
                    zip(old, new, strict=True)):
                yield from self._compare(f'{field}.{number}', first, second)
        elif old != new:
            yield field.removeprefix('.') or 'body', old, new


def _same(recorded: Any, replayed: Any
          ) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Pairs of records that are the same object.

    The records of one object or of a bulk call are paired by their position,
    those of a search by their name.
    """
    if not isinstance(recorded, dict) or not isinstance(replayed, dict):
        return
    if 'hits' not in recorded or 'hits' not in replayed:
        yield recorded, replayed
        return
    if 'limit' not in recorded:
        yield from zip(_objects(recorded['hits']), _objects(replayed['hits']),
                       strict=False)
        return
    by_name = {str(hit['name']): hit for hit in _objects(replayed['hits'])
               if 'name' in hit}
    for hit in _objects(recorded['hits']):
        if str(hit.get('name')) in by_name:
            yield hit, by_name[str(hit['name'])]


def _objects(hits: Any) -> list[dict[str, Any]]:
    """Those of a list that are objects."""
    return [hit for hit in hits if isinstance(hit, dict)] if isinstance(
        hits, list) else []


def _text(part: dict[str, Any] | None) -> Any:
    """The body of a request or response, '' if it has none."""
    return (part or {}).get('text') or ''


def _json(text: str) -> Any:
    """The value of a JSON text; None for any other text."""
    try:
        return json.loads(text)
    except ValueError:
        return None
