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

"""One HTTP request to an array and its reply, or a typed error."""

from collections.abc import Iterator
import contextlib
import dataclasses
import json
import logging
import time
from typing import Any

import requests
import requests.adapters
import requests.auth
import urllib3
import urllib3.exceptions

from cinder_k2.rest import connections
from cinder_k2.rest import errors
from cinder_k2.rest import settings as rest_settings
from cinder_k2.rest import tls

LOG = logging.getLogger(__name__)
_JSON = 'application/json'
# Unknown host name, connection refused, no route, failed handshake.
_NOT_SENT = (requests.ConnectTimeout,
             urllib3.exceptions.NewConnectionError,
             urllib3.exceptions.ConnectTimeoutError)


@dataclasses.dataclass(frozen=True)
class Request:
    """What to send. ``query`` is encoded, ``body`` a JSON value or None."""

    method: str
    path: str
    query: str = ''
    # May contain a CHAP secret.
    body: Any = dataclasses.field(default=None, repr=False)
    sequence: str | None = None


class _Sent:
    """One request in flight.

    :ivar outcome: its outcome, for the log
    """

    def __init__(self) -> None:
        self.started = time.monotonic()
        self.outcome = 'no reply'

    def read(self, reply: requests.Response) -> bytes:
        """The body of its reply."""
        self.outcome = f'{reply.status_code}, truncated'
        body = _body(reply)
        self.outcome = str(reply.status_code)
        return body


class Transport:
    """Sends requests over persistent connections. Thread-safe.

    Nothing of a request but method, path and query is ever logged: the
    headers hold the password, and bodies may hold CHAP secrets.
    """

    def __init__(self, settings: rest_settings.Settings,
                 adapter: requests.adapters.BaseAdapter | None) -> None:
        self._settings = settings
        self.address = str(settings.endpoint)
        self.base_url = f'https://{self.address}{settings.base_path}'
        self._http = _http_session(settings)
        self._http.mount('https://', adapter or connections.Adapter(
            settings.pool_size, settings.pin))

    def close(self) -> None:
        """Close the persistent connections."""
        self._http.close()

    def exchange(self, request: Request, timeout: float, attempt: int
                 ) -> bytes:
        """Send ``request`` and return the body of its 2xx reply.

        :param timeout: seconds for the request and the whole reply; also
            bounds the timeouts of the settings
        :param attempt: the number of the try, for the log
        :raises errors.RestError: no reply, or one other than 2xx
        """
        with self._sending(request, timeout, attempt) as sent:
            reply = self._http.send(self._prepared(request),
                                    **self._how(timeout))
            body = sent.read(reply)
        if not 200 <= reply.status_code < 300:
            raise errors.from_reply(
                reply.status_code, body, self.place(request))
        return body

    def reply(self, request: Request, timeout: float, attempt: int
              ) -> tuple[requests.Response, bytes]:
        """Send ``request`` and return its reply, whatever its status.

        :raises errors.RestError: there was none
        """
        with self._sending(request, timeout, attempt) as sent:
            reply = self._http.send(self._prepared(request),
                                    **self._how(timeout))
            return reply, sent.read(reply)

    @contextlib.contextmanager
    def _sending(self, request: Request, timeout: float, attempt: int
                 ) -> Iterator['_Sent']:
        """Log the outcome of a request, and translate its failure."""
        sent = _Sent()
        try:
            with connections.until(sent.started + timeout):
                yield sent
        except OSError as error:
            # Any requests.RequestException is an OSError, and so is what
            # requests raises if the CA path no longer exists.
            raise self._failure(request, error) from error
        finally:
            LOG.debug('%s %s: %s, %d ms, attempt %d', request.method,
                      self._url(request), sent.outcome,
                      (time.monotonic() - sent.started) * 1000, attempt)

    def place(self, request: Request) -> errors.Place:
        """The call and the array, for an error."""
        return errors.Place(self.address, request.method, request.path,
                            self._settings.device)

    def decode(self, request: Request, body: bytes) -> Any:
        """The JSON value of a reply.

        :raises errors.BadReply: it has none
        """
        try:
            return json.loads(body)
        except (ValueError, RecursionError):
            raise errors.BadReply(
                'the reply is no JSON' if body else 'the reply is empty',
                self.place(request), status=200) from None

    def _url(self, request: Request) -> str:
        query = f'?{request.query}' if request.query else ''
        return f'{self.base_url}{request.path}{query}'

    def _how(self, timeout: float) -> dict[str, Any]:
        return {
            'verify': self._http.verify, 'proxies': {},
            'timeout': (min(self._settings.connect_timeout, timeout),
                        min(self._settings.read_timeout, timeout)),
            'allow_redirects': False, 'stream': True}

    def _prepared(self, request: Request) -> requests.PreparedRequest:
        """Build the request as the session would, but without merging."""
        headers = dict(self._http.headers)
        if request.sequence:
            headers['X-K2-Sequence'] = request.sequence
        data = None
        if request.body is not None:
            data = json.dumps(request.body).encode()
        prepared = requests.PreparedRequest()
        prepared.prepare(
            request.method, self._url(request), headers, data=data,
            auth=self._http.auth, cookies=self._http.cookies)
        return prepared

    def _failure(self, request: Request, error: OSError
                 ) -> errors.RestError:
        place = self.place(request)
        problem = tls.problem(error)
        if problem:
            return errors.CertificateError(
                problem[0], place, hint=problem[1])
        if not isinstance(error, requests.RequestException):
            return errors.CertificateError(str(error), place)
        if isinstance(error, (requests.exceptions.ChunkedEncodingError,
                              requests.exceptions.ContentDecodingError)):
            return errors.BadReply('the reply was truncated', place)
        return _kind(error)(_reason(error), place)


def _http_session(settings: rest_settings.Settings) -> requests.Session:
    session = requests.Session()
    # The environment may contain a CA bundle that overrides verify=False,
    # proxies, and a netrc whose login would replace ours.
    session.trust_env = False
    if settings.token:
        session.headers['Authorization'] = f'Bearer {settings.token}'
    else:
        # As bytes: requests would encode a str as Latin-1.
        session.auth = requests.auth.HTTPBasicAuth(
            settings.login.encode(), settings.password.encode())
    session.headers.update({
        'Accept': _JSON, 'Content-Type': _JSON,
        'User-Agent': settings.user_agent})
    session.verify = settings.verify and not settings.pin
    if session.verify and settings.ca_path:
        session.verify = settings.ca_path
    if not settings.verify and not settings.pin:
        tls.hush(settings.endpoint.host)
    return session


def _body(reply: requests.Response) -> bytes:
    raw = reply.raw
    if not isinstance(raw, urllib3.HTTPResponse):
        return reply.content
    try:
        return raw.read(decode_content=True)
    except urllib3.exceptions.TimeoutError as error:
        raise requests.ReadTimeout(error) from error
    except urllib3.exceptions.HTTPError as error:
        raise requests.exceptions.ChunkedEncodingError(error) from error


def _kind(error: OSError) -> type[errors.Unreachable]:
    if tls.caused_by(error, _NOT_SENT):
        return errors.NotConnected
    return (errors.NoReply if isinstance(error, requests.Timeout)
            else errors.Unreachable)


def _reason(error: OSError) -> str:
    if isinstance(error, requests.ConnectTimeout):
        return 'no connection in time'
    if isinstance(error, requests.Timeout):
        return 'no reply in time'
    return tls.innermost(error)
