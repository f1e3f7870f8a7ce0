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

"""Reuse of ids: a new object gets the lowest free one (OBJ-7)."""

from collections.abc import Callable
from collections.abc import Mapping

from k2_sim import profiles
from k2_sim.state import schema
from k2_sim.state import store as store_module


# Records of past events, ordered by their ids.
_RECORDS = ('events', 'replication/rpo_history')
# References to deleted snapshots, which are shown as null.
_DANGLING = {'snapshots': (
    ('volume_groups', 'last_restored_from'),
    ('volumes', 'last_restored_from'),
    ('replication/sessions', 'latest_replicated_snapshot'),
    ('replication/sessions', 'restored_snapshot'))}


class ReusedIds:
    """The ids of new rows of one state while ids are reused.

    is_shown: whether replies may still show a deleted object of this
    resource and id (QRY-10, VOL-17); such an id is not free. forget: by
    resource, called to drop the state of the former object of an id.
    """

    def __init__(self, store: store_module.Store,
                 behaviors: profiles.Behaviors,
                 is_shown: Callable[[str, int], bool],
                 forget: Mapping[str, Callable[[int], None]]) -> None:
        self._store = store
        self._behaviors = behaviors
        self._is_shown = is_shown
        self._forget = forget

    def take(self, resource: str) -> int | None:
        """The lowest free id, inside a transaction; None: use the counter."""
        if not self._behaviors.reuse_ids or resource in _RECORDS:
            return None
        table = self._store.tables[resource]
        number = table.free_number(0)
        while self._is_shown(resource, number):
            number = table.free_number(number)
        if resource in self._forget:
            self._forget[resource](number)
        self._clear(resource, schema.make_ref(resource, number))
        return number

    def _clear(self, resource: str, ref: str) -> None:
        """Remove references that would point to the new object by mistake."""
        for name, field in _DANGLING.get(resource, ()):
            for row in self._store.rows(name):
                if row[field] == ref:
                    self._store.update(name, row['id'], **{field: None})
