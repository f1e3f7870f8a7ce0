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

"""Files with the names of objects that probes create on an array.

A file exists from before the first write until all its objects are gone, so
that the next probe can remove leftovers of a killed one.
"""

from collections.abc import Iterator
import contextlib
import dataclasses
import fcntl
import json
import os
import pathlib
import secrets
import tempfile

from cinder_k2 import naming

#: Key by which an object is found, by resource, in the order of removal:
#: mappings and clones are removed before all of them.
KEYS = {
    'snapshots': 'short_name', 'volumes': 'name', 'volume_groups': 'name',
    'host_iqns': 'iqn', 'host_fc_ports': 'pwwn',
    'hosts': 'name', 'host_groups': 'name',
    'host_auth_profiles': 'name', 'retention_policies': 'name',
    'vg_capacity_policies': 'name'}
#: Those of the volumes that are clones.
CLONES = ('c1', 'c2', 'c3')
_PARTS = {
    'snapshots': ('w1', 'w2', 'w3', 'd1', 'e1', 's1', 's2', 's3', 's4', 's5',
                  's6', 's7', 'a1', 'b1', 'b2', 'b3', 'b4', 'f1', 'f2'),
    'volumes': (*CLONES, 'v1', 'v2', 'v3', 'v4', 'v5', 'v6', 'u1', 'u2'),
    'volume_groups': ('g1', 'g2', 'g3', 'g4', 'g5', 'g6', 'g7',
                      'g8', 'g9', 'g0', 'q1'),
    'hosts': ('h1', 'h2', 'h3', 'h4', 'h5'),
    'host_groups': ('n1', 'n2'),
    'host_auth_profiles': ('p1', 'p2', 'p3'),
    'retention_policies': ('r1',),
    'vg_capacity_policies': ('y1', 'y2', 'y3')}
#: Resources that an array may lack or not show. The file of a token also has
#: those of them in which the probe has begun to create objects.
BEGUN = ('host_iqns', 'host_fc_ports', 'host_groups', 'host_auth_profiles',
         'vg_capacity_policies')
# Not in the files of earlier versions, which created no such objects.
_LATER = ('host_fc_ports',)
#: Longest name of a volume or group (section 12).
LONGEST = 42


class Damaged(Exception):
    """A file cannot be used, so the objects that it names are not removed."""


class Busy(Exception):
    """Another probe uses the files."""


@dataclasses.dataclass(frozen=True)
class Token:
    """Names that a probe may use.

    :ivar system: id of the array
    :ivar names: by resource, children first
    :ivar begun: those of BEGUN of which objects may have been created
    """

    token: str
    system: str
    names: dict[str, tuple[str, ...]]
    begun: tuple[str, ...] = ()

    def name(self, part: str) -> str:
        """The name of an object of the probe."""
        return naming.probe(self.token, part)


def new(system: str) -> Token:
    """Generate an unused token."""
    token = secrets.token_hex(4)
    names = {resource: tuple(naming.probe(token, part) for part in parts)
             for resource, parts in _PARTS.items()}
    names['volumes'] += (long_name(token), f'{long_name(token)}x')
    names['host_iqns'] = tuple(
        naming.probe_iqn(token, part) for part in ('i1', 'I1', 'i2'))
    names['host_fc_ports'] = (naming.probe_wwpn(token),)
    return Token(token, system, {key: names[key] for key in KEYS})


def long_name(token: str) -> str:
    """A name of the maximum length."""
    return naming.probe(token, 'l').ljust(LONGEST, 'l')


class Tokens:
    """The files in a directory.

    :param directory: created if missing
    """

    def __init__(self, directory: str) -> None:
        self._directory = pathlib.Path(directory)

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """Lock the files against other probes in the context.

        A second probe would remove the objects of the first.

        :raises Busy: another probe has locked them
        :raises OSError: the directory cannot be used
        """
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        with open(self._directory / 'lock', 'w') as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise Busy('another k2-admin probe is running on this '
                           'machine; wait until it ends') from None
            yield

    def save(self, token: Token) -> None:
        """Write a token to disk permanently.

        :raises OSError: that failed
        """
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=self._directory)
        try:
            with open(handle, 'w') as file:
                json.dump(dataclasses.asdict(token), file)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, self._path(token.token))
        except OSError:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise
        self._sync()

    def _sync(self) -> None:
        directory = os.open(self._directory, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)

    def forget(self, token: Token) -> None:
        """Drop a token whose objects are gone."""
        self._path(token.token).unlink(missing_ok=True)

    def of(self, system: str) -> Iterator[Token]:
        """The tokens of one array.

        :raises Damaged: a file is no token
        """
        for path in sorted(self._directory.glob('k2probe-*.json')):
            token = _read(path)
            if token.system == system:
                yield token

    def _path(self, token: str) -> pathlib.Path:
        return self._directory / f'k2probe-{token}.json'


def _read(path: pathlib.Path) -> Token:
    try:
        found = json.loads(path.read_text())
        token = Token(str(found['token']), str(found['system']), {
            resource: tuple(map(str, found['names'][resource]))
            for resource in KEYS
            if resource not in _LATER or resource in found['names']},
            tuple(map(str, found['begun'])))
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise Damaged(f'{path} cannot be read: {error}') from None
    if not all(naming.is_of_probe(name, token.token)
               for names in token.names.values() for name in names):
        raise Damaged(f'{path} has names that no probe uses')
    return token
