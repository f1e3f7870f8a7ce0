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

"""The lock of a data plane: one operation at a time."""

from collections.abc import Iterator
import contextlib
import threading

from k2_sim.data_planes import base

# Seconds; a large publication, or a copy that initiators wait for.
_LIMIT = 300.0


class DataPlaneLock:
    """Serializes operations on a target. name: for error messages."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._lock = threading.Lock()

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Hold the lock. Raises DataPlaneError after _LIMIT seconds."""
        if not self._lock.acquire(timeout=_LIMIT):
            raise base.DataPlaneError(
                f'{self._name} is still busy after {_LIMIT:.0f} s with'
                ' another operation')
        try:
            yield
        finally:
            self._lock.release()

    @contextlib.contextmanager
    def held_if_free(self) -> Iterator[bool]:
        """Hold the lock if it is free; yields whether it is held."""
        is_held = self._lock.acquire(blocking=False)
        try:
            yield is_held
        finally:
            if is_held:
                self._lock.release()
