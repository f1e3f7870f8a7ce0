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

"""The state: tables of rows, changed in transactions.

Rows are never changed in place: a refused request is rolled back by
restoring the old rows.
"""

from collections.abc import Callable
from collections.abc import Iterator
import contextlib
import functools
from typing import Any

from k2_sim import errors
from k2_sim.state import aggregates
from k2_sim.state import catalogue
from k2_sim.state import commits
from k2_sim.state import disk as disk_module
from k2_sim.state import schema
from k2_sim.state.schema import Row
from k2_sim.state import table

# The number of stored sequence ids is limited (SEQ-2).
SEQUENCES_KEPT = 10000
# What was read from a store: one row, as (resource, id); the rows with a
# value in an indexed field, as (resource, field, value); all rows of a
# resource, as (resource,).
Read = tuple[object, ...]
# Not a read of the store: the time of the clock.
MOMENT: Read = ()


def reads_of(resource: schema.Resource, row: Row) -> Iterator[Read]:
    """All reads that include this row."""
    name = resource.name
    yield name, row['id']
    yield (name,)
    for field in resource.indexed:
        yield name, field, row.get(field)


class Store:
    """All tables, counters and sequence numbers of one array.

    Not safe for threads: the array holds its lock around every use.
    listeners are called for every change of a row, including rollbacks.
    reused_id returns the id for a new row of a resource, or None for the
    next number.
    """

    def __init__(self, disk: disk_module.Disk | None = None) -> None:
        self._aggregates = aggregates.Aggregates()
        self.listeners: list[table.Listener] = [self._aggregates.changed]
        self.tables = {name: table.Table(resource, self._changed)
                       for name, resource in catalogue.RESOURCES.items()}
        self.reused_id: Callable[[str], int | None] = lambda resource: None
        self._reads: set[Read] | None = None
        self.counters: dict[str, int] = {}
        self.sequences: dict[str, tuple[int, int]] = {}
        self._changes = disk_module.Changes()
        self._undo: list[Callable[[], object]] = []
        self._disk = disk
        self._commits: commits.Commits | None = None
        if disk is not None:
            self._load(disk)
            self._commits = commits.Commits(disk)

    def _load(self, disk: disk_module.Disk) -> None:
        for resource, row in disk.objects():
            if resource not in self.tables:
                raise errors.StateError(
                    f'state {disk.path} has an unknown resource {resource}')
            try:
                self.tables[resource].put(row)
            except (KeyError, TypeError, ValueError) as exc:
                raise disk.damaged(
                    f'{resource} {row["id"]} cannot be read:'
                    f' {type(exc).__name__} {exc}') from exc
        self.counters = {
            name: number for name, number in disk.counters().items()
            if number}
        self.sequences = disk.sequences()

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        """Changes inside are atomic, and rolled back on any error."""
        try:
            yield
            if self._commits is not None and self._changes:
                self._commits.add(self._changes)
        except BaseException:
            for step in reversed(self._undo):
                step()
            raise
        finally:
            self._undo = []
            self._changes = disk_module.Changes()

    @property
    def commit(self) -> commits.Commit | None:
        """The commit of the newest changes; None: nothing is pending."""
        return None if self._commits is None else self._commits.newest

    @property
    def has_disk(self) -> bool:
        """Whether the state is on disk, and not only in memory."""
        return self._disk is not None

    @property
    def failure(self) -> BaseException | None:
        """The error of the disk, or None."""
        return None if self._commits is None else self._commits.failure

    def flush(self) -> None:
        """Wait, without the array's lock, until all changes are on disk.

        Raises StateError if that fails.
        """
        commit = self.commit
        if commit is not None:
            commit.result()

    def _changed(self, resource: schema.Resource, old: Row | None,
                 new: Row | None) -> None:
        for listener in self.listeners:
            listener(resource, old, new)

    @contextlib.contextmanager
    def noting(self) -> Iterator[set[Read]]:
        """Track reads of the state inside."""
        reads: set[Read] = set()
        self._reads = reads
        try:
            yield reads
        finally:
            self._reads = None

    def note(self, *read: object) -> None:
        """Record a read; without arguments: of the time."""
        if self._reads is not None:
            self._reads.add(read)

    def get(self, resource: str, number: int) -> Row | None:
        """One row, or None."""
        self.note(resource, number)
        return self.tables[resource].rows.get(number)

    def at(self, ref: str) -> Row:
        """The row of a valid reference."""
        resource, number = schema.split_ref(ref)
        self.note(resource, number)
        return self.tables[resource].rows[number]

    def exists(self, ref: str) -> bool:
        """Whether the object of a reference exists."""
        resource, number = schema.split_ref(ref)
        self.note(resource, number)
        return (resource in self.tables
                and number in self.tables[resource].rows)

    def find(self, resource: str, field: str, value: object) -> list[Row]:
        """Rows whose indexed field has this value, by id."""
        self.note(resource, field, value)
        found = self.tables[resource]
        return [found.rows[number] for number in found.find(field, value)]

    def count(self, resource: str, field: str, value: object) -> int:
        """How many rows have this value in an indexed field."""
        self.note(resource, field, value)
        return len(self.tables[resource].find(field, value))

    def rows(self, resource: str) -> list[Row]:
        """Every row of a resource, by id."""
        self.note(resource)
        found = self.tables[resource]
        return [found.rows[number] for number in found.numbers]

    def sums(self, kind: str) -> aggregates.Sums:
        """The sums over all volumes, snapshots or views (see aggregates)."""
        self.note(aggregates.RESOURCES[kind])
        return self._aggregates.of(kind)

    def written(self) -> int:
        """The data written to all volumes, snapshots and views, in KiB."""
        for resource in aggregates.COUNTED:
            self.note(resource)
        return self._aggregates.written

    def insert(self, resource: str, values: Row) -> Row:
        """Add a row under the next id of its resource, or a free one.

        OBJ-7: counted, unless ids are reused.
        """
        number = self.reused_id(resource)
        return self.insert_as(
            resource, number or self.next_number(resource), values)

    def insert_as(self, resource: str, number: int, values: Row) -> Row:
        """Add a row under a given id."""
        self.reserve(resource, number)
        row = {'id': number, **values}
        self._put(resource, row)
        return row

    def update(self, resource: str, number: int, **changes: Any) -> Row:
        """Change fields of a row; returns the new row."""
        row = {**self.tables[resource].rows[number], **changes}
        self._put(resource, row)
        return row

    def remove(self, resource: str, number: int) -> None:
        """Remove a row."""
        place = self.tables[resource]
        self._undo.append(functools.partial(place.put, place.rows[number]))
        place.drop(number)
        self._changes.objects[(resource, number)] = None

    def _put(self, resource: str, row: Row) -> None:
        place = self.tables[resource]
        old = place.rows.get(row['id'])
        self._undo.append(
            functools.partial(place.drop, row['id']) if old is None
            else functools.partial(place.put, old))
        place.put(row)
        self._changes.objects[(resource, row['id'])] = row

    def next_number(self, counter: str) -> int:
        """The next number of a counter, from 1; none is given twice."""
        number = self.counters.get(counter, 0) + 1
        self.reserve(counter, number)
        return number

    def reserve(self, counter: str, number: int) -> None:
        """Raise a counter to at least this number."""
        before = self.counters.get(counter, 0)
        if number > before:
            self._undo.append(
                lambda: self._restore_counter(counter, before))
            self.counters[counter] = number
            self._changes.counters[counter] = number

    def _restore_counter(self, counter: str, number: int) -> None:
        if number:
            self.counters[counter] = number
        else:
            self.counters.pop(counter, None)

    def use_sequence(self, name: str, number: int) -> None:
        """Store a sequence number; refuses with 409 if it is not higher.

        The first number of an id is arbitrary (SEQ-1, SEQ-2).
        """
        known = self.sequences.get(name)
        if known is not None and number <= known[0]:
            raise errors.ApiError(
                409, f'Sequence {name}: {number} was already used')
        position = self.next_number('sequences')
        self.set_sequence(name, (number, position))
        if len(self.sequences) > SEQUENCES_KEPT:
            self.set_sequence(next(iter(self.sequences)), None)

    def set_sequence(self, name: str,
                     value: tuple[int, int] | None) -> None:
        """Store last number and age of a sequence id; None: remove it."""
        old = self.sequences.pop(name, None)
        if value is not None:
            self.sequences[name] = value
        self._undo.append(lambda: self._restore_sequence(name, old))
        self._changes.sequences[name] = value

    def _restore_sequence(self, name: str,
                          old: tuple[int, int] | None) -> None:
        if old is None:
            del self.sequences[name]
        else:
            self.sequences[name] = old

    def clear(self) -> None:
        """Remove everything, inside a transaction."""
        for name, place in self.tables.items():
            for number in reversed(list(place.numbers)):
                self.remove(name, number)
        for name in list(self.sequences):
            self.set_sequence(name, None)
        for name in list(self.counters):
            self._undo.append(functools.partial(
                self._restore_counter, name, self.counters.pop(name)))
            self._changes.counters[name] = 0

    def close(self) -> None:
        """Release the file behind the state."""
        if self._commits is not None:
            self._commits.close()
        if self._disk is not None:
            self._disk.close()
