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
"""One simulated array, made from settings and ready to be served."""

import contextlib
import dataclasses
import ipaddress
import os
import pathlib
import resource
import socket
import sys

import k2_sim
from k2_sim.adapters import server
from k2_sim.adapters import tls
from k2_sim.blocks import filesystem
from k2_sim.config.passwords import Passwords
from k2_sim.config import reading
from k2_sim.config.settings import Peers
from k2_sim.config.settings import Settings
from k2_sim.initial import archive
from k2_sim.state import disk


#: The file of the state in the state directory, and the mark that it was
#: complete once.
STATE, MADE = 'state.db', 'state.made'
# With a higher limit, programs that close all files at their start take
# seconds.
_MOST_FILES = 2 ** 20


class StartError(Exception):
    """The service cannot start or continue; the text is for the user."""


def say(text: str) -> None:
    """Print a line; a closed pipe does not end the service."""
    try:
        print(text, flush=True)
    except BrokenPipeError:
        sys.stdout = open(os.devnull, 'w', encoding='utf-8')


@dataclasses.dataclass(frozen=True)
class Service:
    """An array with its server settings."""

    settings: Settings
    directory: pathlib.Path
    array: k2_sim.Array
    passwords: Passwords
    server: server.Server
    certificate: tls.Certificate | None

    @property
    def address(self) -> str:
        """HOST:PORT of the array for its peers."""
        return reading.shown(self.server.host, self.server.port)

    def link(self, peers: Peers) -> None:
        """Set the addresses of the array and of its peers."""
        links = self.array.links
        links.address = self.address
        links.transport.network = {links.address: self.array}
        links.transport.ca = peers.ca
        links.transport.plain = self.certificate is None
        for name, host in peers.addresses.items():
            links.add_peer(name, k2_sim.Address(
                host, peers.login, self.passwords.of_peers()))

    def ready_lines(self) -> str:
        """The messages to print when requests are answered."""
        line = (f'k2-sim: array {self.array.name} ({self.array.profile})'
                f' listens on {self.server.url}')
        if self.certificate is None:
            return line
        return (f'k2-sim: certificate fingerprint SHA-256'
                f' {self.certificate.fingerprint}\n{line}, CA certificate'
                f' {self.certificate.authority_path}')


def prepare(settings: Settings, directory: pathlib.Path,
            stack: contextlib.ExitStack) -> Service:
    """Prepare an array; the stack releases its resources.

    Raises StartError, SettingsError, StateError, DataPlaneError and OSError.
    """
    _raise_file_limit()
    _make_directory(directory)
    filesystem.lock(directory, stack)
    check_not_emptied(directory)
    listener = stack.enter_context(_listen(*settings.listen))
    saved = _saved(settings)
    passwords = Passwords(settings, directory)
    # Print them now: if this start fails later, the next one does not.
    for line in passwords.messages():
        say(line)
    _check_exposure(listener, passwords)
    data_plane = _data_plane(settings, directory)
    place = filesystem.place(directory, data_plane is not None, stack)
    if place.drawback:
        say('k2-sim: host writes wait while a snapshot is made, longer with'
            f' more data: {place.drawback}')
    array = _array(settings, directory, passwords, data_plane,
                   k2_sim.Contents(place.directory, place.shown))
    stack.callback(array.close)
    (directory / MADE).touch(mode=0o600)
    if saved is not None:
        array.restore(saved)
    certificate = _certificate(settings, directory) if settings.tls else None
    made = Service(settings, directory, array, passwords, server.Server(
        array, certificate, listener=listener), certificate)
    made.link(settings.peers)
    if data_plane is not None:
        exports = array.serve(data_plane)
        say(f'k2-sim: iSCSI target {exports.target} on portals'
            f' {", ".join(exports.portals)}')
    return made


def _raise_file_limit() -> None:
    """Allow as many open files, and so connections, as the system does."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = _MOST_FILES if hard == resource.RLIM_INFINITY \
        else min(hard, _MOST_FILES)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


def _make_directory(path: pathlib.Path) -> None:
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as exc:
        raise StartError(f'cannot make state directory {path}:'
                         f' {exc.strerror}') from exc


def check_not_emptied(directory: pathlib.Path,
                      state: pathlib.Path | None = None) -> None:
    """Refuse a state without objects in a directory that had an array.

    Earlier versions left no mark (state.made), but usually the key of a
    certificate authority.

    state: a copy of the state file, to look at instead. Raises StartError.
    """
    if (disk.is_emptied(state or directory / STATE)
            and any((directory / name).exists() for name in (MADE, 'ca.key'))):
        raise StartError(
            f'state {directory / STATE} is empty, but an array has been in'
            f' {directory}: restore it from a copy, or remove the whole'
            ' directory to begin with a new array')


def _listen(host: str, port: int) -> socket.socket:
    try:
        return server.listen(host, port)
    except (OSError, UnicodeError) as exc:
        # Python may add a note in parentheses.
        reason = str(exc.strerror if isinstance(exc, OSError)
                     else exc).partition(' (')[0]
        raise StartError(f'cannot listen on {host} port {port}: {reason};'
                         ' choose another with --listen') from exc


def _saved(settings: Settings) -> archive.Archive | None:
    """The state to start with, read before anything is changed."""
    if settings.restore is None:
        return None
    try:
        return archive.read(settings.restore.read_bytes(), settings.profile)
    except OSError as exc:
        reason = exc.strerror
    except k2_sim.StateError as exc:
        reason = str(exc)
    raise StartError(f'cannot restore {settings.restore}: {reason}')


def _check_exposure(listener: socket.socket, known: Passwords) -> None:
    """Refuse a weak password on an address beyond the loopback."""
    host = str(listener.getsockname()[0])
    weakness = known.find_weak()
    if weakness and not ipaddress.ip_address(host).is_loopback:
        raise StartError(
            f'{weakness}, and {host} can be reached from other machines;'
            ' give another password, or listen on 127.0.0.1')


def _data_plane(settings: Settings, directory: pathlib.Path
                ) -> k2_sim.DataPlane | None:
    """The data plane, or None if it is disabled or cannot run."""
    if not settings.has_data_plane:
        return None
    try:
        if settings.data_plane == 'lio':
            return k2_sim.lio_data_plane(directory)
        return k2_sim.tgt_data_plane(directory / 'tgt')
    except k2_sim.DataPlaneError as exc:
        if settings.data_plane_required:
            raise
        print(f'k2-sim: no data plane, only the API is served: {exc}',
              file=sys.stderr, flush=True)
        return None


def _array(settings: Settings, directory: pathlib.Path, known: Passwords,
           data_plane: k2_sim.DataPlane | None,
           contents: k2_sim.Contents) -> k2_sim.Array:
    first, *others = known.users()
    behaviors = {**settings.behaviors, 'rate_limit': settings.rate_limit}
    if data_plane is not None and settings.data_plane == 'tgt':
        behaviors['one_lun_map'] = True
    try:
        array = k2_sim.Array(
            settings.profile, directory / STATE,
            equipment=settings.equipment, login=first.login, role=first.role,
            password=first.password, users=others,
            control_user=known.controller(), flex=known.flex(),
            seed=settings.random_seed, seeding=settings.seed,
            behaviors=behaviors, contents=contents)
    except k2_sim.ApiError as exc:
        raise StartError(f'cannot make the new state: {exc}') from exc
    array.control.set_latency(settings.latency)
    for rule in settings.faults:
        try:
            array.control.add_fault(rule)
        except k2_sim.ApiError as exc:
            raise StartError(f'cannot add the fault rule of kind'
                             f' {rule["kind"]}: {exc}') from exc
    array.core.has_maintenance = True
    return array


def _certificate(settings: Settings, directory: pathlib.Path
                 ) -> tls.Certificate:
    try:
        certificate = tls.ensure(
            directory, (settings.listen[0], *settings.tls_names))
    except OSError as exc:
        raise StartError(f'cannot write certificates in'
                         f' {directory}: {exc.strerror}') from exc
    except ValueError as exc:
        raise StartError(f'cannot use the certificates in'
                         f' {directory}: {exc}') from exc
    for line in certificate.renewals:
        say(f'k2-sim: {line}')
    return certificate
