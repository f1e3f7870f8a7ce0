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

"""Volumes and the volume groups that contain them."""

from collections.abc import Callable
from collections.abc import Sequence
from typing import TypeVar

from cinder_k2.array import images
from cinder_k2.array import objects
from cinder_k2 import exceptions
from cinder_k2 import naming
from cinder_k2 import polling
from cinder_k2 import rest

T = TypeVar('T')

# Seconds within which the array shows new objects, and releases deleted ones.
_PATIENCE = 10.0
# Seconds to wait for a restore that was answered with success but does not
# show in the group: a restore takes only moments (RST-4).
_RESTORE_TIMEOUT = 10.0
# The same if the replies were lost, on an array that has never been seen to
# restore a group. As long as the default of k2_read_timeout: an array that
# restored the group later would overwrite what was written after the
# host-assisted copy.
_DOUBTFUL_RESTORE_TIMEOUT = 60.0
# The same if the reply was late, or was lost by an array that supports
# restores.
_SLOW_RESTORE_TIMEOUT = 300.0
# Maximum number of reads of the group during the wait.
_LOOKS = 60


class Volumes:
    """Volumes and volume groups of one array."""

    def __init__(self, client: rest.Client) -> None:
        self._client = client

    def create_group(self, name: str, dedup: bool) -> int:
        """Create a group without quota (VG-2), or take over an empty one.

        An empty group of that name was left behind by a killed service.

        :returns: the group's id
        """
        try:
            return self._client.volume_groups.create(
                name=name, quota=0, is_dedup=dedup).id
        except rest.Refused:
            group = self._client.volume_groups.find(name=name)
            if (group is None or group.is_dedup not in (None, dedup)
                    or not self.is_empty(group.id)):
                raise
            return group.id

    def is_empty(self, group: int) -> bool:
        """Whether a group has no volumes. One call.

        The volumes are listed: the array's count of them may include volumes
        that are being deleted (VOL-17).
        """
        found, complete = self._client.volumes.some(
            volume_group=self._client.volume_groups.ref(group))
        return not found and complete

    def create(self, name: str, size: int, group: int) -> int:
        """Create a volume of ``size`` KiB in a group; returns its id."""
        return self._client.volumes.create(
            name=name, size=size,
            volume_group=self._client.volume_groups.ref(group)).id

    def grow(self, volume: int, size: int, names: Sequence[str]) -> None:
        """Grow a volume to ``size`` KiB, mapped or not (VOL-3).

        :param names: names that it may have
        """
        self._client.volumes.update(volume, names=names, size=size)

    def move(self, volume: int, group: int, names: Sequence[str]) -> None:
        """Move a volume into another group (VOL-9, VOL-10).

        One call. One more if the reply does not show the group, until the
        array has been seen to move a volume.

        :param names: names that it may have
        :raises NotOffered: also where the array ignores the request
        :raises BadReply: no reply shows where the volume is
        """
        target = self._client.volume_groups.ref(group)
        self._client.volumes.update(
            volume, names=names, volume_group=target,
            shows=lambda changed: (
                changed.volume_group == target if changed.volume_group
                else volume in self.names_in(group)))

    def names_in(self, group: int) -> dict[int | None, str]:
        """Names of the volumes of a group, by their ids. One call."""
        return {volume.id: volume.name for volume in
                self._client.volumes.search(
                    volume_group=self._client.volume_groups.ref(group))}

    def group(self, group: int) -> rest.VolumeGroup:
        """The current state of a volume group. One call.

        :raises NotFound: it is gone
        """
        return self._client.volume_groups.get(group)

    def restore(self, snapshot: objects.ArraySnapshot,
                before: rest.VolumeGroup) -> None:
        """Restore every volume of a group to a snapshot of it (RST-1).

        One call. If it is unclear whether the array carries out the request,
        this waits until the result shows, or can no longer be expected.

        :param before: the group before the request. After a lost reply the
            request is not repeated if the id is another group's by then
            (OBJ-7).
        :raises Refused: the group has other volumes than the snapshot, or
            other sizes of them, or a volume is mapped (RST-2, RST-3); or the
            array does not restore groups
        :raises RestoreUnsettled: the array does not reply, and may still be
            working on the request
        """
        known = self._client.capabilities
        outcome = rest.OutcomeCheck(slow=True)
        try:
            after = self._client.volume_groups.update(
                snapshot.group, last_restored_from=snapshot.ref,
                names=[before.name] if before.name else (), outcome=outcome,
                shows=lambda after: self._shows(before, after, snapshot.ref))
        except rest.OtherObject as error:
            # Refused, but after a request that may still be carried out.
            raise self._unsettled(before, f' {error}') from error
        except rest.RestError as error:
            # The reply after a lost one may be about the first request.
            if not (outcome.open or _is_outcome_unknown(error)):
                raise
            if rest.errors.may_go_on(error):
                self._watch_slow_restore(before, snapshot.ref)
            elif known.works(rest.capability_names.RESTORE):
                self._watch_failed_restore(before, snapshot.ref, error)
            else:
                self._watch_restore(before, snapshot.ref,
                                    _DOUBTFUL_RESTORE_TIMEOUT)
        else:
            self._see_restored(before, after, snapshot.ref, outcome)
        known.found(rest.capability_names.RESTORE)

    def _see_restored(self, before: rest.VolumeGroup, after: rest.VolumeGroup,
                      snapshot: rest.Ref, outcome: rest.OutcomeCheck) -> None:
        """Check that the array has carried out a restore that it accepted.

        :param outcome: if a reply was lost, the group may show the same
            snapshot since an earlier restore
        """
        if _is_restored(before, after, snapshot):
            return
        if outcome.open:
            self._watch_failed_restore(before, snapshot, rest.Refused(
                'the reply to a restore was lost, and nothing shows it'))
            return
        try:
            self._watch_restore(before, snapshot, _RESTORE_TIMEOUT)
        except rest.Refused as refusal:
            # It has supported this before.
            self._client.capabilities.failed(rest.capability_names.RESTORE,
                                             refusal)
            raise

    def _shows(self, before: rest.VolumeGroup, after: rest.VolumeGroup,
               snapshot: rest.Ref) -> bool:
        return (_is_restored(before, after, snapshot)
                or self._becomes_restored(before, snapshot, _RESTORE_TIMEOUT))

    def _watch_restore(self, before: rest.VolumeGroup, snapshot: rest.Ref,
                       seconds: float) -> None:
        """Wait for a restore that the array may or may not carry out.

        :raises Refused: it has not done so within ``seconds``
        """
        if not self._becomes_restored(before, snapshot, seconds):
            raise rest.Refused(
                f'the array at {self._client.address} was told to restore '
                f'volume group {before.name}, and has not done it')

    def _watch_slow_restore(self, before: rest.VolumeGroup,
                            snapshot: rest.Ref) -> None:
        if not self._becomes_restored(before, snapshot,
                                      _SLOW_RESTORE_TIMEOUT):
            raise self._unsettled(before)

    def _unsettled(self, before: rest.VolumeGroup, why: str = ''
                   ) -> exceptions.RestoreUnsettled:
        return exceptions.RestoreUnsettled(
            f'The array at {self._client.address} was told to restore '
            f'volume group {before.name}, did not say that it has, and may '
            f'still do so. Nothing was copied. Look at the group on the '
            f'array before you revert again.{why}')

    def _watch_failed_restore(self, before: rest.VolumeGroup,
                              snapshot: rest.Ref, error: rest.RestError
                              ) -> None:
        """As ``_watch_slow_restore``, for an array that has restored groups.

        The array may be working on the request. If it does not finish, that
        counts against its capability.
        """
        try:
            self._watch_slow_restore(before, snapshot)
        except exceptions.RestoreUnsettled:
            self._client.capabilities.failed(
                rest.capability_names.RESTORE, error)
            raise

    def _becomes_restored(self, before: rest.VolumeGroup, snapshot: rest.Ref,
                          seconds: float) -> bool:
        def restored() -> bool:
            with self._client.deadline(fresh=True):
                after = self._client.volume_groups.get(before.id)
            return _is_restored(before, after, snapshot)
        try:
            return polling.wait_until(restored, seconds, what='restore',
                                      interval=max(1.0, seconds / _LOOKS),
                                      clock=self._client.clock)
        except polling.WaitTimeout:
            return False

    def find(self, *names: str) -> objects.ArrayVolume | None:
        """The volume or view with the first of the names that exists.

        :returns: None if the array has neither a volume nor a view
        :raises GroupNotSupported: the array does not show the group of the
            volume, and has none with the name of the volume's own group
        """
        for name in names:
            volume = self._client.volumes.find(name=name)
            if volume is not None:
                return objects.ArrayVolume(
                    volume=volume.id, group=self._group_of(name, volume))
            view = self.find_view(name)
            if view is not None:
                return view
        return None

    def find_view(self, name: str) -> objects.ArrayVolume | None:
        """The view of that short name, which backs a volume."""
        view = self._client.snapshots.find(short_name=name)
        return None if view is None else view_backing(self._client, view)

    def _group_of(self, name: str, volume: rest.Volume) -> int:
        """The group of a volume, by name if the array does not show it."""
        if volume.volume_group is not None:
            return volume.volume_group.id
        group = self.find_group(naming.group_of_volume(name))
        if group is None:
            raise exceptions.GroupNotSupported(
                f'The array at {self._client.address} does not show the'
                f' volume group of volume {name}, which has none of its own.')
        return group

    def size(self, volume: int, group: int) -> int | None:
        """Size in KiB of a volume in a group. One call."""
        return self._client.volumes.get(
            volume, volume_group=self._client.volume_groups.ref(group)).size

    def has_room(self, name: str) -> bool:
        """Whether a volume could grow, as far as the array shows.

        Free space and the quota of its group are considered (VOL-11). Any
        quota counts as used up: the driver creates no group with a quota.
        Three calls at most.

        :param name: name of the volume
        """
        capacity = self._client.capacity()
        if not capacity.free or (capacity.state or '').lower() == 'full':
            return False
        volume = self._client.volumes.find(name=name)
        if volume is None or volume.volume_group is None:
            return True
        return not self._client.volume_groups.get(volume.volume_group.id).quota

    def find_volume(self, name: str) -> int | None:
        """The id of the volume with that name."""
        volume = self._client.volumes.find(name=name)
        return None if volume is None else volume.id

    def find_group(self, name: str) -> int | None:
        """The id of the group with that name."""
        group = self._client.volume_groups.find(name=name)
        return None if group is None else group.id

    def delete(self, volume: int, group: int, names: Sequence[str] = ()
               ) -> bool:
        """Delete a volume of a group; False if it was gone.

        :param names: names that it may have, if known
        :raises StillMapped: it is mapped (VOL-6)
        :raises ObjectInUse: snapshots, views or clones need it (VOL-7); the
            text names them
        """
        try:
            return self._client.volumes.delete(
                volume, names=names,
                volume_group=self._client.volume_groups.ref(group))
        except rest.Refused:
            self.check_unused(volume, group)
            raise

    def delete_group(self, group: int, names: Sequence[str]) -> bool:
        """Delete an empty group (VG-5, VG-6); False if it was gone.

        Deletions in it may still be going on (VOL-17), so a refused deletion
        is retried for a while.

        :param names: names that it may have
        """
        return patiently(self._client, lambda: (
            self._client.volume_groups.delete(group, names=names)))

    def check_unmapped(self, backing: objects.ArrayVolume) -> None:
        """Check that a volume or a view is not mapped.

        :raises StillMapped: it is; the text names hosts and host groups
        """
        check_unmapped(self._client, backing.mappable)

    def check_unused(self, volume: int, group: int) -> None:
        """Check that nothing on the array needs a volume of a group.

        :raises StillMapped: a host or a host group does
        :raises ObjectInUse: snapshots, views or clones do; the text names
            them
        """
        ref = self._client.volumes.ref(volume)
        check_unmapped(self._client, ref)
        found = images.holders(self._client, volume, group)
        if found:
            names = ', '.join(sorted(i.name or '' for i in found))
            raise exceptions.ObjectInUse(
                f'Volume {volume}',
                f'is needed by snapshots or clones: {names}.')


def _is_restored(before: rest.VolumeGroup, after: rest.VolumeGroup,
                 snapshot: rest.Ref) -> bool:
    """Whether a group was restored to a snapshot between two reads."""
    return after.last_restored_from == snapshot and (
        before.last_restored_from != snapshot
        or before.last_restored_time != after.last_restored_time)


def _is_outcome_unknown(error: rest.RestError) -> bool:
    """Whether the array may still carry out a request despite its reply."""
    cause = error.__cause__
    return error.outcome_unknown or error.status == 200 or (
        isinstance(cause, rest.RestError) and cause.outcome_unknown)


def check_unmapped(client: rest.Client, ref: rest.Ref) -> None:
    """Check that a volume or view is not mapped.

    :raises StillMapped: it is; the text names hosts and host groups
    """
    holders = {m.host for m in client.mappings.search(volume=ref)}
    names = sorted(filter(None, (_holder_name(client, h) for h in holders)))
    if names:
        raise exceptions.StillMapped(
            str(ref), f'is mapped to {", ".join(names)}.')


def _holder_name(client: rest.Client, holder: rest.Ref | None) -> str:
    """The host or host group of a mapping, in words; '' if it is gone.

    A mapping that was removed with it may stay listed (QRY-10).
    """
    if holder is None:
        return 'a host that the array does not name'
    try:
        if holder.resource == 'hosts':
            return f'host {client.hosts.get(holder.id).name}'
        return f'host group {client.host_groups.get(holder.id).name}'
    except rest.NotFound:
        return ''


def patiently(client: rest.Client, act: Callable[[], T],
              timeout: float = _PATIENCE, interval: float = 1.0) -> T:
    """Repeat a request while the array refuses it.

    For example to delete an object that an unfinished deletion still needs
    (VOL-17).

    :param timeout: seconds after which it is given up
    :param interval: seconds between two attempts
    :raises rest.Refused: the array still refuses it after ``timeout``
    """
    last: list[rest.Refused] = []

    def attempt() -> tuple[T] | None:
        try:
            return (act(),)
        except rest.Refused as refusal:
            last.append(refusal)
            return None

    try:
        return polling.wait_until(attempt, timeout, interval=interval,
                                  what='write', clock=client.clock)[0]
    except polling.WaitTimeout:
        raise last[-1] from None


def shown(client: rest.Client, find: Callable[[], T | None]) -> T | None:
    """Repeat a search for an object that may be new and show late (OBJ-6).

    One search if it finds the object at once, else more for ten seconds.

    :returns: None if no object shows: it was never created, or is gone
    """
    try:
        return polling.wait_until(find, _PATIENCE, interval=0.5,
                                  what='new object', clock=client.clock)
    except polling.WaitTimeout:
        return None


def view_backing(client: rest.Client, view: rest.Snapshot, *,
                 volume: int | None = None, group: int | None = None,
                 parent: int | None = None) -> objects.ArrayVolume:
    """Describe a view that backs a volume.

    Its volsnaps may show a moment later than the view itself (OBJ-6).

    :param volume: id of the volume it is an image of (VSN-3), to choose
        where the view has several volsnaps
    :param group: id of the volume group, if the view might not show it
    :param parent: id of the snapshot that it was made from, likewise
    :raises ObjectMissing: the view does not have exactly one such volsnap
    """
    def find() -> list[rest.Volsnap]:
        images = client.volsnaps.search(snapshot=view.ref)
        if len(images) == 1 or volume is None:
            # Accepted whatever source it shows (VSN-3).
            return images
        return [i for i in images
                if i.source in (None, client.volumes.ref(volume))]
    found = shown(client, lambda: find() or None) or []
    group = view.volume_group.id if view.volume_group else group
    if len(found) != 1 or group is None:
        raise exceptions.ObjectMissing(
            f'View {view.name} does not hold exactly one image of the '
            'volume; see its volsnaps on the array.')
    source = found[0].source
    return objects.ArrayVolume(
        group=group, view=view.id, volsnap=found[0].id,
        origin=source.id if source and (
            source.resource == 'volumes') else volume,
        parent=view.source.id if view.source else parent)
