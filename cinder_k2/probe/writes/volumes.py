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

"""Volumes."""

from cinder_k2.probe import findings
from cinder_k2.probe.findings import checks
from cinder_k2.probe.findings import Finding
from cinder_k2.probe.findings import refused
from cinder_k2.probe.findings import that
from cinder_k2.probe.made import GIB
from cinder_k2.probe.made import ref
from cinder_k2.probe.writes import base
from cinder_k2.probe.writes import forms


class Volumes(base.Checks):
    """Volumes."""

    @checks('VOL-1')
    def name_in_use(self) -> Finding:
        """Names of volumes are unique."""
        self._made.volume()
        return refused(self._make('volumes', {
            'name': self._name('v1'), 'size': GIB, 'volume_group': ref(
                'volume_groups', self._made.group('g2'))}))

    @checks('OBJ-10')
    def text(self) -> Finding:
        """Numbers are accepted as strings."""
        return self._takes('volumes', 'v2', self._made.volume('v2', 'g5'),
                           'size', str(2 * GIB))

    @checks('VOL-2')
    def shrink(self) -> Finding:
        """Volumes cannot shrink."""
        volume = self._made.volume('v2', 'g5')
        self._seen_to_take('volumes', 'v2', volume, 'size', 2 * GIB)
        return self._keeps('volumes', 'v2', volume, 'size', GIB)

    @checks('VOL-5')
    def no_size(self) -> Finding:
        """A size is positive."""
        return refused(self._make('volumes', {
            'name': self._name('u1'), 'size': 0, 'volume_group': ref(
                'volume_groups', self._made.group())}))

    @checks('VOL-12')
    def read_only(self) -> Finding:
        """read_only can be changed."""
        volume = self._made.volume('v2', 'g5')
        self._change('volumes', volume, {'name': self._name('v2')})
        found = self._takes('volumes', 'v2', volume, 'read_only', True,
                            forms.RENAME_VOLUME)
        if found.result == findings.CONFIRMED:
            self._change('volumes', volume, {'read_only': False})
        return found

    @checks('VOL-13')
    def vmware(self) -> Finding:
        """vmware_support is fixed when the volume is created."""
        return self._keeps(
            'volumes', 'v2', self._made.volume('v2', 'g5'), 'vmware_support',
            True, forms.READ_ONLY)

    @checks('VOL-15')
    def serial_number(self) -> Finding:
        """scsi_sn is the system id and scsi_suffix, in hex."""
        self._made.volume()
        one = self._read('volumes', 'v1')
        found, suffix = one.get('scsi_sn'), one.get('scsi_suffix')
        if not found:
            return findings.not_seen('the field is missing')
        if suffix is None:
            return that(not set(found) - set('0123456789abcdef'),
                        'it is in hex; scsi_suffix is missing')
        return that(found == f'{self._writer.token.system}{int(suffix):04x}',
                    'looked at one')

    @checks('VOL-3')
    def grow(self) -> Finding:
        """Volumes can grow with snapshots and while mapped."""
        volume = self._made.volume('v2', 'g5')
        self._made.snapshot('s5', 'g5', 'v2')
        self._made.mapping('m3', self._made.host(), 'volumes', volume)
        return self._takes('volumes', 'v2', volume, 'size', 3 * GIB)

    @checks('VOL-6')
    def mapped(self) -> Finding:
        """A mapped volume cannot be deleted."""
        volume = self._made.volume('v2', 'g5')
        self._made.mapping('m3', self._made.host(), 'volumes', volume)
        return refused(self._remove('volumes', volume))

    @checks('RST-3')
    def restore_mapped(self) -> Finding:
        """No restore while mapped."""
        snapshot = self._made.snapshot('s3', 'g5', 'v2')
        self._made.mapping('m3', self._made.host(), 'volumes',
                           self._made.volume('v2', 'g5'))
        return self._not_restored('g5', snapshot)

    @checks('VOL-7')
    def with_snapshot(self) -> Finding:
        """A volume can be deleted only after its snapshots."""
        self._made.snapshot()
        return refused(self._remove('volumes', self._made.volume()))

    @checks('VOL-9')
    def move_alone(self) -> Finding:
        """A volume without snapshots can be moved to another group."""
        return self._takes(
            'volumes', 'v5', self._made.volume('v5', 'g7'), 'volume_group',
            ref('volume_groups', self._made.group('g2')), forms.RENAME_VOLUME)

    @checks('VOL-11')
    def beyond_quota(self) -> Finding:
        """A volume that exceeds the quota of its group is refused."""
        self._made.volume('v3', 'g6')
        group = self._made.group('g6')
        self._seen_to_take('volume_groups', 'g6', group, 'quota', 2 * GIB)
        answer = self._make('volumes', {
            'name': self._name('u2'), 'size': 3 * GIB,
            'volume_group': ref('volume_groups', group)})
        self._change('volume_groups', group, {'quota': 0})
        return refused(answer)

    @checks('VOL-10')
    def move(self) -> Finding:
        """A volume with snapshots cannot be moved."""
        self._made.snapshot()
        other = ref('volume_groups', self._made.group('g2'))
        self._seen_to_take('volumes', 'v5', self._made.volume('v5', 'g7'),
                           'volume_group', other)
        return self._keeps('volumes', 'v1', self._made.volume(),
                           'volume_group', other)

    @checks('VG-5')
    def group_in_use(self) -> Finding:
        """A group with volumes cannot be deleted."""
        self._made.volume('v4', 'g2')
        return refused(self._remove('volume_groups', self._made.group('g2')))
