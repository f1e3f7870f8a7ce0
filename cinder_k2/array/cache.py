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

"""Facts of the array that seldom change, cached for a while."""

from collections.abc import Callable
from collections.abc import Hashable
import threading
import typing

import cachetools

T = typing.TypeVar('T')

# Seconds.
_LIFETIME = 600.0
_ENTRIES = 4096


class Cache:
    """Values by key, each kept for ten minutes. Thread-safe.

    Nothing in it may be needed for correctness: a value can be gone or out of
    date at any time, and other services have their own caches.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._values: cachetools.TTLCache[Hashable, typing.Any] = (
            cachetools.TTLCache(_ENTRIES, _LIFETIME))

    def get(self, key: Hashable, load: Callable[[], T]) -> T:
        """The value of the key; ``load`` fetches it if it is missing."""
        value: T | None = self.peek(key)
        if value is None:
            value = load()
            self.put(key, value)
        return value

    def peek(self, key: Hashable) -> typing.Any:
        """The value of the key, None if it is not there."""
        with self._lock:
            return self._values.get(key)

    def put(self, key: Hashable, value: object) -> None:
        """Store a value that was learned as a by-product."""
        with self._lock:
            self._values[key] = value

    def drop(self, key: Hashable) -> None:
        """Forget a value that proved wrong."""
        with self._lock:
            self._values.pop(key, None)

    def clear(self) -> None:
        """Forget all values."""
        with self._lock:
            self._values.clear()
