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

"""Ending Cinder's management of volumes of the array."""

import typing

from cinder_k2.array import Array
from cinder_k2.driver import locks
from cinder_k2.driver.operations import detach
from cinder_k2.driver.operations import replication
from cinder_k2.driver.operations import resolver
from cinder_k2 import naming

#: Status of a row whose volume could not be managed, during its removal.
FAILED = 'error_managing_deleting'


class Unmanaging:
    """Unmanages volumes, which stay on the array, and restores their names.

    :param configuration: the options of the back end
    """

    def __init__(self, array: Array, known: resolver.Resolver,
                 detaching: detach.Detach,
                 sessions: replication.Replication,
                 configuration: typing.Any) -> None:
        self._array = array
        self._resolver = known
        self._detach = detaching
        self._replication = sessions
        self._configuration = configuration

    def unmanage(self, volume: typing.Any) -> None:
        """Stop managing a volume; it stays on the array.

        With k2_unmanage_restores_names it gets its original name back, in up
        to four calls, if it had one; otherwise it keeps Cinder's. Its mappings
        stay, except for those that a detach kept.

        :raises ObjectInUse: it is being flattened, which would continue
            without a row
        """
        with self._resolver.held(volume):
            self._detach.release(volume)
            if self._configuration.k2_unmanage_restores_names:
                self._give_names_back(volume)

    def end(self, volume: typing.Any) -> None:
        """Clean up a volume that was never managed completely.

        The part of its replication that exists is ended.
        """
        if self._resolver.may_be_replicated(volume):
            found = self._array.volumes.find(naming.volume(volume.name_id))
            if found is not None:
                self._replication.unprotect(volume, found, volume.name_id)
        self._give_names_back(volume)

    def _give_names_back(self, volume: typing.Any) -> None:
        backing = self._resolver.known(volume) or self._array.volumes.find(
            naming.volume(volume.name_id))
        with locks.group_on(self._array, backing.group if backing else 0):
            self._array.original_names.restore(
                naming.volume(volume.name_id),
                naming.volume_group(volume.name_id))
