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

"""From Cinder's rows to the array's objects."""

import contextlib
import typing

from cinder_k2.array import Array
from cinder_k2.array import Backing
from cinder_k2.array import SnapshotBacking
from cinder_k2.driver import provider
from cinder_k2 import exceptions
from cinder_k2 import naming

ModelUpdate = dict[str, typing.Any]


class LookupMixin:
    """Finds what stands behind a volume or a snapshot.

    By the ids in its row, which costs no call; else by its name.
    """

    _array: Array

    def deadline(self, *, fresh: bool = False
                 ) -> contextlib.AbstractContextManager[object]:
        """One deadline, k2_retry_timeout, for all calls to the array inside.

        A fresh one counts from now: waiting for a lock is not the array's
        doing.
        """
        return self._array.deadline(fresh=fresh)

    def _ids(self, made: Backing | SnapshotBacking) -> ModelUpdate:
        """The update for the row of what was made."""
        return {'provider_id': provider.dump(self._array.system.id, made)}

    def _known_backing(self, volume: typing.Any) -> Backing | None:
        return provider.load(Backing, self._array.system.id,
                             volume.provider_id)

    def _known_snapshot(self, snapshot: typing.Any) -> SnapshotBacking | None:
        return provider.load(SnapshotBacking, self._array.system.id,
                             snapshot.provider_id)

    def _backing(self, volume: typing.Any) -> Backing:
        """What backs a volume.

        :raises ObjectMissing: the array has nothing of its name
        """
        names = [naming.volume(name) for name in self._name_ids(volume)]
        found = (self._known_backing(volume)
                 or self._array.volumes.find(*names))
        if found is None:
            raise exceptions.ObjectMissing(
                f'The array at {self._array.address} has no volume or view '
                f'{names[0]}.')
        return found

    def _name_ids(self, volume: typing.Any) -> list[str]:
        """The ids that may stand in the names of a volume's objects.

        The driver inside Cinder, which leaves provider_id empty, gives a
        migrated volume the name of its id, though Cinder notes another. But
        of a volume that is deleted at the end of a migration, the id is the
        name of the data that stays.
        """
        ids = [volume.name_id]
        if (not volume.provider_id and volume.id != volume.name_id
                and volume.migration_status != 'deleting'):
            ids.append(volume.id)
        return ids

    def _snapshot_backing(self, snapshot: typing.Any) -> SnapshotBacking:
        """What backs a snapshot.

        :raises ObjectMissing: the array has nothing of its name
        """
        name = naming.snapshot(snapshot.id)
        found = (self._known_snapshot(snapshot)
                 or self._array.snapshots.find(name))
        if found is None:
            raise exceptions.ObjectMissing(
                f'The array at {self._array.address} has no snapshot '
                f'{name}.')
        return found
