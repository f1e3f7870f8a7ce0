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

"""Clones and volumes from snapshots.

Strategies are tried in order; if the array refuses one, the next is tried. All
of them work on a source that is attached.
"""

from collections.abc import Callable
from collections.abc import Sequence
import contextlib
import dataclasses
import functools
import typing

from oslo_log import log as logging
from taskflow.patterns import linear_flow

from cinder_k2.array import Array
from cinder_k2.array import ArraySnapshot
from cinder_k2.array import ArrayVolume
from cinder_k2.array import cache
from cinder_k2.array import NamedVolume
from cinder_k2 import exceptions
from cinder_k2.flows import engine
from cinder_k2.flows import volumes
from cinder_k2 import rest

LOG = logging.getLogger(__name__)

# Copies the given number of KiB from the first volume to the second, which has
# no data yet.
Copy = Callable[[NamedVolume, NamedVolume, int], None]
# Takes the lock of a volume group, so that no snapshot of the group is taken.
Hold = Callable[[int], contextlib.AbstractContextManager[object]]


@dataclasses.dataclass(frozen=True)
class CloneRequest:
    """The description of a clone.

    :ivar name: name of the new volume
    :ivar group_name: name for its own volume group
    :ivar view_name: name for a temporary view, if one is needed
    :ivar size: KiB; at least ``source_size``
    :ivar dedup: whether the new volume is to be deduplicated
    :ivar source_size: KiB; the size on the array may be less by a fraction of
        a GiB
    :ivar source_dedup: whether the source is deduplicated
    :ivar replicated: whether the new volume is to be replicated afterwards
    :ivar source_replicated: whether the source is replicated
    :ivar group: id of the volume group of the consistency group that it joins,
        None for its own group
    """

    name: str
    group_name: str
    view_name: str
    size: int
    dedup: bool
    source_size: int
    source_dedup: bool
    replicated: bool = False
    source_replicated: bool = False
    group: int | None = None


class CreateThinClone(engine.Step):
    """Create the thin clone, at first in its source's group (CLN-2)."""

    default_provides = ('volume', 'made_size')

    def execute(self, array: Array, request: CloneRequest,
                snapshot: ArraySnapshot,
                source: int) -> tuple[int, int]:
        try:
            clone = array.snapshots.create_thin_clone(request.name, snapshot,
                                                      source)
        except rest.Refused as refusal:
            raise exceptions.StrategyUnknown(
                f'the array makes no thin clone: {refusal}') from refusal
        # Cinder's size is rounded up, so the array is asked if it differs.
        size = clone.size or 0
        if size != request.source_size and size not in (
                array.volumes.size(source, snapshot.group),
                array.snapshots.size(snapshot)):
            # An array that ignores the fields creates an empty volume (CLN-5).
            array.volumes.delete(clone.id, snapshot.group, [request.name])
            raise exceptions.StrategyUnknown(
                'the array ignores the request for a thin clone')
        return clone.id, size

    def undo(self, done: typing.Any, **inputs: typing.Any) -> None:
        inputs['array'].volumes.delete(
            done[0], inputs['snapshot'].group, [inputs['request'].name])

    def undo_unknown(self, **inputs: typing.Any) -> None:
        volumes.drop_volume(inputs['array'], inputs['request'].name,
                            inputs['snapshot'].group)


class MoveToOwnGroup(engine.Step):
    """Move the clone out of its source's group (CLN-7).

    Snapshots, restores and quotas apply to all volumes of a group.
    """

    def execute(self, array: Array, volume: int, group: int,
                snapshot: ArraySnapshot, request: CloneRequest) -> None:
        try:
            array.volumes.move(volume, group, [request.name])
        except (rest.Refused, rest.BadReply) as refusal:
            if array.snapshots.is_imaged(volume, snapshot.group):
                raise exceptions.ObjectInUse(
                    f'Thin clone {volume}',
                    'was caught in a snapshot of its source\'s group before '
                    'it could leave it; delete that snapshot, then the '
                    'volume.') from refusal
            raise exceptions.StrategyUnknown(
                'the array does not let a thin clone leave its source\'s '
                f'volume group: {refusal}') from refusal


class Grow(engine.Step):
    """Grow the clone to the requested size; undone with the clone."""

    def execute(self, array: Array, volume: int, made_size: int,
                request: CloneRequest) -> None:
        if request.size > made_size:
            try:
                array.volumes.grow(volume, request.size, [request.name])
            except rest.Refused as refusal:
                # Its group, still that of its source, may have a quota.
                raise exceptions.StrategyRefused(
                    f'the array does not let a thin clone grow: {refusal}'
                ) from refusal


def thin(array: Array, request: CloneRequest,
         snapshot: ArraySnapshot) -> ArrayVolume:
    """Create a thin clone, and move it to its own group.

    Three calls, four if it is larger than its source. The caller holds the
    lock of the source's group: a snapshot of the group would keep the clone
    there (VOL-10).

    :raises StrategyRefused: not possible for this source or array
    """
    if snapshot.view is not None or snapshot.volume is None:
        # CLN-6: thin clones come from snapshots of a group only.
        raise exceptions.StrategyRefused('a view backs the source')
    if request.dedup != request.source_dedup:
        # VOL-10: it could not move to a group with another setting.
        raise exceptions.StrategyRefused(
            'a thin clone keeps its source\'s deduplication')
    if request.source_replicated:
        # REP-5: it starts in the group of its source, which may not change.
        raise exceptions.StrategyRefused('its source is replicated')
    # The move comes last: everything before can be undone from either group.
    flow = linear_flow.Flow('thin-clone').add(
        CreateThinClone(), Grow(), *_own_group(request), MoveToOwnGroup())
    made = engine.run(flow, array=array, request=request, snapshot=snapshot,
                      source=snapshot.volume, **_group_inputs(request))
    return ArrayVolume(group=made['group'], volume=made['volume'],
                       parent=snapshot.snapshot, parent_group=snapshot.group,
                       shared=request.group is not None)


def view(array: Array, request: CloneRequest,
         snapshot: ArraySnapshot) -> ArrayVolume:
    """Create a writable view of the snapshot. Two calls.

    :raises StrategyRefused: the array refuses the view, or a view does not
        suit: it cannot differ from its source in size (VSN-4) or
        deduplication, be in a consistency group, or be replicated, and it
        cannot be of a snapshot with several volumes
    """
    if request.size != request.source_size:
        raise exceptions.StrategyRefused(
            'a view has exactly the size of its source')
    if request.dedup != request.source_dedup:
        raise exceptions.StrategyRefused(
            'a view keeps its source\'s deduplication')
    if request.group is not None:
        raise exceptions.StrategyRefused(
            'a view cannot be a member of a consistency group')
    if request.replicated:
        raise exceptions.StrategyRefused('a view cannot be replicated')
    if snapshot.shared:
        # MAP-3: the hosts of one volume would see the images of all.
        raise exceptions.StrategyRefused(
            'a view shows all volumes of a consistency group at once')
    return _make_view(array, request.name, snapshot, lasting=True)


def _make_view(array: Array, name: str, snapshot: ArraySnapshot, *,
               lasting: bool) -> ArrayVolume:
    try:
        return array.snapshots.create_view(name, snapshot, lasting=lasting)
    except rest.Refused as refusal:
        raise exceptions.StrategyRefused(
            f'the array makes no view: {refusal}') from refusal
    except rest.RestError:
        # The array may have created it nevertheless.
        _discard_view(array, name, snapshot.group)
        raise


class CopyData(engine.Step):
    """Copy the data on this host, from a temporary view."""

    def execute(self, array: Array, request: CloneRequest,
                snapshot: ArraySnapshot,
                copy: Copy, group: int, volume: int) -> None:
        source = _make_view(array, request.view_name, snapshot,
                            lasting=False)
        try:
            copy(NamedVolume(source, [request.view_name]),
                 NamedVolume(ArrayVolume(group=group, volume=volume),
                             [request.name]),
                 request.source_size)
        finally:
            _discard_view(array, request.view_name, snapshot.group)


def copied(copy: Copy, array: Array, request: CloneRequest,
           snapshot: ArraySnapshot) -> ArrayVolume:
    """Create a volume, and copy the snapshot's data to it on this host.

    Works for every source, size and type, but is slow.

    :param copy: copies the data
    """
    flow = linear_flow.Flow('copied-clone').add(
        *_own_group(request), volumes.CreateVolume(), CopyData())
    made = engine.run(flow, array=array, request=request, snapshot=snapshot,
                      name=request.name, size=request.size, copy=copy,
                      **_group_inputs(request))
    return ArrayVolume(group=made['group'], volume=made['volume'],
                       shared=request.group is not None)


class CopyView(engine.Step):
    """Copy the data of a view."""

    def execute(self, view: NamedVolume, size: int, copy: Copy,
                name: str, group: int, volume: int) -> None:
        copy(view, NamedVolume(ArrayVolume(group=group, volume=volume),
                               [name]), size)


def promote(array: Array, copy: Copy, **request: typing.Any) -> ArrayVolume:
    """Flatten a view: create a volume, and copy the data to it on this host.

    :param copy: copies the data
    :param request: ``view``, its ``size`` in KiB; of the new volume ``name``,
        ``group_name``, ``dedup``
    """
    flow = linear_flow.Flow('promotion').add(
        volumes.CreateGroup(), volumes.CreateVolume(), CopyView())
    made = engine.run(flow, array=array, copy=copy, **request)
    return ArrayVolume(group=made['group'], volume=made['volume'])


def _own_group(request: CloneRequest) -> list[engine.Step]:
    return [volumes.CreateGroup()] if request.group is None else []


def _group_inputs(request: CloneRequest) -> dict[str, typing.Any]:
    if request.group is not None:
        return {'group': request.group}
    return {'group_name': request.group_name, 'dedup': request.dedup}


def _discard_view(array: Array, name: str, group: int) -> None:
    """Delete by its name a view that may have been created (OBJ-7)."""
    try:
        with array.cleanup_deadline():
            made = array.shown(lambda: array.snapshots.find_id(name))
            if made is not None:
                array.snapshots.delete(made, group, [name])
    except (rest.RestError, exceptions.K2Error) as error:
        LOG.warning('View %(name)s may be left on the array: %(error)s',
                    {'name': name, 'error': error})


Strategy = Callable[[Array, CloneRequest, ArraySnapshot], ArrayVolume]


class Cloner:
    """Creates clones on one array, and learns what that array refuses.

    :param copy: copies data, for the strategy that needs it
    :param hold: takes the lock of a volume group
    :param leave: purges a volume group; called when a hidden snapshot in it
        has been deleted again, because the source may have been deleted in
        Cinder while that snapshot existed
    """

    def __init__(self, array: Array, copy: Copy, hold: Hold,
                 leave: Callable[[int], None]) -> None:
        self._array = array
        self._hold = hold
        self._leave = leave
        self._strategies: dict[str, Strategy] = {
            'thin': self._thin, 'view': view,
            'copy': functools.partial(copied, copy)}
        self._worked: set[str] = set()
        self._refused = cache.Cache()

    def from_snapshot(self, request: CloneRequest, snapshot: ArraySnapshot,
                      strategies: Sequence[str]) -> ArrayVolume:
        """Create a volume from a snapshot by the first strategy that works.

        :raises CloneNotSupported: none did; the text says why for each
        """
        reasons = []
        for name in self._most_likely_first(strategies):
            try:
                return self._try(name, request, snapshot)
            except exceptions.StrategyRefused as refusal:
                LOG.debug('Clone strategy %(name)s not used for %(volume)s: '
                          '%(reason)s', {'name': name, 'volume': request.name,
                                         'reason': refusal})
                reasons.append(f'{name}: {refusal}')
        raise exceptions.CloneNotSupported(
            f'{request.name} cannot be made in a way that '
            'k2_clone_strategies, or the volume type, allows. '
            + '; '.join(reasons))

    def from_volume(self, request: CloneRequest, source: ArrayVolume,
                    hidden_name: str,
                    strategies: Sequence[str]) -> ArrayVolume:
        """Create a clone from a hidden snapshot, which is kept for the clone.

        A full copy does not need the snapshot: it is deleted at once.

        :param hidden_name: short name for that snapshot
        :raises CloneNotSupported: as in ``from_snapshot``; the snapshot is
            deleted
        """
        with self._hold(source.group):
            hidden = self._array.snapshots.create(hidden_name, source)
        try:
            clone = self.from_snapshot(request, hidden, strategies)
        except Exception:
            self._discard(hidden, hidden_name)
            raise
        if clone.parent is None:
            self._discard(hidden, hidden_name)
            return clone
        return dataclasses.replace(clone, hidden_parent=True)

    def _thin(self, array: Array, request: CloneRequest,
              snapshot: ArraySnapshot) -> ArrayVolume:
        with self._hold(snapshot.group):
            return thin(array, request, snapshot)

    def _most_likely_first(self, strategies: Sequence[str]) -> list[str]:
        """Put recently refused strategies after the others, but before copy.

        They are not left out: a refusal has no code (ERR-7), so the reason may
        have been that one clone. Copying is never refused, but costs the most.
        """
        names = list(strategies)
        end = names.index('copy') if 'copy' in names else len(names)
        return sorted(names[:end], key=lambda name: bool(
            self._refused.peek(name))) + names[end:]

    def _try(self, name: str, request: CloneRequest,
             snapshot: ArraySnapshot) -> ArrayVolume:
        try:
            made = self._strategies[name](self._array, request, snapshot)
        except exceptions.StrategyUnknown:
            if name not in self._worked:
                self._refused.put(name, True)
            raise
        self._worked.add(name)
        self._refused.drop(name)
        return made

    def _discard(self, hidden: ArraySnapshot, name: str) -> None:
        try:
            with self._array.cleanup_deadline():
                found = self._array.shown(
                    lambda: self._array.snapshots.find_id(name))
                if found is not None:
                    self._array.snapshots.delete_parent(
                        found, hidden.group, [name])
            self._leave(hidden.group)
        except (rest.RestError, exceptions.K2Error) as error:
            LOG.warning('Hidden snapshot %(id)s of a clone that failed stays '
                        'on the array: %(error)s',
                        {'id': hidden.snapshot, 'error': error})
