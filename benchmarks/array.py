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

"""The simulated array, in a process of its own.

It does not share the interpreter with the drivers, so that neither waits
for the other's work.
"""

from collections.abc import Iterator
import contextlib
import os
import socket
import subprocess  # nosec B404
import sys
import time
from typing import Any

import requests

LOGIN = 'admin'
PASSWORD = 'benchmark'  # nosec B105
_PATIENCE = 30.0


class Array:
    """A running ``k2-sim`` and its control API.

    :ivar address, port, authority: where it answers, and who signed its
        certificate (a file)
    """

    def __init__(self, folder: str, port: int) -> None:
        self.address = '127.0.0.1'
        self.port = port
        self.authority = os.path.join(folder, 'ca.crt')
        self._http = requests.Session()
        self._http.trust_env = False
        self._http.auth = (LOGIN, PASSWORD)
        self._http.verify = self.authority

    def set_latency(self, seconds: float) -> None:
        """Let every request take so long."""
        self._call('POST', 'latency', {'seconds': seconds})

    def switch(self, **switches: Any) -> None:
        """Choose how the array behaves where arrays differ."""
        self._call('PATCH', 'switches', switches)

    def clear_journal(self) -> None:
        """Forget the requests so far."""
        self._call('DELETE', 'journal')

    def journal(self) -> tuple[int, int]:
        """Number of requests, and the most that were under way at once."""
        journal = self._call('GET', 'journal')
        return journal['total'], journal['max_in_flight']

    def leftovers(self) -> dict[str, Any]:
        """What users left on the array."""
        left: dict[str, Any] = self._call('GET', 'leftovers')
        return left

    def _call(self, method: str, what: str, body: Any = None) -> Any:
        reply = self._http.request(
            method, f'https://{self.address}:{self.port}/sim/v1/{what}',
            json=body, timeout=_PATIENCE)
        reply.raise_for_status()
        return reply.json() if reply.content else None


@contextlib.contextmanager
def running(folder: str, profile: str) -> Iterator[Array]:
    """Start ``k2-sim`` in a directory; stop it at the end.

    :raises RuntimeError: it does not start; the text has its last words
    """
    port = _free_port()
    secret = os.path.join(folder, 'password')
    with open(secret, 'w', encoding='utf-8') as stream:
        stream.write(f'{PASSWORD}\n')
    log = os.path.join(folder, 'k2-sim.log')
    with open(log, 'w', encoding='utf-8') as stream:
        process = subprocess.Popen(  # nosec B603
            [sys.executable, '-m', 'cinder_k2.cmd.sim',
             '--listen', f'127.0.0.1:{port}', '--state-dir', folder,
             '--profile', profile, '--login', LOGIN,
             '--password-file', secret],
            stdout=stream, stderr=subprocess.STDOUT)
    try:
        yield _when_ready(process, Array(folder, port), log)
    finally:
        process.terminate()
        process.wait(_PATIENCE)


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
