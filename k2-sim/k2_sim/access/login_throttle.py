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

"""Counts wrong passwords by the address that they come from."""

import collections
import ipaddress
import threading

from k2_sim import clock as clock_module

# How many wrong passwords an address may send without a delay, and the seconds
# in which they are counted.
TRIES = 10
TRIES_SECONDS = 60.0
# The longest delay of the reply to a further one, in seconds.
LONGEST_DELAY = 4.0
# Addresses to keep; the one that failed first is dropped for a further one.
_ADDRESSES = 1000
# Bits of an IPv6 address that its owner cannot choose.
_IPV6_PREFIX = 64


class LoginThrottle:
    """The wrong passwords of each address; thread-safe.

    clock: the array's.
    """

    def __init__(self, clock: clock_module.Clock) -> None:
        self._clock = clock
        self._failures: dict[str, collections.deque[float]] = {}
        self._lock = threading.Lock()

    def is_exhausted(self, address: str) -> bool:
        """Whether an address has used up its wrong passwords for now."""
        with self._lock:
            return self._count(_network(address)) >= TRIES

    def fail(self, address: str) -> float:
        """Count a wrong password.

        Returns the delay of the reply in seconds: 0 for the first TRIES, then
        1, and twice as long for each further one, up to LONGEST_DELAY.
        """
        network = _network(address)
        with self._lock:
            if network not in self._failures:
                if len(self._failures) == _ADDRESSES:
                    del self._failures[next(iter(self._failures))]
                self._failures[network] = collections.deque(
                    maxlen=2 * TRIES)
            self._failures[network].append(self._clock.monotonic())
            beyond = self._count(network) - TRIES
        return min(2.0 ** (beyond - 1), LONGEST_DELAY) if beyond > 0 else 0.0

    def _count(self, network: str) -> int:
        since = self._clock.monotonic() - TRIES_SECONDS
        return sum(at > since for at in self._failures.get(network, ()))


def _network(address: str) -> str:
    """The addresses of one machine: an IPv4 address, or an IPv6 network.

    Any other text is returned as it is.
    """
    try:
        found = ipaddress.ip_address(address.partition('%')[0])
    except ValueError:
        return address
    found = getattr(found, 'ipv4_mapped', None) or found
    if found.version == 4:
        return str(found)
    return str(ipaddress.ip_network((found, _IPV6_PREFIX), strict=False))
