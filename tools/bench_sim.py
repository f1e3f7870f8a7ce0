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

"""Measures the performance of the simulated array against its goals.

Starts k2-sim over HTTPS with many volumes and repeats the same request from
this process, on a few connections. The upper bound is measured with the same
server sending a small, constant response. The exit status is 1 if a goal was
missed.
"""

import argparse
import base64
from collections.abc import Iterator
from collections.abc import Sequence
import contextlib
import dataclasses
import itertools
import json
import multiprocessing
import os
import pathlib
import random
import socket
import subprocess  # nosec B404
import sys
import tempfile
import time
from typing import Any

import uvicorn
import uvloop

import k2_sim
from k2_sim.adapters import tls
from tools import bench_client
from tools import bench_snapshots

_PER_GROUP = 25
# Groups of one volume each.
_SINGLES = 100
# Groups for the volumes that are created during the measurement.
_EMPTY = 1000
_ROOM = 32
_START_SECONDS = 2.0
_MEGABYTES = 300
# The data in a snapshot, and how long the snapshot and a write may take.
_MEBIBYTES = 1024
_WRITE_SECONDS = 0.2
# The first id of a volume on a new array, which has a control volume.
_FIRST_VOLUME = 31
# How long a client has to start and connect.
_LEAD_SECONDS = 2.0
# Limit for the client of long reads, which is killed earlier. Generous,
# because a server that this client blocks accepts other connections late.
_LONGEST_SECONDS = 3600.0
_LONG_READS = (('a search', '?name__contains=missing'),
               ('a sort', '?__sort=name&__limit=1'),
               ('a large page', '?__limit=100000'),
               ('10,000 ids', '?__limit=1&id__in=' + ','.join(
                   map(str, range(1, 10001)))))
_HEADERS = {
    'Host': 'localhost', 'Content-Type': 'application/json',
    'Authorization': 'Basic ' + base64.b64encode(b'admin:admin').decode()}
_HEAD = ''.join(f'{name}: {value}\r\n' for name, value in _HEADERS.items())


@dataclasses.dataclass(frozen=True)
class Result:
    """One row of the table.

    :ivar wanted: the goal; None for the upper bound, which has none
    :ivar is_least: whether the goal is a minimum; otherwise it is a maximum
    """

    name: str
    wanted: float | None
    measured: float
    unit: str
    is_least: bool = True
    note: str = ''

    @property
    def is_met(self) -> bool:
        """Whether the goal is met."""
        return self.wanted is None or (
            self.measured >= self.wanted if self.is_least
            else self.measured <= self.wanted)

    def line(self) -> str:
        """Return the row of the table."""
        sign = '>=' if self.is_least else '<='
        wanted = '' if self.wanted is None else f'{sign} {self.wanted:,g}'
        verdict = '' if self.is_met else 'MISSED'
        digits = 2 if self.unit == 's' else 0
        return (f'{self.name:31} {wanted:>9} {self.measured:9,.{digits}f}'
                f' {self.unit:5} {self.note:26} {verdict}').rstrip()


class Server:
    """A server under test, in a separate process."""

    def __init__(self, pid: int, url: str, authority: pathlib.Path) -> None:
        self._pid = pid
        self._url = url
        self._authority = authority

    def measure(self, name: str, wanted: float | None, seconds: float,
                source: bench_client.Source) -> Result:
        """Measure requests per second, and the CPU time of the server."""
        cpu = self._cpu()
        taken = sorted(uvloop.run(bench_client.ask(
            self._url, self._authority, seconds, source)))
        cost = (self._cpu() - cpu) / len(taken)
        late = taken[len(taken) * 99 // 100]
        return Result(
            name, wanted, len(taken) / seconds, '/s',
            note=f'{cost * 1e6:4.0f} us CPU, p99 {late * 1e3:3.0f} ms')

    def measure_beside(self, name: str, seconds: float,
                       source: bench_client.Source, query: str
                       ) -> Iterator[Result]:
        """Measure the same while another client repeats a long read."""
        context = multiprocessing.get_context('spawn')
        process = context.Process(target=_repeat, args=(
            self._url, self._authority, query))
        process.start()
        try:
            time.sleep(_LEAD_SECONDS)
            taken = sorted(uvloop.run(bench_client.ask(
                self._url, self._authority, seconds, source)))
        finally:
            process.kill()
            process.join()
        yield Result(name, 1000, len(taken) / seconds, '/s')
        yield Result(f'{name}, p99', 0.05, taken[len(taken) * 99 // 100],
                     's', is_least=False)

    def _cpu(self) -> float:
        text = pathlib.Path(f'/proc/{self._pid}/stat').read_text()
        ticks = text.rpartition(')')[2].split()[11:13]
        return sum(map(int, ticks)) / os.sysconf('SC_CLK_TCK')

    def megabytes(self) -> float:
        """Return the peak memory usage of the server in MiB."""
        text = pathlib.Path(f'/proc/{self._pid}/status').read_text()
        return int(text.partition('VmHWM:')[2].split()[0]) / 1024


def _seed(path: pathlib.Path, volumes: int) -> None:
    """Create a state with this many volumes, and certificates."""
    tls.ensure(path, ('127.0.0.1',))
    array = k2_sim.Array(store=path / 'state.db')
    _make(array, 'volume_groups', [
        {'name': f'cvg-{number}', 'quota': 0}
        for number in range(_SINGLES + _groups(volumes) + _EMPTY)])
    _make(array, 'volumes', [
        {'name': _name(number), 'size': 2 ** 20,
         'volume_group': {'ref': _group(
             number if number < _SINGLES
             else _SINGLES + (number - _SINGLES) // _PER_GROUP)}}
        for number in range(volumes)])
    array.close()


def _make(array: k2_sim.Array, resource: str,
          bodies: list[dict[str, Any]]) -> None:
    reply = array.handle('POST', f'/api/v2/{resource}/__bulk', '', _HEADERS,
                         json.dumps(bodies).encode())
    if reply.status != 201:
        raise RuntimeError(reply.body.decode())


def _groups(volumes: int) -> int:
    """Return the number of full groups."""
    return (volumes - _SINGLES) // _PER_GROUP


def _name(number: int) -> str:
    return f'cv-{number:08d}-0000-4000-8000-000000000000'


def _group(number: int) -> str:
    # The first id of a new array is 14.
    return f'/volume_groups/{14 + number}'


class Requests:
    """The requests, on a state with this many volumes."""

    def __init__(self, volumes: int) -> None:
        self._volumes = volumes
        self._groups = _groups(volumes)
        self._made = 0
        self._random = random.Random(1)  # nosec

    def by_id(self) -> bytes:
        """Read a volume by its id."""
        return _get(
            f'/{_FIRST_VOLUME + self._random.randrange(self._volumes)}')

    def by_name(self) -> bytes:
        """Search a volume by its name."""
        return _get(f'?name={_name(self._random.randrange(self._volumes))}')

    def by_reference(self) -> bytes:
        """Search the only volume of a group."""
        return _get('?volume_group.ref='
                    + _group(self._random.randrange(_SINGLES)))

    def by_reference_many(self) -> bytes:
        """Search the 25 volumes of a group."""
        return _get('?volume_group.ref=' + _group(
            _SINGLES + self._random.randrange(self._groups)))

    def page(self) -> bytes:
        """Read a page of 100 volumes."""
        pages = max(1, self._volumes // 100)
        return _get('?__limit=100&__offset='
                    f'{100 * self._random.randrange(pages)}')

    def create(self) -> bytes:
        """Create a volume, in a group that has room."""
        self._made += 1
        group = self._made // _ROOM % _EMPTY
        body = json.dumps({
            'name': f'new-{self._made}', 'size': 2 ** 20, 'volume_group': {
                'ref': _group(_SINGLES + self._groups + group)}}).encode()
        return (f'POST /api/v2/volumes HTTP/1.1\r\n{_HEAD}'
                f'Content-Length: {len(body)}\r\n\r\n').encode() + body


def _repeat(url: str, authority: pathlib.Path, query: str) -> None:
    """Repeat a read on one connection; runs in a separate process."""
    uvloop.run(bench_client.ask(url, authority, _LONGEST_SECONDS,
                                lambda: _get(query), connections=1))


def _get(query: str) -> bytes:
    return f'GET /api/v2/volumes{query} HTTP/1.1\r\n{_HEAD}\r\n'.encode()


@contextlib.contextmanager
def _simulator(path: pathlib.Path) -> Iterator[tuple[Server, float]]:
    """Start k2-sim on a state; also yield its startup time in seconds."""
    password = path / 'password'
    password.write_text('admin')
    begin = time.perf_counter()
    with subprocess.Popen(  # nosec B603
            [sys.executable, '-m', 'k2_sim.cmd.serve', '--listen',
             '127.0.0.1:0', '--state-dir', str(path), '--password-file',
             str(password)], stdout=subprocess.PIPE, text=True) as process:
        try:
            url = next(line for line in process.stdout or ()
                       if ' listens on ' in line).partition(' on ')[2]
            seconds = time.perf_counter() - begin
            yield Server(process.pid, url.partition(',')[0],
                         path / 'ca.crt'), seconds
        finally:
            process.terminate()


@contextlib.contextmanager
def _trivial(path: pathlib.Path) -> Iterator[Server]:
    """Start the same server with a trivial response."""
    context = multiprocessing.get_context('spawn')
    listener = socket.create_server(('127.0.0.1', 0))
    process = context.Process(target=_serve_trivial, args=(path, listener))
    process.start()
    try:
        yield Server(process.pid or 0, 'https://127.0.0.1:'
                     f'{listener.getsockname()[1]}', path / 'ca.crt')
    finally:
        process.terminate()
        process.join()
        listener.close()


def _serve_trivial(path: pathlib.Path, listener: socket.socket) -> None:
    async def answer(scope: Any, receive: Any, send: Any) -> None:
        body = b'{"hits":[],"total":0}'
        await send({'type': 'http.response.start', 'status': 200, 'headers': [
            (b'content-type', b'application/json'),
            (b'content-length', str(len(body)).encode())]})
        await send({'type': 'http.response.body', 'body': body})

    uvicorn.Server(uvicorn.Config(
        answer, log_config=None, access_log=False, server_header=False,
        date_header=False, proxy_headers=False, lifespan='off',
        ssl_certfile=path / 'server.crt',
        ssl_keyfile=path / 'server.key')).run(sockets=[listener])


def _results(path: pathlib.Path, volumes: int, seconds: float
             ) -> Iterator[Result]:
    """Yield each row of the table as soon as it is measured."""
    asked = Requests(volumes)
    with _trivial(path) as server:
        yield server.measure('trivial answer', None, seconds, asked.by_name)
    with _simulator(path) as (server, started):
        yield Result('start', _START_SECONDS, started, 's', is_least=False)
        for name, wanted, source in (
                ('search by name', 5000, asked.by_name),
                ('search by reference, 1 hit', 5000, asked.by_reference),
                ('search by reference, 25 hits', 5000,
                 asked.by_reference_many),
                ('page of 100', 1000, asked.page),
                ('durable create', 2000, asked.create)):
            yield server.measure(name, wanted, seconds, source)
        for name, query in _LONG_READS:
            yield from server.measure_beside(
                f'by id, beside {name}', seconds, asked.by_id, query)
        yield Result('most memory', _MEGABYTES, server.megabytes(), 'MB',
                     is_least=False)


def _snapshots(path: pathlib.Path) -> Iterator[Result]:
    """Yield the rows for snapshots of data that a host changes."""
    reason = bench_snapshots.missing()
    if reason:
        print(f'snapshots of data: not measured, {reason}')
        return
    kind = subprocess.run(  # nosec B603 B607
        ['stat', '--file-system', '--format=%T', path], check=True,
        stdout=subprocess.PIPE, text=True).stdout.strip()
    found = bench_snapshots.measure(path / 'state', _MEBIBYTES)
    yield Result('snapshot of 1 GiB', _WRITE_SECONDS, found.snapshot, 's',
                 is_least=False, note=f'on {kind}, while a host writes')
    yield Result('longest write then', _WRITE_SECONDS, found.write, 's',
                 is_least=False, note=f'otherwise {found.without:.2f} s')
    if found.drawback:
        print(found.drawback)


def main(argv: Sequence[str] | None = None) -> int:
    """Print the table; return the exit status."""
    parser = argparse.ArgumentParser(
        prog='bench_sim', description=(__doc__ or '').partition('\n')[0])
    parser.add_argument(
        '--volumes', type=int, default=10000, metavar='N',
        help='number of volumes on the array (default: 10000)')
    parser.add_argument(
        '--seconds', type=float, default=5.0, metavar='N',
        help='duration of each measurement (default: 5)')
    options = parser.parse_args(argv)
    print(f'{options.volumes} volumes, {bench_client.CONNECTIONS}'
          f' connections over TLS, {os.cpu_count()} CPUs, load'
          f' {os.getloadavg()[0]:.1f}')
    with tempfile.TemporaryDirectory() as name:
        path = pathlib.Path(name)
        _seed(path, options.volumes)
        is_met = True
        for result in itertools.chain(
                _results(path, options.volumes, options.seconds),
                _snapshots(path)):
            print(result.line(), flush=True)
            is_met = is_met and result.is_met
    return 0 if is_met else 1


if __name__ == '__main__':
    sys.exit(main())
