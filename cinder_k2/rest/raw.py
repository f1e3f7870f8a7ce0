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
"""Requests of any form, sent once, and their replies.

For ``k2-admin probe``, which finds out how an array behaves. All other
requests go through ``cinder_k2.rest.collection``.
"""

from collections.abc import Iterable
import dataclasses
import json
from typing import Any
from typing import TYPE_CHECKING
from urllib import parse

from cinder_k2.rest import errors
from cinder_k2.rest import transport

if TYPE_CHECKING:
    from cinder_k2.rest import session as rest_session

Pair = tuple[str, str]

_SECONDS = 60.0


@dataclasses.dataclass(frozen=True)
class Answer:
    """The outcome of a request.

    :ivar status: of HTTP; None without a reply
    :ivar value: JSON value of the body; None if it has none
    :ivar error: its error; None for a 2xx
    :ivar form: the form of its request, without ids and values
    """

    status: int | None = None
    value: Any = None
    content_type: str = ''
    size: int = 0
    error: errors.RestError | None = None
    form: str = ''

    @property
    def ok(self) -> bool:
        """Whether it was carried out."""
        return self.error is None

    @property
    def hits(self) -> list[Any]:
        """The objects of a list that are JSON objects."""
        found = self.value.get('hits') if isinstance(
            self.value, dict) else None
        return [each for each in found if isinstance(each, dict)
                ] if isinstance(found, list) else []

    @property
    def is_list(self) -> bool:
        """Whether it was carried out and returned a list, maybe empty."""
        return self.ok and isinstance(self.value, dict) and isinstance(
            self.value.get('hits'), list)

    @property
    def total(self) -> int:
        """The total that the array reports, else the number of hits."""
        said = self.value.get('total') if isinstance(
            self.value, dict) else None
        return said if isinstance(said, int) else len(self.hits)

    @property
    def id(self) -> int | None:
        """Id of the bare object; None without one."""
        return id_of(self.value)

    def field(self, name: str) -> Any:
        """A field of the bare object, or of the one in an envelope."""
        one = self.hits[0] if self.hits else self.value
        return one.get(name) if isinstance(one, dict) else None

    @property
    def words(self) -> str:
        """The reply, in one line."""
        if self.error is None:
            return f'HTTP {self.status}'
        status = f'HTTP {self.status}: ' if self.status else ''
        return f'{status}{self.error.message}'


class Raw:
    """Sends requests of any form to one array, each one once."""

    def __init__(self, session: 'rest_session.Session') -> None:
        self._session = session

    def ask(self, method: str, resource: str, part: int | str = '',
            query: Iterable[Pair] = (), body: Any = None,
            sequence: str | None = None) -> Answer:
        """Send one request.

        :param resource: empty for the index
        :param part: the next part: an id, '__bulk', or '/' for a slash
        :param sequence: value of the header X-K2-Sequence
        :raises errors.AuthenticationFailed, errors.CertificateError,
            errors.NotConnected: nothing can be found out
        """
        path = f'/{resource}' if resource else ''
        if part != '':
            path += '/' if part == '/' else f'/{part}'
        query = tuple(query)
        request = transport.Request(
            method, path, _encode(query), body, sequence)
        answer = self._sent(request)
        return dataclasses.replace(answer, form=form(
            method, resource, part,
            [key for key, _ in query] + (
                [*body] if isinstance(body, dict) else [])
            + (['X-K2-Sequence'] if sequence else [])))

    def _sent(self, request: transport.Request) -> Answer:
        try:
            self._session.pause()
            reply, content = self._session.transport.reply(
                request, _SECONDS, 1)
        except (errors.CertificateError, errors.NotConnected):
            raise
        except errors.RestError as error:
            return Answer(error=error)
        return self._answer(request, reply.status_code, content,
                            reply.headers.get('Content-Type', ''))

    def _answer(self, request: transport.Request, status: int,
                content: bytes, content_type: str) -> Answer:
        error = None
        if not 200 <= status < 300:
            error = errors.from_reply(
                status, content, self._session.transport.place(request))
            if isinstance(error, errors.AuthenticationFailed):
                raise error
        try:
            value = json.loads(content)
        except (ValueError, RecursionError):
            value = None
        return Answer(status, value, content_type, len(content), error)


def id_of(value: Any) -> int | None:
    """Id of an object, also from a text or a float; None if it has none."""
    found = value.get('id') if isinstance(value, dict) else None
    try:
        number = int(found) if isinstance(found, int | float | str) else 0
    except (ValueError, OverflowError):
        return None
    return number if number > 0 and not isinstance(found, bool) else None


def form(method: str, resource: str, part: int | str = '',
         names: Iterable[str] = ()) -> str:
    """The form of a request, such as 'PATCH volumes/# size'.

    :param names: parameters of the query, fields of the body, headers
    """
    path = resource + ('/#' if isinstance(part, int) else
                       f'/{part}'.rstrip('/') + '/' * (part == '/')
                       if part else '')
    return ' '.join([method, path, *sorted(names)])


def _encode(query: Iterable[Pair]) -> str:
    """A query string; percent-encoded parts stay as they are."""
    return '&'.join(f'{key}={parse.quote_plus(value, "%")}'
                    for key, value in query)
