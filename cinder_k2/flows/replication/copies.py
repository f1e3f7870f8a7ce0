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

"""The copies of volumes on the peer: finding and deleting them."""

from collections.abc import Collection
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
import contextlib
import dataclasses

from cinder_k2.array import Array
from cinder_k2.array import ArrayVolume
from cinder_k2 import exceptions
from cinder_k2.flows import deletion
from cinder_k2.flows.replication.target import copy_name
from cinder_k2.flows.replication.target import Link
from cinder_k2.flows.replication.target import Release
from cinder_k2 import rest


@dataclasses.dataclass(frozen=True)
class Copies:
    """The copies of volumes on the peer, and the group they are in.

    :ivar array: the peer
    :ivar group_name: name of the group on the peer
    :ivar names: names of the copies
    :ivar volumes: the existing copies, by name: id, and id of the group
    """

    array: Array
    group_name: str
    names: Sequence[str]
    volumes: Mapping[str, tuple[int, int]]

    def __str__(self) -> str:
        return (f'volume group {self.group_name} with volumes '
                f'{", ".join(self.names)}')

    @classmethod
    def look(cls, target_array: Array, marked: bool, group_name: str,
             volume_names: Collection[str], release: Release | None
             ) -> 'Copies':
        """Find the copies, and check that they can be deleted.

        Two calls and one for each copy; more if one is mapped.

        :param marked: whether copies have the mark
        :param release: tried if one is mapped
        :raises StillMapped, ObjectInUse: one cannot be deleted
        """
        names = [copy_name(marked, name) for name in volume_names]
        own_group = copy_name(marked, group_name)
        found = find_copies(target_array, names, own_group)
        copies = cls(target_array, own_group, names, found)
        copies.check_unneeded()
        try:
            copies.check_unmapped()
        except exceptions.StillMapped:
            if release is None:
                raise
            release(target_array, [volume for volume, _ in found.values()])
            copies.check_unmapped()
        return copies

    @classmethod
    def in_group(cls, link: Link, group_name: str, names: Collection[str]
                 ) -> 'Copies':
        """Find the copies that are in the group of that name. Two calls.

        If the array does not show the group of a volume, the volume's name
        decides, but not if the array is its own peer: then a volume of Cinder
        may have that name (REP-21).
        """
        array = link.target_array
        group = array.shown(lambda: array.volumes.find_group(group_name))
        if group is None:
            return cls(array, group_name, (), {})
        return cls(array, group_name, tuple(names), {
            name: (volume, group) for name, (volume, its)
            in array.replication.volumes_of(names).items()
            if its == group or its is None and not link.is_own_peer})

    def check_unneeded(self) -> None:
        """Check that no foreign snapshot or view holds a copy. One call.

        :raises ObjectInUse: some do; the text names them
        """
        for group in {group for _, group in self.volumes.values()}:
            check_none(f'Volume group {self.group_name}, the copy on the '
                       f'array at {self.array.address},',
                       self.array.replication.snapshots_beside(group))

    def check_unmapped(self) -> None:
        """Check that no copy is mapped. One call for each.

        :raises StillMapped: one is; the text names hosts
        """
        for name, (volume, group) in self.volumes.items():
            with _in_words(self.array, name):
                self.array.volumes.check_unmapped(ArrayVolume(group=group,
                                                              volume=volume))

    def find_group(self) -> int | None:
        """The group of that name. One call."""
        return self.array.volumes.find_group(self.group_name)

    def delete(self, group: int | None) -> None:
        """Delete the copies with their group.

        :param group: the group, if it is known
        :raises StillMapped, ObjectInUse: the peer must keep one
        :raises ReplicationError: something is left; the text names it
        """
        try:
            if group is None:
                group = self.find_group()
            delete_snapshots(self.array, group)
            delete_volumes(self.array, self.volumes)
            if group is not None:
                deletion.delete_own_group(self.array, group,
                                          [self.group_name])
        except rest.RestError as error:
            raise exceptions.ReplicationError(
                f'The replication has ended, but {self} may be left on the '
                f'array at {self.array.address}. Try again. {error}'
            ) from error


@contextlib.contextmanager
def _in_words(array: Array, name: str) -> Iterator[None]:
    """Describe a copy that cannot be deleted by its name and array."""
    try:
        yield
    except exceptions.ObjectInUse as error:
        raise type(error)(
            f'Volume {name}, the copy on the array at {array.address},',
            error.why) from error


def check_none(what: str, names: Sequence[str]) -> None:
    """Check that a volume group has no snapshots or views.

    :param what: the volume group, as subject of the message
    :param names: names of its snapshots and views
    :raises ObjectInUse: it has some; the text names them
    """
    if names:
        raise exceptions.ObjectInUse(
            what, f'has snapshots or views: {", ".join(names)}. Delete them '
            'first, and what was made from them, in Cinder if it has them.')


def find_copies(array: Array, names: Collection[str], group_name: str
                ) -> dict[str, tuple[int, int]]:
    """Find volumes by their names. One call.

    :param group_name: name of their group, which is looked up in one more call
        if the array does not show the group of a volume
    :returns: by name: id, and id of the group
    :raises ReplicationError: there is no group of that name either
    """
    found = array.replication.volumes_of(names)
    if all(group is not None for _, group in found.values()):
        group = None
    elif (group := array.volumes.find_group(group_name)) is None:
        raise exceptions.ReplicationError(
            f'The array at {array.address} does not show in which volume'
            f' group {", ".join(found)} are; it has none named {group_name}.')
    return {name: (volume, its or group or 0)
            for name, (volume, its) in found.items()}


def delete_volumes(array: Array, volumes: Mapping[str, tuple[int, int]]
                   ) -> None:
    """Delete volumes of an array.

    :param volumes: by name: id, and id of the group
    :raises StillMapped, ObjectInUse: the array must keep one
    """
    for name, (volume, group) in volumes.items():
        with _in_words(array, name):
            array.volumes.delete(volume, group, [name])


def delete_snapshots(array: Array, group: int | None) -> None:
    """Delete the replication snapshots of a group.

    :raises ReplicationError: the array must keep some
    """
    if group is None:
        return
    try:
        array.replication.delete_snapshots(group)
    except rest.Refused as refusal:
        raise exceptions.ReplicationError(
            f'The replication has stopped, but the array at {array.address} '
            'keeps snapshots of it. Delete views, clones and snapshots that'
            f' others made of those, then try again. {refusal}'
        ) from refusal
