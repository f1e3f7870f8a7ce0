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

"""What is done to a data plane is done one thing after the other."""

from collections.abc import Iterator
import contextlib
import threading

from k2_sim.planes import base

# Seconds; a large publication, or a copy that initiators wait for.
_LIMIT = 300.0


class Turns:
    """Lets one thread at a time work on a target; name: for messages."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._lock = threading.Lock()

    @contextlib.contextmanager
    def own(self) -> Iterator[None]:
        """Inside, no other thread has a turn. Raises PlaneError."""
        if not self._lock.acquire(timeout=_LIMIT):
            raise base.PlaneError(f'{self._name} was busy for'
                                  f' {_LIMIT:.0f} s with something else')
        try:
            yield
        finally:
            self._lock.release()

    @contextlib.contextmanager
    def spare(self) -> Iterator[bool]:
        """Inside, no other thread has a turn if this gives True.

        It is False where one would have to be waited for.
        """
        is_own = self._lock.acquire(blocking=False)
        try:
            yield is_own
        finally:
            if is_own:
                self._lock.release()
