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
used (port, state, directory) or the state cannot be written any more, 2 for
arguments that make no sense.
"""

import argparse
import asyncio
from collections.abc import Sequence
import contextlib
import importlib
import ipaddress
import logging
import pathlib
import signal
import socket
import sys
from typing import TYPE_CHECKING

from cinder_k2 import simulator
from cinder_k2.simulator import factory
from cinder_k2.simulator import profiles

if TYPE_CHECKING:
    import uvicorn

    from cinder_k2.simulator import archive
    from cinder_k2.simulator import tls as tls_module

LOG = logging.getLogger(__name__)
# Connections that callers keep open are not waited for longer.
_GRACE_SECONDS = 1
_BACKLOG = 2048
_LOOK_SECONDS = 1
_NEEDED = ('cryptography', 'msgspec', 'uvicorn')


class StartError(Exception):
    """The service cannot start or go on; the text is for the user."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the service until SIGTERM or SIGINT; gives the exit status."""
    options = _parser().parse_args(argv)
    try:
        _check_packages()
        _run(options)
    except (StartError, simulator.StateError) as exc:
        print(f'k2-sim: error: {exc}', file=sys.stderr)
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog='k2-sim', description='A simulated Kaminario K2 array that'
        ' answers the REST API, version 2, at /api/v2, and a control API'
        ' for faults and latency at /sim/v1.',
        epilog='At the first start a certificate authority and a'
        ' certificate are made in the state directory; give clients its'
        ' ca.crt. The state survives restarts. SIGTERM or Ctrl-C stops'
        ' the service.')
    parser.add_argument(
        '--listen', type=_endpoint, default=('127.0.0.1', 8443),
        metavar='HOST:PORT', help='where to listen, [HOST]:PORT for IPv6;'
        ' port 0 takes a free one (default: 127.0.0.1:8443)')
    parser.add_argument(
        '--state-dir', type=pathlib.Path, required=True, metavar='DIR',
        help='directory of state and certificates, made if missing')
    parser.add_argument(
        '--profile', choices=profiles.NAMES, default='sdp',
        help='k2: no thin clones; sdp: thin clones that can be moved'
        ' (default: sdp); a state keeps its profile')
    parser.add_argument(
        '--login', default='admin', metavar='NAME',
        help='account of the array (default: admin)')
    parser.add_argument(
        '--password-file', type=pathlib.Path, metavar='FILE',
        help='file whose first line is the password'
        ' (default password: admin)')
    parser.add_argument(
        '--no-tls', action='store_true', help='plain HTTP')
    parser.add_argument(
        '--tls-name', action='append', default=[], metavar='NAME',
        help='further host name or address in the certificate; can be'
        ' repeated')
    _add_behaviour(parser)
    _add_replication(parser)
    return parser


def _add_behaviour(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        '--latency', type=_seconds, default=0.0, metavar='SECONDS',
        help='make every reply take so long (default: 0)')
    parser.add_argument(
        '--rate-limit', type=_seconds, default=0.0, metavar='N',
        help='answer 429 beyond so many requests per second'
        ' (default: 0, no limit)')
    parser.add_argument(
        '--random-seed', type=_seed, metavar='N', help='what all that is'
        ' left to chance comes from, so that a run can be repeated (default:'
        ' a new one)')
    parser.add_argument(
        '--restore', type=pathlib.Path, metavar='FILE',
        help='begin with a saved state (what GET /sim/v1/save gave) in'
        ' place of the one that is there')
    new = parser.add_argument_group(
        'a new state', 'These matter at the first start only.')
    new.add_argument('--name', type=_name, default='sim-k2-a',
                     help='name of the array (default: sim-k2-a)')
    new.add_argument(
        '--portal', action='append', type=_address, default=[],
        metavar='ADDRESS', help='address of an iSCSI portal; can be'
        f' repeated (default: {", ".join(factory.PORTALS)})')


def _add_replication(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group(
        'replication', 'Two services that replicate name each other, and'
        ' have different names (--name).')
    group.add_argument(
        '--peer', action='append', type=_peer, default=[],
        metavar='NAME=HOST:PORT', help='an array to replicate with, which'
        ' may be this one; can be repeated')
    group.add_argument(
        '--peer-login', default='admin', metavar='NAME',
        help='account on the peers (default: admin)')
    group.add_argument(
        '--peer-password-file', type=pathlib.Path, metavar='FILE',
        help='file whose first line is the password there'
        ' (default password: admin)')
    group.add_argument(
        '--peer-ca', type=pathlib.Path, metavar='FILE',
        help='certificates that the peers are checked with, as their'
        ' ca.crt; it may come later than the start. An array without TLS'
        ' reaches its peers without it, too')


def _peer(text: str) -> tuple[str, str]:
    name, _, address = text.partition('=')
    return _name(name), _shown(*_endpoint(address))


def _endpoint(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(':')
    host = host.removeprefix('[').removesuffix(']')
    if not host or not port.isdecimal() or int(port) > 65535:
        raise argparse.ArgumentTypeError(f'not HOST:PORT: {text}')
    return host, int(port)


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < 86400:
        raise argparse.ArgumentTypeError(f'not a number from 0: {text}')
    return value


def _seed(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f'not a whole number: {text}')
    return int(text)


def _name(text: str) -> str:
    if not 0 < len(text) <= 42:
        raise argparse.ArgumentTypeError('a name has 1 to 42 characters')
    return text


def _address(text: str) -> str:
    try:
        return str(ipaddress.ip_address(text))
    except ValueError:
        raise argparse.ArgumentTypeError(
            f'not an IP address: {text}') from None


def _check_packages() -> None:
    for name in _NEEDED:
        try:
            importlib.import_module(name)
        except ImportError as exc:
            raise StartError(f'{name} is not installed; install the extra'
                             ' "simulator" of cinder-k2') from exc


def _run(options: argparse.Namespace) -> None:
    _make_directory(options.state_dir)
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(_listen(*options.listen))
        saved = _saved(options)
        array = _array(options)
        stack.callback(array.close)
        if saved is not None:
            array.restore(saved)
        _link(array, options, listener)
        certificate = None
        if not options.no_tls:
            certificate = _certificate(options)
        # uvicorn raises the signal again after its clean stop.
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda number, frame: None)
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
    except OSError as exc:
        # The text may be followed by a note of Python's in brackets.
        reason = str(exc.strerror).partition(' (')[0]
        raise StartError(f'cannot listen on {host} port {port}: {reason};'
                         ' choose another with --listen') from exc


def _saved(options: argparse.Namespace) -> 'archive.Archive | None':
    """The state to begin with, read before anything is changed."""
    if options.restore is None:
        return None
    from cinder_k2.simulator import archive
    try:
        return archive.read(options.restore.read_bytes(), options.profile)
    except OSError as exc:
        reason = exc.strerror
    except simulator.StateError as exc:
        reason = str(exc)
    raise StartError(f'cannot restore {options.restore}: {reason}')


def _array(options: argparse.Namespace) -> simulator.Array:
    array = simulator.Array(
        options.profile, options.state_dir / 'state.db',
        name=options.name, login=options.login, seed=options.random_seed,
        portals=tuple(options.portal) or factory.PORTALS,
        password=_password(options.password_file))
    array.control.set_latency(options.latency)
    array.control.set_switches(rate_limit=options.rate_limit)
    return array


def _link(array: simulator.Array, options: argparse.Namespace,
          listener: socket.socket) -> None:
    """Tell the array where its peers are, and where it is itself."""
    links = array.links
    links.address = _shown(*listener.getsockname()[:2])
    links.wire.network = {links.address: array}
    links.wire.ca, links.wire.plain = options.peer_ca, options.no_tls
    password = _password(options.peer_password_file)
    for name, host in options.peer:
        links.add_peer(name, simulator.Address(
            host, options.peer_login, password))


def _shown(host: str, port: int) -> str:
    return f'[{host}]:{port}' if ':' in host else f'{host}:{port}'


def _password(path: pathlib.Path | None) -> str:
    if path is None:
        return 'admin'
    try:
        lines = path.read_text().splitlines()
    except OSError as exc:
        raise StartError(f'cannot read password file {path}:'
                         f' {exc.strerror}') from exc
    except UnicodeDecodeError as exc:
        raise StartError(f'password file {path} is no text') from exc
    if not lines or not lines[0]:
        raise StartError(f'password file {path} is empty')
    return lines[0]


def _certificate(options: argparse.Namespace) -> 'tls_module.Certificate':
    from cinder_k2.simulator import tls
    try:
        return tls.ensure(
            options.state_dir, (options.listen[0], *options.tls_name))
    except OSError as exc:
        raise StartError(f'cannot write certificates in'
                         f' {options.state_dir}: {exc.strerror}') from exc
    except ValueError as exc:
        raise StartError(f'a certificate or key in {options.state_dir} is'
                         f' unreadable, remove it: {exc}') from exc


def _ready_line(array: simulator.Array, listener: socket.socket,
                certificate: 'tls_module.Certificate | None') -> str:
    shown = _shown(*listener.getsockname()[:2])
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


async def _keep_looking(array: simulator.Array) -> None:
    """Replicate in time also while nobody asks for anything.

    Ends when the state cannot be kept any more.
    """
    while array.store.failure is None:
        await asyncio.sleep(_LOOK_SECONDS)
        try:
            await asyncio.to_thread(array.control.look)
        except simulator.StateError:
            return
        except Exception:
            LOG.exception('replication failed')


def _server(array: simulator.Array,
            certificate: 'tls_module.Certificate | None',
            ready_line: str) -> 'uvicorn.Server':
    import uvicorn

    logging.getLogger('uvicorn.error').addFilter(_is_news)

    class Server(uvicorn.Server):
        async def startup(self, sockets: list[socket.socket] | None = None
                          ) -> None:
            await super().startup(sockets)
            self.looking = asyncio.create_task(_keep_looking(array))
            self.looking.add_done_callback(self._stop)
            print(ready_line, flush=True)

        def _stop(self, looking: asyncio.Task[None]) -> None:
            self.should_exit = True

    return Server(uvicorn.Config(
        simulator.asgi_app(array), log_config=None, log_level='warning',
        access_log=False,
        server_header=False, date_header=False, lifespan='off',
        timeout_graceful_shutdown=_GRACE_SECONDS,
        ssl_certfile=None if certificate is None else certificate.path,
        ssl_keyfile=None if certificate is None
        else certificate.key_path))


if __name__ == '__main__':
    sys.exit(main())
