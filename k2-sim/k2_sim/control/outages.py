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

"""Outages of a whole array that a fault rule causes.

An outage is a state that Control can also set directly: another system
state, no space left, a port without link, unreachable peers. It begins
before the request that triggers the rule is carried out, and lasts for the
rule's seconds on the array's clock, or else until that request has its
reply. Then the previous state is restored.
"""

from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Sequence
import contextlib
import dataclasses
import threading
from typing import Any
from typing import Protocol

from k2_sim.faults.fault_rules import FaultRule


Undo = Callable[[], object]


class OutageControl(Protocol):
    """The methods of Control that set and end outages."""

    def behaviors(self) -> dict[str, Any]:
        """The behaviors (see profiles.Behaviors)."""

    def set_behaviors(self, /, **values: Any) -> None:
        """Change behaviors."""

    def has_link(self, port: str) -> bool:
        """Whether a port has a link."""

    def set_port(self, port: str, up: bool) -> None:
        """Take the link of a port down, or up."""

    @property
    def is_cut(self) -> bool:
        """Whether the links to peers are cut."""

    def cut_link(self) -> None:
        """Cut the links to peers."""

    def restore_link(self) -> None:
        """Restore the links to peers."""


Begin = Callable[[OutageControl, FaultRule], Undo]


def _offline(control: OutageControl, rule: FaultRule) -> Undo:
    before = control.behaviors()['state']
    control.set_behaviors(state=rule.state)
    return lambda: control.set_behaviors(state=before)


def _full(control: OutageControl, rule: FaultRule) -> Undo:
    before = control.behaviors()['full']
    control.set_behaviors(full=True)
    return lambda: control.set_behaviors(full=before)


def _port_down(control: OutageControl, rule: FaultRule) -> Undo:
    before = control.has_link(rule.port)
    control.set_port(rule.port, False)
    return lambda: control.set_port(rule.port, before)


def _peer_lost(control: OutageControl, rule: FaultRule) -> Undo:
    if control.is_cut:
        return lambda: None
    control.cut_link()
    return control.restore_link


_BEGIN: dict[str, Begin] = {
    'offline': _offline, 'full': _full, 'port_down': _port_down,
    'peer_lost': _peer_lost}


@dataclasses.dataclass
class _Outage:
    """A current outage; holders: requests that it must outlast."""

    undo: Undo
    until: float
    holders: int = 0


class Outages:
    """The outages of one array; thread-safe."""

    def __init__(self, control: OutageControl,
                 now: Callable[[], float]) -> None:
        self._control = control
        self._now = now
        self._lock = threading.RLock()
        # By kind and port; the same one does not begin twice.
        self._active: dict[tuple[str, str], _Outage] = {}

    def during(self, rules: Sequence[FaultRule]
               ) -> contextlib.AbstractContextManager[None]:
        """The context in which to carry out a request.

        rules: the outage rules that it has triggered.
        """
        if not rules and not self._active:
            return contextlib.nullcontext()
        return self._during(rules)

    @contextlib.contextmanager
    def _during(self, rules: Sequence[FaultRule]) -> Iterator[None]:
        begun = [self._begin(rule) for rule in rules]
        try:
            yield
        finally:
            for outage in begun:
                outage.holders -= 1
            self.settle()

    def _begin(self, rule: FaultRule) -> _Outage:
        with self._lock:
            key = rule.kind, rule.port
            outage = self._active.get(key)
            if outage is None:
                undo = _BEGIN[rule.kind](self._control, rule)
                outage = self._active[key] = _Outage(undo, 0.0)
            outage.until = max(outage.until, self._now() + rule.seconds)
            outage.holders += 1
        return outage

    def settle(self) -> None:
        """End the outages that have expired."""
        if self._active:
            self._end(self._now())

    def end(self) -> None:
        """End all outages, except those of requests in progress."""
        self._end(float('inf'))

    def _end(self, now: float) -> None:
        with self._lock:
            for key, outage in list(self._active.items()):
                if outage.until <= now and not outage.holders:
                    del self._active[key]
                    outage.undo()
