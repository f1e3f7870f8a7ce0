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

"""Policies; most roles may not create them."""

from cinder_k2.probe import findings
from cinder_k2.probe.findings import checks
from cinder_k2.probe.findings import done
from cinder_k2.probe.findings import Finding
from cinder_k2.probe.findings import refused
from cinder_k2.probe.made import ref
from cinder_k2.probe.words import said
from cinder_k2.probe.writes import base

_CAPACITY = 'vg_capacity_policies'


class Policies(base.Checks):
    """Policies; most roles may not create them."""

    @checks('RET-4')
    def retention(self) -> Finding:
        """Users can create retention policies."""
        self._retention()
        return findings.confirmed(said(self._made.answers['r1']))

    def _retention(self) -> int:
        return self._made.made('retention_policies', 'r1', {
            'name': self._name('r1'), 'num_snapshots': 1, 'weeks': 0,
            'days': 0, 'hours': 1})

    @checks('RET-3')
    def retention_in_use(self) -> Finding:
        """A policy in use cannot be deleted."""
        policy = self._retention()
        self._made.volume('v3', 'g6')
        self._made.made('snapshots', 's6', {
            **self._made.snapshot_body('s6', 'g6'),
            'retention_policy': ref('retention_policies', policy)})
        return refused(self._remove('retention_policies', policy))

    @checks('VCP-1')
    def capacity(self) -> Finding:
        """full_threshold is optional."""
        body = {'name': self._name('y1'), 'warning_threshold': 70,
                'error_threshold': 80, 'critical_threshold': 90,
                'snapshot_overhead_threshold': 50}
        answers = self._made.answers
        answer = answers['y1'] = self._make(_CAPACITY, body)
        if answer.ok:
            return done(answer)
        body['full_threshold'] = 100
        answers['y1'] = self._make(_CAPACITY, body)
        return done(answer, answers['y1'].form)

    def _variant(self, part: str, **thresholds: int) -> Finding:
        """Check a rule by which thresholds are refused."""
        taken = self._made.answers.get('y1')
        if taken is None or not taken.ok:
            raise findings.Skip('no such policy was created')
        body = {'name': self._name(part), 'warning_threshold': 70,
                'error_threshold': 80, 'critical_threshold': 90,
                'snapshot_overhead_threshold': 50, **thresholds}
        if 'full_threshold' in taken.form:
            body['full_threshold'] = 100
        return refused(self._make(_CAPACITY, body))

    @checks('VCP-1')
    def overhead(self) -> Finding:
        """snapshot_overhead_threshold beyond 97 is refused."""
        return self._variant('y3', snapshot_overhead_threshold=98)

    @checks('VCP-2')
    def falling(self) -> Finding:
        """Thresholds that fall are refused."""
        return self._variant('y2', warning_threshold=85)

    @checks('VCP-2')
    def capacity_in_use(self) -> Finding:
        """A policy in use cannot be deleted."""
        policy = self._writer.find(_CAPACITY, self._name('y1'))
        if policy is None:
            raise findings.Skip('no such policy was created')
        self._seen_to_take('volume_groups', 'g6', self._made.group('g6'),
                           'capacity_policy', ref(_CAPACITY, policy))
        return refused(self._remove(_CAPACITY, policy))
