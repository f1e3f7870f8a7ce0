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

"""Requests that arrays of any version are known to accept, and the others.

``requests.json`` has the list of section 16 of the rulebook: by method and
path, "#" standing for an id, each combination of query parameters (GET) or
body fields (POST, PATCH) that is known to work. null stands for any value,
anything else for exactly that value.
"""

from collections.abc import Collection
from collections.abc import Iterator
from collections.abc import Mapping
import dataclasses
import fnmatch
import functools
from importlib import resources
import re
from typing import Any
import urllib.parse

import msgspec

from k2_sim import errors
from k2_sim.protocol.messages import Request

# Names of parameters or fields, and their only value.
Combination = dict[str, Any]

_STATUSES = {
    400: 'Request is not supported',
    404: 'No such resource',
    405: 'Method not allowed',
    500: 'Internal error',
    501: 'Not implemented'}
_SEQUENCE = 'x-k2-sequence'
# Selects nothing: ids begin at 1 (OBJ-7).
_NO_HITS = 'id=0'


@functools.cache
def requests() -> dict[tuple[str, str], list[Combination]]:
    """The combinations by method and path, without slashes at the ends."""
    text = (resources.files(__package__) / 'requests.json').read_bytes()
    listed: dict[str, list[Combination]] = msgspec.json.decode(text)
    return {(key.partition(' ')[0], key.partition(' ')[2]): combinations
            for key, combinations in listed.items()}


@dataclasses.dataclass(frozen=True)
class Feature:
    """A kind of request, or a part of requests, that an array may lack.

    path has "#" for an id. names are query parameters, body fields or
    x-k2-sequence, all of which a request must have. "*" stands for anything
    in the method, the path and the names. Without names the feature is the
    whole request; a GET must then have no conditions.
    """

    method: str
    path: str
    names: tuple[str, ...] = ()

    @classmethod
    def parse(cls, text: str) -> 'Feature':
        """Parse a string as in refuse_only: method, path and names.

        Raises ValueError for anything else.
        """
        method, path, *names = text.split()
        return cls(method, path, tuple(names))

    def is_in(self, request: Request) -> bool:
        """Whether a request has the feature."""
        method, path = _key(request)
        if not (fnmatch.fnmatchcase(method, self.method)
                and fnmatch.fnmatchcase(path, self.path)):
            return False
        present = list(_names(request))
        if self.names:
            return all(fnmatch.filter(present, name) for name in self.names)
        return method != 'GET' or not _plain(request).query

    def named(self, name: str) -> bool:
        """Whether a name matches one of the feature's names."""
        return any(fnmatch.fnmatchcase(name, own) for own in self.names)


def admit(request: Request, refusal: str, only: Collection[str] = ()
          ) -> Request:
    """The request as seen by an array that supports only listed requests.

    refusal: how others are handled, see refuse_unlisted of Behaviors. only:
    which others, see refuse_only there. The role root is exempt, as it is from
    the rate limit, so that testers can inspect the array. Raises ApiError for
    a request that is refused, and DroppedError where the connection breaks
    instead of a reply.
    """
    if refusal == 'none' or request.role == 'root' or _is_listed(request):
        return request
    features = [feature for feature in map(Feature.parse, only)
                if feature.is_in(request)]
    if only and not features:
        return request
    if refusal == 'drop':
        raise errors.DroppedError()
    if refusal.isdecimal():
        raise errors.ApiError(int(refusal), _STATUSES[int(refusal)])
    if features:
        return _without(request, features, refusal == 'no_hits')
    return _reduced(request, refusal == 'no_hits')


def _key(request: Request) -> tuple[str, str]:
    path = request.path.strip('/')
    return request.method, re.sub(r'/[1-9][0-9]*$', '/#', path)


def _is_listed(request: Request) -> bool:
    """Whether exactly this request is listed."""
    combinations = requests().get(_key(request))
    if combinations is None or _SEQUENCE in request.headers:
        return False
    parameters, fields = _parameters(request), _fields(request)
    if fields is None:
        return False
    given = dict(parameters) if request.method == 'GET' else fields
    found = _largest(combinations, given)
    return (found is not None
            and len(found) == len(parameters) + len(fields))


def _without(request: Request, features: Collection[Feature], no_hits: bool
             ) -> Request:
    """The request without some features, which are silently ignored.

    Raises ApiError if a feature is the request as a whole.
    """
    if not all(feature.names for feature in features):
        _check_path(request)
        raise errors.refused(_STATUSES[400])
    lost = {name for name in _names(request)
            if any(feature.named(name) for feature in features)}
    query = [(name, value) for name, value in _parameters(request)
             if name not in lost]
    if no_hits and any(not name.startswith('__') for name, _
                       in _parameters(request) if name in lost):
        query.append(('id', '0'))
    fields = _fields(request)
    return msgspec.structs.replace(
        request, query=urllib.parse.urlencode(query),
        headers={name: value for name, value in request.headers.items()
                 if name not in lost},
        body=request.body if not fields else msgspec.json.encode(
            {name: value for name, value in fields.items()
             if name not in lost}))


def _names(request: Request) -> Iterator[str]:
    """The parameters, fields and header that a feature can name.

    Conditions and fields of a listed request are not among them.
    """
    plain = _plain(request)
    if not _is_listed(plain):
        yield from (name for name, _ in _parameters(plain))
        yield from _fields(plain) or ()
    yield from (name for name, _ in _parameters(request)
                if name.startswith('__'))
    if _SEQUENCE in request.headers:
        yield _SEQUENCE


def _plain(request: Request) -> Request:
    """The request without control parameters and X-K2-Sequence."""
    return msgspec.structs.replace(request, query=_without_controls(
        request), headers={name: value for name, value
                           in request.headers.items() if name != _SEQUENCE})


def _check_path(request: Request) -> None:
    """Raise ApiError (404, 405) if nothing listed has this path and method."""
    if _key(request) in requests():
        return
    raise errors.wrong_method() if any(
        path == _key(request)[1] for _, path in requests()) \
        else errors.no_resource()


def _reduced(request: Request, no_hits: bool) -> Request:
    """The request without everything that is silently ignored.

    Raises ApiError if nothing is left that the array could handle.
    """
    _check_path(request)
    combinations = requests()[_key(request)]
    request = _plain(request)
    if request.method == 'GET':
        return _reduced_search(request, combinations, no_hits)
    if request.method == 'DELETE':
        return request
    return _reduced_write(request, combinations)


def _reduced_search(request: Request, combinations: list[Combination],
                    no_hits: bool) -> Request:
    """Without unknown conditions, or with one that matches nothing."""
    parameters = _parameters(request)
    given = dict(parameters)
    found = _largest(combinations, given)
    if found is not None and len(found) == len(parameters):
        return request
    if not given:
        raise errors.refused(_STATUSES[400])
    if no_hits and not _key(request)[1].endswith('#'):
        return msgspec.structs.replace(request, query=_NO_HITS)
    return msgspec.structs.replace(request, query=urllib.parse.urlencode(
        {name: given[name] for name in found or ()}))


def _reduced_write(request: Request, combinations: list[Combination]
                   ) -> Request:
    """Without unknown fields; a PATCH may become empty."""
    fields = _fields(request)
    if fields is None:
        # Not a JSON object: the rules refuse it.
        return request
    found = _largest(combinations, fields)
    if found is None and request.method == 'POST':
        raise errors.refused(_STATUSES[400])
    return msgspec.structs.replace(request, query='', body=msgspec.json.encode(
        {name: fields[name] for name in found or ()}))


def _largest(combinations: list[Combination], given: Mapping[str, Any]
             ) -> Combination | None:
    """The combination with the most of the given names, or None.

    Of several with as many it is the first.
    """
    return max((found for found in combinations if all(
        name in given and _is_match(wanted, given[name])
        for name, wanted in found.items())), key=len, default=None)


def _is_match(wanted: Any, value: Any) -> bool:
    """Whether a value is the wanted one; None stands for any value.

    Booleans match neither numbers nor strings.
    """
    return wanted is None or type(value) is type(wanted) and value == wanted


def _parameters(request: Request) -> list[tuple[str, str]]:
    return urllib.parse.parse_qsl(request.query, keep_blank_values=True)


def _without_controls(request: Request) -> str:
    return urllib.parse.urlencode([
        (name, value) for name, value in _parameters(request)
        if not name.startswith('__')])


def _fields(request: Request) -> dict[str, Any] | None:
    """The fields of the body; None for a body that is not a JSON object."""
    if not request.body:
        return {}
    try:
        body = request.any_json()
    except errors.ApiError:
        return None
    return body if isinstance(body, dict) else None
