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

"""The hosts of an array that were seen lately, cached for a while."""

from cinder_k2.array import cache
from cinder_k2 import rest


class KnownHosts:
    """Hosts that were seen in the last ten minutes, and how they were found.

    Thread-safe. Nothing in it is needed for correctness; see ``cache``.
    """

    def __init__(self, client: rest.Client) -> None:
        self._client = client
        self._cache = cache.Cache()

    def get(self, host: int) -> rest.Host:
        """A host as it was last seen. One call if it was not seen lately.

        :raises NotFound: it is gone
        """
        return self._cache.get(host, lambda: self._client.hosts.get(host))

    def read(self, host: int) -> rest.Host:
        """A host as it is now. One call.

        :raises NotFound: it is gone
        """
        found = self._client.hosts.get(host)
        self._cache.put(host, found)
        return found

    def put(self, host: rest.Host) -> None:
        """Store a host that a call has shown."""
        self._cache.put(host.id, host)

    def drop(self, host: int) -> None:
        """Forget a host that was deleted."""
        self._cache.drop(host)

    def is_registered(self, host: rest.Host) -> bool:
        """Whether a host of that name was seen to have its initiators."""
        return bool(self._cache.peek(('registered', host.id)) == host.name)

    def put_registered(self, host: rest.Host) -> None:
        """Store that a host has its initiators."""
        self._cache.put(('registered', host.id), host.name)

    def similar(self, name: str) -> int | None:
        """The host that was found by a name similar to this one, if any."""
        found: int | None = self._cache.peek(('similar', name))
        return found

    def put_similar(self, name: str, host: int) -> None:
        """Store the host that was found by a name similar to this one."""
        self._cache.put(('similar', name), host)

    def has_former_name(self, initiators: tuple[str, ...]) -> bool:
        """Whether a host was found by a former name (``Sought.former``).

        :param initiators: those of the host that was sought
        """
        return bool(self._cache.peek(('former', initiators)))

    def put_former_name(self, initiators: tuple[str, ...]) -> None:
        """Store that the host with these initiators has a former name."""
        self._cache.put(('former', initiators), True)
