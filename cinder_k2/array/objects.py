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

"""The array's objects that represent a volume or a snapshot."""

from collections.abc import Sequence
import dataclasses

from cinder_k2 import rest


@dataclasses.dataclass(frozen=True)
class ArrayVolume:
    """The array's objects for one volume: a volume or a view.

    Numbers are ids on the array. Exactly one of ``volume`` and ``view`` is
    set.

    :ivar group: the volume group; the source's if a view backs the volume
    :ivar volume: id in ``/volumes``
    :ivar view: id in ``/snapshots`` of a view that holds the data (SNP-5)
    :ivar volsnap: the volume's image in that view, which carries the LUN
        (MAP-3)
    :ivar origin: the volume in ``/volumes`` that the view is an image of
        (VSN-3)
    :ivar parent: the snapshot it was made from, which the array must keep as
        long as the clone exists (CLN-4, SNP-9); None for a full volume
    :ivar parent_group: the volume group of that snapshot, for a thin clone
    :ivar hidden_parent: ``parent`` was made only for this clone
    :ivar has_clones: clones were made from it at some time, so the array may
        hold objects that Cinder does not show: check before deleting
    :ivar shared: its group may contain other volumes, as that of a consistency
        group does
    :ivar flattening: a view that is to be replaced by a volume with its data,
        or such a volume while the view has yet to be deleted
    :ivar regrouping: it is being moved to another group, or was when its
        service was killed: the array knows which group it is in
    :ivar failback_in_progress: a failback is moving it to the other array, or
        was when its service was killed: no host may attach it meanwhile
    :ivar replicated: a replication session may exist for its group
    :ivar target: system id of the array it is replicated to; None if it is not
        replicated, or was before this was stored
    """

    group: int
    volume: int | None = None
    view: int | None = None
    volsnap: int | None = None
    origin: int | None = None
    parent: int | None = None
    parent_group: int | None = None
    hidden_parent: bool = False
    has_clones: bool = False
    shared: bool = False
    flattening: bool = False
    regrouping: bool = False
    replicated: bool = False
    failback_in_progress: bool = False
    target: str | None = None

    @property
    def source_group(self) -> int:
        """The volume group of the snapshot that it was made from."""
        return self.parent_group or self.group

    @property
    def mappable(self) -> rest.Ref:
        """The value for ``volume`` in POST /mappings (MAP-1, MAP-3)."""
        if self.view is not None:
            return rest.Ref('snapshots', self.view)
        return self.volume_ref

    @property
    def lun_holder(self) -> rest.Ref:
        """The object whose mapping carries the LUN (MAP-3)."""
        if self.volsnap is not None:
            return rest.Ref('volsnaps', self.volsnap)
        return self.volume_ref

    @property
    def snapshot_source(self) -> rest.Ref:
        """The source of a snapshot of it: its group, or the view."""
        if self.view is not None:
            return rest.Ref('snapshots', self.view)
        return rest.Ref('volume_groups', self.group)

    @property
    def volume_ref(self) -> rest.Ref:
        """The volume.

        :raises ValueError: a view backs it
        """
        if self.volume is None:
            raise ValueError('A view backs this volume.')
        return rest.Ref('volumes', self.volume)


@dataclasses.dataclass(frozen=True)
class NamedVolume:
    """An array volume or view, and names by which to find it (OBJ-7).

    :ivar names: names that it may have
    """

    backing: ArrayVolume
    names: Sequence[str]


@dataclasses.dataclass(frozen=True)
class SourceNames:
    """Names by which to find the source of a managed snapshot (OBJ-7).

    :ivar volumes: names that the volume or view may have
    :ivar groups: names that the volume's group may have
    """

    volumes: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class ArraySnapshot:
    """The array's snapshot for a Cinder snapshot.

    :ivar snapshot: id in ``/snapshots``
    :ivar group: id of the volume group it belongs to
    :ivar volume: id in ``/volumes`` of the volume it is an image of (VSN-3),
        None if that is not known
    :ivar view: the view it was taken of, None for the group itself
    :ivar has_clones: volumes were made from it at some time: check before
        deleting
    :ivar shared: it may hold images of other volumes too
    :ivar named: digest of the name of a managed snapshot, which keeps its
        original name; None for one created by Cinder, and for one managed
        before digests were stored
    :ivar since: seconds since the epoch when Cinder's row was created; comes
        from the row and is not stored
    :ivar source: the names of its source, needed if ``named`` is set; they
        come from the row, too
    """

    snapshot: int
    group: int
    volume: int | None = None
    view: int | None = None
    has_clones: bool = False
    shared: bool = False
    named: str | None = None
    since: float | None = dataclasses.field(default=None, compare=False)
    source: SourceNames = dataclasses.field(default=SourceNames(),
                                            compare=False)

    @property
    def ref(self) -> rest.Ref:
        """The snapshot."""
        return rest.Ref('snapshots', self.snapshot)

    @property
    def taken_of(self) -> rest.Ref:
        """What it is a snapshot of: its group, or the view."""
        if self.view is not None:
            return rest.Ref('snapshots', self.view)
        return rest.Ref('volume_groups', self.group)
