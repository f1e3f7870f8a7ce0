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

"""When auto-deletable snapshots expire (RET-2)."""

import heapq

from k2_sim.rules.base import Scope
from k2_sim.rules import snapshots
from k2_sim.state import catalogue
from k2_sim.state import schema
from k2_sim.state.schema import Row
from k2_sim.state import store as store_module

_SNAPSHOTS = catalogue.SNAPSHOTS.name
_POLICIES = catalogue.RETENTION_POLICIES.name
# The fields that decide, with the policy, when a snapshot expires.
_DECISIVE = ('retention_policy', 'is_auto_deleteable', 'creation_time')
# Outdated entries are purged when they outnumber the others by this much.
_FEW = 100


class Retention:
    """The snapshots of one state, ordered by the time at which they expire."""

    def __init__(self, store: store_module.Store) -> None:
        # To be added to the heap, which may also have outdated entries.
        self._unscheduled = set(store.tables[_SNAPSHOTS].numbers)
        self._heap: list[tuple[float, int]] = []
        # Expired, but kept for another reason; any change may end that.
        self._kept: set[int] = set()
        self._is_changed = False
        self._store = store
        store.listeners.append(self._changed)

    def _changed(self, resource: schema.Resource, old: Row | None,
                 new: Row | None) -> None:
        self._is_changed = True
        if resource.name == _SNAPSHOTS and new is not None:
            if old is None or any(old[field] != new[field]
                                  for field in _DECISIVE):
                self._unscheduled.add(new['id'])
        elif resource.name == _POLICIES and old is not None:
            self._start_anew()

    def _start_anew(self) -> None:
        self._heap.clear()
        self._unscheduled.update(self._store.tables[_SNAPSHOTS].numbers)

    def expired(self, scope: Scope) -> list[Row]:
        """The snapshots to be removed now."""
        if len(self._heap) > _FEW + 2 * len(
                self._store.tables[_SNAPSHOTS].numbers):
            self._start_anew()
        while self._unscheduled:
            self._enter(scope, self._unscheduled.pop())
        while self._heap and self._heap[0][0] <= scope.now:
            self._kept.add(heapq.heappop(self._heap)[1])
            self._is_changed = True
        if not self._kept or not self._is_changed:
            return []
        self._is_changed = False
        return self._to_remove(scope)

    def _enter(self, scope: Scope, number: int) -> None:
        row = scope.store.get(_SNAPSHOTS, number)
        due = None if row is None else snapshots.due(scope, row)
        if due is not None:
            heapq.heappush(self._heap, (due, number))

    def _to_remove(self, scope: Scope) -> list[Row]:
        found = []
        for number in sorted(self._kept):
            row = scope.store.get(_SNAPSHOTS, number)
            due = None if row is None else snapshots.due(scope, row)
            if row is None or due is None or due > scope.now:
                # It is gone, or was changed and has a later entry.
                self._kept.discard(number)
            elif not snapshots.why_kept(scope, row):
                found.append(row)
        return found
