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

"""An array as an ASGI application, for uvicorn."""

import asyncio
from collections.abc import Awaitable
from collections.abc import Callable
from collections.abc import MutableMapping
from concurrent import futures
import contextlib
import functools
from typing import Any

from k2_sim import array as array_module
from k2_sim.protocol import messages
from k2_sim.protocol.messages import Exchange
from k2_sim.state import commits

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Message, Receive, Send], Awaitable[None]]
# Long reads take turns; more threads would only shorten the queue for one.
_LONG_READS = 4
# Bytes of a body that are sent at once.
_PIECE = 2 ** 20
_Awaited = tuple[asyncio.AbstractEventLoop, commits.Commit]


def asgi_app(array: array_module.Array) -> Application:
    """The application of an array; latency does not block other requests."""
    waiters = _Waiters()
    # In threads of their own: messages of other arrays must not wait for
    # long reads.
    long_reads = futures.ThreadPoolExecutor(_LONG_READS, 'long-read')

    async def application(scope: Message, receive: Receive,
                          send: Send) -> None:
        if scope['type'] == 'lifespan':
            await _lifespan(receive, send)
        elif scope['type'] == 'http':
            await _http(array, waiters, long_reads, scope, receive, send)
        else:
            raise RuntimeError(f'{scope["type"]} is not served')

    return application


async def _lifespan(receive: Receive, send: Send) -> None:
    while True:
        kind = (await receive())['type']
        await send({'type': f'{kind}.complete'})
        if kind == 'lifespan.shutdown':
            return


class _Waiters:
    """Waiters for a commit on the event loop, woken together."""

    def __init__(self) -> None:
        self._waiting: dict[_Awaited, list[asyncio.Future[None]]] = {}

    async def ended(self, commit: commits.Commit) -> None:
        """Return when a commit is on disk, or has failed."""
        loop = asyncio.get_running_loop()
        waiter = loop.create_future()
        if (loop, commit) in self._waiting:
            self._waiting[loop, commit].append(waiter)
        else:
            self._waiting[loop, commit] = [waiter]
            commit.add_done_callback(functools.partial(self._tell, loop))
        await waiter

    def _tell(self, loop: asyncio.AbstractEventLoop,
              commit: commits.Commit) -> None:
        try:
            loop.call_soon_threadsafe(self._wake, (loop, commit))
        except RuntimeError:
            # A closed loop has no waiters.
            del self._waiting[loop, commit]

    def _wake(self, awaited: _Awaited) -> None:
        for waiter in self._waiting.pop(awaited):
            if not waiter.done():
                waiter.set_result(None)


async def _http(array: array_module.Array, waiters: _Waiters,
                long_reads: futures.Executor, scope: Message,
                receive: Receive, send: Send) -> None:
    headers = {name.decode('latin-1'): value.decode('latin-1')
               for name, value in scope['headers']}
    path = (scope.get('raw_path') or scope['path'].encode()).decode('latin-1')
    path = path.partition('?')[0]
    # The body of an unauthenticated request is not kept in memory.
    limit = array.body_limit(path, headers)
    body = await _body(receive, limit)
    if body is None:
        return
    if not limit:
        body = b''
    elif len(body) > limit:
        await _reply(Exchange(messages.too_large(limit)), receive, send)
        return
    method, query = scope['method'], scope['query_string'].decode('latin-1')
    # An unauthenticated request is refused without waiting for long reads.
    is_long = bool(limit) and array.is_long(method, path, query)
    manager = array.exchange(
        method, path, query, headers, body,
        (scope.get('client') or ('',))[0], may_pause=is_long)
    if not is_long and not array.may_wait(path):
        with manager as exchange:
            await _deliver(await _settled(exchange, waiters), receive, send)
        return
    with contextlib.ExitStack() as stack:
        # Not on the event loop: the array that the request waits for may
        # send a message to this one.
        exchange = await asyncio.get_running_loop().run_in_executor(
            long_reads if is_long else None, stack.enter_context, manager)
        await _deliver(await _settled(exchange, waiters), receive, send)


async def _settled(exchange: Exchange, waiters: _Waiters) -> Exchange:
    """The exchange to send; waiting for it does not block other requests."""
    commit, publication = exchange.commit, exchange.publication
    if commit is None and publication is None:
        return exchange
    if commit is not None and not commit.done():
        await waiters.ended(commit)
    if publication is not None and not publication.done():
        # settled() reports the error.
        with contextlib.suppress(Exception):
            await asyncio.wait_for(asyncio.wrap_future(publication),
                                   messages.PUBLICATION_LIMIT)
    return exchange.settled(limit=0)


async def _deliver(exchange: Exchange, receive: Receive,
                   send: Send) -> None:
    """Send the reply after its delay, or break the connection."""
    if exchange.delay:
        await asyncio.sleep(exchange.delay)
    if exchange.cut == 'reset':
        await _reset(receive, send)
    else:
        await _reply(exchange, receive, send)


async def _body(receive: Receive, limit: int) -> bytes | None:
    """The body, or None if the caller disconnected before its end.

    A body that is too large is read to its end, so that the caller gets the
    refusal, but only limit + 1 bytes of it are kept.
    """
    body = bytearray()
    while True:
        message = await receive()
        if message['type'] != 'http.request':
            return None
        body += message.get('body', b'')
        del body[limit + 1:]
        if not message.get('more_body'):
            return bytes(body)


async def _reply(exchange: Exchange, receive: Receive, send: Send) -> None:
    response = exchange.response
    headers = [(name.lower().encode(), value.encode())
               for name, value in response.sized_headers.items()]
    await send({'type': 'http.response.start', 'status': response.status,
                'headers': headers})
    if exchange.pace or exchange.cut:
        await _send_in_pieces(exchange, receive, send)
        return
    # Encrypting a large body at once would delay all other requests.
    body = response.body
    last = max(0, len(body) - 1) // _PIECE * _PIECE
    for start in range(0, last, _PIECE):
        await send({'type': 'http.response.body', 'more_body': True,
                    'body': body[start:start + _PIECE]})
        await asyncio.sleep(0)
    await send({'type': 'http.response.body', 'body': body[last:]})


async def _send_in_pieces(exchange: Exchange, receive: Receive,
                          send: Send) -> None:
    for piece, seconds in exchange.pieces():
        if seconds and await _is_gone(receive, seconds):
            return
        await send({'type': 'http.response.body', 'body': piece,
                    'more_body': True})
    if exchange.cut == 'truncated':
        await _reset(receive, send)
    else:
        await send({'type': 'http.response.body'})


async def _is_gone(receive: Receive, seconds: float) -> bool:
    """Whether the caller disconnects within a number of seconds."""
    try:
        await asyncio.wait_for(receive(), seconds)
    except asyncio.TimeoutError:
        # From Python 3.11 on, it is the built-in TimeoutError.
        return False
    return True


async def _reset(receive: Receive, send: Send) -> None:
    """Break the connection by uvicorn's transport: ASGI has no event for it.

    Raises RuntimeError on any other server.
    """
    transport = getattr(getattr(send, '__self__', None), 'transport', None)
    if transport is None:
        raise RuntimeError('this server cannot break a connection')
    transport.abort()
    while (await receive())['type'] != 'http.disconnect':
        pass
