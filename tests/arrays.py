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

"""Simulated arrays behind HTTPS, and their administrator."""

import atexit
import base64
import datetime
import functools
import itertools
import json
import shutil
import tempfile
from typing import Any
from typing import cast
import unittest
import urllib.parse

import k2_sim
from k2_sim.adapters import tls

from tests import array_process
from tests import disk_files
from tools.cloud import threads

LOGIN = 'openstack'
# A string that appears in no log line by chance.
PASSWORD = 'Kx7-secret-of-the-array'
# All permissions that the driver may need; every test proves that they
# suffice.
ROLE = 'mgmt-app'
TOKEN = base64.b64encode(f'{LOGIN}:{PASSWORD}'.encode()).decode()
SECRETS = (PASSWORD, TOKEN)
# The behaviors that require less of the driver; tests of the strict ones
# change them.
_BEHAVIORS = {'clones_movable': True, 'grow_suspended': True}
# An administrator, for whom the array refuses nothing (refuse_unlisted).
_ADMIN = k2_sim.User('administrator', 'their-own-password', 'root')
# A user who may not change anything.
VIEWER = k2_sim.User('viewer', 'what-viewers-know', 'read-only')
_ADMIN_TOKEN = base64.b64encode(
    f'{_ADMIN.login}:{_ADMIN.password}'.encode()).decode()


class Admin:
    """Another client of the same array."""

    def __init__(self, array: Any) -> None:
        self._array = array
        self._headers = {'Authorization': f'Basic {_ADMIN_TOKEN}',
                         'Content-Type': 'application/json'}

    def call(self, method: str, path: str, body: Any = None, **query: Any
             ) -> Any:
        """Send a request; return the parsed reply, None if it is empty.

        :raises AssertionError: the status is not 2xx
        """
        reply = self._array.handle(
            method, f'/api/v2/{path}', urllib.parse.urlencode(query),
            self._headers, json.dumps(body).encode() if body else b'')
        if not 200 <= reply.status < 300:
            raise AssertionError(f'{method} {path}: {reply.status} '
                                 f'{reply.body!r}')
        return json.loads(reply.body) if reply.body else None

    def create(self, resource: str, **fields: Any) -> Any:
        """Create an object."""
        return self.call('POST', resource, fields)

    def update(self, resource: str, key: int, **fields: Any) -> Any:
        """Change an object."""
        return self.call('PATCH', f'{resource}/{key}', fields)

    def delete(self, resource: str, key: int) -> None:
        """Remove an object."""
        self.call('DELETE', f'{resource}/{key}')

    def list(self, resource: str, **query: Any) -> Any:
        """Return all objects of a resource that meet the conditions."""
        return self.call('GET', resource, __limit=9999, **query)['hits']


class Served:
    """An array behind a TLS server on the loopback interface.

    Tests use ``start``, which knows where an array can run.

    ``address``, ``port`` and ``authority`` (a file) are what a back end
    needs to reach it.
    """

    def __init__(self, profile: str, name: str = '') -> None:
        self.array = k2_sim.Array(
            profile, name=name or f'sim-{profile}', seed=1, login=LOGIN,
            password=PASSWORD, role=ROLE, users=[_ADMIN, VIEWER],
            behaviors=_BEHAVIORS)
        self.profile = profile
        self.control = self.array.control
        self.admin = Admin(self.array)
        self.disk_files = disk_files.DiskFiles(self.array)
        self.authority = str(certificate().authority_path)
        self._others: dict[int, k2_sim.Server] = {}
        self._server = k2_sim.Server(self.array, certificate())
        self._server.start()
        self.address = self._server.host
        self.port = self._server.port

    def options(self) -> dict[str, Any]:
        """Return the options of a back end that verifies this array."""
        return {'san_login': LOGIN, 'san_password': PASSWORD,
                'driver_ssl_cert_verify': True,
                'driver_ssl_cert_path': self.authority}

    @property
    def host(self) -> str:
        """Address and port of the array, for peers."""
        return f'{self.address}:{self.port}'

    def stop(self) -> None:
        """Stop the server, and close the array."""
        self._server.stop()
        self.array.close()

    def listen(self, host: str = '127.0.0.1', *, has_tls: bool = True,
               has_expired: bool = False) -> int:
        """Answer on another port, too; return it.

        :param has_tls: whether it speaks HTTPS; otherwise HTTP
        :param has_expired: whether its certificate has expired
        """
        server = k2_sim.Server(self.array, _certificate(
            has_expired) if has_tls else None, host=host)
        server.start()
        self._others[server.port] = server
        return server.port

    def stop_listening(self, port: int) -> None:
        """Close what ``listen`` has opened."""
        self._others.pop(port).stop()

    def is_clean(self) -> bool:
        """Return whether the array has no objects of users."""
        return not self.control.leftovers()

    def time(self) -> float:
        """Return the time of the array's clock, in seconds since 1970."""
        return self.array.clock.time()

    def rows(self, resource: str) -> list[dict[str, Any]]:
        """Return all objects of a resource, also with secret fields."""
        return [dict(row) for row in self.array.store.rows(resource)]

    def row_at(self, ref: str) -> dict[str, Any]:
        """Return one object by its reference, also with secret fields."""
        return dict(self.array.store.at(ref))

    def set_fields(self, resource: str, key: int, **fields: Any
                   ) -> dict[str, Any]:
        """Set fields that only the array can set; return the old values."""
        with self.array.lock, self.array.store.transaction():
            before = self.array.store.get(resource, key)
            if before is None:
                return {}
            self.array.store.update(resource, key, **fields)
            return {name: before.get(name) for name in fields}


@functools.cache
def certificate() -> tls.Certificate:
    """Return a certificate for this machine, and its authority."""
    return tls.ensure(folder(), ())


def _certificate(has_expired: bool) -> tls.Certificate:
    """Return the same certificate, or one that expired long ago."""
    if not has_expired:
        return certificate()
    files = certificate().authority_path
    return tls.issue(
        tls.Authority(files, files.with_suffix('.key')), (), folder(),
        start=datetime.datetime(2020, 1, 1, tzinfo=datetime.timezone.utc),
        days=7)


def folder() -> str:
    """Return a new directory, which is removed when the process ends."""
    path = tempfile.mkdtemp(prefix='cinder-k2-tls-')
    atexit.register(shutil.rmtree, path, ignore_errors=True)
    return path


# For tests that replace a part of an array.
in_this_process = unittest.skipIf(
    threads.are_patched(),
    'under eventlet, the array is in another process')

_served: dict[str, Served] = {}
_pairs: dict[str, tuple[Served, Served]] = {}


@functools.cache
def _process() -> array_process.ArrayProcess:
    """Return the process of the arrays, if they cannot be in ours."""
    return array_process.ArrayProcess()


def start(profile: str, name: str = '') -> Served:
    """Start an array, in another process if ours is patched by eventlet."""
    if threads.are_patched():
        return cast(Served, _process().start(profile, name))
    return Served(profile, name)


def connect(first: Served, second: Served | None = None) -> None:
    """Let two arrays replicate to each other, or one to itself."""
    if threads.are_patched():
        _process().connect(*[one for one in (first, second) if one])
    elif second is None:
        k2_sim.connect(first.array)
    else:
        k2_sim.connect(first.array, second.array,
                       hosts=(first.host, second.host))


def served(profile: str) -> Served:
    """Return the shared array of a profile, started on first use."""
    if profile not in _served:
        _served[profile] = start(profile)
    return _served[profile]


def pair(profile: str) -> tuple[Served, Served]:
    """Return the two shared arrays of a profile that replicate both ways."""
    if profile not in _pairs:
        first, second = (start(profile, f'sim-{profile}-{letter}')
                         for letter in 'ab')
        connect(first, second)
        _pairs[profile] = first, second
    return _pairs[profile]


def give_up() -> list[Served]:
    """Discard the shared arrays, and return them; they are not stopped."""
    old = [*_served.values(), *itertools.chain(*_pairs.values())]
    _served.clear()
    _pairs.clear()
    return old


def give_up_pair(profile: str) -> tuple[Served, Served]:
    """Discard the shared pair of a profile, and return it."""
    return _pairs.pop(profile)
