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

"""The files of rows: owned, shared, pinned, or unused.

A token that several rows have had, or the image of a plain snapshot, always
stands for the same data: another array may have it, too. Before a write, a
row gets its own token, by a copy, or by renaming the file if nothing else
uses it. No file is copied or removed under the array's lock. A row refers to
a file only after the file is on disk, and a file is removed only after no row
on disk refers to it; so a crash can only leave files without rows.
"""

import collections
from collections.abc import Callable
from collections.abc import Iterator
import contextlib
import logging

from k2_sim.blocks import contents as contents_module
from k2_sim import clock as clock_module
from k2_sim.data import inbound
from k2_sim import errors
from k2_sim.protocol import request_context
from k2_sim.rules import replicas
from k2_sim.state import catalogue
from k2_sim.state import schema
from k2_sim.state.schema import Row
from k2_sim.state import store as store_module

LOG = logging.getLogger(__name__)
VOLUMES, VOLSNAPS = catalogue.VOLUMES.name, catalogue.VOLSNAPS.name
KIB = 1024
# How often a copy is tried: the row may get other contents meanwhile.
_COPIES = 5


class DataStore:
    """The files of one array's rows.

    lock is the array's; callers must not hold it. inbound: files that
    arrive from other arrays. has_files: see null.NullDataStore. Raises
    StateError for a directory without any of the files that rows name.
    """

    has_files = True

    def __init__(self, contents: contents_module.Contents,
                 store: store_module.Store,
                 lock: contextlib.AbstractContextManager[object],
                 clock: clock_module.Clock) -> None:
        self.contents = contents
        self.inbound = inbound.Inbound(
            contents, self.pinned, self.release, clock)
        self._store = store
        self._lock = lock
        self._counts: collections.Counter[str] = collections.Counter()
        self._held: collections.Counter[str] = collections.Counter()
        # Created for one row, and never used by another one: these may change.
        self._owned: set[str] = set()
        # Without rows; removed unless pinned.
        self._unnamed: set[str] = set()
        for name in (VOLUMES, VOLSNAPS):
            self._counts.update(filter(None, map(
                replicas.content, store.rows(name))))
        self._check_directory()
        store.listeners.append(self._changed)
        with self._store.transaction():
            self.drop_missing()
        self._unnamed = contents.tokens() - self._counts.keys()
        self.sweep()

    def _check_directory(self) -> None:
        """Refuse to start without any file: a disk may not be mounted.

        If the directory itself is missing, this is intended.
        """
        contents = self.contents
        if (self._counts and not contents.is_new
                and self._counts.keys().isdisjoint(contents.tokens())):
            raise errors.StateError(
                f'{contents.shown} has none of the {len(self._counts)}'
                ' files that the state names: mount what belongs there, or'
                ' remove it to go on with volumes that read as zeros')

    def _changed(self, resource: schema.Resource, old: Row | None,
                 new: Row | None) -> None:
        if resource.name not in (VOLUMES, VOLSNAPS):
            return
        before = replicas.content(old or {})
        after = replicas.content(new or {})
        if before == after:
            return
        if after:
            self._counts[after] += 1
            self._unnamed.discard(after)
            if self._counts[after] > 1:
                self._owned.discard(after)
        if before:
            self._counts[before] -= 1
            if not self._counts[before]:
                del self._counts[before]
                self._unnamed.add(before)

    def drop_missing(self) -> None:
        """Empty the rows whose files are missing, in a transaction.

        A saved state does not include data.
        """
        missing = [
            (name, row['id']) for name in (VOLUMES, VOLSNAPS)
            for row in self._store.rows(name) if replicas.content(row)
            and not self.contents.has(replicas.content(row))]
        for name, number in missing:
            self._store.update(name, number, content='')
        if missing:
            LOG.warning('The data of %s volumes and images is not in %s:'
                        ' they read as zeros', len(missing),
                        self.contents.shown)

    def own(self, resource: str, number: int, live: bool = False) -> str:
        """The token of a row, which no other row has ever had.

        Its file is at least as long as the row is large, and the row is
        on disk. live: from now on initiators write to the file (see
        Contents.live). Raises ApiError (404, 400) for a row that is not
        there, or is an image in a plain snapshot.
        """
        return self._own(
            resource, number, self.contents.live if live else None)

    def _own(self, resource: str, number: int, mark: set[str] | None) -> str:
        """As own(); adds the token to mark before another row can get it."""
        for _ in range(_COPIES):
            with self._lock:
                row = self._changeable(resource, number)
                token = replicas.content(row)
                owned = token in self._owned
                if owned and mark is not None:
                    mark.add(token)
                self._held[token] += 1
            with self._released(token):
                if owned:
                    self.contents.resize(token, row['size'] * KIB)
                else:
                    self._replace(resource, row, token)
            if owned:
                self._store.flush()
                return token
        raise errors.refused(f'{row["name"]} changes all the time')

    def _changeable(self, resource: str, number: int) -> Row:
        row = self._store.get(resource, number)
        if row is None:
            raise errors.missing(f'/{resource}/{number}')
        if resource == VOLSNAPS and not row['is_exposable']:
            raise errors.refused(f'{row["name"]} is read-only')
        return row

    def _replace(self, resource: str, row: Row, token: str) -> None:
        """Give a row its own token, unless it has got another one."""
        with self._lock:
            is_alone = self._is_alone(token)
        new = self.contents.link(token) if is_alone else ''
        is_same = bool(new)
        new = new or self.contents.clone(token, row['size'] * KIB)
        with self._lock:
            found = self._store.get(resource, row['id'])
            self._unnamed.add(new)
            if (found is None or replicas.content(found) != token
                    or is_same and not self._is_alone(token)):
                return
            with self._store.transaction():
                self._store.update(resource, row['id'], content=new)
            self._owned.add(new)
            if is_same:
                # Another row that took it now would see it change.
                self._unnamed.discard(token)
                self.contents.forget(token)
        if is_same:
            self._store.flush()
            self.contents.remove(token)

    def _is_alone(self, token: str) -> bool:
        """Whether one row has the file, and only the caller holds it."""
        return self._counts[token] == self._held[token] == 1

    @contextlib.contextmanager
    def _released(self, token: str) -> Iterator[None]:
        """Release the token at the end."""
        try:
            yield
        finally:
            with self._lock:
                self._held[token] -= 1
                if not self._held[token]:
                    del self._held[token]

    @contextlib.contextmanager
    def pinned(self, find: Callable[[], str]) -> Iterator[str]:
        """Pin the token that find, called under the lock, returns.

        Its file is not removed within the context.
        """
        with self._lock:
            token = find()
            self._held[token] += 1
        with self._released(token):
            yield token

    @contextlib.contextmanager
    def writing(self, resource: str, number: int) -> Iterator[str]:
        """The row's own token, for a write that snapshots wait for.

        Raises as own() does.
        """
        busy = self.contents.busy
        with self.contents.writing:
            try:
                own = self._own(resource, number, busy)
                with self.pinned(lambda: own) as token:
                    if not self.contents.has(token):
                        raise errors.missing(f'/{resource}/{number}')
                    yield token
            finally:
                busy.clear()

    def freeze(self, context: request_context.RequestContext,
               until: contextlib.ExitStack) -> None:
        """Make the copies that a request needs, all at one point in time.

        until: no other data changes before it is closed, so that data
        without a copy is from that point in time, too.
        """
        if not context.unfrozen:
            return
        with contextlib.ExitStack() as stack:
            for token in context.unfrozen:
                stack.enter_context(self.pinned(lambda: token))
            if not context.is_flushed:
                # Only in the first round: later ones already block writes.
                self.contents.flush(context.unfrozen)
                context.is_flushed = True
            until.enter_context(self.contents.writing)
            stack.enter_context(self.contents.quiesced())
            for token in filter(self.contents.has, context.unfrozen):
                copy = self.contents.clone(token)
                self.release(context.copies.get(token, ''))
                context.copies[token] = copy

    def release(self, token: str) -> None:
        """Release a file that was made for a row, if no row has it."""
        with self._lock:
            if token and not self._counts[token]:
                self._unnamed.add(token)

    def end(self, context: request_context.RequestContext) -> None:
        """Release the copies of a finished request that no row has."""
        for token in context.copies.values():
            self.release(token)

    def run_maintenance(self) -> None:
        """Drop expired and unused files."""
        self.inbound.expire()
        self.sweep()

    def sweep(self) -> None:
        """Remove the files that no row refers to, in memory or on disk."""
        with self._lock:
            leaving, self._unnamed = self._unnamed, set()
        if not leaving:
            return
        self._store.flush()
        with self._lock:
            # Tokens that got a row and lost it meanwhile wait for the next
            # sweep.
            leaving -= self._unnamed | self._counts.keys()
            held = leaving & self._held.keys()
            self._unnamed |= held
            # A saved state may have named tokens that have no file.
            gone = set(filter(self.contents.has, leaving - held))
            self._owned -= gone
            for token in gone:
                self.contents.forget(token)
        for token in gone:
            self.contents.remove(token)
