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

"""Volume groups, and how objects are created and changed in general."""

from cinder_k2.probe import findings
from cinder_k2.probe.findings import checks
from cinder_k2.probe.findings import done
from cinder_k2.probe.findings import Finding
from cinder_k2.probe.findings import refused
from cinder_k2.probe.findings import that
from cinder_k2.probe.made import GIB
from cinder_k2.probe.made import ref
from cinder_k2.probe import tokens
from cinder_k2.probe.words import names
from cinder_k2.probe.words import said
from cinder_k2.probe.writes import base
from cinder_k2.probe.writes import forms
from cinder_k2.rest import raw


class Groups(base.Checks):
    """Volume groups, and how objects are created and changed in general."""

    @checks('OBJ-4')
    def status(self) -> Finding:
        """POST is answered with 201, PATCH with 200."""
        post, patch = self._written()
        return that(post.status == 201 and (patch.status == 200
                                            or not patch.ok),
                    f'POST: HTTP {post.status}; PATCH: {said(patch)}')

    @checks('OBJ-3')
    def whole_object(self) -> Finding:
        """POST and PATCH return the whole object."""
        answers = [answer for answer in self._written() if answer.ok]
        return that(all(answer.id for answer in answers), '; '.join(
            'the object' if answer.id else f'{answer.size} bytes without an '
            'id' for answer in answers))

    def _written(self) -> tuple[raw.Answer, raw.Answer]:
        """The replies to a POST, and to a PATCH."""
        group, answers = self._made.group(), self._made.answers
        if 'patch' not in answers:
            answers['patch'] = self._change('volume_groups', group, {
                'name': self._name('g1')})
        return answers['g1'], answers['patch']

    @checks('VG-2')
    def no_quota(self) -> Finding:
        """A quota of 0 means none, and is shown as null."""
        self._made.group()
        one = self._read('volume_groups', 'g1')
        if 'quota' not in one:
            return findings.not_seen('the field is missing')
        return that(one['quota'] is None, 'quota: null'
                    if one['quota'] is None else 'quota: not null')

    @checks('OBJ-6')
    def visible_at_once(self) -> Finding:
        """A new object may appear late."""
        self._made.group('g2')
        found = self._writer.find('volume_groups', self._name('g2'))
        return (findings.not_seen('shown at once') if found
                else findings.confirmed('not shown at once'))

    @checks('OBJ-2')
    def bare_object(self) -> Finding:
        """A single object has no envelope; every array can read groups."""
        return findings.is_bare(
            self._get('volume_groups', self._made.group()),
            self._made.group())

    @checks('OBJ-14')
    def same_again(self) -> Finding:
        """Repeating a PATCH changes nothing."""
        for part in ('g4', 'g1'):
            self._change('volume_groups', self._made.group(), {
                'name': self._name(part)})
        return done(self._change('volume_groups', self._made.group(), {
            'name': self._name('g1')}))

    @checks('OBJ-11')
    def own_id(self) -> Finding:
        """PATCH accepts the object's own id."""
        group = self._made.group()
        return done(self._change('volume_groups', group, {
            'id': group, 'name': self._name('g1')}), forms.RENAME)

    @checks('OBJ-12')
    def unknown_fields(self) -> Finding:
        """An unknown field is refused."""
        return refused(self._change('volume_groups', self._made.group(), {
            'name': self._name('g1'), 'k2probe_field': 1}),
            control=forms.RENAME)

    @checks('OBJ-13')
    def required_fields(self) -> Finding:
        """A missing required field is refused."""
        return refused(self._make('volume_groups', {
            'name': self._name('g3')}), control=forms.GROUP)

    @checks('ERR-8', 'VG-1')
    def name_in_use(self) -> Finding:
        """A name that is in use is refused."""
        self._made.group()
        return refused(self._make('volume_groups', {
            'name': self._name('g1'), 'quota': 0, 'is_dedup': True}))

    @checks('VG-4')
    def dedup(self) -> Finding:
        """is_dedup is fixed when the group is created."""
        group = self._made.group('g2')
        self._seen_to_take('volume_groups', 'g2', group, 'quota', 100 * GIB)
        return self._keeps('volume_groups', 'g2', group, 'is_dedup', False,
                           forms.QUOTA)

    @checks('SEQ-1')
    def sequence(self) -> Finding:
        """A number that does not increase is answered with 409."""
        first, again = self._numbered(1), self._numbered(1)
        if not first.ok:
            return findings.not_seen('the header is not accepted: '
                                     f'{said(first)}')
        if again.status != 409 and not again.ok:
            return findings.not_seen(f'the second time: {said(again)}')
        return that(again.status == 409, f'the second time: {said(again)}')

    @checks('SEQ-2')
    def gap(self) -> Finding:
        """Numbers need not be consecutive."""
        if self._numbered(1).status != 409:
            return findings.not_seen('the array ignores the header')
        return done(self._numbered(7))

    def _numbered(self, number: int) -> raw.Answer:
        return self._change(
            'volume_groups', self._made.group(), {'name': self._name('g1')},
            f'k2probe-{self._writer.token.token}={number}')

    @checks('section 14: replication_session')
    def session_field(self) -> Finding:
        """A group shows replication_session, in the singular."""
        self._made.group()
        found = [key for key in self._read('volume_groups', 'g1')
                 if key.startswith('replication_session')]
        if not found:
            return findings.not_seen('fields: none')
        return that(found == ['replication_session'],
                    f'fields: {names(found)}')

    @checks('SNP-12')
    def empty_group(self) -> Finding:
        """A snapshot of a group without volumes is refused."""
        self._made.group('g2')
        return refused(self._make('snapshots', self._made.snapshot_body(
            'e1', 'g2')))

    @checks('VG-3')
    def small_quota(self) -> Finding:
        """A quota below the provisioned capacity is refused."""
        self._made.volume()
        group = self._made.group()
        self._seen_to_take('volume_groups', 'g1', group, 'quota', 100 * GIB)
        return self._keeps('volume_groups', 'g1', group, 'quota', GIB // 2)

    @checks('VG-9')
    def rename(self) -> Finding:
        """Names of snapshots follow that of their group."""
        self._made.snapshot()
        group = self._made.group()
        answer = self._change('volume_groups', group, {
            'name': self._name('g4')})
        if not answer.ok:
            return done(answer)
        try:
            name = self._read('snapshots', 's1').get('name')
        finally:
            self._change('volume_groups', group, {'name': self._name('g1')})
        if name is None:
            return findings.not_seen('snapshots show no name')
        return that(name == f'{self._name("g4")}:{self._name("s1")}',
                    'looked at a snapshot')

    @checks('VG-8')
    def counts(self) -> Finding:
        """A group counts its volumes and snapshots."""
        self._made.snapshot()
        one = self._read('volume_groups', 'g1')
        found = one.get('volumes_count'), one.get('snapshots_count')
        if not all(isinstance(each, int) for each in found):
            return findings.not_seen('a count is missing')
        return that(found == (1, 1), f'1 volume, 1 snapshot: {found}')

    @checks('section 12')
    def long_names(self) -> Finding:
        """Names have at most 42 characters."""
        group = ref('volume_groups', self._made.group('g7'))
        long = tokens.long_name(self._writer.token.token)
        at_most, beyond = (self._make('volumes', {
            'name': name, 'size': GIB, 'volume_group': group})
            for name in (long, f'{long}x'))
        return findings.both([done(at_most, forms.VOLUME),
                              refused(beyond, control=forms.VOLUME)])
