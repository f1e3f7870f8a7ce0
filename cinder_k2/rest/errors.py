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

"""Errors of an array, and the meaning of its replies.

Rules: section 3 of the API rulebook (ERR-1 to ERR-8), SEQ-1.
"""

import dataclasses
import json
from typing import ClassVar

# MC_ERR_BUSY is a prefix of MC_ERR_BUSY_SPECIFIC: the longer one comes first.
BUSY_CODES = ('MC_ERR_BUSY_SPECIFIC', 'MC_ERR_BUSY', 'MC_ERR_INPROGRESS',
              'MC_ERR_START_TIMEOUT')
_LONGEST_TEXT = 300


class InvalidSettings(ValueError):
    """A setting that is invalid, or two that contradict each other."""


# Names of an array's options in replication_device.
_DEVICE_WORDS = (
    ('san_api_port', 'port'), ('san_login', 'login'),
    ('san_password', 'password (or k2_replication_password)'),
    ('k2_tls_fingerprint', 'tls_fingerprint'))


@dataclasses.dataclass(frozen=True)
class Place:
    """The call and the array of an error; ``device`` as in ``Settings``."""

    address: str = ''
    method: str = ''
    path: str = ''
    device: str = ''


class RestError(Exception):
    """A call to an array failed. ``str()`` is one line for an operator.

    ``method`` and ``path`` identify the call, ``status`` is the HTTP status
    (None without a reply), ``code`` the busy code of the array (usually None),
    ``message`` the array's text or ours, ``address`` the array. ``repeats``
    means that an earlier try of the same write got no reply, and may have been
    carried out.
    """

    #: Whether a retry can help.
    retryable: ClassVar[bool] = False
    #: Whether a write that failed with it may have been carried out.
    outcome_unknown: ClassVar[bool] = False
    #: What the operator can do about it.
    hint: ClassVar[str] = ''

    def __init__(self, message: str, place: Place | None = None, *,
                 status: int | None = None, code: str | None = None,
                 hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.place = place or Place()
        self.address = self.place.address
        self.method = self.place.method
        self.path = self.place.path
        self.status = status
        self.code = code
        self.repeats = False
        self.advice = self.hint if hint is None else hint

    def __str__(self) -> str:
        status = f'HTTP {self.status}: ' if self.status else ''
        advice = f' ({self._advice()})' if self.advice else ''
        call = f'{self.method} {self.path}: ' if self.method else ''
        return (f'K2 array {self.address}: {call}{status}{self.message}'
                f'{advice}')

    def _advice(self) -> str:
        if not self.place.device:
            return self.advice
        return (f'replication_device {self.place.device}: '
                f'{in_words_of_device(self.advice)}')


class Unreachable(RestError):
    """No connection, no reply in time, or the connection broke."""

    retryable = True
    outcome_unknown = True
    hint = ('check san_ip, san_api_port and the network between this '
            'machine and the array')


class NotConnected(Unreachable):
    """Unreachable before the request was sent: nothing was carried out."""

    outcome_unknown = False


class NoReply(Unreachable):
    """The request was sent, and no reply came in time."""


class OutOfTime(NotConnected):
    """No time was left to send the request."""

    hint = ''


class CertificateError(RestError):
    """The array's certificate is not trusted."""

    hint = ('check driver_ssl_cert_path, or pin the certificate of the '
            'array with k2_tls_fingerprint')


class AuthenticationFailed(RestError):
    """401: no such user, or the password is wrong."""

    hint = 'check san_login and san_password'


class Forbidden(RestError):
    """403: the role of the user does not allow it."""

    hint = 'the user in san_login needs the role mgmt-app or admin'


class NotFound(RestError):
    """404: no such object, or the array has no such resource."""


class MethodNotAllowed(RestError):
    """405: the resource does not offer the method."""


class Busy(RestError):
    """A busy code, 429 or 503: not carried out, may be retried."""

    retryable = True
    hint = 'the array has too much to do; try again later'


class NoTurn(Busy):
    """Not sent: other requests of this service took all the time."""


class Refused(RestError):
    """400 and other permanent refusals."""


class OtherObject(Refused):
    """The id is, or may be, another object's by now (OBJ-7); nothing was sent.

    That is not a refusal by the array, so it proves nothing about its
    capabilities.
    """


class PassedOver(RestError):
    """A 2xx reply to a change that was not made."""


class NotOffered(Refused):
    """The array lacks a capability that the call requires."""

    hint = '\'k2-admin capabilities\' shows what the array offers'


class Unproven(NotOffered):
    """A search found nothing, and never has found anything on this array."""


class Incomplete(RestError):
    """The array shows only a part of a list, and does not offer paging."""

    hint = ('remove objects from the array, or ask for a version with '
            'paging; \'k2-admin capabilities\' shows what it offers')


class ServerError(RestError):
    """500, 502 and other 5xx: the outcome is unknown."""

    retryable = True
    outcome_unknown = True
    hint = 'look at the events of the array'


class BadReply(RestError):
    """A reply that violates the API: no JSON, truncated, no id."""

    retryable = True
    outcome_unknown = True
    hint = 'is san_ip the management address of a K2 array?'


class SequenceUsed(Refused):
    """409 to our own sequence number (SEQ-1); never leaves this package."""


_BY_STATUS: dict[int, type[RestError]] = {
    401: AuthenticationFailed, 403: Forbidden, 404: NotFound,
    405: MethodNotAllowed, 409: SequenceUsed, 429: Busy, 503: Busy}


def may_go_on(error: RestError) -> bool:
    """Whether the array may still be working on the request: it is slow."""
    return isinstance(error, NoReply) or error.status == 504


def is_server_failure(error: RestError) -> bool:
    """Whether a request was answered with 5xx, or its connection dropped.

    A timeout does not count: the array may just be slow.
    """
    return (error.outcome_unknown and isinstance(error, (ServerError,
                                                         Unreachable))
            and not may_go_on(error))


def is_lost(error: RestError) -> bool:
    """As ``is_server_failure``, or the reply was unreadable."""
    return is_server_failure(error) or isinstance(error, BadReply)


def may_be_done(error: RestError) -> bool:
    """Whether the array may have carried out the write that failed."""
    return error.outcome_unknown or error.repeats


def is_refusal(error: RestError) -> bool:
    """Whether a request was clearly refused, possibly for its form."""
    return isinstance(error, (Refused, NotFound, MethodNotAllowed, Forbidden,
                              PassedOver))


def in_words_of_device(text: str) -> str:
    """Replace the options in a text by their keys in replication_device."""
    for option, key in _DEVICE_WORDS:
        text = text.replace(option, key)
    return text


def from_reply(status: int, body: bytes, place: Place) -> RestError:
    """The error for a reply other than 2xx.

    A busy code counts anywhere in the body of a 400 (ERR-1).
    """
    text = body.decode('utf-8', 'replace')
    code = _busy_code(text) if status == 400 else None
    kind = _kind(status, code)
    if kind is SequenceUsed and place.method == 'GET':
        kind = Refused
    return kind(_message(text), place, status=status, code=code)


def refused(error: RestError) -> Refused:
    """``error`` as a normal refusal: a 409 that is not about our number."""
    return Refused(error.message, error.place, status=error.status)


def _kind(status: int, code: str | None) -> type[RestError]:
    if code:
        return Busy
    if status in _BY_STATUS:
        return _BY_STATUS[status]
    if status >= 500:
        return ServerError
    return Refused if status >= 400 else BadReply


def _busy_code(text: str) -> str | None:
    return next((code for code in BUSY_CODES if code in text), None)


def _message(text: str) -> str:
    try:
        text = str(json.loads(text)['error_msg'])
    except (ValueError, TypeError, KeyError, RecursionError):
        pass
    return ' '.join(text.split())[:_LONGEST_TEXT] or 'no explanation'
