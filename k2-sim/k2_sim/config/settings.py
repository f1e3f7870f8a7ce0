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

"""All settings of a service of a simulated array."""

from collections.abc import Mapping
import dataclasses
import pathlib
from typing import Any

from k2_sim import equipment
from k2_sim.rules import groups

#: Fibre Channel ports on each node.
MOST_FC_PORTS = 32
DATA_PLANES = ('none', 'tgt', 'lio')
#: Objects of each kind that a new state can have from the start.
MOST_OBJECTS = 100_000


class SettingsError(Exception):
    """The settings are invalid; the text is one line for the user."""


@dataclasses.dataclass(frozen=True)
class Account:
    """An account; without a password file its password is generated."""

    login: str
    role: str = 'admin'
    password_file: pathlib.Path | None = None


@dataclasses.dataclass(frozen=True)
class Seed:
    """How many objects a new state has from the start.

    volumes_per_group: volumes that share a volume group; the snapshots go
    to the groups in turn. internal_groups: volume groups that are not for
    users (VG-10).
    """

    volumes: int = 0
    volumes_per_group: int = 1
    hosts: int = 0
    snapshots: int = 0
    internal_groups: int = 0


@dataclasses.dataclass(frozen=True)
class Peers:
    """Arrays to replicate with: their addresses (HOST:PORT) by name.

    login and password_file: the account there. Without a file, the password
    is that of the same login here. ca: the certificates to verify the peers
    with.
    """

    addresses: Mapping[str, str] = dataclasses.field(default_factory=dict)
    login: str = 'admin'
    password_file: pathlib.Path | None = None
    ca: pathlib.Path | None = None


@dataclasses.dataclass(frozen=True)
class Flex:
    """Access through the cloud manager: the id of the array there (CON-3).

    Without a token file the token is generated.
    """

    sdp: str
    role: str = 'admin'
    token_file: pathlib.Path | None = None


@dataclasses.dataclass(frozen=True)
class Settings:
    """One simulated array as a service.

    listen: host and port. size: capacity in KiB. users: the first is the
    array's own account, for its peers, too. latency: seconds. rate_limit:
    requests per second, 0 for none. behaviors: choices that differ from the
    profile's (see profiles.Behaviors). tls_names: further names in the
    certificate. flex: additional access through the cloud manager.
    random_seed: the seed of all random numbers, None for a new one. faults:
    fault rules from the start (see fault_rules.FaultRule). restore: a saved
    state to begin with. data_plane: one of DATA_PLANES; data_plane_required:
    do not start if it cannot run. iscsi: None for addresses that suit the
    data plane. name, size, iscsi, wan, fc_ports and seed apply only to a new
    state.
    """

    state_dir: pathlib.Path | None = None
    listen: tuple[str, int] = ('127.0.0.1', 8443)
    tls: bool = True
    tls_names: tuple[str, ...] = ()
    profile: str = 'sdp'
    name: str = 'sim-k2-a'
    size: int = equipment.CAPACITY_KIB
    iscsi: tuple[equipment.Interface, ...] | None = None
    wan: tuple[equipment.Interface, ...] = equipment.alternate(
        equipment.WAN_ADDRESSES, len(equipment.PORTALS))
    fc_ports: int | tuple[str, ...] = 2
    users: tuple[Account, ...] = (Account('admin'),)
    control: Account = Account('control')
    flex: Flex | None = None
    latency: float = 0.0
    rate_limit: float = 0.0
    behaviors: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    random_seed: int | None = None
    faults: tuple[Mapping[str, Any], ...] = ()
    restore: pathlib.Path | None = None
    seed: Seed = Seed()
    peers: Peers = Peers()
    data_plane: str = DATA_PLANES[0]
    data_plane_required: bool = False

    @property
    def has_data_plane(self) -> bool:
        """Whether volumes are to be served to initiators."""
        return self.data_plane != DATA_PLANES[0]

    @property
    def equipment(self) -> equipment.Equipment:
        """The equipment of a new array."""
        iscsi = self.iscsi
        if iscsi is None:
            iscsi = equipment.alternate(
                equipment.LOCAL_PORTALS if self.has_data_plane
                else equipment.PORTALS)
        return equipment.Equipment(
            self.name, iscsi, self.wan, self.fc_ports, self.size)


def seed_of(counts: Mapping[str, int]) -> Seed:
    """The seed with these counts; raises ValueError if they are invalid."""
    known = [field.name for field in dataclasses.fields(Seed)]
    for kind in counts:
        if kind not in known:
            raise ValueError(f'one of {", ".join(known)}')
        if counts[kind] > MOST_OBJECTS:
            raise ValueError(f'{kind} up to {MOST_OBJECTS}')
    seed = Seed(**counts)
    if not 1 <= seed.volumes_per_group <= groups.VOLUMES_PER_GROUP:
        raise ValueError(
            f'volumes_per_group from 1 to {groups.VOLUMES_PER_GROUP} (VG-7)')
    if seed.snapshots and not seed.volumes:
        raise ValueError('snapshots of some volumes')
    return seed
