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

"""Checks whether stored rows are such as an array can have stored."""

from collections.abc import Iterator

from k2_sim import clock as clock_module
from k2_sim import errors
from k2_sim.rules import registry
from k2_sim.rules import volumes
from k2_sim.state import schema
from k2_sim.state import store as store_module

#: The counter that keeps the time to which the clock was advanced.
CLOCK = 'clock'
_SYSTEM = 'system/state'
_IDENTITY = 'identity'
_KINDS: dict[str, type | tuple[type, ...]] = {
    'int': int, 'number': (int, float), 'string': str, 'bool': bool,
    'ref': str}
# Fields that are null until the array knows better.
_UNKNOWN_AT_FIRST = frozenset({
    ('mappings', 'lun'),
    ('replication/sessions', 'remote_replication_session_id')})
# The times that the array itself has written into rows.
_STAMPS = ('creation_time', 'data_creation_time', 'last_exposed_time',
           'last_restored_time', 'last_snapshot_creation_time',
           'last_successful_time', 'since', 'timestamp')


def damages(store: store_module.Store) -> Iterator[str]:
    """A text for each defect of a store; none if the store is new."""
    if is_new(store):
        return
    if not store.tables[_SYSTEM].rows:
        yield f'no {_SYSTEM}'
    for name, table in store.tables.items():
        last = max(table.rows, default=0)
        if store.counters.get(name, 0) < last:
            yield f'{name} {last} beyond the last number that was given'
        for row in store.rows(name):
            found = damage_of(store, name, row)
            if found:
                yield found


def is_new(store: store_module.Store) -> bool:
    """Whether nothing was ever stored."""
    return not store.counters and not any(
        table.rows for table in store.tables.values())


def damage_of(store: store_module.Store, resource: str, row: schema.Row
              ) -> str:
    """The first defect of a row, or ''.

    It is a value of another type, a dangling reference, an impossible time
    or a missing identity. The text has no value that may be a secret.
    """
    for field in registry.stored(resource):
        value = row.get(field.name)
        if value is None and field.name in row and not _may_be_null(
                resource, row['id'], field):
            return f'{resource} {row["id"]} with a bad {field.name}: null'
        if not _has_type(field, value):
            return (f'{resource} {row["id"]} with a bad {field.name}:'
                    f' a {type(value).__name__}')
        if field.kind == 'ref' and value is not None \
                and not _exists(store, field, value):
            return (f'{resource} {row["id"]} with a bad {field.name}:'
                    f' {value!r:.100}')
    for name in _STAMPS:
        value = row.get(name)
        if isinstance(value, (int, float)) \
                and not 0 <= value <= clock_module.END:
            return f'{resource} {row["id"]} with a bad {name}: {value}'
    # Initiators are found by their identity, which no reply shows.
    if _IDENTITY in store.tables[resource].resource.indexed \
            and not isinstance(row.get(_IDENTITY), str):
        return f'{resource} {row["id"]} with a bad {_IDENTITY}'
    return ''


def latest(store: store_module.Store) -> float:
    """The latest time in a store, in seconds since the epoch."""
    return max(store.counters.get(CLOCK, 0), max((
        row[field] for name in store.tables
        for row in store.rows(name) for field in _STAMPS
        if isinstance(row.get(field), (int, float))), default=0))


def _may_be_null(resource: str, number: int, field: schema.Field) -> bool:
    place = resource, field.name
    if place == ('volumes', 'volume_group'):
        return number == volumes.CTRL_ID
    return (field.null or field.create == 'optional'
            or place in _UNKNOWN_AT_FIRST)


def _has_type(field: schema.Field, value: object) -> bool:
    if value is None:
        return True
    return isinstance(value, _KINDS[field.kind]) and (
        field.kind == 'bool' or not isinstance(value, bool))


def _exists(store: store_module.Store, field: schema.Field, ref: str) -> bool:
    # A part of the system may be contained in one that has no resource.
    if ref.startswith('/system/'):
        return any(each.startswith('system/') for each in field.refs)
    try:
        return store.exists(ref)
    except errors.ApiError:
        return False
