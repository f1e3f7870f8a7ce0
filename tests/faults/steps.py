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

"""Kill a service, or run something else, at a given call to an array."""

from collections.abc import Callable
from collections.abc import Iterator
import contextlib
import itertools
from typing import Any
from unittest import mock

from cinder_k2.rest import transport


class Killed(BaseException):
    """The service was killed here."""


class Steps:
    """Observes the driver's calls, and counts the steps among them.

    A step is the first call, and each call that is the first after a write.

    :param here: says for the base URL of a call whether it counts
    """

    def __init__(self, here: Callable[[str], bool] = bool) -> None:
        self._here = here
        self._changed = True
        self._numbers = itertools.count()

    @contextlib.contextmanager
    def on(self, number: int, act: Callable[[], None]) -> Iterator[None]:
        """Run ``act`` before the step of that number, counted from 0."""
        send = transport.Transport.exchange

        def exchange(wire: Any, request: Any, *args: Any) -> Any:
            if self._changed and self._here(wire.base_url):
                self._changed = False
                if next(self._numbers) == number:
                    act()
            self._changed = self._changed or request.method != 'GET'
            return send(wire, request, *args)

        with mock.patch.object(transport.Transport, 'exchange', exchange):
            yield


def no_undoing() -> Any:
    """Disable undo: nothing reverts the steps of a killed service."""
    return mock.patch('cinder_k2.flows.engine.Step.revert',
                      lambda *args, **kwargs: None)


@contextlib.contextmanager
def killed_at(number: int) -> Iterator[None]:
    """Kill the service at a step: no undo, and no further requests."""
    def kill() -> None:
        stack.enter_context(mock.patch.object(
            transport.Transport, 'exchange', autospec=True,
            side_effect=Killed))
        raise Killed

    with contextlib.ExitStack() as stack, no_undoing(), \
            Steps().on(number, kill):
        yield
