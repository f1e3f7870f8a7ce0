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

"""Mappings that detaches left in place for other attachments.

They are only a hint, in the memory of this process, for ``reconciliation``:
what needs a mapping is read from Cinder's rows.
"""

import dataclasses

from cinder_k2.array import host_identity
from cinder_k2 import rest


@dataclasses.dataclass(frozen=True)
class Mapping:
    """A volume that stayed mapped to a host.

    :ivar volume_id: Cinder's id of it
    :ivar mappable: the mapped object: after a migration the row may have other
        data
    """

    volume_id: str
    mappable: rest.Ref
    host: host_identity.Sought

    @property
    def initiators(self) -> list[str]:
        """The initiators of the host."""
        return list(self.host.initiators)


class Kept:
    """The mappings that were kept on one array.

    Thread-safe: all operations on the set are atomic.
    """

    def __init__(self) -> None:
        self._mappings: set[Mapping] = set()

    def add(self, mapping: Mapping) -> None:
        """Record a mapping that stays."""
        self._mappings.add(mapping)

    def drop(self, mapping: Mapping) -> None:
        """Drop a mapping, if it is known."""
        self._mappings.discard(mapping)

    def every(self) -> list[Mapping]:
        """All kept mappings."""
        return list(self._mappings)

    def of(self, mappable: rest.Ref) -> list[Mapping]:
        """Mappings of a volume or view of the array."""
        return [one for one in self.every() if one.mappable == mappable]
