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

"""Clones and volumes from snapshots, without copying data.

Strategies are tried in order; one that the array refuses makes way for the
next. All of them work on a source that is attached.
"""

from collections.abc import Callable
from collections.abc import Sequence
import dataclasses
import typing

from oslo_log import log as logging
from taskflow.patterns import linear_flow

from cinder_k2.array import Array
from cinder_k2.array import Backing
from cinder_k2.array import cache
from cinder_k2.array import SnapshotBacking
from cinder_k2 import exceptions
from cinder_k2.flows import engine
from cinder_k2.flows import volumes
from cinder_k2 import rest

LOG = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class Order:
    """What to make.

    :ivar name: name of the new volume
    :ivar group_name: name for its own volume group
    :ivar size: KiB; at least ``source_size``
    :ivar dedup: whether the new volume is to be deduplicated
    :ivar source: what backs the source
    :ivar source_size: KiB; the array's own size may be a part of a GiB less
    :ivar source_dedup: whether the source is deduplicated
    """

    name: str
    group_name: str
    size: int
    dedup: bool
    source: Backing
    source_size: int
    source_dedup: bool


class CreateThinClone(engine.Step):
    """Make the thin clone; it begins in its source's group (CLN-2)."""

    default_provides = ('volume', 'made_size')

    def execute(self, array: Array, order: Order, snapshot: SnapshotBacking,
                source: int) -> tuple[int, int]:
        try:
            clone = array.snapshots.create_thin_clone(order.name, snapshot,
                                                      source)
        except rest.Refused as refusal:
            raise exceptions.StrategyUnknown(
                f'the array makes no thin clone: {refusal}') from refusal
        # Cinder's size is rounded up, so the array is asked if it differs.
        size = clone.size or 0
        if size != order.source_size and size != array.volumes.size(source):
            # An array that ignores the fields makes a volume without data
            # (CLN-5).
            array.volumes.delete(clone.id)
            raise exceptions.StrategyUnknown(
                'the array ignores the request for a thin clone')
        return clone.id, size

    def undo(self, done: typing.Any, **inputs: typing.Any) -> None:
        inputs['array'].volumes.delete(done[0])

    def undo_doubtful(self, **inputs: typing.Any) -> None:
        volumes_ = inputs['array'].volumes
        made = volumes_.find_volume(inputs['order'].name)
        if made is not None:
            volumes_.delete(made)


class MoveToOwnGroup(engine.Step):
    """Give the clone snapshots, restore and quota of its own (CLN-7)."""

    def execute(self, array: Array, volume: int, group: int) -> None:
        try:
            array.volumes.move(volume, group)
        except rest.Refused as refusal:
            if array.snapshots.is_imaged(volume):
                raise exceptions.ObjectInUse(
                    f'Thin clone {volume}',
                    'was caught in a snapshot of its source\'s group before '
                    'it could leave it; delete that snapshot, then the '
                    'volume.') from refusal
            raise exceptions.StrategyUnknown(
                'the array does not let a thin clone leave its source\'s '
                f'volume group: {refusal}') from refusal


class Grow(engine.Step):
    """Bring the clone to the size asked for; undone with the clone."""

    def execute(self, array: Array, volume: int, made_size: int,
                order: Order) -> None:
        if order.size > made_size:
            array.volumes.grow(volume, order.size)


def thin(array: Array, order: Order, snapshot: SnapshotBacking) -> Backing:
    """A thin clone, moved to a group of its own.

    Three calls, four if it is larger than its source.

    :raises StrategyRefused: not possible for this source or array
    """
    if order.source.volume is None:
        # CLN-6: thin clones come from snapshots of a group only.
        raise exceptions.StrategyRefused('a view backs the source')
    if order.dedup != order.source_dedup:
        # VOL-10: it could not move to a group of the other kind.
        raise exceptions.StrategyRefused(
            'a thin clone keeps its source\'s deduplication')
    # The move comes last: all before it can be undone from either group.
    flow = linear_flow.Flow('thin-clone').add(
        CreateThinClone(), Grow(), volumes.CreateGroup(), MoveToOwnGroup())
    made = engine.run(flow, array=array, order=order, snapshot=snapshot,
                      source=order.source.volume,
                      group_name=order.group_name, dedup=order.dedup)
    return Backing(group=made['group'], volume=made['volume'])


def view(array: Array, order: Order, snapshot: SnapshotBacking) -> Backing:
    """A writable view of the snapshot. Two calls.

    :raises StrategyRefused: a view can differ neither in size (VSN-4) nor
        in deduplication from its source
    """
    if order.size != order.source_size:
        raise exceptions.StrategyRefused(
            'a view has exactly the size of its source')
    if order.dedup != order.source_dedup:
        raise exceptions.StrategyRefused(
            'a view keeps its source\'s deduplication')
    try:
        return array.snapshots.create_view(
            order.name, snapshot, order.source.volume or order.source.origin)
    except rest.Refused as refusal:
        raise exceptions.StrategyRefused(
            f'the array makes no view: {refusal}') from refusal
    except rest.RestError:
        # The array may have made it all the same.
        _discard_view(array, order.name)
        raise


def _discard_view(array: Array, name: str) -> None:
    try:
        with array.grace():
            made = array.snapshots.find_view(name)
            if made is not None:
                array.snapshots.delete(made)
    except (rest.RestError, exceptions.K2Error) as error:
        LOG.warning('View %(name)s may be left on the array: %(error)s',
                    {'name': name, 'error': error})


Strategy = Callable[[Array, Order, SnapshotBacking], Backing]

STRATEGIES: dict[str, Strategy] = {'thin': thin, 'view': view}


class Cloner:
    """Makes clones on one array, and learns what that array refuses."""

    def __init__(self, array: Array) -> None:
        self._array = array
        self._worked: set[str] = set()
        self._refused = cache.Cache()

    def from_snapshot(self, order: Order, snapshot: SnapshotBacking,
                      strategies: Sequence[str]) -> Backing:
        """Make a volume from a snapshot by the first strategy that works.

        :raises CloneImpossible: none did; the text says why for each
        """
        reasons = []
        for name in self._most_likely_first(strategies):
            try:
                return self._try(name, order, snapshot)
            except exceptions.StrategyRefused as refusal:
                LOG.debug('Clone strategy %(name)s not used for %(volume)s: '
                          '%(reason)s', {'name': name, 'volume': order.name,
                                         'reason': refusal})
                reasons.append(f'{name}: {refusal}')
        raise exceptions.CloneImpossible(
            f'{order.name} cannot be made without copying data. '
            + '; '.join(reasons))

    def from_volume(self, order: Order, hidden_name: str,
                    strategies: Sequence[str]) -> Backing:
        """Make a clone, from a hidden snapshot that lives as long as it.

        :param hidden_name: short name for that snapshot
        :raises CloneImpossible: as in ``from_snapshot``; no snapshot stays
        """
        hidden = self._array.snapshots.create(hidden_name, order.source)
        try:
            clone = self.from_snapshot(order, hidden, strategies)
        except Exception:
            self._discard(hidden)
            raise
        return dataclasses.replace(clone, clone_source=hidden.snapshot)

    def _most_likely_first(self, strategies: Sequence[str]) -> list[str]:
        """The order asked for, but what the array refused lately is last.

        It is not left out: a refusal has no code (ERR-7), so its reason may
        have been in that one clone.
        """
        return sorted(strategies, key=lambda name: bool(
            self._refused.peek(name)))

    def _try(self, name: str, order: Order,
             snapshot: SnapshotBacking) -> Backing:
        try:
            made = STRATEGIES[name](self._array, order, snapshot)
        except exceptions.StrategyUnknown:
            if name not in self._worked:
                self._refused.put(name, True)
            raise
        self._worked.add(name)
        self._refused.drop(name)
        return made

    def _discard(self, hidden: SnapshotBacking) -> None:
        try:
            with self._array.grace():
                self._array.snapshots.delete_hidden(hidden.snapshot)
        except (rest.RestError, exceptions.K2Error) as error:
            LOG.warning('Hidden snapshot %(id)s of a clone that failed stays '
                        'on the array: %(error)s',
                        {'id': hidden.snapshot, 'error': error})
