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

"""Checks whether a machine reaches the target ports of an array."""

from concurrent import futures
import contextlib
import re

import array_check
import backend as backends
import machine as machines

_PORTAL = re.compile(r'(\[[0-9A-Fa-f:.]+\]|[^\s:]+):[0-9]{1,5}')
_SECONDS = 2.0
_MOST_AT_ONCE = 16
_INITIATORS = '/sys/class/fc_host'
_NO_INITIATOR = 'none: this unit has no Fibre Channel adapter'


def of_backend(machine: machines.Machine, one: array_check.BackendReport
               ) -> str:
    """Describe the target ports of a back end and the paths to them."""
    if one.protocol == backends.FC:
        lines = [f'target {port["address"]}: '
                 f'{"down" if port["up"] is False else "up"} on the array'
                 for port in one.ports]
        lines += [f'initiator {name}' for name in initiators(machine)
                  or [_NO_INITIATOR]]
    else:
        lines = tcp(machine, [port['address'] for port in one.ports])
    return '\n'.join([f'{one.name}:', *(f'  {line}' for line in lines)])


def tcp(machine: machines.Machine, portals: list[str]) -> list[str]:
    """Connect to portals in parallel.

    :param portals: as host:port; an IPv6 address in brackets
    :returns: a line for each
    :raises machine.Failed: one of them is not a valid portal
    """
    for portal in portals:
        if not _PORTAL.fullmatch(portal):
            raise machines.Failed(f'{portal} is not a portal; use '
                                  'address:port, such as 10.0.0.6:3260')
    with futures.ThreadPoolExecutor(_MOST_AT_ONCE) as pool:
        reached = pool.map(lambda portal: _reaches(machine, portal), portals)
        return [f'portal {portal}: '
                + ('reached' if ok else 'NOT reached; check network, routes '
                                        'and iscsi-cidrs')
                for portal, ok in zip(portals, reached, strict=True)]


def initiators(machine: machines.Machine) -> list[str]:
    """Return the WWPNs of this machine's Fibre Channel adapters."""
    found = []
    for path in sorted(machine.path(_INITIATORS).glob('*/port_name')):
        # An adapter may disappear, or fail to answer.
        with contextlib.suppress(OSError):
            found.append(path.read_text().strip().removeprefix('0x'))
    return found


def _reaches(machine: machines.Machine, portal: str) -> bool:
    host, _, port = portal.rpartition(':')
    return machine.connects(host.strip('[]'), int(port), _SECONDS)
