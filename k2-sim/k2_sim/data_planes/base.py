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

"""What a data plane serves, and what every data plane can do."""

from collections.abc import Sequence
import contextlib
import dataclasses
import pathlib
from typing import Protocol

from k2_sim import errors


class DataPlaneError(errors.StateError):
    """The data plane cannot serve what it should; the text says why."""


class UnavailableError(DataPlaneError):
    """This machine or user cannot have the data plane."""


@dataclasses.dataclass(frozen=True)
class Account:
    """A CHAP account: the array checks the initiator with it (CHP-1)."""

    username: str
    password: str = dataclasses.field(repr=False)


@dataclasses.dataclass(frozen=True)
class Lun:
    """A file of so many bytes under a LUN; serial is its scsi_sn."""

    number: int
    path: pathlib.Path
    size: int
    serial: str
    is_read_only: bool = False


@dataclasses.dataclass(frozen=True)
class Access:
    """What one host sees, from any of its initiators.

    initiators: their IQNs as the array has them. account: what they must
    log in with, None for nothing (CHP-2). ports: the names of those that
    are Fibre Channel ports, as the array has them (INI-4).
    """

    initiators: tuple[str, ...]
    luns: tuple[Lun, ...]
    account: Account | None = None
    ports: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class Exports:
    """All that an array serves, on port 3260 of its portals (NET-1).

    target: its one IQN (NET-2). vendor and product: what its disks say
    they are (VOL-15). fc_ports: the names of its Fibre Channel ports;
    known_ports: those of all hosts' that it knows, whatever they see.
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
    """What initiators have done with a disk: commands, and their bytes.

    serial: of the disk, its scsi_sn.
    """

    serial: str
    reads: int
    read_bytes: int
    writes: int
    written_bytes: int


class DataPlane(Protocol):
    """Serves files to initiators. Safe for threads."""

    @property
    def has_fc(self) -> bool:
        """Whether it serves Fibre Channel ports; without it, iSCSI alone."""

    @property
    def is_serving(self) -> bool:
        """Whether what was published last is still served."""

    def publish(self, exports: Exports) -> None:
        """Serve just this; what is served already goes on undisturbed.

        Raises DataPlaneError when it cannot; some of it may be served then.
        """

    def traffic(self) -> Sequence[Traffic]:
        """What initiators have done since the last call.

        Nothing if the plane cannot tell; raises no DataPlaneError.
        """

    def quiesced(self) -> contextlib.AbstractContextManager[None]:
        """Inside, no initiator's write reaches a file.

        Writes wait, and none is lost. Raises DataPlaneError if they cannot be
        held up.
        """

    def close(self) -> None:
        """Serve nothing any more."""
