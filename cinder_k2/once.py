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

"""Messages to be logged only once."""

from collections.abc import Hashable
import threading

import cachetools

_ENTRIES = 4096


class Once:
    """The most recent keys that were seen before. Thread-safe.

    Beyond the limit of ``entries``, the oldest key counts as new again.
    """

    def __init__(self, entries: int = _ENTRIES) -> None:
        self._lock = threading.Lock()
        self._met: cachetools.LRUCache[Hashable, bool] = (
            cachetools.LRUCache(entries))

    def is_first(self, key: Hashable) -> bool:
        """Whether the key is seen for the first time."""
        with self._lock:
            first = not self._met.get(key, False)
            self._met[key] = True
            return first

    def clear(self) -> None:
        """Forget all keys."""
        with self._lock:
            self._met.clear()
