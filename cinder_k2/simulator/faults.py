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

"""Faults on request: which replies go wrong, and how."""

import collections
from collections.abc import Callable
from collections.abc import Mapping
import dataclasses
import functools
import random
import threading
from typing import Any

from cinder_k2.simulator import chance as chance_module
from cinder_k2.simulator import errors
from cinder_k2.simulator import fault_rules
from cinder_k2.simulator.fault_rules import FaultRule
from cinder_k2.simulator.latency import Latency
from cinder_k2.simulator import messages
from cinder_k2.simulator.messages import Exchange
from cinder_k2.simulator.messages import Response
from cinder_k2.simulator.subjects import Subject
from cinder_k2.simulator.visibility import Spell
from cinder_k2.simulator.visibility import Weather


# Where rules meet that cannot all have their way with one reply.
_REPLY = 'reply'


@dataclasses.dataclass(frozen=True)
class Plan:
    """What strikes one request.

    rule: what its reply suffers, if anything. weather: what reads do not
    see of it. delay: seconds that its reply takes. fault: the kind to note
    in the journal, or ''.
    """

    rule: FaultRule | None
    weather: Weather
    delay: float
    fault: str

    @property
    def is_carried_out(self) -> bool:
        """Whether the request is carried out at all."""
        return self.rule is None or self.rule.is_carried_out


class Faults:
    """The rules of one array and its latency, safe for threads.

    Ids of rules begin at 1; each rule has random numbers of its own, from
    the seed and its id.
    """

    def __init__(self, seed: int | None = None) -> None:
        self._lock = threading.Lock()
        self._rules: dict[int, FaultRule] = {}
        self._streams: dict[int, random.Random] = {}
        self._last_id = 0
        self.latency = Latency()
        self.sow(seed)

    def sow(self, seed: int | None) -> None:
        """Begin all chances and counts anew; None takes another seed."""
        with self._lock:
            self._chance = chance_module.Chance(seed)
            self._delays = self._chance.stream('latency')
            for rule in self._rules.values():
                rule.matched = rule.struck = 0
                self._streams[rule.id] = self._stream(rule)

    @property
    def seed(self) -> int:
        """What all random numbers come from."""
        return self._chance.seed

    def _stream(self, rule: FaultRule) -> random.Random:
        return self._chance.stream(f'rule {rule.id}')

    def add(self, rule: FaultRule | Mapping[str, Any]) -> FaultRule:
        """Add a rule; the first one that strikes wins."""
        checked = fault_rules.read(rule)
        with self._lock:
            self._last_id += 1
            checked.id = self._last_id
            self._rules[checked.id] = checked
            self._streams[checked.id] = self._stream(checked)
        return checked

    def rule(self, number: int) -> FaultRule:
        """One rule; raises ApiError (404)."""
        rule = self._rules.get(number)
        if rule is None:
            raise errors.missing(f'/faults/{number}')
        return rule

    def change(self, number: int, values: Mapping[str, Any]) -> FaultRule:
        """Change a rule; its place, its id and its counts stay."""
        with self._lock:
            rule = self.rule(number)
            rule.change(values)
        return rule

    def remove(self, number: int) -> None:
        """Remove one rule."""
        with self._lock:
            self.rule(number)
            del self._rules[number], self._streams[number]

    def clear(self) -> None:
        """Remove every rule; ids, and with them chances, begin anew."""
        with self._lock:
            self._rules.clear()
            self._streams.clear()
            self._last_id = 0

    def rules(self) -> list[dict[str, Any]]:
        """The rules with their counts, for people."""
        with self._lock:
            return [dataclasses.asdict(rule)
                    for rule in self._rules.values()]

    def struck(self) -> collections.Counter[str]:
        """How many requests each kind has struck."""
        counts: collections.Counter[str] = collections.Counter()
        for rule in self.rules():
            counts[rule['kind']] += rule['struck']
        return counts

    def delay(self) -> float:
        """Seconds that a reply takes which no rule strikes."""
        with self._lock:
            return self.latency.draw(self._delays)

    def plan(self, method: str, path: str,
             subject: Callable[[], Subject]) -> Plan:
        """What strikes a request; subject is called if a rule needs it."""
        if not self._rules:
            return Plan(None, Weather(), self.delay(), '')
        struck = self._struck(method, path, functools.cache(subject))
        rule = struck.get(_REPLY)
        slow, late, linger = (struck.get(kind) for kind in fault_rules.MILD)
        weather = Weather(late.spell if late else Spell(),
                          linger.spell if linger else None)
        noted = rule or slow or late or linger
        return Plan(rule, weather, self._drawn(slow) if slow
                    else self.delay(), noted.kind if noted else '')

    def _drawn(self, rule: FaultRule) -> float:
        with self._lock:
            stream = self._streams.get(rule.id) or self._delays
            return rule.distribution.draw(stream)

    def _struck(self, method: str, path: str,
                subject: Callable[[], Subject]) -> dict[str, FaultRule]:
        """The first rule of each mild kind that strikes, and of others."""
        found: dict[str, FaultRule] = {}
        with self._lock:
            for rule in self._rules.values():
                place = rule.kind if rule.kind in fault_rules.MILD \
                    else _REPLY
                if (place not in found and rule.matches(method, path)
                        and rule.is_about(subject() if rule.where else {})
                        and self._strikes(rule)):
                    found[place] = rule
        return found

    def _strikes(self, rule: FaultRule) -> bool:
        rule.matched += 1
        if (rule.matched <= rule.after
                or rule.times is not None and rule.struck >= rule.times
                or self._streams[rule.id].random() >= rule.probability):
            return False
        rule.struck += 1
        return True


def spoilt(done: Response, plan: Plan) -> Exchange:
    """What comes of a reply, made or not, after the plan's rule."""
    rule, delay = plan.rule, plan.delay
    if rule is None:
        return Exchange(done, delay)
    if rule.kind == 'busy':
        return Exchange(messages.refusal(400, rule.code), delay)
    if rule.kind == 'status':
        text = fault_rules.STATUSES[rule.status]
        return Exchange(messages.refusal(rule.status, text), delay)
    if rule.kind in ('reset', 'truncated'):
        return Exchange(done, delay, rule.kind)
    if rule.kind == 'hang':
        cut = '' if rule.is_carried_out else 'reset'
        return Exchange(done, delay + rule.seconds, cut)
    if rule.kind == 'slow_loris':
        return Exchange(done, delay, pace=rule.rate)
    body = b'<html>no JSON' if rule.kind == 'garbage' else b''
    return Exchange(Response(done.status, done.headers, body), delay)
