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

"""Replies that are lost while someone else changes the array."""

import contextlib
import itertools
from unittest import mock

from cinder_k2 import rest
from cinder_k2.rest import transport

#: Errors in place of the reply: no reply, none in time, and 5xx.
KINDS = (rest.Unreachable, rest.errors.NoReply, rest.ServerError)


@contextlib.contextmanager
def on_request(method, path, *, act, sent=True, error=None, after=0):
    """Call ``act`` at one request of this kind, then fail the request.

    :param path: prefix of the path
    :param act: what someone else does at that time
    :param sent: whether the array carries the request out before ``act``
    :param error: class of the error in place of the reply; None for none
    :param after: how many such requests are left alone first
    :raises AssertionError: no such request was sent, or ``act`` failed
    """
    send = transport.Transport.exchange
    acted, before = [], itertools.count()

    def exchange(connection, request, *args):
        if (acted or request.method != method
                or not request.path.startswith(path)
                or next(before) < after):
            return send(connection, request, *args)
        acted.append(request)
        reply = b''
        if sent:
            with contextlib.suppress(rest.RestError):
                reply = send(connection, request, *args)
        try:
            act()
        except rest.RestError as failure:
            raise AssertionError('nobody could act') from failure
        if error is not None:
            raise error('no')
        return reply

    with mock.patch.object(transport.Transport, 'exchange', exchange):
        yield
    if not acted:
        raise AssertionError(f'no {method} {path} was sent')
