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
"""An array behind uvicorn: the server of k2-sim, and of tests."""

import asyncio
from collections.abc import Callable
import logging
import socket
import threading

import uvicorn

from k2_sim.adapters import asgi
from k2_sim.adapters import tls as tls_module
from k2_sim.adapters import uvicorn_options
from k2_sim import array as array_module
from k2_sim import errors

LOG = logging.getLogger(__name__)
# How long to wait at the end for connections that clients keep open.
_GRACE_SECONDS = 1
_BACKLOG = 2048
_MAINTENANCE_SECONDS = 1


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens; port 0 selects a free one. Raises OSError."""
    found = socket.getaddrinfo(
        host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    return socket.create_server(
        found[0][4][:2], family=found[0][0], backlog=_BACKLOG)


class Server:
    """Serves an array over HTTPS, or over HTTP without a certificate.

    Serves in its own thread from start(), or the entry of a context, to
    stop(); run() serves in the caller's thread. port: 0 selects a free
    one. listener: a socket of listen() in place of host and port, which is
    closed at the end. host, port and url are the address of the array.
    """

    def __init__(self, array: array_module.Array,
                 tls: tls_module.Certificate | None = None,
                 host: str = '127.0.0.1', port: int = 0, *,
                 listener: socket.socket | None = None) -> None:
        self._listener = listener or listen(host, port)
        name = self._listener.getsockname()
        self.host, self.port = str(name[0]), int(name[1])
        scheme = 'http' if tls is None else 'https'
        shown = f'[{self.host}]' if ':' in self.host else self.host
        self.url = f'{scheme}://{shown}:{self.port}'
        self._server = _Uvicorn(array, tls)
        self._thread = threading.Thread(target=self.run, daemon=True)

    def __enter__(self) -> 'Server':
        self.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.stop()

    def start(self) -> None:
        """Start serving; requests are answered when this returns."""
        ready = threading.Event()
        self._server.on_ready = ready.set
        self._thread.start()
        ready.wait()

    def stop(self) -> None:
        """Stop serving and close the remaining connections."""
        if self._thread.ident is not None:
            self._server.should_exit = self._server.force_exit = True
            self._thread.join()
        self._listener.close()

    def run(self, on_ready: Callable[[], object] | None = None) -> None:
        """Serve until SIGTERM, SIGINT, or the state cannot be written.

        on_ready: called when requests are answered. A signal is raised again
        at the end.
        """
        if on_ready is not None:
            self._server.on_ready = on_ready
        self._server.run(sockets=[self._listener])


class _Uvicorn(uvicorn.Server):
    """Reports when it is ready, and runs maintenance of an array."""

    def __init__(self, array: array_module.Array,
                 tls: tls_module.Certificate | None) -> None:
        logging.getLogger('uvicorn.error').addFilter(_is_reportable)
        super().__init__(uvicorn.Config(
            asgi.asgi_app(array), log_config=None, log_level='warning',
            access_log=False, server_header=False, date_header=False,
            proxy_headers=False, lifespan='off', ws='none',
            **uvicorn_options.OPTIONS,
            timeout_graceful_shutdown=_GRACE_SECONDS,
            ssl_certfile=None if tls is None else tls.path,
            ssl_keyfile=None if tls is None else tls.key_path))
        self._array = array
        self._maintenance: asyncio.Task[None] | None = None
        self.on_ready: Callable[[], object] = lambda: None

    async def startup(self, sockets: list[socket.socket] | None = None
                      ) -> None:
        """Begin to listen."""
        await super().startup(sockets)
        if self._array.core.has_maintenance:
            self._maintenance = asyncio.create_task(_maintain(self._array))
            self._maintenance.add_done_callback(self._stop)
        self.on_ready()

    def _stop(self, maintenance: asyncio.Task[None]) -> None:
        self.should_exit = True


async def _maintain(array: array_module.Array) -> None:
    """Do what is due once a second, even if there are no requests.

    Ends when the state cannot be written to disk any more.
    """
    while array.store.failure is None:
        await asyncio.sleep(_MAINTENANCE_SECONDS)
        try:
            await asyncio.to_thread(array.control.run_maintenance)
        except errors.StateError as exc:
            LOG.error('%s', exc)
        except Exception:
            LOG.exception('maintenance failed')


def _is_reportable(record: logging.LogRecord) -> bool:
    """Whether a record is logged: canceled requests at the end are not."""
    return 'graceful shutdown' not in record.getMessage()
