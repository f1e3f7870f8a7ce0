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

"""Long reads in slices of a millisecond; other requests run in between.

A read of many rows is a generator that yields after every few of them. It
runs under the array's lock, which its caller may release whenever it has
yielded; rows may have changed when it continues.
"""

from collections.abc import Generator
from collections.abc import Iterator
from collections.abc import Sequence
import itertools
import time
from typing import Generic
from typing import TypeVar

T = TypeVar('T')
Steps = Generator[None, None, T]

# Reads of up to this many rows are not worth a pause.
SHORT = 100
# Nor are queries of up to this many bytes, unless they have many results.
SHORT_QUERY = 1000
# Few: an object that is shown for the first time may take half a millisecond.
_ROWS_PER_STEP = 20
# How long a slice takes, and the pause after it, in seconds.
SECONDS = 0.001


def steps_of(items: Sequence[T]) -> Iterator[Sequence[T]]:
    """The items, as many at a time as one step handles."""
    for start in range(0, len(items), _ROWS_PER_STEP):
        yield items[start:start + _ROWS_PER_STEP]


def batches_of(items: Iterator[T]) -> Iterator[list[T]]:
    """The same as steps_of(), for items of an iterator."""
    while batch := list(itertools.islice(items, _ROWS_PER_STEP)):
        yield batch


class Slices(Generic[T]):
    """A read in progress. result: its result, once next_slice() was True."""

    result: T

    def __init__(self, steps: Steps[T]) -> None:
        self._steps = steps

    def next_slice(self) -> bool:
        """Continue for about a millisecond; returns whether it has ended.

        The caller must hold the array's lock. Raises what the read raises.
        """
        end = time.perf_counter() + SECONDS
        try:
            next(self._steps)
            while time.perf_counter() < end:
                next(self._steps)
        except StopIteration as stop:
            self.result = stop.value
            return True
        return False


def whole(steps: Steps[T]) -> T:
    """The result of a read, without a pause."""
    try:
        while True:
            next(steps)
    except StopIteration as stop:
        result: T = stop.value
        return result
