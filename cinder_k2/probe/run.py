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

"""A probe of one array, from its state to what it came to."""

from collections.abc import Callable
from collections.abc import Iterator
import dataclasses
import os
import re
from typing import Any

import requests.adapters

from cinder_k2.probe import asking
from cinder_k2.probe import findings
from cinder_k2.probe import learning
from cinder_k2.probe import made as probe_made
from cinder_k2.probe import page
from cinder_k2.probe import reads
from cinder_k2.probe import removal
from cinder_k2.probe import rules
from cinder_k2.probe import tokens
from cinder_k2.probe import writes
from cinder_k2 import rest
from cinder_k2 import version
from cinder_k2 import waiting

Report = dict[str, Any]
Found = dict[str, list[findings.Finding]]

#: Seconds between two requests.
PAUSE = 0.5


class Unfit(Exception):
    """The array or its user is not fit for a probe; says what to do."""


@dataclasses.dataclass(frozen=True)
class Target:
    """The array to probe.

    :ivar directory: for the files of tokens
    """

    settings: rest.Settings
    directory: str
    adapter: requests.adapters.BaseAdapter | None = None
    clock: waiting.Clock | None = None


def plan(address: str, write: bool) -> str:
    """What a probe is going to do, for the operator."""
    lines = [f'The array at {address} is asked about {len(rules.RULES)} '
             'rules of its API, slowly, one request after the other.']
    if write:
        lines.append(
            'Up to 60 objects are made, all named k2probe-<token>: volume '
            'groups, volumes of 1 GiB, snapshots, views, thin clones, hosts, '
            'a host group, an initiator, CHAP profiles and policies. Their '
            'names are saved before; they are changed, mapped to the hosts '
            'of the probe, and removed at the end. Users of the array lose '
            'nothing; no system setting and no object of others is changed.')
    else:
        lines.append('Nothing is made and nothing is changed, except that '
                     'what an earlier probe left behind is removed.')
    return '\n'.join(lines)


def run(target: Target, write: bool) -> Report:
    """Probe an array.

    :param write: make objects, too
    :raises Unfit: it cannot be
    :raises tokens.Damaged: a file of tokens is
    :raises rest.RestError: the array does not answer, or knows no such user
    """
    client = rest.Client(target.settings, target.adapter, target.clock)
    try:
        return _Probe(client, tokens.Tokens(target.directory)).run(write)
    finally:
        client.close()


class _Probe:

    def __init__(self, client: rest.Client, files: tokens.Tokens) -> None:
        self._client = client
        self._files = files
        self._found: Found = {}
        self._notes: list[str] = []
        self._asker = asking.Asker(client)
        self._busy = 0

    def run(self, write: bool) -> Report:
        """The report."""
        state = self._client.system_state()
        system = state.system_id or ''
        if write:
            _check_fit(state)
        left = [name for token in self._files.of(system)
                for name in self._clean(token)]
        self._check(reads.Reads(self._asker, state))
        learning.by_reads(self._client)
        if write:
            left += self._write(system)
        self._see_load()
        return self._report(state, write, left)

    def _write(self, system: str) -> list[str]:
        """The checks with objects; gives the names of what is left."""
        policy = asking.Asker(self._client).get(
            'retention_policies', '', ('name', 'Best_Effort_Retention'))
        if not policy.hits or not isinstance(policy.hits[0].get('id'), int):
            self._notes.append('nothing was made: the array has no retention '
                               'policy Best_Effort_Retention')
            return []
        if not self._client.capacity().free:
            self._notes.append('nothing was made: no capacity is free')
            return []
        token = tokens.new(system)
        self._files.save(token)
        writer = asking.Writer(self._client, token)
        try:
            made = probe_made.Made(writer, policy.hits[0]['id'])
            for group in writes.ALL:
                if group is writes.Clones:
                    learning.by_writes(self._client, made)
                self._check(group(made))
        finally:
            self._busy += writer.busy
            left = self._clean(token)
        return left

    def _clean(self, token: tokens.Token) -> list[str]:
        """Remove what a token names; gives the names of what is left."""
        left = removal.remove(asking.Writer(self._client, token))
        if not left:
            self._files.forget(token)
        return left

    def _check(self, group: Any) -> None:
        for check in _checks(group):
            try:
                finding = check()
            except findings.Skip as reason:
                finding = findings.not_seen(str(reason))
            for rule in check.rules:  # type: ignore[attr-defined]
                self._found.setdefault(rule, []).append(finding)

    def _see_load(self) -> None:
        """ERR-5: only met by chance, for a probe asks slowly."""
        busy = self._busy + self._asker.busy
        self._found['ERR-5'] = [
            findings.confirmed(f'{busy} replies said busy') if busy
            else findings.not_seen('no reply said busy')]

    def _report(self, state: rest.SystemState, write: bool, left: list[str]
                ) -> Report:
        volumes = self._asker.get('volumes')
        private = [text for text in (
            state.system_id, state.system_name, self._client.address,
            self._client.address.partition(':')[0]) if text]
        return {
            'probe': version.version(), 'write': write,
            'array': {
                'rest_api_version': state.rest_api_version,
                'system_version': state.system_version,
                'state': state.state, 'role': state.current_user_role,
                'degraded': state.is_system_functionality_degraded,
                'page_size': volumes.value.get('limit')
                if volumes.hits else None},
            'notes': self._notes, 'left_on_the_array': left,
            'rules': [_row(rule, self._found.get(rule, []), private)
                      for rule in rules.RULES],
            'capabilities': {
                name: verdict.state for name, verdict
                in self._client.capabilities.all().items()}}


def _checks(group: Any) -> Iterator[Callable[[], findings.Finding]]:
    """The checks of a class, in their order."""
    for name, value in vars(type(group)).items():
        if hasattr(value, 'rules'):
            yield getattr(group, name)


def _row(rule: str, found: list[findings.Finding], private: list[str]
         ) -> Report:
    known = rules.RULES[rule]
    finding = findings.merged(found or [_why_not(known)])
    return {'rule': rule, 'says': known.says, 'how': known.how,
            'result': finding.result, 'seen': _public(finding.seen, private)}


def _why_not(rule: rules.Rule) -> findings.Finding:
    return findings.not_seen(
        f'not tested: {rule.how}' if rule.is_unseen else
        'needs --write' if rule.write else 'not tested')


def _public(text: str, private: list[str]) -> str:
    """Without what tells whose array it is."""
    for each in private:
        text = text.replace(each, '...')
    return re.sub(r'\s+', ' ', text)[:300]


def _check_fit(state: rest.SystemState) -> None:
    role = state.current_user_role or ''
    if 'read' in role.lower():
        raise Unfit(f'the user has the role {role}, which may change '
                    'nothing; use one with mgmt-app or admin, or run '
                    'without --write')
    if not state.system_id:
        raise Unfit('the array does not say its system_id, by which what a '
                    'probe leaves behind is found again; run without --write')


def save(report: Report, directory: str, name: str) -> list[str]:
    """Write the result as JSON and as a page.

    :returns: the paths
    :raises OSError: they cannot be written
    """
    return [page.write(os.path.join(directory, f'{name}.{suffix}'), text)
            for suffix, text in page.forms(report)]
