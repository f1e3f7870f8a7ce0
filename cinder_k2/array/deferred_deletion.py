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

"""Objects deleted in Cinder that must stay on the array for their clones.

A source cannot be deleted before its clones (VOL-7, CLN-4, SNP-9). So its
deletion is deferred: a volume is renamed, so that it is not found if its row
is reset to ``available``, and a note in the description of the volume group
lists the ids of all objects to be deleted as soon as nothing needs them. The
note is on the array, so that any service finds it at any time, and it lists
only objects that Cinder asked to delete. Snapshots cannot be renamed (SNP-10).

The caller holds the lock of the group.
"""

from collections.abc import Mapping
from collections.abc import Sequence
from collections.abc import Set
import dataclasses
import re
import typing

from cinder_k2.array import description_tags
from cinder_k2.array import images
from cinder_k2.array import objects
from cinder_k2.array import replication
from cinder_k2.array import snapshots
from cinder_k2.array import volumes
from cinder_k2 import exceptions
from cinder_k2 import naming
from cinder_k2 import rest

TAG = 'deleted'

# An id after the letter of its kind (volume, snapshot, source group), and the
# digest of a snapshot's short name.
_WORD = re.compile(r'([vsg])(\d+)(?:=([0-9a-f]{8}))?', re.ASCII)


@dataclasses.dataclass(frozen=True)
class DeferredIds:
    """The array's ids in a group's note.

    :ivar volumes: volumes of the group
    :ivar snapshots: snapshots and views of the group
    :ivar source_groups: groups that may hold more to purge once this one is
        gone
    :ivar digests: pairs of a snapshot's id and the digest of its short name,
        as far as they were noted; the id may be reused (OBJ-7)
    """

    volumes: frozenset[int] = frozenset()
    snapshots: frozenset[int] = frozenset()
    source_groups: frozenset[int] = frozenset()
    digests: frozenset[tuple[int, str]] = frozenset()

    def __bool__(self) -> bool:
        return bool(self.volumes or self.snapshots or self.source_groups)

    def __or__(self, other: 'DeferredIds') -> 'DeferredIds':
        return DeferredIds(self.volumes | other.volumes,
                           self.snapshots | other.snapshots,
                           self.source_groups | other.source_groups,
                           self.digests | other.digests)

    def __str__(self) -> str:
        digests = {id: f'={digest}' for id, digest in self.digests}
        return ' '.join([*(f'v{i}' for i in sorted(self.volumes)),
                         *(f's{i}{digests.get(i, "")}'
                           for i in sorted(self.snapshots)),
                         *(f'g{i}' for i in sorted(self.source_groups))])

    @classmethod
    def parse(cls, text: str) -> 'DeferredIds':
        """Parse what ``str`` wrote; anything else is ignored."""
        words = [(match[1], int(match[2]), match[3]) for match in map(
            _WORD.fullmatch, text.split()) if match]

        def ids(letter: str) -> frozenset[int]:
            return frozenset(id for kind, id, _ in words if kind == letter)
        return cls(ids('v'), ids('s'), ids('g'), frozenset(
            (id, digest) for kind, id, digest in words
            if kind == 's' and digest))

    def names(self, snapshot: rest.Snapshot) -> bool:
        """Whether a snapshot is one of these, not another with its id."""
        if snapshot.id not in self.snapshots:
            return False
        digest = dict(self.digests).get(snapshot.id)
        if digest is None:
            # An earlier version noted no digest.
            return naming.is_snapshot(snapshot.short_name)
        return digest == naming.digest(snapshot.short_name or '')


@dataclasses.dataclass(frozen=True)
class DeferredGroup:
    """A volume group with deferred objects."""

    group: rest.VolumeGroup
    ids: DeferredIds


@dataclasses.dataclass(frozen=True)
class Purged:
    """What to do after a group was purged.

    :ivar gone: the group does not exist any more
    :ivar empty: it is to be deleted once its source groups are purged
    :ivar name: the name of the group in that case
    :ivar source_groups: groups to purge next
    """

    gone: bool = False
    empty: bool = False
    name: str = ''
    source_groups: frozenset[int] = frozenset()


@dataclasses.dataclass(frozen=True)
class Needs:
    """What the array shows of the group of a volume or view with clones.

    :ivar group: the volume group
    :ivar siblings: all snapshots and views of it
    :ivar view: the id of the view itself, if it is one
    """

    group: rest.VolumeGroup
    siblings: Sequence[rest.Snapshot]
    view: int | None = None

    @property
    def will_be_purged(self) -> bool:
        """Whether a clone exists whose deletion will purge the group.

        Otherwise the last clone was deleted, and the service was killed
        before it purged the group.
        """
        ids = ids_of(self.group)
        return any(each.num_of_clones
                   or naming.is_volume(each.short_name)
                   and each.id != self.view and not ids.names(each)
                   for each in self.siblings)


class DeferredDeletion:
    """Deleted objects that wait for their clones."""

    def __init__(self, client: rest.Client, groups: volumes.Volumes,
                 contents: snapshots.Snapshots) -> None:
        self._client = client
        self._groups = groups
        self._snapshots = contents

    def record(self, group: int, ids: DeferredIds) -> None:
        """Defer the deletion of snapshots and views of a group.

        Three calls.

        :param ids: their ids
        :raises ObjectInUse: the array refuses the note
        """
        self._add_to_note(self._client.volume_groups.get(group), ids,
                          self._snapshots.of_group(group))

    def needs_of_volume(self, backing: objects.ArrayVolume) -> Needs | None:
        """Find out whether clones need an array volume or view.

        One call where its group has no snapshots, else two. One more for a
        volume among others, or one for each snapshot on an array that does
        not search for several values at once; one more for a view where the
        array does not show what snapshots were taken of.

        :returns: what the array shows of its group; None if nothing needs it
        :raises ObjectInUse: foreign snapshots need it; the text names them
        """
        siblings = self._snapshots.of_group(backing.group)
        children = self._possible_children(backing, siblings)
        if backing.shared:
            children = self._holding(backing, children)
        if not children:
            return None
        record = self._client.volume_groups.get(backing.group)
        foreign = _foreign(children, ids_of(record))
        if not backing.shared and (foreign or record.volumes_count != 1):
            children = self._holding(backing, children)
            foreign = _foreign(children, ids_of(record))
        _check_none(backing.mappable, foreign)
        return Needs(record, siblings, backing.view) if children else None

    def defer_volume(self, backing: objects.ArrayVolume, needs: Needs,
                     names: Sequence[str] = ()) -> None:
        """Defer the deletion of a volume or view until no clone needs it.

        Its own hidden snapshot is deferred with it if that is in the same
        group; the hidden snapshots of its clones are deleted with these. Two
        calls, one for a view.

        :param needs: what ``needs_of_volume`` returned
        :param names: names that it may have
        :raises ObjectInUse: the array refuses the note
        """
        ids = DeferredIds()
        if backing.parent is not None:
            if backing.source_group != backing.group:
                ids = DeferredIds(
                    source_groups=frozenset({backing.source_group}))
            elif backing.hidden_parent:
                ids = DeferredIds(snapshots=frozenset({backing.parent}))
        if backing.view is not None:
            ids |= DeferredIds(snapshots=frozenset({backing.view}))
        else:
            ids |= DeferredIds(volumes=frozenset({backing.volume_ref.id}))
        self._add_to_note(needs.group, ids, needs.siblings)
        if backing.view is None:
            kept = naming.kept_volume(backing.volume_ref.id)
            self._client.volumes.update(
                backing.volume_ref.id,
                names=[*names, kept] if names else [], name=kept)

    def is_snapshot_needed(self, found: objects.ArraySnapshot,
                           siblings: list[rest.Snapshot]) -> bool:
        """Whether volumes that were made from a snapshot need it.

        :param siblings: all snapshots and views of its group
        :raises StillRead: there is a temporary view of it
        :raises ObjectInUse: there are foreign views of it; the text names them
        """
        children = [s for s in siblings if _may_be_view_of(s, found)]
        _check_not_read(found.ref, children)
        others = [s for s in children if not naming.is_volume(s.short_name)]
        if others:
            _check_none(found.ref, _foreign(others, ids_of(
                self._client.volume_groups.get(found.group))))
        return bool(children or any(
            s.num_of_clones for s in siblings if s.id == found.snapshot))

    def defer_snapshot(self, found: objects.ArraySnapshot,
                       siblings: Sequence[rest.Snapshot]) -> None:
        """Defer the deletion of a snapshot until no clone needs it.

        Two calls.

        :param siblings: all snapshots and views of its group
        :raises ObjectInUse: the array refuses the note
        """
        self._add_to_note(self._client.volume_groups.get(found.group),
                          DeferredIds(snapshots=frozenset({found.snapshot})),
                          siblings)

    def purge(self, group: int) -> Purged:
        """Delete the deferred objects of a group that nothing needs any more.

        One call for a group without deferred objects.
        """
        try:
            record = self._client.volume_groups.get(group)
        except rest.NotFound:
            return Purged(gone=True)
        ids = ids_of(record)
        if not ids:
            return Purged()
        left, gone = self._delete_deferred(group, ids)
        if gone and self._groups.is_empty(group):
            # Its note must last until its source groups are purged.
            return Purged(empty=True, name=record.name or '',
                          source_groups=ids.source_groups)
        self._write_note(record, DeferredIds(
            ids.volumes - gone, ids.snapshots & left, ids.source_groups,
            frozenset(each for each in ids.digests if each[0] in left)))
        return Purged(source_groups=ids.source_groups if gone else frozenset())

    def groups(self) -> list[DeferredGroup]:
        """The volume groups with deferred objects. One call."""
        found = [DeferredGroup(group, ids_of(group))
                 for group in self._client.volume_groups.search()]
        return [each for each in found if each.ids]

    def _possible_children(self, backing: objects.ArrayVolume,
                           siblings: list[rest.Snapshot]
                           ) -> list[rest.Snapshot]:
        """Snapshots that may hold a volume, or were taken of its view.

        Those that replication creates and deletes by itself are left out.
        """
        if backing.view is None:
            return [s for s in siblings if _is_of_group(s)
                    and not replication.is_of_replication(s)]
        if any(s.source is None for s in siblings):
            return self._client.snapshots.search(
                source=backing.snapshot_source,
                volume_group=self._client.volume_groups.ref(backing.group))
        return [s for s in siblings if s.source == backing.snapshot_source]

    def _holding(self, backing: objects.ArrayVolume,
                 children: list[rest.Snapshot]) -> list[rest.Snapshot]:
        """Select those that hold the volume. One call, none for a view."""
        if backing.view is not None:
            return children
        return images.holding(self._client, backing.volume_ref.id, children)

    def _add_to_note(self, record: rest.VolumeGroup, ids: DeferredIds,
                     siblings: Sequence[rest.Snapshot]) -> None:
        """Add objects to the note of a group. One call.

        :param siblings: all snapshots and views of the group
        :raises ObjectInUse: the array refuses the note
        """
        wanted = ids_of(record) | ids | DeferredIds(digests=frozenset(
            (each.id, naming.digest(each.short_name)) for each in siblings
            if each.id in ids.snapshots and each.short_name))
        reason = 'it truncates the note'
        try:
            if self._write_note(record, wanted) == wanted:
                reason = ''
        except rest.Refused as refusal:
            reason = str(refusal)
        if reason:
            raise exceptions.ObjectInUse(
                f'Volume group {record.name}', 'has clones, and the array '
                'accepts no note in its description that the source is '
                f'deleted: {reason}')

    def _write_note(self, record: rest.VolumeGroup,
                    ids: DeferredIds) -> DeferredIds:
        """Change the note of a group; returns it as the array now has it.

        :raises ObjectInUse: the earlier note cannot be read
        """
        if 'description' in record.unread:
            raise exceptions.ObjectInUse(
                f'Volume group {record.name}', 'has a description that '
                'cannot be read, so nothing can be noted in it.')
        if ids != ids_of(record):
            record = self._client.volume_groups.update(
                record.id, names=[record.name],
                description=description_tags.write(
                    record.description, TAG, str(ids)))
        return ids_of(record)

    def _delete_deferred(self, group: int, ids: DeferredIds
                         ) -> tuple[set[int], set[int]]:
        """Delete the deferred objects that nothing needs.

        A deferred volume may be a thin clone of a deferred snapshot of this
        group, because it was moved to the group of its source. So this repeats
        while volumes can be deleted.

        :returns: ids of the snapshots that are left, and of the volumes
            that are gone
        """
        gone: set[int] = set()
        while True:
            wanted: Set[int] = ids.volumes - gone
            live, names = self._live(group, bool(wanted))
            left = self._delete_snapshots(group, ids, live)
            free = self._free(wanted, left) if left else wanted
            more = self._delete_volumes(group, free, names)
            gone |= more
            if not (left and more):
                return set(left), gone

    def _live(self, group: int, with_volumes: bool
              ) -> tuple[dict[int, rest.Snapshot],
                         dict[int | None, str] | None]:
        """Snapshots and views of a group, and names of its volumes, by id."""
        def by_id() -> dict[int, rest.Snapshot]:
            return {each.id: each for each in self._snapshots.of_group(group)}
        if not with_volumes:
            return by_id(), None
        return self._client.concurrently(
            by_id, lambda: self._groups.names_in(group))

    def _free(self, wanted: Set[int], left: Mapping[int, rest.Snapshot]
              ) -> Set[int]:
        """The deferred volumes that no remaining snapshot or view holds."""
        if not any(s.num_of_clones or not s.tells('num_of_clones')
                   for s in left.values()):
            return frozenset()
        try:
            return frozenset(v for v in wanted if not images.holding(
                self._client, v, list(left.values())))
        except (rest.NotOffered, rest.Incomplete):
            return frozenset()

    def _delete_snapshots(self, group: int, wanted: DeferredIds,
                          live: dict[int, rest.Snapshot]
                          ) -> dict[int, rest.Snapshot]:
        """Delete snapshots and views, leaves first (SNP-9).

        :param live: all snapshots and views of the group, by id
        :returns: those that remain
        """
        while leaves := [
                s for s in live.values()
                if wanted.names(s) and not s.num_of_clones and not any(
                    other.source == s.ref for other in live.values())]:
            gone = [s.id for s in leaves
                    if self._try(self._client.snapshots, s.id, group,
                                 s.short_name)]
            if not gone:
                break
            for key in gone:
                del live[key]
        return live

    def _delete_volumes(self, group: int, wanted: Set[int],
                        live: Mapping[int | None, str] | None) -> set[int]:
        """Delete deferred volumes; returns those that are gone.

        One whose name the array does not show stays: the id may be another
        volume's by now (OBJ-7).

        :param live: names of the volumes that the group has, by id; None if
            they were not looked up
        """
        if live is None:
            live = self._groups.names_in(group) if wanted else {}
        return {v for v in wanted if v not in live
                or live[v] and (
                    live[v] != naming.kept_volume(v)
                    or self._try(self._client.volumes, v, group, live[v]))}

    def _try(self, resource: rest.Collection[typing.Any], key: int,
             group: int, name: str | None) -> bool:
        try:
            resource.delete(
                key, names=[name] if name else [],
                volume_group=self._client.volume_groups.ref(group))
        except rest.Refused:
            return False
        return True


def ids_of(record: rest.VolumeGroup) -> DeferredIds:
    """The ids in the note of a volume group."""
    return DeferredIds.parse(description_tags.read(record.description, TAG))


def _foreign(children: list[rest.Snapshot], ids: DeferredIds) -> list[str]:
    """Names of the children that Cinder neither made nor deleted."""
    return sorted(s.name or str(s.ref) for s in children if not (
        naming.is_hidden_snapshot(s.short_name) or ids.names(s)))


def _check_none(what: rest.Ref, foreign: list[str]) -> None:
    """Check that no foreign objects need a volume or snapshot.

    :raises ObjectInUse: some do; the text names them
    """
    if foreign:
        raise exceptions.ObjectInUse(
            str(what), 'is needed by objects that Cinder did not make, '
            f'or no longer manages: {", ".join(foreign)}. Delete them on the '
            'array first.')


def _is_of_group(snapshot: rest.Snapshot) -> bool:
    if snapshot.source is not None:
        return snapshot.source.resource == 'volume_groups'
    return not _is_view(snapshot)


def _is_view(snapshot: rest.Snapshot) -> bool:
    return snapshot.is_exposable or naming.is_volume(snapshot.short_name)


def _may_be_view_of(snapshot: rest.Snapshot,
                    source: objects.ArraySnapshot) -> bool:
    """Whether a view may be of a snapshot, as far as the array shows.

    A snapshot's child is a view (SNP-5), also if the array does not show it as
    one. Every view has a source, so a source of null shows no more than a
    missing field.
    """
    if snapshot.source is not None:
        return snapshot.source == source.ref
    return snapshot.id != source.snapshot and _is_view(snapshot)


def _check_not_read(what: rest.Ref, children: list[rest.Snapshot]) -> None:
    for child in children:
        if naming.is_temporary_view(child.short_name):
            raise exceptions.StillRead(
                str(what), f'is being read through {child.short_name}. Wait '
                'for that; or, if the volume of that id is in error, delete '
                'the volume in Cinder.')
