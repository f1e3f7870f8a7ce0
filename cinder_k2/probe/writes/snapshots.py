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

"""Snapshots, views and restores."""

from typing import Any

from cinder_k2.probe import asking
from cinder_k2.probe import findings
from cinder_k2.probe.findings import checks
from cinder_k2.probe.findings import done
from cinder_k2.probe.findings import Finding
from cinder_k2.probe.findings import refused
from cinder_k2.probe.findings import that
from cinder_k2.probe.made import ref
from cinder_k2.probe.words import said
from cinder_k2.probe.writes import base
from cinder_k2.probe.writes import forms


class Snapshots(base.Checks):
    """Snapshots, views and restores."""

    @checks('SNP-1')
    def name_of_snapshot(self) -> Finding:
        """A snapshot is named after its group."""
        self._made.snapshot()
        name = self._read('snapshots', 's1').get('name')
        if name is None:
            return findings.not_seen('snapshots show no name')
        return that(name == f'{self._name("g1")}:{self._name("s1")}',
                    'looked at a snapshot')

    @checks('SNP-2')
    def name_in_group(self) -> Finding:
        """A short name is unique in its group only."""
        self._made.volume('v2', 'g5'), self._made.volume('v3', 'g6')
        first, other, again = (
            self._make('snapshots', self._made.snapshot_body('a1', group))
            for group in ('g5', 'g6', 'g5'))
        for answer in (other, again):
            # The cleanup finds one object for each name.
            if answer.ok and answer.id is not None:
                self._remove('snapshots', answer.id, leaf=True)
        if not first.ok:
            return findings.not_seen(said(first))
        return findings.both([done(other), refused(again)])

    @checks('SNP-3')
    def without_policy(self) -> Finding:
        """retention_policy is required."""
        self._made.volume()
        body = self._made.snapshot_body('e1', 'g1')
        del body['retention_policy']
        return refused(self._make('snapshots', body), control=forms.SNAPSHOT)

    @checks('SNP-4')
    def kept_snapshot(self) -> Finding:
        """is_auto_deleteable false is kept, also for views."""
        self._made.snapshot()
        view = self._make('snapshots', {
            'short_name': self._name('w2'), 'is_exposable': True,
            'is_auto_deleteable': False, 'retention_policy':
            self._made.policy,
            'source': ref('snapshots', self._made.snapshot())})
        found = [self._read('snapshots', part).get('is_auto_deleteable')
                 for part in ('s1', *(['w2'] if view.ok else []))]
        if None in found:
            return findings.not_seen('the field is missing')
        if all(base.same(each, False) for each in found) and not view.ok:
            return findings.not_seen('snapshots keep it, views do not accept '
                                     f'it: {said(view)}')
        return that(all(base.same(each, False) for each in found),
                    'read both' if len(found) == 2 else 'read a snapshot')

    @checks('SNP-6')
    def view_of_group(self) -> Finding:
        """A view cannot be created from a group."""
        self._made.volume()
        return refused(self._make('snapshots', {
            'short_name': self._name('e1'), 'is_exposable': True,
            'source': ref('volume_groups', self._made.group()),
            'retention_policy': self._made.policy}))

    @checks('SNP-7')
    def view_of_view(self) -> Finding:
        """A view cannot be created from a view."""
        return refused(self._make('snapshots', {
            'short_name': self._name('e1'), 'is_exposable': True,
            'source': ref('snapshots', self._made.view()),
            'retention_policy': self._made.policy}))

    @checks('SNP-9')
    def with_view(self) -> Finding:
        """A snapshot with a view cannot be deleted."""
        self._made.view()
        return refused(self._remove('snapshots', self._made.snapshot()))

    @checks('SNP-10')
    def change_snapshot(self) -> Finding:
        """PATCH of a snapshot is supported."""
        answer = self._change('snapshots', self._made.snapshot(), {
            'is_auto_deleteable': False})
        return (done(answer, forms.RENAME) if answer.ok
                or answer.status in (404, 405)
                else findings.not_seen(said(answer)))

    @checks('SNP-11', 'VSN-2')
    def volsnaps(self) -> Finding:
        """A snapshot has one volsnap for each volume."""
        hits = self._volsnaps()
        return that(len(hits) == 1, f'1 volume, {len(hits)} volsnaps')

    @checks('VSN-3')
    def source_of_volsnap(self) -> Finding:
        """The source of a view's volsnap is the volume."""
        hits = self._volsnaps()
        if not all(isinstance(hit.get('source'), dict) for hit in hits):
            return findings.not_seen('the field is missing')
        return that([hit['source'].get('ref') for hit in hits] == [
            ref('volumes', self._made.volume())['ref']], 'looked at one')

    def _volsnaps(self) -> list[Any]:
        view = f'/snapshots/{self._made.view()}'
        answer = self._get('volsnaps', '', ('snapshot.ref', view))
        if not answer.ok:
            raise findings.Skip(said(answer))
        return [hit for hit in answer.hits
                if asking.refers(hit, 'snapshot', view)]

    @checks('RST-2')
    def restore_view(self) -> Finding:
        """A group cannot be restored to a view."""
        return self._not_restored('g1', self._made.view())

    @checks('RST-4')
    def restore(self) -> Finding:
        """A restore keeps later snapshots, and sets last_restored_from."""
        snapshot = self._made.snapshot('s2', 'g6', 'v3')
        self._made.snapshot('s7', 'g6', 'v3')
        answer = self._change('volume_groups', self._made.group('g6'), {
            'last_restored_from': ref('snapshots', snapshot)})
        if not answer.ok:
            return findings.not_seen(f'not restored: {said(answer)}')
        if self._writer.find('snapshots', self._name('s7')) is None:
            return findings.contradicted('a later snapshot is gone')
        found = self._read('volume_groups', 'g6').get('last_restored_from')
        if not found:
            return findings.not_seen(f'{said(answer)}, but the group does '
                                     'not show it')
        return that(base.same(found, ref('snapshots', snapshot)),
                    'looked at the group')

    @checks('section 2.5: order')
    def order(self) -> Finding:
        """Without __sort, lists are in no particular order."""
        for part, group in (('v1', 'g1'), ('v2', 'g5'), ('v3', 'g6')):
            self._made.volume(part, group)
        lists = [[hit.get('id') for hit in self._get('volumes').hits]
                 for _ in range(3)]
        # Others may create and delete volumes meanwhile.
        common = set(lists[0]).intersection(*lists)
        seen = {tuple(id for id in each if id in common) for each in lists}
        return (findings.confirmed('three lists differ') if len(seen) > 1
                else findings.not_seen('three lists are the same'))
