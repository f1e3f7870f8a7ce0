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

"""Resolving Cinder's rows to the array's objects."""

from collections.abc import Callable
from collections.abc import Collection
from collections.abc import Iterator
from collections.abc import Mapping
import contextlib
import dataclasses
import datetime
import typing

from cinder_k2.array import Array
from cinder_k2.array import ArraySnapshot
from cinder_k2.array import ArrayVolume
from cinder_k2.array import SourceNames
from cinder_k2.driver.db import provider_id
from cinder_k2.driver.db import statuses
from cinder_k2.driver.db import writes
from cinder_k2.driver import locks
from cinder_k2 import exceptions
from cinder_k2 import naming
from cinder_k2 import volume_types

ModelUpdate = dict[str, typing.Any]

F = typing.TypeVar('F')
T = typing.TypeVar('T', ArrayVolume, ArraySnapshot)

_ATTEMPTS = 5
#: Cinder's statuses of volumes and groups that are not replicated.
UNREPLICATED = (None, statuses.Replication.DISABLED,
                statuses.Replication.NOT_CAPABLE)


@dataclasses.dataclass(frozen=True)
class Peer:
    """Another array, as seen by one array.

    :ivar backend_id: its name in Cinder
    :ivar address: the address that the two use for each other
    :ivar rpo: seconds, unless a volume type specifies another
    :ivar release: unmaps volumes there, by their ids, from the hosts that this
        driver created
    :ivar leave: releases what volumes there were made from, by their rows,
        once these volumes are deleted there
    """

    backend_id: str
    array: Array
    address: str
    rpo: int
    release: Callable[[Collection[int]], None]
    leave: Callable[[Collection[typing.Any]], None]


class Resolver:
    """Finds the array's objects for a volume or a snapshot.

    By the ids in its row, which costs no call; else by its name.

    :param peers: by backend_id, the default target first; empty without
        replication_device
    """

    def __init__(self, array: Array, peers: Mapping[str, Peer]) -> None:
        self._array = array
        self.peers = peers

    def ids(self, made: ArrayVolume | ArraySnapshot,
            name_id: str = '') -> ModelUpdate:
        """The update for the row of a created object.

        Uses a fresh deadline: creating the object may have used up the first.

        :param name_id: that of the row, if it is a volume's
        """
        with self._array.deadline(fresh=True):
            return {'provider_id': provider_id.encode(
                self._array.system.id, made, name_id)}

    def note(self, volume: typing.Any, backing: ArrayVolume,
             **changes: typing.Any) -> None:
        """Change the array volume in a row.

        Another service may mark it as having clones meanwhile; that mark
        stays.

        :param changes: fields of ``backing`` with their new values
        :raises ConcurrentUpdate: the row keeps changing
        """
        def change(known: ArrayVolume | None) -> ArrayVolume:
            cloned = backing.has_clones or (known and known.has_clones)
            return dataclasses.replace(backing, has_clones=bool(cloned),
                                       **changes)
        self.rewrite(volume, self.known, change)

    def rewrite(self, row: typing.Any, find: Callable[[typing.Any], F],
                change: Callable[[F], T]) -> T:
        """Compare and swap the array volume in a row.

        :param find: returns the current array volume, given the current row
        :param change: returns the new one; the same for no change
        :returns: the new one
        :raises ConcurrentUpdate: other operations keep changing the row
        :raises ArrayNotActive: it was failed over or back meanwhile
        """
        for _ in range(_ATTEMPTS):
            found = find(row)
            wanted = change(found)
            # Snapshots have no name_id.
            ids = self.ids(wanted, getattr(row, 'name_id', ''))
            if wanted == found or writes.set_if_unmoved(
                    row, ids):
                return wanted
            row.refresh()
            self.check_here(row)
        raise exceptions.ConcurrentUpdate(
            f'The row of {row.id} changes all the time; try again.')

    @contextlib.contextmanager
    def held(self, volume: typing.Any, timeout: float | None = None
             ) -> Iterator[None]:
        """Keep a volume from being flattened, and update its row.

        Flattening replaces a view, and deletes it, so an operation that maps,
        unmaps, changes or deletes one locks it out. A volume of the array is
        never replaced: it is neither locked nor read again. No call; the
        array's deadline begins when it is locked.

        :param timeout: as for ``locks.flattening``
        :raises ObjectInUse: it is being flattened
        """
        known = self.known(volume)
        if known is not None and known.view is None:
            yield
            return
        with locks.flattening(volume.id, timeout), \
                self._array.deadline(fresh=True):
            writes.renew(volume)
            yield

    def known(self, volume: typing.Any) -> ArrayVolume | None:
        """The array volume, by the row alone; None if it has no ids."""
        return provider_id.decode(ArrayVolume, self._array.system.id,
                                  volume.provider_id, volume.name_id)

    def check_free(self, volume: typing.Any) -> None:
        """Check that a volume is not being moved to another array.

        :raises ObjectInUse: it is; what is written now would be lost
        """
        known = self.known(volume)
        if known is not None and known.failback_in_progress:
            raise exceptions.ObjectInUse(
                f'Volume {volume.id}', 'is being failed back. If a failback '
                "was interrupted, run 'cinder failover-host --backend_id "
                "default' again.")

    def known_snapshot(self, snapshot: typing.Any) -> ArraySnapshot | None:
        """The array snapshot, by the row alone; None if it has no ids."""
        found = provider_id.decode(ArraySnapshot, self._array.system.id,
                                   snapshot.provider_id)
        if found is not None and found.named:
            found = dataclasses.replace(
                found, source=self._source_names(snapshot.volume))
        if found is None or snapshot.created_at is None:
            return found
        return dataclasses.replace(
            found, since=snapshot.created_at.replace(
                tzinfo=datetime.timezone.utc).timestamp())

    def _source_names(self, volume: typing.Any) -> SourceNames:
        """Names of a volume and its group, here or failed over."""
        groups = [naming.volume_group(id)
                  for id in (volume.name_id, volume.id)]
        if volume.group_id is not None:
            groups.append(naming.consistency_group(volume.group_id))
        return SourceNames(
            volumes=tuple(self.names_of(volume, self.known(volume))),
            groups=(*groups, *map(naming.peer, groups)))

    def check_here(self, row: typing.Any) -> None:
        """Check by its row that no other array has a volume or snapshot.

        Otherwise an object with its name here may be an older copy.

        :raises ArrayNotActive: another one of this back end has it, or one
            that is no longer in cinder.conf
        """
        system = provider_id.system_of(row.provider_id)
        if system in (None, self._array.system.id):
            return
        others = {peer.array.system.known_id for peer in self.peers.values()}
        found = provider_id.decode(ArrayVolume, system, row.provider_id,
                                   getattr(row, 'name_id', ''))
        if system in others or found is not None and found.replicated:
            raise exceptions.ArrayNotActive(
                f'{row.id} is on the array with system id {system}, not on '
                f'that at {self._array.address}. If it was failed over, or '
                'back, meanwhile, try again. If that array does not serve, '
                'fail over, or back, to it first. If its replication_device '
                'is gone from cinder.conf, put it back.')

    def resolve(self, volume: typing.Any) -> ArrayVolume:
        """The array volume of a volume.

        :raises ObjectMissing: the array has nothing with its name
        :raises ArrayNotActive: another array has it
        """
        known = self.known(volume)
        if known is not None:
            return self.settled(known) if known.regrouping else known
        self.check_here(volume)
        names = [name for name_id in self.name_ids(volume)
                 for name in self.names(volume, name_id)]
        found = self._array.volumes.find(*names)
        if found is None:
            raise exceptions.ObjectMissing(
                f'The array at {self._array.address} has no volume or view '
                f'{names[0]}.')
        return dataclasses.replace(
            found, replicated=self.may_be_replicated(volume),
            shared=volume.group_id is not None
            and self._array.groups.is_shared(found.group))

    def find(self, volume: typing.Any) -> ArrayVolume:
        """The array volume, verified by name. Usually one call.

        :raises ObjectMissing: nothing has its name
        :raises ObjectRenamed: it was renamed on the array
        :raises ArrayNotActive: another array has it
        """
        return self.confirm(volume, self.resolve(volume))

    def confirm(self, volume: typing.Any, stored: ArrayVolume, *more: str
                ) -> ArrayVolume:
        """The array volume, verified by name. Usually one call.

        Required before any operation on it: its id may be another object's by
        now (OBJ-7).

        :param more: additional names that it may have
        :raises ObjectMissing: nothing has its name
        :raises ObjectRenamed: it was renamed on the array
        """
        found = self._array.identity.volume(stored, [
            *self.names_of(volume, stored), *more])
        if found is None:
            self.check_not_renamed(volume, stored)
            raise exceptions.ObjectMissing(
                f'The array at {self._array.address} has no volume or view '
                f'{naming.volume(volume.name_id)}.')
        return found

    def check_not_renamed(self, volume: typing.Any,
                          stored: ArrayVolume) -> None:
        """Check that a volume is gone, and not just renamed.

        If its group is not Cinder's either, its ids are another object's. Two
        calls.

        :raises ObjectRenamed: it was renamed on the array
        """
        now, group = self._array.identity.name_now(stored)
        if now and naming.is_own_group(group):
            raise exceptions.ObjectRenamed(
                f'Volume {naming.volume(volume.name_id)} on the array at '
                f'{self._array.address} is called {now} now. Give it back '
                'its name there, then try again.')

    def names_of(self, volume: typing.Any, stored: ArrayVolume | None
                 ) -> list[str]:
        """Names that a volume's object may have, the likely ones first."""
        own = naming.volume(volume.name_id)
        names = [own, naming.peer(own)] if self.peers else [own]
        if self.may_be_copy(volume):
            names.reverse()
        if stored is not None and stored.flattening:
            names.append(naming.unfinished_volume(volume.name_id))
        if volume.id != volume.name_id:
            names.append(naming.volume(volume.id))
        return names

    def confirm_snapshot(self, snapshot: typing.Any,
                         stored: ArraySnapshot) -> ArraySnapshot:
        """The array snapshot, verified by name. Usually one call.

        If it was managed before digests were stored, the digest of its name is
        stored now.

        :raises ObjectMissing: nothing has its name
        :raises ObjectRenamed: it cannot be identified
        """
        found = self._array.identity.snapshot(
            stored, self.snapshot_names(snapshot))
        if found is None:
            raise exceptions.ObjectMissing(
                f'The array at {self._array.address} has no snapshot '
                f'{naming.snapshot(snapshot.id)} with the id that Cinder '
                f'noted for it, {stored.snapshot}.')
        if found.named != stored.named:
            self.rewrite(snapshot, self.resolve_snapshot, lambda known:
                         dataclasses.replace(known, named=found.named))
        return found

    @staticmethod
    def snapshot_names(snapshot: typing.Any) -> list[str]:
        """Short names that a snapshot may have, the likely one first."""
        own = naming.snapshot(snapshot.id)
        if snapshot.group_snapshot_id is None:
            return [own]
        return [naming.group_snapshot(snapshot.group_snapshot_id), own]

    def may_be_replicated(self, volume: typing.Any) -> bool:
        """Whether a volume may have a session, according to Cinder."""
        return bool(self.peers) and (
            volume.replication_status not in UNREPLICATED
            or self.asks_for_replication(volume))

    def asks_for_replication(self, volume: typing.Any) -> bool:
        """Whether a volume's type asks for replication; True if unreadable."""
        try:
            return volume_types.of(volume).replicated
        except volume_types.InvalidExtraSpec:
            return True

    def settled(self, known: ArrayVolume) -> ArrayVolume:
        """The current array volume of a volume that is moving. Two calls.

        It counts as moving until an operation has cleaned up.

        :raises NotFound: the array has lost it
        """
        group = self._array.groups.group_of(known.volume_ref.id)
        return dataclasses.replace(
            known, group=group, shared=self._array.groups.is_shared(group))

    def name_ids(self, volume: typing.Any) -> list[str]:
        """The ids that may be in the names of a volume's objects.

        The in-tree driver, which leaves provider_id empty, names a migrated
        volume by the id of its row, though Cinder stores another name_id. But
        if a row is deleted at the end of a migration, its id is in the name of
        the volume that stays.
        """
        ids = [volume.name_id]
        if (volume.id != volume.name_id
                and volume.migration_status != 'deleting'
                and self.known(volume) is None):
            ids.append(volume.id)
        return ids

    def names(self, volume: typing.Any, name_id: str) -> list[str]:
        """Names that a volume's object may have with an id."""
        name = naming.volume(name_id)
        return ([name, naming.peer(name)] if self.may_be_copy(volume)
                else [name])

    @staticmethod
    def may_be_copy(volume: typing.Any) -> bool:
        """Whether a volume without ids may have the name of a copy.

        The in-tree driver does not rename it when it fails over.
        """
        return bool(volume.replication_status
                    == statuses.Replication.FAILED_OVER)

    def resolve_snapshot(self, snapshot: typing.Any) -> ArraySnapshot:
        """The array snapshot of a snapshot.

        :raises ObjectMissing: the array has nothing with its name
        :raises ArrayNotActive: another array has it
        """
        known = self.known_snapshot(snapshot)
        if known is not None:
            return known
        self.check_here(snapshot)
        found = self._find_snapshot_by_name(snapshot)
        if found is None:
            raise exceptions.ObjectMissing(
                f'The array at {self._array.address} has no snapshot '
                f'{naming.snapshot(snapshot.id)}.')
        return found

    def _find_snapshot_by_name(self, snapshot: typing.Any
                               ) -> ArraySnapshot | None:
        found = self._array.snapshots.find(naming.snapshot(snapshot.id))
        if found is None and snapshot.group_snapshot_id is not None:
            found = self._array.snapshots.find(
                naming.group_snapshot(snapshot.group_snapshot_id))
        return found
