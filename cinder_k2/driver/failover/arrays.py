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
"""The arrays of one back end, and the volumes on each."""

from collections.abc import Collection
from collections.abc import Mapping
from collections.abc import Sequence
import typing


from cinder_k2.array import Array
from cinder_k2.driver import config
from cinder_k2.driver.db import provider_id
from cinder_k2.driver.db import statuses
from cinder_k2 import exceptions
from cinder_k2 import rest


class OneArray(typing.Protocol):
    """The attributes of an array that are used here."""

    @property
    def array(self) -> Array:
        """The array."""


_FAILED_OVER = statuses.Replication.FAILED_OVER

S = typing.TypeVar('S', bound=OneArray)


class ArraySet(typing.Generic[S]):
    """The configured array, and those it is replicated to.

    :param primary: the array of the back end's own options
    :param targets: replication targets by backend_id
    :param active: backend_id of the active one; None, empty or "default" for
        the primary
    :raises KeyError: there is no such target
    """

    def __init__(self, primary: S, targets: Mapping[str, S],
                 active: str | None) -> None:
        self._by_id = {config.PRIMARY_ID: primary, **targets}
        self.activate(active)

    def activate(self, backend_id: str | None) -> None:
        """Make an array the active one.

        :raises KeyError: there is no such target
        """
        wanted = backend_id or config.PRIMARY_ID
        self._by_id[wanted]
        self.active_id = wanted

    @property
    def active(self) -> S:
        """The array for new volumes, and for rows that do not name another."""
        return self._by_id[self.active_id]

    @property
    def targets(self) -> list[str]:
        """The backend_id of every replication target."""
        return [name for name in self._by_id if name != config.PRIMARY_ID]

    def named(self, backend_id: str) -> S:
        """An array by its backend_id, the primary by "default".

        :raises KeyError: there is no such target
        """
        return self._by_id[backend_id]

    def others(self, those: Collection[S]) -> list[S]:
        """All arrays but those."""
        return [one for one in self._by_id.values() if one not in those]

    def of(self, row: typing.Any) -> S:
        """The array that has a volume or snapshot.

        Decided by the system id in its row. A snapshot without ids is where
        its volume is. Arrays are asked for their system ids only if none that
        is known already matches. If none matches at all, it is the active one.

        :raises RestError: an array that may have it does not reply
        """
        system = provider_id.system_of(row.provider_id)
        if system is None:
            volume = getattr(row, 'volume', None)
            return (self._without_ids(row) if volume is None
                    else self.of(volume))
        if len(self._by_id) == 1:
            return self.active
        ordered = [self.active, *(one for name, one in self._by_id.items()
                                  if name != self.active_id)]
        known = next((one for one in ordered
                      if one.array.system.known_id == system), None)
        return known or self._ask(ordered, system)

    def _without_ids(self, volume: typing.Any) -> S:
        """The array that has a volume whose row has no ids.

        The in-tree driver creates all volumes on the primary, whichever array
        is active. A volume that does not exist yet will be on the active one.
        """
        made_on_primary = (volume.launched_at is not None
                           and volume.replication_status != _FAILED_OVER)
        return (self._by_id[config.PRIMARY_ID] if made_on_primary
                else self.active)

    def _ask(self, ordered: Sequence[S], system: str) -> S:
        """Find an array by its system id; the active one if none has it.

        :raises RestError: none has it, and one does not reply
        """
        lost: list[rest.RestError] = []
        for one in ordered:
            try:
                if one.array.system.id == system:
                    return one
            except rest.RestError as error:
                lost.append(error)
        if lost:
            raise lost[0]
        return self.active

    def with_source(self, row: typing.Any) -> S:
        """The active array, for an object made from a row.

        :raises ArrayNotActive: another array has the row
        """
        one = self.of(row)
        if one is not self.active:
            raise exceptions.ArrayNotActive(
                f'{row.id} is on the array at {one.array.address}, while '
                f'the one at {self.active.array.address} serves; fail the '
                'back end over to that array, or back, first.')
        return one
