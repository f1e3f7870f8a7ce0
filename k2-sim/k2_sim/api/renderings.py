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

"""A cache of encoded rows.

Dependencies are not declared: the store tracks reads while a row is
rendered, and a change of what was read drops the rendering. Renderings that
depend on the time are not cached.
"""

from collections.abc import Iterable

import msgspec

from k2_sim import profiles
from k2_sim.rules.base import Rules
from k2_sim.rules.base import Scope
from k2_sim.state import schema
from k2_sim.state.schema import Row
from k2_sim.state import store as store_module

_Key = tuple[str, int]


class Renderings:
    """The cached renderings of one state."""

    def __init__(self, store: store_module.Store) -> None:
        self._store = store
        self._changes = 0
        self._known: dict[str, dict[int, msgspec.Raw]] = {
            name: {} for name in store.tables}
        # What each rendering has read, and the renderings that read it.
        self._reads: dict[_Key, tuple[store_module.Read, ...]] = {}
        self._readers: dict[store_module.Read, set[_Key]] = {}
        store.listeners.append(self._changed)

    def check(self, behaviors: profiles.Behaviors) -> None:
        """Clear the cache if a behavior has changed."""
        if behaviors.changes != self._changes:
            self._changes = behaviors.changes
            for known in self._known.values():
                known.clear()
            self._reads.clear()
            self._readers.clear()

    def of(self, scope: Scope, rules: Rules, row: Row) -> msgspec.Raw:
        """The JSON of a row of the state with all its fields."""
        return self.of_all(scope, rules, (row['id'],))[0]

    def of_all(self, scope: Scope, rules: Rules, numbers: Iterable[int]
               ) -> list[msgspec.Raw]:
        """The JSON of some rows of a resource, by their ids."""
        known = self._known[rules.name]
        rows = self._store.tables[rules.name].rows
        return [known.get(number) or self._render(scope, rules, rows[number])
                for number in numbers]

    def _render(self, scope: Scope, rules: Rules, row: Row) -> msgspec.Raw:
        key = rules.name, row['id']
        with self._store.noting() as reads:
            self._store.get(*key)
            raw = msgspec.Raw(msgspec.json.encode(rules.render(scope, row)))
        if store_module.MOMENT not in reads:
            self._known[rules.name][row['id']] = raw
            # Reads without the lock may still be added to the set.
            self._reads[key] = noted = tuple(reads)
            for read in noted:
                self._readers.setdefault(read, set()).add(key)
        return raw

    def _changed(self, resource: schema.Resource, old: Row | None,
                 new: Row | None) -> None:
        if not self._reads:
            return
        for row in (old, new):
            if row is not None:
                for read in store_module.reads_of(resource, row):
                    for key in self._readers.pop(read, ()):
                        self._forget(key)

    def _forget(self, key: _Key) -> None:
        resource, number = key
        del self._known[resource][number]
        for read in self._reads.pop(key):
            readers = self._readers.get(read)
            if readers is not None:
                readers.discard(key)
                if not readers:
                    del self._readers[read]
