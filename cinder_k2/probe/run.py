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

"""A probe of one array, from its state to the report."""

from collections.abc import Callable
from collections.abc import Iterator
import dataclasses
import os
import re
from typing import Any

import requests.adapters

from cinder_k2 import polling
from cinder_k2.probe import asking
from cinder_k2.probe import findings
from cinder_k2.probe import learning
from cinder_k2.probe import made as probe_made
from cinder_k2.probe import page
from cinder_k2.probe import reads
from cinder_k2.probe import removal
from cinder_k2.probe import rules
from cinder_k2.probe import tokens
from cinder_k2.probe import words
from cinder_k2.probe import writes
from cinder_k2.probe.writes import clones
from cinder_k2 import rest
from cinder_k2.rest import raw
from cinder_k2 import version

Report = dict[str, Any]
Found = dict[str, list[findings.Finding]]

#: Seconds between two requests.
PAUSE = 0.5
# Maximum length of a result.
_LONGEST = 400
_ROLES = ('root', 'admin', 'mgmt-app', 'read-only', 'security', 'vcenter')


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
    clock: polling.Clock | None = None


def plan(address: str, write: bool) -> str:
    """Describe to the operator what a probe is going to do."""
    number, minutes = (500, 'five minutes') if write else (60, 'a minute')
    lines = [f'The array at {address} is asked about {len(rules.RULES)} '
             f'rules of its API, slowly: about {number} requests, one after '
             f'the other, in {minutes} or so.']
    if write:
        lines.append(
            'Up to 60 objects are made, all named k2probe-<token>: volume '
            'groups, volumes of 1 to 3 GiB without data, snapshots, views, '
            'thin clones, hosts, a host group, initiators, CHAP profiles and '
            'policies. Their names are saved first; they are changed, '
            'mapped to the hosts of the probe, and removed at the end. No '
            'system setting and no object of others is changed.')
    else:
        lines.append('Nothing is made and nothing is changed.')
    lines.append('What an earlier probe from this machine left behind is '
                 'removed, by the names that it saved.')
    return '\n'.join(lines)


def run(target: Target, write: bool) -> Report:
    """Probe an array.

    :param write: create objects, too
    :raises Unfit: the array or its user is not fit for a probe
    :raises tokens.Damaged: a file of tokens cannot be used
    :raises tokens.Busy: another probe runs on this machine
    :raises OSError: files of tokens cannot be written
    :raises rest.RestError: the array does not reply, or refuses the user
    """
    client = rest.Client(target.settings, target.adapter, target.clock)
    files = tokens.Tokens(target.directory)
    try:
        with files.alone():
            return _Probe(client, files, target.settings).run(write)
    finally:
        client.close()


class _Probe:

    def __init__(self, client: rest.Client, files: tokens.Tokens,
                 settings: rest.Settings) -> None:
        self._client = client
        self._files = files
        self._settings = settings
        self._found: Found = {}
        self._notes: list[str] = []
        self._asker = asking.Asker(client)
        self._busy = 0
        self._bare: list[bool] = []

    def run(self, write: bool) -> Report:
        """The report."""
        # Sent once, without retries: the operator can deal with an array that
        # does not reply.
        first = self._asker.get('system/state')
        if first.error is not None:
            raise first.error
        state = self._client.system_state()
        system = state.system_id or ''
        if write:
            _check_fit(state)
        left = [name for token in self._files.of(system)
                for name in self._clean(self._writer(token))]
        self._check(reads.Reads(self._asker, state))
        learning.by_reads(self._client)
        if write:
            left += self._write(system)
        self._check(reads.Events(self._asker, state))
        self._see_load()
        return self._report(state, write, left)

    def _write(self, system: str) -> list[str]:
        """The checks with objects; returns the names of those left."""
        name = 'Best_Effort_Retention'
        found = self._asker.get('retention_policies', '', ('name', name))
        policy = next((raw.id_of(hit) for hit in found.hits
                       if hit.get('name') == name), None)
        if policy is None:
            self._notes.append('nothing was made: the array has no retention '
                               'policy Best_Effort_Retention')
            return []
        if not self._client.capacity().free:
            self._notes.append('nothing was made: no capacity is free')
            return []
        token = tokens.new(system)
        self._files.save(token)
        writer = self._writer(token)
        try:
            made = probe_made.Made(writer, policy)
            for group in writes.ALL:
                if group is clones.Clones:
                    learning.by_writes(self._client, made)
                self._check(group(made))
        finally:
            self._busy += writer.busy
            self._bare += writer.bare
            left = self._clean(writer)
        return left

    def _writer(self, token: tokens.Token) -> asking.Writer:
        return asking.Writer(self._client, token, self._asker.carried_out,
                             self._files.save)

    def _clean(self, writer: asking.Writer) -> list[str]:
        """Remove the objects of a token; returns the names of those left."""
        left = removal.remove(writer)
        names = [*left.names, *(
            name for resource in left.unseen
            for name in writer.may_be_there(resource))]
        self._notes += left.unseen.values()
        if not names:
            self._files.forget(writer.token)
        return names

    def _check(self, group: Any) -> None:
        for check in _checks(group):
            try:
                finding = check()
            except findings.Skip as reason:
                finding = findings.not_seen(str(reason))
            except findings.UNREADABLE as error:
                finding = findings.not_seen(
                    f'the reply cannot be read: {type(error).__name__}')
            for rule in check.rules:  # type: ignore[attr-defined]
                self._found.setdefault(rule, []).append(finding)

    def _see_load(self) -> None:
        """ERR-1, ERR-5: only seen by chance, because a probe is slow."""
        bare = self._bare + self._asker.bare
        self._found['ERR-1'] = [
            findings.that(all(bare), f'{sum(bare)} of {len(bare)} are bare')
            if bare else findings.not_seen('no reply had a busy code')]
        busy = self._busy + self._asker.busy
        self._found['ERR-5'] = [
            findings.confirmed(f'{busy} replies said busy') if busy
            else findings.not_seen('no reply said busy')]

    def _report(self, state: rest.SystemState, write: bool, left: list[str]
                ) -> Report:
        private = _private(state, self._client.address, self._settings)
        return {
            'probe': version.version(), 'write': write,
            'array': _array(state, self._asker.get('volumes')),
            'notes': self._notes, 'left_on_the_array': left,
            'rules': [self._row(rule, private) for rule in rules.RULES],
            'capabilities': {
                name: verdict.state for name, verdict
                in self._client.capabilities.all().items()},
            'capabilities_not_seen': learning.not_seen(self._client, write)}

    def _row(self, rule: str, private: list[str]) -> Report:
        known = rules.RULES[rule]
        finding = findings.merged([
            found.settled(self._asker.carried_out) for found
            in self._found.get(rule, [_why_not(known)])])
        return {'rule': rule, 'says': known.says, 'how': known.how,
                'result': finding.result,
                'seen': _public(finding.seen, private)}


def _checks(group: Any) -> Iterator[Callable[[], findings.Finding]]:
    """The checks of a class, in their order."""
    for name, value in vars(type(group)).items():
        if hasattr(value, 'rules'):
            yield getattr(group, name)


def _why_not(rule: rules.Rule) -> findings.Finding:
    return findings.not_seen(
        f'not tested: {rule.how}' if rule.is_unseen else
        'needs --write' if rule.write else 'not tested')


def _array(state: rest.SystemState, volumes: raw.Answer) -> Report:
    """The kind of array, without its identity."""
    return {
        'rest_api_version': _version(state.rest_api_version),
        'system_version': _version(state.system_version),
        'state': _word(state.state),
        'role': _role(state.current_user_role),
        'degraded': state.is_system_functionality_degraded,
        'page_size': volumes.value.get('limit') if volumes.hits else None}


def _version(text: str | None) -> str | None:
    return text and (text if re.fullmatch(r'[0-9A-Za-z.-]{1,20}', text)
                     else words.ELSE)


def _word(text: str | None) -> str | None:
    """A state, as a single word or with unknown words replaced."""
    return text and (text if re.fullmatch('[A-Za-z_]{1,30}', text)
                     else words.public(text))


def _role(text: str | None) -> str | None:
    """A predefined role; the names of other roles are not shown."""
    return text and (text if text in _ROLES else words.ELSE)


def _private(state: rest.SystemState, address: str, settings: rest.Settings
             ) -> list[str]:
    """Texts that identify the array, if they are in a result."""
    return [text for text in (
        state.system_id, state.system_name,
        state.iscsi_qualified_target_name, address,
        address.rpartition(':')[0], settings.login, settings.password)
        if text and len(text) > 2]


def _public(text: str, private: list[str]) -> str:
    """A text without the texts that identify the array."""
    for each in private:
        text = re.sub(rf'(?<!\w){re.escape(each)}(?!\w)', words.ELSE, text)
    return re.sub(r'\s+', ' ', text)[:_LONGEST]


def _check_fit(state: rest.SystemState) -> None:
    role = state.current_user_role or ''
    if 'read' in role.lower():
        raise Unfit(f'the user has the role {role}, which may change '
                    'nothing; use one with mgmt-app or admin, or run '
                    'without --write')
    if not state.system_id:
        raise Unfit('the array does not report its system_id, without which '
                    'leftovers cannot be found again; run without --write')


def save(report: Report, directory: str, name: str) -> list[str]:
    """Write the result as JSON and as text.

    :returns: the paths
    :raises OSError: they cannot be written
    """
    return [page.write(os.path.join(directory, f'{name}.{suffix}'), text)
            for suffix, text in page.forms(report)]
