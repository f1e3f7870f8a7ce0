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

"""Thin clones."""

from cinder_k2.probe import findings
from cinder_k2.probe.findings import checks
from cinder_k2.probe.findings import done
from cinder_k2.probe.findings import Finding
from cinder_k2.probe.findings import refused
from cinder_k2.probe.findings import that
from cinder_k2.probe.made import GIB
from cinder_k2.probe.made import ref
from cinder_k2.probe.writes import base
from cinder_k2.probe.writes import forms


class Clones(base.Checks):
    """Thin clones, or how an array without them refuses them."""

    @checks('CLN-5')
    def offered(self) -> Finding:
        """An array without thin clones refuses their fields."""
        body = self._made.clone_body('c2')
        try:
            self._made.thin_clone()
        except findings.Skip:
            if self._make('volumes', {**body, 'size': GIB}).ok:
                return findings.contradicted(
                    'their fields are ignored: a plain volume was created')
            return refused(self._made.answers['c1'], control=forms.VOLUME)
        return findings.not_seen('the array supports thin clones')

    @checks('CLN-1')
    def size(self) -> Finding:
        """A thin clone has the size of its source."""
        self._made.thin_clone()
        found = self._read('volumes', 'c1').get('size')
        if found is None:
            return findings.not_seen('the field is missing')
        return that(base.same(found, GIB), f'size {found}')

    @checks('CLN-4')
    def source(self) -> Finding:
        """A snapshot cannot be deleted while it has thin clones."""
        self._made.thin_clone()
        return refused(self._remove(
            'snapshots', self._made.snapshot('s4')))

    @checks('CLN-2')
    def other_group(self) -> Finding:
        """A thin clone is created in the group of its source."""
        self._made.thin_clone()
        return refused(self._make('volumes', {
            **self._made.clone_body('c2'),
            'volume_group': ref('volume_groups', self._made.group('g2'))}))

    @checks('CLN-6')
    def of_view(self) -> Finding:
        """A view cannot be the source of a thin clone."""
        self._made.thin_clone()
        return refused(self._make('volumes', {
            **self._made.clone_body('c3'),
            'source_snapshot': ref('snapshots', self._made.view())}))

    @checks('CLN-7')
    def move(self) -> Finding:
        """A thin clone cannot leave its group."""
        clone = self._made.thin_clone()
        return self._keeps('volumes', 'c1', clone, 'volume_group', ref(
            'volume_groups', self._made.group('g2')))

    @checks('CLN-3')
    def delete(self) -> Finding:
        """A thin clone is deleted like any volume."""
        clone = self._made.thin_clone()
        self._made.forget('c1')
        return done(self._remove('volumes', clone, leaf=True))
