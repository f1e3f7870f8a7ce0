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

"""Faults on request: which replies go wrong, and how.

Each kind is something that a published client already had to cope with
(section 3): busy codes, 429, 502 after the write took effect, and so on.
"""

import collections
from collections.abc import Mapping
import dataclasses
import fnmatch
import random
import re
import threading
from typing import Any

from cinder_k2.simulator import errors

BUSY_CODES = ('MC_ERR_BUSY', 'MC_ERR_BUSY_SPECIFIC', 'MC_ERR_INPROGRESS',
              'MC_ERR_START_TIMEOUT')
STATUSES = {
    400: 'The request cannot be carried out',
    401: 'Authentication required',
    403: 'The role of this user does not allow it',
    429: 'Too many requests',
    500: 'Internal error',
    502: 'Bad gateway',
    503: 'System is busy'}
# When a fault strikes if the rule does not say.
_COMMIT = {
    'busy': 'before', 'status': 'before', 'reset': 'before',
    'garbage': 'after', 'truncated': 'after', 'empty': 'after',
    'hang': 'after', 'late': 'after'}
KINDS = tuple(_COMMIT)
_WRITES = ('POST', 'PATCH', 'DELETE')


@dataclasses.dataclass
class FaultRule:
    """One rule: which requests it strikes, and what it does to them.

    kind: busy (400 with code), status (status with its usual text), reset
        (connection broken before the reply), truncated (broken inside the
        body), garbage (a body that is no JSON), empty (no body), hang (the
        reply comes after so many seconds), late (what POST made is left out
        of so many reads).
    method: a method, several with commas, "write" for all that change
        something, or *.
    path: a glob over the path below /api/v2 without its leading slash, as
        in "volumes" or "volumes/*"; regexp: searched in the same.
    times: how many requests it strikes, None for no end; after: how many
        matching ones it lets pass first; probability: of the rest.
    commit: before = the request is not carried out; after = it is, and only
        its reply suffers. Default: after, but before for busy, status and
        reset. A hang before the commit ends with a broken connection.
    """

    kind: str
    method: str = '*'
    path: str = '*'
    regexp: str = ''
    times: int | None = None
    after: int = 0
    probability: float = 1.0
    commit: str = ''
    code: str = BUSY_CODES[0]
    status: int = 503
    seconds: float = 0.0
    reads: int = 1
    enabled: bool = True
    matched: int = 0
    struck: int = 0

    def __post_init__(self) -> None:
        self.commit = self.commit or _COMMIT.get(self.kind, '')
        for good, text in (
                (self.kind in KINDS, f'kind must be one of {KINDS}'),
                (self.commit in ('before', 'after'),
                 'commit must be before or after'),
                (self.code in BUSY_CODES, f'code must be in {BUSY_CODES}'),
                (self.status in STATUSES,
                 f'status must be one of {tuple(STATUSES)}')):
            if not good:
                raise errors.refused(f'Fault rule: {text}')
        self.path = self.path.removeprefix('/api/v2').lstrip('/')
        self._pattern = _compiled(self.regexp)

    def matches(self, method: str, path: str) -> bool:
        """Whether the rule is about such a request."""
        methods = self.method.replace('write', ','.join(_WRITES)).split(',')
        return (self.enabled and ('*' in methods or method in methods)
                and fnmatch.fnmatchcase(path, self.path)
                and self._pattern.search(path) is not None)


def _compiled(regexp: str) -> re.Pattern[str]:
    try:
        return re.compile(regexp)
    except re.error as exc:
        raise errors.refused(f'Fault rule: bad regexp: {exc}') from exc


def read_rule(value: FaultRule | Mapping[str, Any]) -> FaultRule:
    """A rule from a mapping of its fields; refuses what it does not know."""
    if isinstance(value, FaultRule):
        return value
    known = {field.name: field for field
             in dataclasses.fields(FaultRule)}
    for name, item in value.items():
        if name not in known or name in ('matched', 'struck'):
            raise errors.refused(f'Fault rule: unknown field {name}')
        if not _fits(known[name].default, item, name):
            raise errors.refused(f'Fault rule: wrong value for {name}')
    if 'kind' not in value:
        raise errors.refused('Fault rule: kind is missing')
    return FaultRule(**value)


def _fits(default: object, value: object, name: str) -> bool:
    if name == 'times':
        return value is None or type(value) is int
    if isinstance(default, float):
        return type(value) in (int, float)
    wanted = str if name == 'kind' else type(default)
    return type(value) is wanted


class Faults:
    """The rules of one array, safe for threads."""

    def __init__(self, seed: int | None = None) -> None:
        self._rules: list[FaultRule] = []
        # Faults need repeatable numbers, not secret ones.
        self._random = random.Random(seed)  # nosec B311
        self._lock = threading.Lock()

    def add(self, rule: FaultRule | Mapping[str, Any]) -> FaultRule:
        """Add a rule; the first one that strikes wins."""
        checked = read_rule(rule)
        with self._lock:
            self._rules.append(checked)
        return checked

    def clear(self) -> None:
        """Remove every rule."""
        with self._lock:
            self._rules.clear()

    def rules(self) -> list[dict[str, Any]]:
        """The rules with their counts, for people."""
        with self._lock:
            return [dataclasses.asdict(rule) for rule in self._rules]

    def struck(self) -> collections.Counter[str]:
        """How many requests each kind has struck."""
        counts: collections.Counter[str] = collections.Counter()
        for rule in self.rules():
            counts[rule['kind']] += rule['struck']
        return counts

    def plan(self, method: str, path: str
             ) -> tuple[FaultRule | None, FaultRule | None]:
        """What strikes this request: a rule on its reply, a late rule."""
        struck: FaultRule | None = None
        late: FaultRule | None = None
        with self._lock:
            for rule in self._rules:
                taken = late if rule.kind == 'late' else struck
                if taken or not self._strikes(rule, method, path):
                    continue
                if rule.kind == 'late':
                    late = rule
                else:
                    struck = rule
        return struck, late

    def _strikes(self, rule: FaultRule, method: str, path: str) -> bool:
        if not rule.matches(method, path):
            return False
        rule.matched += 1
        if (rule.matched <= rule.after
                or rule.times is not None and rule.struck >= rule.times
                or self._random.random() >= rule.probability):
            return False
        rule.struck += 1
        return True
