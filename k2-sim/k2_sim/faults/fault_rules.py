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

"""Fault rules: which requests they match, and their effect.

Each kind is a fault that published clients had to handle (section 3): busy
codes, 429, 502 after the write took effect, and so on.
"""

from collections.abc import Mapping
import dataclasses
import fnmatch
import logging
import math
from typing import Any
from typing import get_type_hints
from typing import TYPE_CHECKING

import msgspec

from k2_sim import errors
from k2_sim.faults import latency as latency_module
from k2_sim.faults.subjects import Subject
from k2_sim.faults.visibility import StaleWindow
from k2_sim.protocol import safe_regex

if TYPE_CHECKING:
    import regex

LOG = logging.getLogger(__name__)
BUSY_CODES = ('MC_ERR_BUSY', 'MC_ERR_BUSY_SPECIFIC', 'MC_ERR_INPROGRESS',
              'MC_ERR_START_TIMEOUT')
STATUSES = {
    400: 'The request cannot be carried out',
    401: 'Authentication required',
    403: 'The role of this user does not allow it',
    429: 'Too many requests',
    500: 'Internal error',
    502: 'Bad gateway',
    503: 'System is busy',
    504: 'Gateway timeout'}
# The default of commit, by kind.
_COMMIT = {
    'busy': 'before', 'status': 'before', 'reset': 'before',
    'garbage': 'after', 'truncated': 'after', 'empty': 'after',
    'hang': 'after', 'slow_loris': 'after', 'latency': 'after',
    'late': 'after', 'linger': 'after', 'offline': 'after',
    'full': 'after', 'port_down': 'after', 'peer_lost': 'after'}
KINDS = tuple(_COMMIT)
# Faults of the whole array.
OUTAGES = ('offline', 'full', 'port_down', 'peer_lost')
# Kinds that leave the reply intact: one rule of each can apply in addition to
# a rule of another kind.
MILD = ('latency', 'late', 'linger', *OUTAGES)
_WRITES = ('POST', 'PATCH', 'DELETE')
_METHODS = {'*', 'GET', 'HEAD', 'PUT', *_WRITES}
# Set by the array, read-only for callers.
_OWN = ('id', 'matched', 'triggered')


@dataclasses.dataclass
class FaultRule:
    """One rule: which requests it affects, and how.

    kind: busy (400 with code), status (status with its usual text), reset
    (connection broken before the reply), truncated (connection broken
    inside the body), garbage (a body that is not JSON), empty (no body),
    hang (the reply comes after the given seconds, in addition to the
    latency), slow_loris (the body comes at rate bytes per second), latency
    (the reply takes a time drawn from the given latency, see
    latency.Latency, instead of the array's), late (the object that POST
    created is omitted from the given number of reads, or from all reads
    for the given seconds), linger (a deleted snapshot is still listed in
    the given number of reads, or for the given seconds), offline (the
    system is in the given state), full (no space is left), port_down (the
    port with the reference port has no link), peer_lost (no peer can be
    reached). The last four begin before the request is carried out and
    last for the given seconds or, if they are 0, until its reply.
    method: a method, several separated by commas, "write" for POST, PATCH
    and DELETE, or * for all.
    path: a glob for the path below /api/v2 without its leading slash, such
    as "volumes" or "volumes/*". regexp: a regular expression that is
    searched for in the same path (see protocol.safe_regex).
    where: fields of the object, the query or the body (see subjects.of),
    each with a glob that one of its values must match.
    times: how many requests it affects, None for no limit. after: how many
    matching requests pass first. probability: that one of the remaining
    requests is affected.
    commit: before = the request is not carried out; after = it is, and only
    its reply is affected. Default: after, but before for busy, status
    and reset. Before the commit, kinds that damage the body damage an
    error reply with the given status, and a hang ends with a broken
    connection.
    enabled: False disables the rule.
    id: assigned by the array. matched, triggered: how many requests matched
    the rule, and how many of them it affected.
    """

    kind: str
    method: str = '*'
    path: str = '*'
    regexp: str = ''
    where: dict[str, str] = dataclasses.field(default_factory=dict)
    times: int | None = None
    after: int = 0
    probability: float = 1.0
    commit: str = ''
    code: str = BUSY_CODES[0]
    status: int = 503
    seconds: float = 0.0
    rate: float = 0.0
    latency: dict[str, Any] = dataclasses.field(default_factory=dict)
    reads: int = 1
    state: str = 'OFFLINE'
    port: str = ''
    enabled: bool = True
    id: int = 0
    matched: int = 0
    triggered: int = 0

    def __post_init__(self) -> None:
        self.commit = self.commit or _COMMIT.get(self.kind, '')
        for good, text in (
                (self.kind in KINDS, f'kind must be one of {KINDS}'),
                (self.commit in ('before', 'after'),
                 'commit must be before or after'),
                (self.commit == 'after' or self.kind not in MILD,
                 f'commit must be after for the kind {self.kind}'),
                (self.code in BUSY_CODES, f'code must be in {BUSY_CODES}'),
                (self.status in STATUSES,
                 f'status must be one of {tuple(STATUSES)}'),
                (self.state != 'ONLINE', 'state must be other than ONLINE'),
                (bool(self.port) == (self.kind == 'port_down'),
                 'port is required for the kind port_down, and for no other'),
                (set(self._methods) <= _METHODS,
                 f'method must be among {", ".join(sorted(_METHODS))}'),
                (min(self.times or 0, self.after, self.reads) >= 0,
                 'times, after and reads must be from 0'),
                (0 <= self.seconds < math.inf,
                 'seconds must be a number from 0'),
                (0 <= self.probability <= 1,
                 'probability must be from 0 to 1'),
                (self.kind != 'slow_loris' or self.rate > 0,
                 'rate must be above 0 bytes per second')):
            if not good:
                raise errors.refused(f'Fault rule: {text}')
        self.path = self.path.removeprefix('/api/v2').lstrip('/')
        self.distribution = latency_module.Latency()
        if self.kind == 'latency':
            self.distribution = latency_module.read(self.latency)
        self._pattern = _compiled(self.regexp)

    @property
    def is_carried_out(self) -> bool:
        """Whether the affected requests are carried out."""
        return self.commit == 'after'

    @property
    def window(self) -> StaleWindow:
        """How long reads are stale, for the kinds late and linger."""
        return StaleWindow(self.reads, self.seconds)

    @property
    def _methods(self) -> list[str]:
        return self.method.replace('write', ','.join(_WRITES)).split(',')

    def matches(self, method: str, path: str) -> bool:
        """Whether the method and the path of a request match the rule.

        Disables the rule if its regexp takes too long.
        """
        methods = self._methods
        return (self.enabled and ('*' in methods or method in methods)
                and fnmatch.fnmatchcase(path, self.path)
                and self._is_found(path))

    def _is_found(self, path: str) -> bool:
        """Whether regexp matches; if it takes too long, disable the rule."""
        try:
            return not self.regexp or self._pattern.search(
                path, timeout=safe_regex.SECONDS) is not None
        except TimeoutError:
            LOG.warning('fault rule %d is disabled: its regexp %s takes too'
                        ' long for a path', self.id, self.regexp)
            self.enabled = False
            return False

    def is_about(self, subject: Subject) -> bool:
        """Whether the objects and values of a request match where."""
        return all(any(fnmatch.fnmatchcase(value, glob)
                       for value in subject.get(name, ()))
                   for name, glob in self.where.items())

    @property
    def struck(self) -> int:
        """Deprecated name of triggered."""
        return self.triggered

    def shown(self) -> dict[str, Any]:
        """The fields of the rule for the control API."""
        # struck is the deprecated name of triggered.
        return {**dataclasses.asdict(self), 'struck': self.triggered}

    def change(self, values: Mapping[str, Any]) -> None:
        """Change fields in place, all or none.

        A new kind sets commit to its default. Raises ApiError (400).
        """
        _check_fields(values)
        old = dataclasses.asdict(self)
        if 'kind' in values:
            old['commit'] = ''
        vars(self).update(vars(FaultRule(**{**old, **values})))


def _compiled(regexp: str) -> 'regex.Pattern[str]':
    try:
        return safe_regex.compiled(regexp)
    except ValueError as exc:
        raise errors.refused(f'Fault rule: bad regexp: {exc}') from exc


def read(value: FaultRule | Mapping[str, Any]) -> FaultRule:
    """A rule from a mapping of its fields.

    Raises ApiError (400) for unknown fields and invalid values.
    """
    if isinstance(value, FaultRule):
        return value
    if 'kind' not in value:
        raise errors.refused('Fault rule: kind is missing')
    _check_fields(value)
    return FaultRule(**value)


_TYPES = get_type_hints(FaultRule)


def _check_fields(values: Mapping[str, Any]) -> None:
    for name, item in values.items():
        if name not in _TYPES or name in _OWN:
            raise errors.refused(f'Fault rule: unknown field {name}')
        try:
            msgspec.convert(item, _TYPES[name])
        except msgspec.ValidationError as exc:
            raise errors.refused(
                f'Fault rule: wrong value for {name}') from exc
