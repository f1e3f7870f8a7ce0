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

"""Checks that remove objects."""

import dataclasses

from cinder_k2.probe import asking
from cinder_k2.probe import findings
from cinder_k2.probe.findings import checks
from cinder_k2.probe.findings import done
from cinder_k2.probe.findings import Finding
from cinder_k2.probe.findings import refused
from cinder_k2.probe.findings import that
from cinder_k2.probe.words import said
from cinder_k2.probe.writes import base
from cinder_k2.probe.writes import forms
from cinder_k2.rest import raw

_BULK = ('b1', 'b2')


class Removals(base.Checks):
    """Checks that remove objects; they run last."""

    @checks('BLK-1', 'BLK-3')
    def bulk(self) -> Finding:
        """One call creates and deletes snapshots of several groups."""
        answer = self._bulk()
        if not answer.ok:
            return done(answer, forms.SNAPSHOT)
        ids = [id for part in _BULK if (id := self._writer.find(
            'snapshots', self._name(part))) is not None]
        if len(ids) != 2:
            return findings.contradicted(f'{len(ids)} of 2 were created')
        return done(self._writer.remove_many('snapshots', ids), raw.form(
            'DELETE', 'snapshots', 1))

    def _bulk(self) -> raw.Answer:
        """The reply to a bulk POST, sent once."""
        if 'bulk' not in self._made.answers:
            for part, group in (('v2', 'g5'), ('v3', 'g6')):
                self._made.volume(part, group)
            self._made.answers['bulk'] = self._writer.make_many(
                'snapshots', [self._made.snapshot_body(*each)
                              for each in zip(_BULK, ('g5', 'g6'))])
        return self._made.answers['bulk']

    @checks('BLK-2')
    def reply_to_bulk(self) -> Finding:
        """A bulk POST returns what it created, in the requested order."""
        answer = self._bulk()
        if not answer.ok:
            return findings.not_seen(said(answer))
        found = [hit.get('short_name') for hit in answer.hits]
        return that(found == [*map(self._name, _BULK)],
                    f'{len(found)} of 2 in the reply')

    @checks('BLK-4')
    def half_bad(self) -> Finding:
        """A bulk call with an invalid item does nothing."""
        self._made.volume('v3', 'g6')
        # The second group has no volumes (SNP-12).
        answer = self._writer.make_many('snapshots', [
            self._made.snapshot_body('b3', 'g6'),
            self._made.snapshot_body('b4', 'g0')])
        finding = refused(answer)
        if finding.result != findings.CONFIRMED:
            return findings.not_seen(f'inconclusive: {said(answer)}')
        if self._writer.find('snapshots', self._name('b3')) is None:
            return finding
        return dataclasses.replace(
            finding, result=findings.CONTRADICTED,
            seen=f'{finding.seen}; the valid item was created')

    @checks('OBJ-5')
    def delete(self) -> Finding:
        """DELETE is answered with 204 and no body."""
        snapshot = self._made.snapshot('d1', 'g6', 'v3')
        answer = self._remove('snapshots', snapshot, leaf=True)
        if not answer.ok:
            return findings.not_seen(said(answer))
        return that(answer.status == 204 and not answer.size,
                    f'{said(answer)}, {answer.size} bytes')

    @checks('QRY-10')
    def deleted_snapshot(self) -> Finding:
        """Deleted snapshots may stay listed."""
        hits = self._get('snapshots', '', (
            'short_name', self._name('d1'))).hits
        return (findings.confirmed('listed with is_deleted') if any(
            asking.is_true(hit.get('is_deleted')) for hit in hits)
            else findings.not_seen('gone at once'))

    @checks('VOL-17')
    def deleted_volume(self) -> Finding:
        """marked_for_deletion is set until a volume is removed."""
        # The group remains, without volumes (VOL-8).
        volume = self._made.volume('v4', 'g2')
        answer = self._remove('volumes', volume, leaf=True)
        if not answer.ok:
            return findings.not_seen(said(answer))
        self._made.forget('v4')
        hits = self._get('volumes', '', ('name', self._name('v4'))).hits
        return (findings.confirmed('listed with marked_for_deletion') if any(
            asking.is_true(hit.get('marked_for_deletion')) for hit in hits)
            else findings.not_seen('gone at once'))

    @checks('VOL-8')
    def last_volume(self) -> Finding:
        """A group remains when its last volume is deleted."""
        group = self._made.group('g9')
        volume = self._made.volume('v6', 'g9')
        answer = self._remove('volumes', volume)
        if not answer.ok:
            return findings.not_seen(said(answer))
        return that(self._writer.find(
            'volume_groups', self._name('g9')) == group, 'looked for it')

    @checks('OBJ-7')
    def ids(self) -> Finding:
        """Ids are not reused."""
        before = self._made.group('g9')
        answer = self._remove('volume_groups', before, leaf=True)
        if not answer.ok:
            return findings.not_seen(said(answer))
        self._made.forget('g9')
        after = self._made.group('g8')
        return that(after > before, 'a new object has '
                    + ('a higher id' if after > before else 'a lower id'
                       if after < before else 'the id of a deleted one'))
