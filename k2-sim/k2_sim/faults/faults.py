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

"""Fault injection: which replies are affected, and how."""

import collections
from collections.abc import Callable
from collections.abc import Mapping
import dataclasses
import functools
import random
import threading
from typing import Any

import msgspec

from k2_sim import errors
from k2_sim.faults import fault_rules
from k2_sim.faults.fault_rules import FaultRule
from k2_sim.faults.latency import Latency
from k2_sim.faults import random_streams
from k2_sim.faults.subjects import Subject
from k2_sim.faults.visibility import StaleReads
from k2_sim.faults.visibility import StaleWindow
from k2_sim.protocol import messages
from k2_sim.protocol.messages import Exchange
from k2_sim.protocol.messages import Response


# The common key of the kinds of which only one can apply to a reply.
_REPLY = 'reply'
_FRESH = StaleReads()


class Plan(msgspec.Struct, frozen=True):
    """The faults of one request.

    rule: the fault of its reply, if any. stale: how long reads do not see
    its write. delay: seconds that its reply takes. fault: the kind for the
    journal, or ''. outages: faults of the whole array that begin with it.
    """

    rule: FaultRule | None
    stale: StaleReads
    delay: float
    fault: str
    outages: tuple[FaultRule, ...] = ()

    @property
    def is_carried_out(self) -> bool:
        """Whether the request is carried out at all."""
        return self.rule is None or self.rule.is_carried_out


@dataclasses.dataclass(frozen=True)
class _RuleStreams:
    """The random numbers of one rule: whether it triggers, and its delay.

    Each request that matches the rule draws a number from both, whether it
    triggers the rule or not, so that no other rule shifts their sequences.
    """

    triggers: random.Random
    delays: random.Random


@dataclasses.dataclass(frozen=True)
class _Trigger:
    """A rule that a request triggered; delay: seconds, for kind latency."""

    rule: FaultRule
    delay: float


class Faults:
    """The rules of one array and its latency, safe for threads.

    Ids of rules begin at 1. Each rule has its own random numbers, derived
    from the seed and its id.
    """

    def __init__(self, seed: int | None = None) -> None:
        self._lock = threading.Lock()
        self._rules: dict[int, FaultRule] = {}
        self._streams: dict[int, _RuleStreams] = {}
        self._last_id = 0
        self.latency = Latency()
        self.reseed(seed)

    def reseed(self, seed: int | None) -> None:
        """Restart all random streams and counts; None generates a seed."""
        with self._lock:
            self._random = random_streams.RandomStreams(seed)
            self._delays = self._random.stream('latency')
            for rule in self._rules.values():
                rule.matched = rule.triggered = 0
                self._streams[rule.id] = self._streams_of(rule)

    @property
    def seed(self) -> int:
        """The seed of all random numbers."""
        return self._random.seed

    def _streams_of(self, rule: FaultRule) -> _RuleStreams:
        name = f'rule {rule.id}'
        return _RuleStreams(self._random.stream(name),
                            self._random.stream(f'{name} latency'))

    def add(self, rule: FaultRule | Mapping[str, Any]) -> FaultRule:
        """Add a rule and assign its id; the first rule that triggers wins.

        Raises ApiError (400) for an invalid rule.
        """
        checked = fault_rules.read(rule)
        with self._lock:
            self._last_id += 1
            checked.id = self._last_id
            self._rules[checked.id] = checked
            self._streams[checked.id] = self._streams_of(checked)
        return checked

    def rule(self, number: int) -> FaultRule:
        """One rule; raises ApiError (404)."""
        rule = self._rules.get(number)
        if rule is None:
            raise errors.missing(f'/faults/{number}')
        return rule

    def change(self, number: int, values: Mapping[str, Any]) -> FaultRule:
        """Change a rule; its position, its id and its counts stay.

        Raises ApiError (404, 400).
        """
        with self._lock:
            rule = self.rule(number)
            rule.change(values)
        return rule

    def remove(self, number: int) -> None:
        """Remove one rule; raises ApiError (404)."""
        with self._lock:
            self.rule(number)
            del self._rules[number], self._streams[number]

    def clear(self) -> None:
        """Remove every rule; ids, and with them random streams, restart."""
        with self._lock:
            self._rules.clear()
            self._streams.clear()
            self._last_id = 0

    def rules(self) -> list[dict[str, Any]]:
        """The rules with their counts, for the control API."""
        with self._lock:
            return [rule.shown() for rule in self._rules.values()]

    def triggered(self) -> collections.Counter[str]:
        """How many requests triggered the rules of each kind."""
        counts: collections.Counter[str] = collections.Counter()
        for rule in self.rules():
            counts[rule['kind']] += rule['triggered']
        return counts

    def delay(self) -> float:
        """Draw the seconds that a reply takes without a rule."""
        with self._lock:
            return self.latency.draw(self._delays)

    def plan(self, method: str, path: str,
             subject: Callable[[], Subject]) -> Plan:
        """The faults of a request; counts it in the rules that match.

        path: below /api/v2, without slashes at its ends. subject is called
        if a rule needs it.
        """
        delay = self.delay()
        if not self._rules:
            return Plan(None, _FRESH, delay, '')
        triggers = self._triggers(method, path, functools.cache(subject))
        rules = {place: trigger.rule for place, trigger in triggers.items()}
        noted = next((rules[kind] for kind in (_REPLY, *fault_rules.MILD)
                      if kind in rules), None)
        late, linger = map(rules.get, ('late', 'linger'))
        stale = StaleReads(late.window if late else StaleWindow(),
                           linger.window if linger else None)
        return Plan(
            rules.get(_REPLY), stale,
            triggers['latency'].delay if 'latency' in triggers else delay,
            noted.kind if noted else '',
            tuple(rules[kind] for kind in fault_rules.OUTAGES
                  if kind in rules))

    def _triggers(self, method: str, path: str,
                  subject: Callable[[], Subject]) -> dict[str, _Trigger]:
        """The first rule of each mild kind, and of the rest, that triggers."""
        found: dict[str, _Trigger] = {}
        with self._lock:
            for rule in self._rules.values():
                place = rule.kind if rule.kind in fault_rules.MILD \
                    else _REPLY
                if rule.matches(method, path) and rule.is_about(
                        subject() if rule.where else {}):
                    trigger = self._trigger(rule, place not in found)
                    if trigger is not None:
                        found[place] = trigger
        return found

    def _trigger(self, rule: FaultRule, may: bool) -> _Trigger | None:
        """Count a matching request; return its trigger, if it has one.

        may: False if an earlier rule was triggered instead.
        """
        streams = self._streams[rule.id]
        drawn = streams.triggers.random()
        delay = rule.distribution.draw(streams.delays)
        rule.matched += 1
        if (not may or rule.matched <= rule.after
                or rule.times is not None and rule.triggered >= rule.times
                or drawn >= rule.probability):
            return None
        rule.triggered += 1
        return _Trigger(rule, delay)


def apply(done: Response, plan: Plan) -> Exchange:
    """The exchange after applying the rule of the plan.

    done: the array's reply, ignored if the request was not carried out.
    """
    rule, delay = plan.rule, plan.delay
    if rule is None:
        return Exchange(done, delay)
    if not rule.is_carried_out or rule.kind == 'status':
        # Not a reply of the array, but as from a proxy in front of it.
        done = messages.refusal(
            rule.status, fault_rules.STATUSES[rule.status])
    if rule.kind == 'busy':
        return Exchange(messages.refusal(400, rule.code), delay)
    if rule.kind == 'status':
        return Exchange(done, delay)
    if rule.kind in ('reset', 'truncated'):
        return Exchange(done, delay, rule.kind)
    if rule.kind == 'hang':
        cut = '' if rule.is_carried_out else 'reset'
        return Exchange(done, delay + rule.seconds, cut)
    if rule.kind == 'slow_loris':
        return Exchange(done, delay, pace=rule.rate)
    body = b'<html>no JSON' if rule.kind == 'garbage' else b''
    return Exchange(Response(done.status, done.headers, body), delay)
