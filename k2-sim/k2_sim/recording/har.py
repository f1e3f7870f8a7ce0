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

"""A recording as an HTTP Archive (HAR 1.2)."""

from collections.abc import Iterable
from collections.abc import Mapping
import datetime
import http
from typing import Any
import urllib.parse

from k2_sim import errors
from k2_sim.protocol.messages import Request
from k2_sim.protocol.messages import Response
from k2_sim.recording.recorder import Record

_HTTP = 'HTTP/1.1'


def archive(records: Iterable[Record]) -> dict[str, Any]:
    """The archive; each entry has two additional fields.

    _fault is the kind of fault of the request, or '', and _carriedOut
    whether it was carried out. A broken connection has the status 0. Sizes
    that are not known are -1. Entries are in the order in which the requests
    came, not that of their replies. Raises ApiError (400) for a clock beyond
    the year 9999.
    """
    records = sorted(records, key=lambda record: record.started)
    return {'log': {
        'version': '1.2', 'creator': {'name': 'k2-sim', 'version': '1'},
        'entries': [_entry(record) for record in records]}}


def _entry(record: Record) -> dict[str, Any]:
    milliseconds = round(record.seconds * 1000, 3)
    return {
        'startedDateTime': _date(record.started),
        'time': milliseconds, 'request': _request(record.request),
        'response': _response(record.response), 'cache': {},
        'timings': {'send': 0, 'wait': milliseconds, 'receive': 0},
        '_fault': record.fault, '_carriedOut': record.carried_out}


def _date(seconds: float) -> str:
    try:
        return datetime.datetime.fromtimestamp(
            seconds, datetime.timezone.utc).isoformat(timespec='milliseconds')
    except (ValueError, OverflowError, OSError) as exc:
        raise errors.refused(
            'An archive has no dates beyond the year 9999') from exc


def _request(request: Request) -> dict[str, Any]:
    host = request.headers.get('host', 'k2.invalid')
    url = f'https://{host}{urllib.parse.quote(request.path)}'
    value = {
        'method': request.method, 'httpVersion': _HTTP, 'cookies': [],
        'url': f'{url}?{request.query}' if request.query else url,
        'headers': _pairs(request.headers),
        'queryString': _pairs_of(urllib.parse.parse_qsl(
            request.query, keep_blank_values=True)),
        'headersSize': -1, 'bodySize': len(request.body)}
    if request.body:
        value['postData'] = {
            'mimeType': request.headers.get('content-type', ''),
            'text': _text(request.body)}
    return value


def _response(response: Response) -> dict[str, Any]:
    known = response.status in set(http.HTTPStatus)
    return {
        'status': response.status, 'httpVersion': _HTTP, 'cookies': [],
        'statusText': http.HTTPStatus(response.status).phrase
        if known else '',
        'headers': _pairs(response.headers), 'redirectURL': '',
        'content': {'size': len(response.body),
                    'mimeType': response.headers.get('Content-Type', ''),
                    'text': _text(response.body)},
        'headersSize': -1, 'bodySize': len(response.body)}


def _text(body: bytes) -> str:
    return body.decode(errors='replace')


def _pairs(values: Mapping[str, str]) -> list[dict[str, str]]:
    return _pairs_of(values.items())


def _pairs_of(items: Iterable[tuple[str, str]]) -> list[dict[str, str]]:
    return [{'name': name, 'value': value} for name, value in items]
