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

"""Names of disks and initiators, the same on every data plane."""

from collections.abc import Iterable

from k2_sim.data_planes import base

#: The revision that disks report.
REVISION = '1.0'
#: MaxRecvDataSegmentLength: what initiators may write in one PDU, in bytes.
#: The default of the targets, 8 KiB, would split that into thirty-two PDUs.
SEGMENT = 256 * 1024
#: The vendor's IEEE OUI, six hexadecimal digits.
COMPANY = '0024f4'
_TYPE = '6'
_DIGITS = 32


def extension(serial: str) -> str:
    """The vendor-specific part of a disk's identifier."""
    return serial.rjust(_DIGITS - len(_TYPE + COMPANY), '0')


def wwid(serial: str) -> str:
    """The NAA identifier of a disk: 32 digits, scsi_sn at the end (VOL-15)."""
    return f'{_TYPE}{COMPANY}{extension(serial)}'


def spellings(initiators: Iterable[str]) -> set[str]:
    """Names as given, and as initiators send them.

    Targets compare case-sensitively, the array does not (INI-5); on the wire,
    names are in lower case (RFC 3722).
    """
    given = set(initiators)
    return given | {name.lower() for name in given}


def allowed(hosts: Iterable[base.Access]) -> set[str]:
    """The initiators that may log in, in each spelling."""
    return spellings(name for host in hosts for name in host.initiators)
