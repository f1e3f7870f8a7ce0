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

"""Simulated arrays, each in a separate process.

They do not share an interpreter with the drivers, so that neither slows down
the other.
"""

from collections.abc import Iterator
import contextlib
import os
import pathlib
import shutil
import socket
import subprocess  # nosec B404
import sys
import time
import typing
from typing import Any

import requests

from k2_sim.adapters import tls

LOGIN = 'admin'
PASSWORD = 'benchmark'  # nosec B105
_PATIENCE = 30.0
_REST = 'api/v2'

Object = dict[str, Any]


class Array:
    """A running ``k2-sim`` and its control API.

    :ivar address, port: where it listens
    :ivar host: address and port, with a colon between them
    :ivar authority: file with the CA of its certificate
    """

    def __init__(self, folder: str, port: int) -> None:
        self.address = '127.0.0.1'
        self.port = port
        self.host = f'{self.address}:{port}'
        self.authority = os.path.join(folder, 'ca.crt')
        self._control = pathlib.Path(folder, 'control.password')
        self._http = requests.Session()
        self._http.trust_env = False
        self._http.verify = self.authority

    def set_latency(self, seconds: float) -> None:
        """Set the duration of every request."""
        self._call('POST', 'latency', {'seconds': seconds})

    def switch(self, **behaviors: Any) -> None:
        """Set behaviors of the array, by their names."""
        self._call('PATCH', 'behaviors', behaviors)

    def clear_journal(self) -> None:
        """Reset the request counters."""
        self._call('DELETE', 'journal')

    def journal(self) -> tuple[int, int]:
        """Return the number of requests, and their peak concurrency."""
        journal = self._call('GET', 'journal')
        return journal['total'], journal['max_in_flight']

    def leftovers(self) -> dict[str, Any]:
        """Return the users' objects left on the array."""
        left: dict[str, Any] = self._call('GET', 'leftovers')
        return left

    def contents(self) -> dict[str, str]:
        """Return the last write to each volume, by id."""
        found: dict[str, str] = self._call('GET', 'contents')
        return found

    def write(self, volume: int, token: str) -> None:
        """Write to a volume, as a host does."""
        self._call('POST', 'contents', {'volume': volume, 'token': token})

    def create(self, resource: str, items: list[Object]) -> list[Object]:
        """Create objects in one request."""
        made: list[Object] = self._bulk('POST', resource, items)['hits']
        return made

    def change(self, resource: str, items: list[Object]) -> None:
        """Update objects in one request; each item has the object's id."""
        self._bulk('PATCH', resource, items)

    def objects(self, resource: str) -> list[Object]:
        """Return all objects of a resource."""
        found: list[Object] = self._call(
            'GET', f'{resource}?__limit=9999', base=_REST)['hits']
        return found

    def _bulk(self, method: str, resource: str, items: list[Object]) -> Any:
        return self._call(method, f'{resource}/__bulk', items, base=_REST)

    def _call(self, method: str, what: str, body: Any = None,
              base: str = 'sim/v1') -> Any:
        account = (LOGIN, PASSWORD) if base == _REST else (
            'control', self._control.read_text().rstrip('\n'))
        reply = self._http.request(
            method, f'https://{self.host}/{base}/{what}', json=body,
            timeout=_PATIENCE, auth=account)
        reply.raise_for_status()
        return reply.json() if reply.content else None


@contextlib.contextmanager
def running(folder: str, profile: str, port: int = 0, *arguments: str
            ) -> Iterator[Array]:
    """Start ``k2-sim`` in a directory; stop it at the end.

    :param port: to listen on; 0 for any
    :param arguments: more arguments of ``k2-sim``
    :raises RuntimeError: it does not start; the text ends with its output
    """
    port = port or _free_port()
    secret = os.path.join(folder, 'password')
    with open(secret, 'w', encoding='utf-8') as stream:
        stream.write(f'{PASSWORD}\n')
    log = os.path.join(folder, 'k2-sim.log')
    with open(log, 'w', encoding='utf-8') as stream:
        process = subprocess.Popen(  # nosec B603
            [sys.executable, '-m', 'k2_sim.cmd.serve',
             '--listen', f'127.0.0.1:{port}', '--state-dir', folder,
             '--profile', profile, '--behavior', 'clones_movable=true',
             '--behavior', 'grow_suspended=true', '--login', LOGIN,
             '--password-file', secret, *arguments],
            stdout=stream, stderr=subprocess.STDOUT)
    try:
        yield _when_ready(process, Array(folder, port), log)
    finally:
        process.terminate()
        process.wait(_PATIENCE)


@contextlib.contextmanager
def pair(folder: str, profile: str) -> Iterator[tuple[Array, Array]]:
    """Start two arrays that replicate to each other.

    :raises RuntimeError: one of them does not start
    """
    authority = tls.make_authority(folder)
    one, other = (_Place(name, _home(folder, name, authority), _free_port())
                  for name in ('bench-a', 'bench-b'))
    with _paired(one, other, profile) as primary, \
            _paired(other, one, profile) as secondary:
        yield primary, secondary


class _Place(typing.NamedTuple):
    """Name, directory and address of an array."""

    name: str
    home: str
    port: int


def _paired(own: _Place, peer: _Place, profile: str
            ) -> contextlib.AbstractContextManager[Array]:
    return running(
        own.home, profile, own.port, '--name', own.name,
        '--peer', f'{peer.name}=127.0.0.1:{peer.port}',
        '--peer-login', LOGIN,
        '--peer-password-file', os.path.join(own.home, 'password'),
        '--peer-ca', os.path.join(own.home, 'ca.crt'))


def _home(folder: str, name: str, authority: tls.Authority) -> str:
    """Create a directory for an array, with a certificate from a CA."""
    path = os.path.join(folder, name)
    os.mkdir(path)
    for file in (authority.path, authority.key_path):
        shutil.copy(file, path)
    return path


def _when_ready(process: 'subprocess.Popen[bytes]', array: Array, log: str
                ) -> Array:
    end = time.monotonic() + _PATIENCE
    while process.poll() is None and time.monotonic() < end:
        try:
            array.clear_journal()
            return array
        except (requests.RequestException, OSError):
            time.sleep(0.1)
    with open(log, encoding='utf-8') as stream:
        raise RuntimeError(f'k2-sim does not start: {stream.read()[-500:]}')


def _free_port() -> int:
    with socket.socket() as sock:
        sock.bind(('127.0.0.1', 0))
        port: int = sock.getsockname()[1]
        return port
