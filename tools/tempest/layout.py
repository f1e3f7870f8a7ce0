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
"""Addresses, ports and files of a run."""

import dataclasses
import pathlib

#: The two ends of the network link between this machine and the guest.
HOST, GUEST, PREFIX = '10.99.0.1', '10.99.0.2', 24
TAP = 'tap0'
KEYSTONE, GLANCE, CINDER, NEUTRON = 5000, 9292, 8776, 9696
DATABASE, BROKER = 3306, 5672
REGION = 'RegionOne'
#: The name of the administrator, who sets up everything, and of its project.
ADMIN = 'admin'


@dataclasses.dataclass(frozen=True)
class Array:
    """A simulated array, and the back end on it."""

    name: str
    port: int
    portals: tuple[str, str]

    @property
    def address(self) -> str:
        """Its address, as known to the other array and Cinder."""
        return f'{HOST}:{self.port}'


#: The first one replicates to the second one.
ARRAYS = (Array('k2-a', 8443, ('10.99.0.11', '10.99.0.12')),
          Array('k2-b', 8444, ('10.99.0.21', '10.99.0.22')))


@dataclasses.dataclass(frozen=True)
class Layout:
    """One run.

    :ivar state: a directory that is removed after the run
    :ivar logs: a directory that is kept
    :ivar secret: the password of all accounts
    """

    state: pathlib.Path
    logs: pathlib.Path
    secret: str = dataclasses.field(repr=False)

    @property
    def etc(self) -> pathlib.Path:
        """The directory of all files with settings."""
        return self.state / 'etc'

    @property
    def cinder_conf(self) -> pathlib.Path:
        """The file that Cinder's services read, here and in the guest."""
        return self.etc / 'cinder.conf'

    @property
    def keystone_conf(self) -> pathlib.Path:
        """The file that keystone reads."""
        return self.etc / 'keystone.conf'

    @property
    def glance_conf(self) -> pathlib.Path:
        """The file that glance reads."""
        return self.etc / 'glance-api.conf'

    @property
    def password_file(self) -> pathlib.Path:
        """A file with only the password, for the arrays."""
        return self.etc / 'password'

    def array_state(self, array: Array) -> pathlib.Path:
        """Return the state directory of an array."""
        return self.state / array.name

    def authority(self, array: Array) -> pathlib.Path:
        """Return the file with the certificate of an array's CA."""
        return self.array_state(array) / 'ca.crt'

    @property
    def authorities(self) -> pathlib.Path:
        """The file with the CA certificates of all arrays."""
        return self.etc / 'arrays.crt'

    def database_url(self, service: str) -> str:
        """Return the URL of a service's database, with the password."""
        return (f'mysql+pymysql://{service}:{self.secret}@{HOST}:{DATABASE}/'
                f'{service}?charset=utf8')


def url(port: int, path: str = '') -> str:
    """Return the address of a service."""
    return f'http://{HOST}:{port}{path}'
