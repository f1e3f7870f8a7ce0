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

"""Portals: the addresses that a data plane listens on."""

import ipaddress
import socket

from k2_sim.data_planes import base

PORT = 3260


def name(address: str) -> str:
    """Address and port, as targets write them."""
    if ipaddress.ip_address(address).version == 6:
        address = f'[{address}]'
    return f'{address}:{PORT}'


def check(address: str) -> None:
    """Check that a target could listen there; targets do not report why not.

    Raises DataPlaneError.
    """
    family = socket.AF_INET6 if ':' in address else socket.AF_INET
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((address, PORT))
            probe.listen()
        except OSError as exc:
            raise base.DataPlaneError(
                f'cannot listen on portal {name(address)}: {exc.strerror};'
                ' give this machine that address, stop the other iSCSI target'
                ' that has it, or begin a new state with other addresses'
                ' (--portal)') from exc
