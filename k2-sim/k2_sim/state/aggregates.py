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

"""Sums over all volumes, snapshots and views, updated as rows change.

The summands are stored in the rows: size, and logical_capacity for the data
written. Rolling a change back is also a change, so that the sums always match
the rows.
"""

import dataclasses

from k2_sim.state import schema
from k2_sim.state.schema import Row

VOLUMES, SNAPSHOTS, VIEWS = 'volumes', 'snapshots', 'views'
#: The resource that each sum is over.
RESOURCES = {VOLUMES: 'volumes', SNAPSHOTS: 'volsnaps', VIEWS: 'volsnaps'}
#: Resources that count.
COUNTED = frozenset(RESOURCES.values())


@dataclasses.dataclass
class Sums:
    """The sums over the rows of one kind, in KiB."""

    provisioned: int = 0
    written: int = 0


class Aggregates:
    """Sums updated on each change of a row; CTRL is not counted.

    written: the total data written, in KiB.
    """

    def __init__(self) -> None:
        self._sums = {kind: Sums() for kind in RESOURCES}
        self.written = 0

    def of(self, kind: str) -> Sums:
        """The sums over volumes, snapshots or views, which keep changing."""
        return self._sums[kind]

    def changed(self, resource: schema.Resource, old: Row | None,
                new: Row | None) -> None:
        """Apply a change of a row."""
        if resource.name in COUNTED:
            self._add(resource, old, -1)
            self._add(resource, new, 1)

    def _add(self, resource: schema.Resource, row: Row | None,
             sign: int) -> None:
        kind = None if row is None else _kind(resource, row)
        if row is not None and kind is not None:
            sums = self._sums[kind]
            sums.provisioned += sign * row['size']
            written = sign * int(row.get('logical_capacity', 0))
            sums.written += written
            self.written += written


def _kind(resource: schema.Resource, row: Row) -> str | None:
    if resource.name == 'volumes':
        # CTRL, which belongs to the array, is in no group (VOL-14).
        return VOLUMES if row['volume_group'] is not None else None
    return VIEWS if row['is_exposable'] else SNAPSHOTS
