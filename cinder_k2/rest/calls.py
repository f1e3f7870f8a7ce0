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

What decides about requests (retries, looks after a lost reply, searches,
what the array can do) is written as generators. Each yields the ``Call``s
that it wants sent, one by one, is given the reply or the error of each, and
returns its result. ``Session.run`` sends them. So none of these decisions is
on the stack while a request is under way, and each reads from top to bottom.
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
    """One request that is to be sent once.

    :ivar limited_by: lets it through when it is its turn
    :ivar tries: how often it was sent before
    """

    request: transport.Request
    limited_by: limiter.RequestLimiter
    deadline: retry.Deadline
    tries: int


#: What yields calls, is sent the body of each reply, and returns a T.
Steps = Generator[Call, bytes, T]


def value(made: Any) -> Steps[Any]:
    """The result of steps, or what is a result already."""
    if isinstance(made, types.GeneratorType):
        return (yield from made)
    return made


def plain(act: Callable[[], T]) -> Callable[[], Steps[T]]:
    """As steps, what carries out calls of its own."""
    def steps() -> Steps[T]:
        yield from ()
        return act()
    return steps
