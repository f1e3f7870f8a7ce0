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

"""Requests as steps.

The logic of requests (retries, checks after a lost reply, searches,
capabilities) is written as generators. Each yields the ``Call``s to send, one
by one, receives the reply or the error of each, and returns its result.
``Session.run`` sends them. So none of this logic is on the stack while a
request is under way, and each part of it reads from top to bottom.
"""

from collections.abc import Callable
from collections.abc import Generator
import dataclasses
import types
from typing import Any
from typing import TypeVar

from cinder_k2.rest import limiter
from cinder_k2.rest import retry
from cinder_k2.rest import transport

T = TypeVar('T')


@dataclasses.dataclass(frozen=True)
class Call:
    """One request, to be sent once.

    :ivar limited_by: the limiter that gives it a slot
    :ivar tries: how often it was sent before
    """

    request: transport.Request
    limited_by: limiter.RequestLimiter
    deadline: retry.Deadline
    tries: int


#: Yields calls, receives the body of each reply, and returns a T.
Steps = Generator[Call, bytes, T]


def value(made: Any) -> Steps[Any]:
    """The result of steps, or of a value that is a result already."""
    if isinstance(made, types.GeneratorType):
        return (yield from made)
    return made


def plain(act: Callable[[], T]) -> Callable[[], Steps[T]]:
    """Wrap as steps a function that sends its own calls."""
    def steps() -> Steps[T]:
        yield from ()
        return act()
    return steps
