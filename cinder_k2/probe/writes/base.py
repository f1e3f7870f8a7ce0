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

"""Base class of the checks with writes."""

from typing import Any

from cinder_k2.probe import findings
from cinder_k2.probe.findings import done
from cinder_k2.probe.findings import Finding
from cinder_k2.probe.findings import refused
from cinder_k2.probe import made as probe_made
from cinder_k2.probe.made import ref
from cinder_k2.probe import tokens
from cinder_k2.probe.words import said


class Checks:
    """Helpers for all checks."""

    def __init__(self, made: probe_made.Made) -> None:
        self._made = made
        self._writer = made.writer
        self._get = made.writer.get
        self._make = made.writer.make
        self._change = made.writer.change
        self._remove = made.writer.remove
        self._name = made.name

    def _read(self, resource: str, part: str) -> dict[str, Any]:
        """Return an object as a search by its name shows it.

        :raises findings.Skip: the search does not find it
        """
        key, name = tokens.KEYS[resource], self._name(part)
        answer = self._get(resource, '', (key, name))
        for hit in answer.hits:
            if hit.get(key) == name:
                return dict(hit)
        raise findings.Skip(f'{resource} are not found by {key}: '
                            f'{said(answer)}')

    def _shows(self, resource: str, part: str, field: str, value: Any
               ) -> bool:
        """Whether a field of an object has a value."""
        return same(self._read(resource, part).get(field), value)

    def _keeps(self, resource: str, part: str, id: int, field: str,
               value: Any, control: str = '') -> Finding:
        """Check a rule by which a field cannot be set to a value."""
        return refused(
            self._change(resource, id, {field: value}),
            lambda: self._shows(resource, part, field, value), control)

    def _takes(self, resource: str, part: str, id: int, field: str,
               value: Any, control: str = '') -> Finding:
        """Check a rule by which a field can be set to a value."""
        answer = self._change(resource, id, {field: value})
        if answer.ok and not self._shows(resource, part, field, value):
            return findings.not_seen(
                f'{said(answer)}, and {field} is unchanged: the array '
                'ignores what it does not know')
        return done(answer, control)

    def _seen_to_take(self, *change: Any) -> None:
        """Make a change that serves as the control of another one.

        :raises findings.Skip: the change is not carried out
        """
        finding = self._takes(*change)
        if finding.result != findings.CONFIRMED:
            raise findings.Skip(
                f'{change[0]} do not appear to accept {change[3]}: '
                f'{finding.seen}')

    def _not_restored(self, group: str, snapshot: int) -> Finding:
        return self._keeps(
            'volume_groups', group, self._made.group(group),
            'last_restored_from', ref('snapshots', snapshot))

    def _map_first(self) -> int:
        return self._made.mapping('m1', self._made.host(), 'volumes',
                                  self._made.volume())


def same(found: Any, value: Any) -> bool:
    """Whether a field has a value, regardless of its JSON type."""
    if isinstance(value, dict):
        return isinstance(found, dict) and found.get('ref') == value['ref']
    if isinstance(value, bool):
        return str(found).lower() in (str(value).lower(), str(int(value)))
    return bool(found == value or str(found) == str(value))
