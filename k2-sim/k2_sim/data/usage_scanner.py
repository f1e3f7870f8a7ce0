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

"""The capacities of the array, from the data that it has (CAP-2, CAP-4).

The results are stored in the rows of volumes, of their images and of the
system, in KiB; everything else is a sum of them. A volume that was never
written to is skipped: it has the capacity that the control API sets.

Only changes are scanned: files, volume groups in which a row has other data,
and rows without the latest results.
"""

import contextlib
import threading
import time
from typing import Any

from k2_sim.blocks import contents as contents_module
from k2_sim.blocks import reduction
from k2_sim.data.data_store import KIB
from k2_sim.data.data_store import VOLSNAPS
from k2_sim.data.data_store import VOLUMES
from k2_sim.data import images
from k2_sim.rules import replicas
from k2_sim.state import catalogue
from k2_sim.state import schema
from k2_sim.state.schema import Row
from k2_sim.state import store as store_module

CAPACITY = catalogue.SYSTEM_CAPACITY.name
Key = tuple[str, int]
# The fields with results.
_FIELDS = ('logical_capacity', 'compressed', 'reduced', 'measured')
# Reading files may take at most 1 / _SHARE of the time.
_SHARE = 5


class UsageScanner:
    """Scans the data of one array; thread-safe. lock is the array's.

    No file is read under the lock.
    """

    def __init__(self, contents: contents_module.Contents,
                 store: store_module.Store,
                 lock: contextlib.AbstractContextManager[object]) -> None:
        self._lock = lock
        self._reduction = reduction.Reduction(contents.path, contents.changed)
        self._images = images.Images(store)
        self._figures = _Figures(store)
        self._looking = threading.Lock()
        self._rests_until = 0.0

    def scan_if_due(self) -> None:
        """Update the figures, unless the last scan was too recent."""
        if time.monotonic() >= self._rests_until:
            self.scan()

    def scan(self) -> None:
        """Update the figures with all earlier writes."""
        with self._looking:
            began = time.monotonic()
            with self._lock:
                groups = self._images.groups()
            figures = self._reduction.measure(groups)
            with self._lock:
                self._figures.put(figures)
            ended = time.monotonic()
            self._rests_until = ended + (ended - began) * (_SHARE - 1)


class _Figures:
    """The results in the rows; callers must hold the lock."""

    def __init__(self, store: store_module.Store) -> None:
        self._store = store
        self._known: reduction.Figures | None = None
        # Rows whose figures or data were changed elsewhere.
        self._strayed: set[Key] = set()
        self._emptied: set[Key] = set()
        self._is_putting = False
        store.listeners.append(self._changed)

    def _changed(self, resource: schema.Resource, old: Row | None,
                 new: Row | None) -> None:
        if self._is_putting or new is None or resource.name not in (
                VOLUMES, VOLSNAPS, CAPACITY):
            return
        key = (resource.name, new['id'])
        if old is None or any(
                old.get(field) != new.get(field) for field in _FIELDS):
            self._strayed.add(key)
        if old and replicas.content(old) and not replicas.content(new):
            self._emptied.add(key)

    def put(self, figures: reduction.Figures) -> None:
        """Store the results in the rows."""
        if figures is self._known and not (self._strayed or self._emptied):
            return
        self._is_putting = True
        try:
            with self._store.transaction():
                self._put(figures)
        finally:
            self._is_putting = False
        self._known = figures
        self._strayed.clear()
        self._emptied.intersection_update(figures.logical)

    def _put(self, figures: reduction.Figures) -> None:
        for key in self._emptied - figures.logical.keys():
            self._change(key, {'logical_capacity': 0.0, 'compressed': 0.0})
        strayed = self._strayed & figures.logical.keys()
        for key in figures.differing(self._known) | strayed:
            self._change(key, {
                'logical_capacity': float(figures.logical[key] // KIB),
                'compressed': figures.average[key]})
        self._change((CAPACITY, 1), {
            'reduced': -(-figures.physical // KIB),
            'measured': figures.measured // KIB})

    def _change(self, key: Key, fields: dict[str, Any]) -> None:
        """Change a row, if it exists and has other values."""
        row = self._store.get(*key)
        if row is not None and any(
                row.get(field) != value for field, value in fields.items()):
            self._store.update(*key, **fields)
