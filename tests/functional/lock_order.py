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

"""Checks the order in which the driver takes its locks.

Two threads can deadlock only if they take locks in different orders. So a lock
taken while another is held must come after it in the order that
``cinder_k2.driver.locks`` documents.
"""

from collections.abc import Iterator
import contextlib
import re
import threading
from typing import Any
from unittest import mock

from cinder_k2.driver import locks
from cinder_k2.driver.operations import host_copy

# In the documented order. A copy is not a lock, but operations hold locks
# while they wait for their turn to copy.
RANKS = ('flattening', 'group', 'snapshot', 'copy', 'host', 'maps', 'mapping',
         'volume')
_KIND = re.compile(r'k2-(?:[^-]+-)*?'
                   r'(flattening|group|host|maps|mapping|snapshot|volume)-')


class Watch:
    """Records locks that are taken while others are held.

    :ivar nested: pairs of the kinds of a held lock and a taken one
    :ivar wrong: violations of the order, with the names of both locks
    """

    def __init__(self) -> None:
        self.nested: set[tuple[str, str]] = set()
        self.wrong: list[str] = []
        self._held = threading.local()

    @contextlib.contextmanager
    def installed(self) -> Iterator[None]:
        """Check the locks of this process within the context."""
        lock, turn = locks._lock, host_copy.HostCopy._turn
        with mock.patch.object(
                locks, '_lock', lambda name, *how: self._taking(
                    _kind(name), name, lock(name, *how))), \
            mock.patch.object(
                host_copy.HostCopy, '_turn', lambda copies: self._taking(
                    'copy', 'copy', turn(copies))):
            yield

    @contextlib.contextmanager
    def _taking(self, kind: str, name: str, lock: Any) -> Iterator[None]:
        held = self._held.__dict__.setdefault('names', [])
        for other_kind, other in held:
            self.nested.add((other_kind, kind))
            if not _may_follow((other_kind, other), (kind, name)):
                self.wrong.append(f'{name} while {other} is held')
        with lock:
            held.append((kind, name))
            try:
                yield
            finally:
                held.pop()


def _kind(name: str) -> str:
    found = _KIND.match(name)
    if found is None:
        raise AssertionError(f'{name} has no rank')
    return found.group(1)


def _may_follow(first: tuple[str, str], second: tuple[str, str]) -> bool:
    """Return whether the second lock may be taken while the first is held.

    Locks of the same kind may be nested only for hosts, maps and mappings, in
    the order of their names.
    """
    ranks = [RANKS.index(kind) for kind, _ in (first, second)]
    if ranks[0] == ranks[1]:
        return first[0] in ('host', 'maps', 'mapping') and first[1] < second[1]
    return ranks[0] < ranks[1]
