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

"""k2-sim: a simulated K2 array as an HTTPS service.

Exit status: 0 after a clean stop, 1 when something in the way cannot be
used (port, state, directory, file) or the state cannot be written any more,
2 for arguments that make no sense.
"""

import asyncio
from collections.abc import Sequence
import contextlib
import gc
import ipaddress
import logging
import os
import pathlib
import signal
import socket
import sys
from typing import TYPE_CHECKING

import k2_sim
from k2_sim.cmd import options
from k2_sim.config.passwords import Passwords
from k2_sim.config import reading
from k2_sim.config.settings import Settings
from k2_sim.config.settings import SettingsError

if TYPE_CHECKING:
    import uvicorn

    from k2_sim.adapters import tls as tls_module
    from k2_sim.initial import archive

LOG = logging.getLogger(__name__)
# Connections that callers keep open are not waited for longer.
_GRACE_SECONDS = 1
_BACKLOG = 2048
_LOOK_SECONDS = 1
_INTERRUPTED = 128 + signal.SIGINT


class StartError(Exception):
    """The service cannot start or go on; the text is for the user."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the service until SIGTERM or SIGINT; gives the exit status."""
    try:
        settings, directory = options.parse(argv)
        _run(settings, directory)
    except (StartError, SettingsError, k2_sim.StateError, OSError) as exc:
        print(f'k2-sim: error: {exc}', file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        # Before the service has begun, which ends well by it.
        return _INTERRUPTED
    return 0


def _say(text: str) -> None:
    """Print it; who reads no more of it does not end the service."""
    try:
        print(text, flush=True)
    except BrokenPipeError:
        sys.stdout = open(os.devnull, 'w', encoding='utf-8')


def _run(settings: Settings, directory: pathlib.Path) -> None:
    _make_directory(directory)
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(_listen(*settings.listen))
        saved = _saved(settings)
        known = Passwords(settings, directory)
        # At once: whatever else goes wrong, this is not said again.
        for line in known.news():
            _say(line)
        _check_exposure(listener, known)
        plane = _plane(settings, directory)
        array = _array(settings, directory, known, plane)
        stack.callback(array.close)
        if saved is not None:
            array.restore(saved)
        _link(array, settings, listener, known)
        if plane is not None:
            exports = array.serve(plane)
            _say(f'k2-sim: iSCSI target {exports.target} on portals'
                 f' {", ".join(exports.portals)}')
        certificate = _certificate(settings, directory) \
            if settings.tls else None
        # uvicorn raises the signal again after its clean stop.
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda number, frame: None)
        # What was loaded stays. To look through all of it for garbage, over
        # and over, would keep requests waiting.
        gc.freeze()
        _server(array, certificate, _ready_line(
            array, listener, certificate)).run(sockets=[listener])
        if array.store.failure is not None:
            raise StartError(str(array.store.failure))


def _make_directory(path: pathlib.Path) -> None:
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as exc:
        raise StartError(f'cannot make state directory {path}:'
                         f' {exc.strerror}') from exc


def _listen(host: str, port: int) -> socket.socket:
    try:
        found = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        return socket.create_server(
            found[0][4][:2], family=found[0][0], backlog=_BACKLOG)
    except (OSError, UnicodeError) as exc:
        # The text may be followed by a note of Python's in brackets.
        reason = str(exc.strerror if isinstance(exc, OSError)
                     else exc).partition(' (')[0]
        raise StartError(f'cannot listen on {host} port {port}: {reason};'
                         ' choose another with --listen') from exc


def _saved(settings: Settings) -> 'archive.Archive | None':
    """The state to begin with, read before anything is changed."""
    if settings.restore is None:
        return None
    from k2_sim.initial import archive
    try:
        return archive.read(settings.restore.read_bytes(), settings.profile)
    except OSError as exc:
        reason = exc.strerror
    except k2_sim.StateError as exc:
        reason = str(exc)
    raise StartError(f'cannot restore {settings.restore}: {reason}')


def _check_exposure(listener: socket.socket, known: Passwords) -> None:
    """Refuse a password that everybody tries where everybody can try."""
    host = str(listener.getsockname()[0])
    weakness = known.weakest()
    if weakness and not ipaddress.ip_address(host).is_loopback:
        raise StartError(
            f'{weakness}, and {host} can be reached from other machines;'
            ' give another password, or listen on 127.0.0.1')


def _plane(settings: Settings, directory: pathlib.Path
           ) -> k2_sim.Plane | None:
    """The data plane, or None where there shall be none, or can be none."""
    if not settings.has_data_plane:
        return None
    try:
        if settings.data_plane == 'lio':
            return k2_sim.lio_plane(directory)
        return k2_sim.tgt_plane(directory / 'tgt')
    except k2_sim.PlaneError as exc:
        if settings.data_plane_required:
            raise
        print(f'k2-sim: no data plane, only the API is served: {exc}',
              file=sys.stderr, flush=True)
        return None


def _array(settings: Settings, directory: pathlib.Path, known: Passwords,
           plane: k2_sim.Plane | None) -> k2_sim.Array:
    first, *others = known.users()
    switches = {**settings.switches, 'rate_limit': settings.rate_limit}
    if plane is not None and settings.data_plane == 'tgt':
        switches['one_lun_map'] = True
    try:
        array = k2_sim.Array(
            settings.profile, directory / 'state.db',
            equipment=settings.equipment, login=first.login, role=first.role,
            password=first.password, users=others,
            control_user=known.controller(), flex=known.flex(),
            seed=settings.random_seed, seeding=settings.seed,
            switches=switches,
            contents=k2_sim.Contents(directory / 'content'))
    except k2_sim.ApiError as exc:
        raise StartError(f'cannot make the new state: {exc}') from exc
    array.control.set_latency(settings.latency)
    for rule in settings.faults:
        try:
            array.control.add_fault(rule)
        except k2_sim.ApiError as exc:
            raise StartError(f'cannot add the fault rule of kind'
                             f' {rule["kind"]}: {exc}') from exc
    array.is_tended = True
    return array


def _link(array: k2_sim.Array, settings: Settings,
          listener: socket.socket, known: Passwords) -> None:
    """Tell the array where its peers are, and where it is itself."""
    links, peers = array.links, settings.peers
    links.address = reading.shown(*listener.getsockname()[:2])
    links.wire.network = {links.address: array}
    links.wire.ca, links.wire.plain = peers.ca, not settings.tls
    for name, host in peers.addresses.items():
        links.add_peer(name, k2_sim.Address(
            host, peers.login, known.of_peers()))


def _certificate(settings: Settings, directory: pathlib.Path
                 ) -> 'tls_module.Certificate':
    from k2_sim.adapters import tls
    try:
        certificate = tls.ensure(
            directory, (settings.listen[0], *settings.tls_names))
    except OSError as exc:
        raise StartError(f'cannot write certificates in'
                         f' {directory}: {exc.strerror}') from exc
    except ValueError as exc:
        raise StartError(f'cannot use the certificates in'
                         f' {directory}: {exc}') from exc
    for line in certificate.news:
        _say(f'k2-sim: {line}')
    return certificate


def _ready_line(array: k2_sim.Array, listener: socket.socket,
                certificate: 'tls_module.Certificate | None') -> str:
    shown = reading.shown(*listener.getsockname()[:2])
    line = f'k2-sim: array {array.name} ({array.profile}) listens on'
    if certificate is None:
        return f'{line} http://{shown}'
    return (f'k2-sim: certificate fingerprint SHA-256'
            f' {certificate.fingerprint}\n'
            f'{line} https://{shown}, CA certificate'
            f' {certificate.authority_path}')


def _is_news(record: logging.LogRecord) -> bool:
    """Breaking off what still runs at the stop is no error here."""
    return 'graceful shutdown' not in record.getMessage()


async def _keep_looking(array: k2_sim.Array) -> None:
    """Replicate in time also while nobody asks for anything.

    Ends when the state cannot be kept any more.
    """
    while array.store.failure is None:
        await asyncio.sleep(_LOOK_SECONDS)
        try:
            await asyncio.to_thread(array.control.tend)
        except k2_sim.StateError as exc:
            LOG.error('%s', exc)
        except Exception:
            LOG.exception('what was due failed')


def _server(array: k2_sim.Array,
            certificate: 'tls_module.Certificate | None',
            ready_line: str) -> 'uvicorn.Server':
    import uvicorn

    from k2_sim.adapters import uvicorn_options

    logging.getLogger('uvicorn.error').addFilter(_is_news)

    class Server(uvicorn.Server):
        async def startup(self, sockets: list[socket.socket] | None = None
                          ) -> None:
            await super().startup(sockets)
            self.looking = asyncio.create_task(_keep_looking(array))
            self.looking.add_done_callback(self._stop)
            _say(ready_line)

        def _stop(self, looking: asyncio.Task[None]) -> None:
            self.should_exit = True

    return Server(uvicorn.Config(
        k2_sim.asgi_app(array), log_config=None, log_level='warning',
        access_log=False,
        server_header=False, date_header=False, proxy_headers=False,
        lifespan='off', ws='none', **uvicorn_options.OPTIONS,
        timeout_graceful_shutdown=_GRACE_SECONDS,
        ssl_certfile=None if certificate is None else certificate.path,
        ssl_keyfile=None if certificate is None
        else certificate.key_path))


if __name__ == '__main__':
    sys.exit(main())
