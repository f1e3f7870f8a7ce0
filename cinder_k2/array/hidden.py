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

"""What was deleted in Cinder and must stay on the array for its clones.

A source cannot go before its clones (VOL-7, CLN-4, SNP-9). So it is hidden:
a volume gets another name, and the description of the volume group notes
the ids of all that may go as soon as nothing needs it. The note is on the
array, so any service finds it at any time, and only what Cinder asked to
delete is ever in it. Snapshots cannot be renamed (SNP-10).

Whoever hides or reclaims holds the group.
"""

from collections.abc import Iterable
import dataclasses
import typing

from cinder_k2.array import backing as backings
from cinder_k2.array import notes
from cinder_k2.array import replication
from cinder_k2.array import volumes
from cinder_k2 import exceptions
from cinder_k2 import naming
from cinder_k2 import rest

NOTE = 'deleted'


@dataclasses.dataclass(frozen=True)
class Marks:
    """What a group's note names, by the array's ids.

    :ivar volumes: volumes of the group
    :ivar snapshots: snapshots and views of the group
    :ivar homes: groups that may hold more to reclaim once this one is gone
    """

    volumes: frozenset[int] = frozenset()
    snapshots: frozenset[int] = frozenset()
    homes: frozenset[int] = frozenset()

    def __bool__(self) -> bool:
        return bool(self.volumes or self.snapshots or self.homes)

    def __or__(self, other: 'Marks') -> 'Marks':
        return Marks(self.volumes | other.volumes,
                     self.snapshots | other.snapshots,
                     self.homes | other.homes)

    def __str__(self) -> str:
        return ' '.join([*(f'v{i}' for i in sorted(self.volumes)),
                         *(f's{i}' for i in sorted(self.snapshots)),
                         *(f'g{i}' for i in sorted(self.homes))])

    @classmethod
    def parse(cls, text: str) -> typing.Self:
        """Read what ``str`` wrote; anything else in it is passed over."""
        def ids(letter: str) -> frozenset[int]:
            return frozenset(int(word[1:]) for word in text.split()
                             if word[0] == letter and word[1:].isdecimal())
        return cls(ids('v'), ids('s'), ids('g'))


@dataclasses.dataclass(frozen=True)
class Marked:
    """A volume group that hides something."""

    group: rest.VolumeGroup
    marks: Marks


@dataclasses.dataclass(frozen=True)
class Reclaimed:
    """What is to be done after a group was reclaimed.

    :ivar gone: there is no such group any more
    :ivar empty: it is to be deleted once its homes are reclaimed
    :ivar homes: groups to reclaim next
    """

    gone: bool = False
    empty: bool = False
    homes: frozenset[int] = frozenset()


class Hidden:
    """Deleted objects that wait for their clones."""

    def __init__(self, client: rest.Client, groups: volumes.Volumes) -> None:
        self._client = client
        self._groups = groups

    def keep(self, group: int, marks: Marks) -> None:
        """Hide objects of a group until nothing needs them.

        :raises ObjectInUse: the array does not take the note
        """
        record = self._client.volume_groups.get(group)
        wanted = marks_of(record) | marks
        reason = 'it cuts it off'
        try:
            if self._note(record, wanted) == wanted:
                reason = ''
        except rest.Refused as refusal:
            reason = str(refusal)
        if reason:
            raise exceptions.ObjectInUse(
                f'Volume group {record.name}', 'has clones, and the array '
                'takes no note in its description that the source is '
                f'deleted: {reason}')
        for volume in marks.volumes:
            self._client.volumes.update(volume,
                                        name=naming.kept_volume(volume))

    def is_volume_needed(self, backing: backings.Backing) -> bool:
        """Whether clones need what backs a volume.

        :raises ObjectInUse: somebody else's snapshots do; the text names
            them
        """
        children = self._children_of_volume(backing)
        self._check_foreign(
            backing.mappable, backing.group, [
                s for s in children
                if not naming.is_hidden_snapshot(s.short_name)])
        return bool(children)

    def hide_volume(self, backing: backings.Backing) -> None:
        """Hide a volume until its last clone goes.

        The snapshots that were made for its clones go with these.
        """
        home = {backing.home} if backing.parent is not None else set()
        marks = Marks(homes=frozenset(home - {backing.group}))
        if backing.view is not None:
            marks |= Marks(snapshots=frozenset({backing.view}))
        else:
            marks |= Marks(volumes=frozenset({backing.volume_ref.id}))
        self.keep(backing.group, marks)

    def is_snapshot_needed(self, found: backings.SnapshotBacking) -> bool:
        """Whether volumes that were made from a snapshot need it.

        :raises ObjectInUse: somebody else's views do; the text names them
        """
        children = self._client.snapshots.search(source=found.ref)
        _check_not_read(found.ref, children)
        self._check_foreign(found.ref, found.group, [
            s for s in children if not (
                s.is_exposable and naming.is_volume(s.short_name))])
        return bool(children or self._clones_of(found.snapshot))

    def hide_snapshot(self, found: backings.SnapshotBacking) -> None:
        """Hide a snapshot until the last volume made from it has gone."""
        self.keep(found.group,
                  Marks(snapshots=frozenset({found.snapshot})))

    def reclaim(self, group: int) -> Reclaimed:
        """Delete what a group hides as far as nothing needs it any more.

        One call for a group that hides nothing.
        """
        try:
            record = self._client.volume_groups.get(group)
        except rest.NotFound:
            return Reclaimed(gone=True)
        marks = marks_of(record)
        if not marks:
            return Reclaimed()
        left = self._delete_snapshots(group, marks.snapshots)
        gone = self._delete_volumes(marks.volumes) if not left else set()
        if gone and self._is_empty(group):
            # Its note must last until its homes are reclaimed.
            return Reclaimed(empty=True, homes=marks.homes)
        self._note(record, Marks(marks.volumes - gone,
                                 marks.snapshots & left, marks.homes))
        return Reclaimed(homes=marks.homes if gone else frozenset())

    def delete_group(self, group: int) -> None:
        """Delete a group that was reclaimed and is empty now."""
        self._groups.delete_group(group)

    def marked(self) -> list[Marked]:
        """The volume groups that hide something. One call."""
        found = [Marked(group, marks_of(group))
                 for group in self._client.volume_groups.search()]
        return [each for each in found if each.marks]

    def _children_of_volume(self, backing: backings.Backing
                            ) -> list[rest.Snapshot]:
        """Snapshots that hold a volume, or were taken of its view.

        Not those that replication takes and gives up by itself.
        """
        if backing.view is not None:
            return self._client.snapshots.search(
                source=backing.snapshot_source)
        images = self._client.volsnaps.search(source=backing.volume_ref)
        holders = {i.snapshot for i in images}
        return [s for s in self._client.snapshots.search(
            volume_group=self._client.volume_groups.ref(backing.group))
            if s.ref in holders and _is_of_group(s)
            and not replication.is_of_replication(s)] if images else []

    def _check_foreign(self, what: rest.Ref, group: int,
                       children: list[rest.Snapshot]) -> None:
        """See that all of these children were deleted in Cinder."""
        marks = self._marks(group).snapshots if children else frozenset()
        names = sorted(s.name or str(s.ref) for s in children
                       if s.id not in marks)
        if names:
            raise exceptions.ObjectInUse(
                str(what), 'is needed by objects that Cinder did not make, '
                f'or has given up: {", ".join(names)}. Delete them on the '
                'array first.')

    def _marks(self, group: int) -> Marks:
        return marks_of(self._client.volume_groups.get(group))

    def _note(self, record: rest.VolumeGroup, marks: Marks) -> Marks:
        """Change the note of a group; what the array says it is then.

        :raises ObjectInUse: what was noted before cannot be read
        """
        if 'description' in record.unread:
            raise exceptions.ObjectInUse(
                f'Volume group {record.name}', 'has a description that '
                'cannot be read, so nothing can be noted in it.')
        if marks != marks_of(record):
            record = self._client.volume_groups.update(
                record.id, description=notes.write(
                    record.description, NOTE, str(marks)))
        return marks_of(record)

    def _clones_of(self, snapshot: int) -> int:
        try:
            return self._client.snapshots.get(snapshot).num_of_clones or 0
        except rest.NotFound:
            return 0

    def _is_empty(self, group: int) -> bool:
        # Not by the array's count: it may count what is going (VOL-17).
        return not self._client.volumes.search(
            volume_group=self._client.volume_groups.ref(group))

    def _delete_snapshots(self, group: int, wanted: Iterable[int]
                          ) -> set[int]:
        """Delete snapshots and views from the leaves on (SNP-9).

        :returns: ids of all that the group still has
        """
        live = {s.id: s for s in self._client.snapshots.search(
            volume_group=self._client.volume_groups.ref(group))}
        # A child is always younger than its parent (OBJ-7).
        for key in sorted(set(wanted) & live.keys(), reverse=True):
            if not live[key].num_of_clones and not any(
                    s.source == live[key].ref for s in live.values()):
                if self._try(self._client.snapshots, key):
                    del live[key]
        return set(live)

    def _delete_volumes(self, wanted: Iterable[int]) -> set[int]:
        return {v for v in wanted if self._try(self._client.volumes, v)}

    @staticmethod
    def _try(resource: rest.Collection[typing.Any], key: int) -> bool:
        try:
            resource.delete(key)
        except rest.Refused:
            return False
        return True


def marks_of(record: rest.VolumeGroup) -> Marks:
    """What the note of a volume group names."""
    return Marks.parse(notes.read(record.description, NOTE))


def _is_of_group(snapshot: rest.Snapshot) -> bool:
    return (snapshot.source is None
            or snapshot.source.resource == 'volume_groups')


def _check_not_read(what: rest.Ref, children: list[rest.Snapshot]) -> None:
    for child in children:
        if naming.is_temporary_view(child.short_name):
            raise exceptions.ObjectInUse(
                str(what), f'is being read through {child.short_name}. Wait '
                'for that; or, if the volume of that id is in error, delete '
                'the volume in Cinder.')
