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

"""The durable copy of the state: one SQLite file.

Each call of write() is one SQLite transaction. It is on disk when the call
returns, and survives kill -9 and a power failure.
"""

from collections.abc import Iterator
import contextlib
import os
import pathlib
import sqlite3
import stat
from typing import Any

import msgspec

from k2_sim import errors

_FORMAT = 1
_TABLES = """
CREATE TABLE IF NOT EXISTS meta (name TEXT PRIMARY KEY, value TEXT);
CREATE TABLE IF NOT EXISTS objects (
    resource TEXT, id INTEGER, body BLOB,
    PRIMARY KEY (resource, id)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS counters (name TEXT PRIMARY KEY, value INTEGER);
CREATE TABLE IF NOT EXISTS sequences (
    id TEXT PRIMARY KEY, number INTEGER, position INTEGER);
"""

Key = tuple[str, int]


class Changes:
    """The changes of one or more transactions, as they are written."""

    def __init__(self) -> None:
        self.objects: dict[Key, dict[str, Any] | None] = {}
        self.counters: dict[str, int] = {}
        self.sequences: dict[str, tuple[int, int] | None] = {}

    def __bool__(self) -> bool:
        return bool(self.objects or self.counters or self.sequences)

    def update(self, later: 'Changes') -> None:
        """Add later changes."""
        self.objects.update(later.objects)
        self.counters.update(later.counters)
        self.sequences.update(later.sequences)


class Disk:
    """The SQLite file behind a store.

    Raises StateError when the file cannot be used: no such directory, no
    database, another format, in use by another process.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = pathlib.Path(path)
        with self._explained():
            self._database = self._open()

    @contextlib.contextmanager
    def _explained(self, wanted: str = 'use') -> Iterator[None]:
        """Turn errors of the file system and SQLite into StateError."""
        try:
            yield
        except (OSError, sqlite3.Error, msgspec.MsgspecError) as exc:
            text = f'cannot {wanted} state {self.path}: {exc}'
            if 'locked' in str(exc):
                text = f'state {self.path} is in use by another process'
            raise errors.StateError(text) from exc

    def _open(self) -> sqlite3.Connection:
        # The state holds CHAP secrets.
        mode = stat.S_IRUSR | stat.S_IWUSR
        os.close(os.open(self.path, os.O_RDWR | os.O_CREAT, mode))
        database = sqlite3.connect(
            self.path, timeout=0, isolation_level=None,
            check_same_thread=False)
        try:
            self._prepare(database)
        except BaseException:
            database.close()
            raise
        return database

    def _prepare(self, database: sqlite3.Connection) -> None:
        # Exclusive: two processes on one state would overwrite each other.
        database.execute('PRAGMA locking_mode=EXCLUSIVE')
        database.execute('PRAGMA journal_mode=WAL')
        database.execute('PRAGMA synchronous=FULL')
        found = database.execute('PRAGMA user_version').fetchone()[0]
        if found not in (0, _FORMAT):
            raise sqlite3.DatabaseError(f'format {found} is not known')
        database.executescript(_TABLES)
        database.execute(f'PRAGMA user_version={_FORMAT}')

    def meta(self, name: str) -> str | None:
        """A remembered property of the state, such as its profile."""
        with self._explained():
            row = self._database.execute(
                'SELECT value FROM meta WHERE name=?', (name,)).fetchone()
        return row[0] if row else None

    def set_meta(self, name: str, value: str) -> None:
        """Remember a property of the state."""
        with self._explained():
            self._database.execute(
                'INSERT OR REPLACE INTO meta VALUES (?, ?)', (name, value))

    def objects(self) -> list[tuple[str, dict[str, Any]]]:
        """Every object as (resource, row), by resource and id."""
        with self._explained():
            return [(resource, msgspec.json.decode(body, type=dict))
                    for resource, body in self._database.execute(
                        'SELECT resource, body FROM objects'
                        ' ORDER BY resource, id')]

    def counters(self) -> dict[str, int]:
        """The last number given out, by counter."""
        with self._explained():
            return dict(self._database.execute('SELECT * FROM counters'))

    def sequences(self) -> dict[str, tuple[int, int]]:
        """Last number and age of each sequence id, oldest first (SEQ-1)."""
        with self._explained():
            return {name: (number, position) for name, number, position
                    in self._database.execute(
                        'SELECT * FROM sequences ORDER BY position')}

    def write(self, changes: Changes) -> None:
        """Write changes, all of them or none; raises StateError."""
        with self._explained('write'):
            self._database.execute('BEGIN IMMEDIATE')
            try:
                self._write_objects(changes)
                self._write_numbers(changes)
                self._database.execute('COMMIT')
            except BaseException:
                if self._database.in_transaction:
                    self._database.execute('ROLLBACK')
                raise

    def _write_objects(self, changes: Changes) -> None:
        gone = [key for key, row in changes.objects.items() if row is None]
        kept = [(*key, msgspec.json.encode(row))
                for key, row in changes.objects.items() if row is not None]
        self._database.executemany(
            'DELETE FROM objects WHERE resource=? AND id=?', gone)
        self._database.executemany(
            'INSERT OR REPLACE INTO objects VALUES (?, ?, ?)', kept)

    def _write_numbers(self, changes: Changes) -> None:
        self._database.executemany(
            'INSERT OR REPLACE INTO counters VALUES (?, ?)',
            changes.counters.items())
        self._database.executemany(
            'DELETE FROM sequences WHERE id=?',
            [(name,) for name, value in changes.sequences.items()
             if value is None])
        self._database.executemany(
            'INSERT OR REPLACE INTO sequences VALUES (?, ?, ?)',
            [(name, *value) for name, value in changes.sequences.items()
             if value is not None])

    def close(self) -> None:
        """Release the file."""
        self._database.close()
