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

"""What a data plane exports, and the interface of all data planes."""

from collections.abc import Sequence
import contextlib
import dataclasses
import pathlib
from typing import Protocol

from k2_sim import errors


class DataPlaneError(errors.StateError):
    """The data plane cannot export what it should; the text says why."""


class UnavailableError(DataPlaneError):
    """This machine or user cannot run the data plane."""


@dataclasses.dataclass(frozen=True)
class Account:
    """A CHAP account: the array checks the initiator with it (CHP-1)."""

    username: str
    password: str = dataclasses.field(repr=False)


@dataclasses.dataclass(frozen=True)
class Lun:
    """A file behind a LUN; size: in bytes, serial: its scsi_sn."""

    number: int
    path: pathlib.Path
    size: int
    serial: str
    is_read_only: bool = False


@dataclasses.dataclass(frozen=True)
class Access:
    """What one host sees, from any of its initiators.

    initiators: their IQNs as the array has them. account: the login they need,
    None for no authentication (CHP-2). ports: the names of its Fibre Channel
    ports, as the array has them (INI-4).
    """

    initiators: tuple[str, ...]
    luns: tuple[Lun, ...]
    account: Account | None = None
    ports: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class Exports:
    """Everything an array exports, on port 3260 of its portals (NET-1).

    target: its one IQN (NET-2). vendor and product: the inquiry strings of its
    disks (VOL-15). fc_ports: the names of its Fibre Channel ports;
    known_ports: those of all hosts in its records, mapped or not.
    """

    target: str
    portals: tuple[str, ...]
    vendor: str
    product: str
    hosts: tuple[Access, ...] = ()
    fc_ports: tuple[str, ...] = ()
    known_ports: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class Traffic:
    """Initiators' I/O on a disk: numbers of commands, and bytes.

    serial: the scsi_sn of the disk.
    """

    serial: str
    reads: int
    read_bytes: int
    writes: int
    written_bytes: int


class DataPlane(Protocol):
    """Exports files to initiators. Thread-safe."""

    @property
    def has_fc(self) -> bool:
        """Whether it can export through Fibre Channel as well as iSCSI."""

    @property
    def is_serving(self) -> bool:
        """Whether everything published last is still exported."""

    def publish(self, exports: Exports) -> None:
        """Export exactly this; existing exports are not interrupted.

        Raises DataPlaneError on failure; part of it may be exported then.
        """

    def traffic(self) -> Sequence[Traffic]:
        """Initiators' I/O since the last call.

        Empty if the plane has no counters; raises no DataPlaneError.
        """

    def quiesced(self) -> contextlib.AbstractContextManager[None]:
        """Hold initiators' writes back from the files within the context.

        Writes wait, and none is lost. Raises DataPlaneError if they cannot be
        suspended.
        """

    def close(self) -> None:
        """Stop exporting."""
