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

"""The settings of one run of `make cloud`, and the paths of its files."""

import argparse
from collections.abc import Mapping
from collections.abc import Sequence
import dataclasses
import pathlib
import socket

from tools.cloud import errors

HOST = '127.0.0.1'
CINDER_PORT = 8776
SIM_PORT = 8443
SECOND_PORT = 8444
PROJECT_ID = 'c10d0000000000000000000000000001'
USER_ID = 'admin'
LOGIN = 'admin'
CONTROL_LOGIN = 'control'
BACKENDS = ('k2-iscsi', 'k2-fc')
# The backend_id of the second array in cinder.conf.
TARGET = 'dr-site'


@dataclasses.dataclass(frozen=True)
class Site:
    """A simulated array: its name, port and state directory."""

    name: str
    port: int
    state: pathlib.Path

    @property
    def ca_file(self) -> pathlib.Path:
        """Certificate of the array's own CA."""
        return self.state / 'ca.crt'

    @property
    def control_file(self) -> pathlib.Path:
        """File in which the array writes the password of its control API."""
        return self.state / f'{CONTROL_LOGIN}.password'

    @property
    def host(self) -> str:
        """Its address, as known to the other array."""
        return f'{HOST}:{self.port}'

    @property
    def url(self) -> str:
        """Its address, without a path."""
        return f'https://{self.host}'


@dataclasses.dataclass(frozen=True)
class Settings:
    """One run: checkout and state directory (absolute), ports and flags.

    :ivar second_port: of the array to replicate to; None without one
    """

    root: pathlib.Path
    state: pathlib.Path
    cinder_port: int
    sim_port: int
    check: bool = False
    keep: bool = False
    second_port: int | None = None

    @property
    def primary(self) -> Site:
        """The array of the back ends."""
        return Site('sim-k2-a', self.sim_port, self.state / 'array')

    @property
    def secondary(self) -> Site | None:
        """The array that the primary replicates to, or None."""
        if self.second_port is None:
            return None
        return Site('sim-k2-b', self.second_port, self.state / 'second')

    @property
    def sites(self) -> list[Site]:
        """The simulated arrays."""
        return [self.primary, *filter(None, [self.secondary])]

    @property
    def ca_file(self) -> pathlib.Path:
        """Certificates of the CAs of all arrays."""
        return self.state / 'arrays.crt'

    @property
    def password_file(self) -> pathlib.Path:
        """File with the password of the arrays, one line."""
        return self.state / 'password'

    @property
    def cinder_conf(self) -> pathlib.Path:
        """The cinder.conf that we write."""
        return self.state / 'etc' / 'cinder.conf'

    @property
    def log_dir(self) -> pathlib.Path:
        """Directory of cinder.log and a log for each array."""
        return self.state / 'log'

    @property
    def cinder_url(self) -> str:
        """Endpoint of the volume API, without the project."""
        return f'http://{HOST}:{self.cinder_port}/v3'


def truth(text: str) -> bool:
    """Parse a boolean environment variable such as CHECK=1."""
    return text.strip().lower() not in ('', '0', 'no', 'false', 'off')


def free_port() -> int:
    """Return a TCP port of the loopback that is free at this moment."""
    with socket.create_server((HOST, 0)) as server:
        port: int = server.getsockname()[1]
        return port


def port_of(environ: Mapping[str, str], variable: str, default: int,
            check: bool) -> int:
    """Return the port from the variable, or else a predictable one.

    A check does not need predictable ports: it uses any free one, so that it
    can run in parallel with a cloud.

    :raises CloudError: the variable holds no port number
    """
    text = environ.get(variable, '').strip()
    if not text:
        return free_port() if check else default
    if text.isdigit() and 0 < int(text) < 65536:
        return int(text)
    raise errors.CloudError(f'{variable}={text} is no port number: use a '
                            'number from 1 to 65535.')


def parse(argv: Sequence[str], environ: Mapping[str, str],
          root: pathlib.Path) -> Settings:
    """Read the command line and, for what is not given, the environment.

    :param root: the checkout; state directories are relative to it
    :raises CloudError: a port is invalid
    """
    parser = argparse.ArgumentParser(
        prog='make cloud', description='A real Cinder on a simulated K2.')
    parser.add_argument('--check', action='store_true',
                        default=truth(environ.get('CHECK', '')))
    parser.add_argument('--keep', action='store_true',
                        default=truth(environ.get('KEEP', '')))
    parser.add_argument('--replication', action='store_true',
                        default=truth(environ.get('REPLICATION', '')))
    parser.add_argument('--state-dir', default=environ.get('STATE_DIR'))
    args = parser.parse_args(argv)
    # Each release has its own database.
    place = '-'.join(['check' if args.check else 'up',
                      *environ.get('RELEASE', '').split()])
    default_dir = f'cloud/{place}'
    return Settings(
        root=root,
        state=(root / (args.state_dir or default_dir)).resolve(),
        cinder_port=port_of(environ, 'PORT', CINDER_PORT, args.check),
        sim_port=port_of(environ, 'SIM_PORT', SIM_PORT, args.check),
        check=args.check, keep=args.keep,
        second_port=port_of(environ, 'SECOND_PORT', SECOND_PORT, args.check)
        if args.replication else None)
