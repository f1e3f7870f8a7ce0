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
returns, and survives kill -9 and a power failure. Each row has a checksum, so
that a row that was changed since, by whatever means, is not served.
"""

from collections.abc import Iterable
from collections.abc import Iterator
import contextlib
import os
import pathlib
import sqlite3
import stat
from typing import Any
import zlib

import msgspec

from k2_sim import errors

# Rows of format 1 had no checksums.
_FORMAT = 2
_TABLES = """
CREATE TABLE IF NOT EXISTS meta (name TEXT PRIMARY KEY, value TEXT);
CREATE TABLE IF NOT EXISTS objects (
    resource TEXT, id INTEGER, body BLOB, sum INTEGER,
    PRIMARY KEY (resource, id)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS counters (
    name TEXT PRIMARY KEY, value INTEGER, sum INTEGER);
CREATE TABLE IF NOT EXISTS sequences (
    id TEXT PRIMARY KEY, number INTEGER, position INTEGER, sum INTEGER);
"""
# The columns that the checksum is of, by table.
_SUMMED = {'objects': ('resource', 'id', 'body'),
           'counters': ('name', 'value'),
           'sequences': ('id', 'number', 'position')}

# How errors of SQLite about damaged contents begin.
_CONTENTS = ('no such ', 'Could not decode')
# The most characters of a text about damage.
_LONGEST = 300

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

    shown: the path that messages name, if it is another than path.
    Raises StateError when the file cannot be used: no such directory, no
    database, damaged, another format, in use by another process.
    """

    def __init__(self, path: str | os.PathLike[str],
                 shown: pathlib.Path | None = None) -> None:
        self.path = shown or pathlib.Path(path)
        with self._explained():
            self._database = self._open(path)

    @contextlib.contextmanager
    def _explained(self, wanted: str = 'use') -> Iterator[None]:
        """Turn errors of the file system and SQLite into StateError."""
        try:
            yield
        except (OSError, sqlite3.Error, msgspec.MsgspecError) as exc:
            text = f'cannot {wanted} state {self.path}: {exc}'
            if 'locked' in str(exc):
                text = f'state {self.path} is in use by another process'
            elif (type(exc) is sqlite3.DatabaseError
                  or str(exc).startswith(_CONTENTS)):
                raise self.damaged(str(exc)) from exc
            raise errors.StateError(text) from exc

    def damaged(self, what: str) -> errors.StateError:
        """The error for a file whose contents cannot be trusted.

        what: what is damaged, and how; it may have text from the file.
        """
        text = ''.join(c if c.isprintable() else '?' for c in what)
        return errors.StateError(
            f'state {self.path} is damaged: {text[:_LONGEST]}; restore it'
            ' from a copy, or remove the whole directory to begin with a new'
            ' array')

    def _open(self, path: str | os.PathLike[str]) -> sqlite3.Connection:
        # The state holds CHAP secrets.
        mode = stat.S_IRUSR | stat.S_IWUSR
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, mode))
        database = sqlite3.connect(
            path, timeout=0, isolation_level=None, check_same_thread=False)
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
        if found > _FORMAT:
            raise errors.StateError(
                f'cannot use state {self.path}: its format {found} is not'
                ' known; a later k2-sim wrote it')
        self._check_pages(database)
        database.executescript(_TABLES)
        if found < _FORMAT:
            _add_sums(database)
        database.execute(f'PRAGMA user_version={_FORMAT}')

    def keep_whole(self) -> None:
        """Move all that was written from the WAL file into the main file."""
        with self._explained('write'):
            self._database.execute('PRAGMA wal_checkpoint(TRUNCATE)')

    def _check_pages(self, database: sqlite3.Connection) -> None:
        found = database.execute('PRAGMA quick_check(1)').fetchone()[0]
        if found != 'ok':
            raise self.damaged(found.replace('\n', ' '))

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
        found = []
        for resource, number, body in self._rows('objects', 'resource, id'):
            try:
                row = msgspec.json.decode(body, type=dict)
            except msgspec.MsgspecError as exc:
                raise self.damaged(f'{resource} {number}: {exc}') from exc
            if row.get('id') != number:
                raise self.damaged(f'{resource} {number} has another id')
            found.append((resource, row))
        return found

    def counters(self) -> dict[str, int]:
        """The last number given out, by counter."""
        return dict(self._rows('counters', 'name'))

    def sequences(self) -> dict[str, tuple[int, int]]:
        """Last number and age of each sequence id, oldest first (SEQ-1)."""
        return {name: (number, position) for name, number, position
                in self._rows('sequences', 'position')}

    def _rows(self, table: str, order: str) -> Iterator[tuple[Any, ...]]:
        """The rows of a table, verified, without their checksums."""
        columns = ', '.join(_SUMMED[table])
        with self._explained():
            for *row, found in self._database.execute(
                    f'SELECT {columns}, sum FROM {table}'  # nosec B608
                    f' ORDER BY {order}'):
                if found != _sum(row):
                    raise self.damaged(f'{table} {row[0]} {row[1]!r:.40} does'
                                       ' not match its checksum')
                yield tuple(row)

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
            'INSERT OR REPLACE INTO objects VALUES (?, ?, ?, ?)',
            map(_with_sum, kept))

    def _write_numbers(self, changes: Changes) -> None:
        self._database.executemany(
            'INSERT OR REPLACE INTO counters VALUES (?, ?, ?)',
            map(_with_sum, changes.counters.items()))
        self._database.executemany(
            'DELETE FROM sequences WHERE id=?',
            [(name,) for name, value in changes.sequences.items()
             if value is None])
        self._database.executemany(
            'INSERT OR REPLACE INTO sequences VALUES (?, ?, ?, ?)',
            [_with_sum((name, *value))
             for name, value in changes.sequences.items()
             if value is not None])

    def close(self) -> None:
        """Release the file."""
        self._database.close()


def is_emptied(path: pathlib.Path) -> bool:
    """Whether a file is there but has no objects, as far as can be seen."""
    if not path.is_file():
        return False
    if not path.stat().st_size:
        return True
    try:
        with contextlib.closing(sqlite3.connect(
                f'{path.absolute().as_uri()}?mode=ro', uri=True,
                timeout=0)) as database:
            return database.execute(
                'SELECT 1 FROM objects LIMIT 1').fetchone() is None
    except sqlite3.Error as exc:
        return str(exc).startswith('no such table')


def _sum(row: Iterable[object]) -> int:
    """The checksum of a row."""
    found = 0
    for value in row:
        data = value if isinstance(value, bytes) \
            else str(value).encode(errors='surrogatepass')
        found = zlib.crc32(data, zlib.crc32(
            type(value).__name__.encode() + b'\0', found))
    return found


def _with_sum(row: tuple[Any, ...]) -> tuple[Any, ...]:
    return (*row, _sum(row))


def _add_sums(database: sqlite3.Connection) -> None:
    """Give the rows of tables of format 1 their checksums."""
    database.execute('BEGIN IMMEDIATE')
    for table, columns in _SUMMED.items():
        found = [row[1] for row in database.execute(
            f'PRAGMA table_info({table})')]
        if 'sum' in found:
            continue
        database.execute(f'ALTER TABLE {table} ADD COLUMN sum INTEGER')
        names = ', '.join(columns)
        places = ', '.join('?' * (len(columns) + 1))
        rows = database.execute(
            f'SELECT {names} FROM {table}').fetchall()  # nosec B608
        database.executemany(
            f'INSERT OR REPLACE INTO {table} VALUES ({places})',  # nosec B608
            map(_with_sum, rows))
    database.execute(f'PRAGMA user_version={_FORMAT}')
    database.execute('COMMIT')
