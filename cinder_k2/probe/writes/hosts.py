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

"""Hosts and mappings."""

from typing import Any

from cinder_k2.probe import asking
from cinder_k2.probe import findings
from cinder_k2.probe.findings import checks
from cinder_k2.probe.findings import done
from cinder_k2.probe.findings import Finding
from cinder_k2.probe.findings import refused
from cinder_k2.probe.findings import that
from cinder_k2.probe.made import ref
from cinder_k2.probe import words
from cinder_k2.probe.words import said
from cinder_k2.probe.writes import base
from cinder_k2.probe.writes import forms
from cinder_k2.rest import raw

_MAP = 'mappings'
_LUN = 200


class Hosts(base.Checks):
    """Hosts and mappings."""

    @checks('HST-1')
    def name_in_use(self) -> Finding:
        """Names of hosts are unique."""
        self._made.host()
        return refused(self._make('hosts', {
            'name': self._name('h1'), 'type': 'Linux'}))

    @checks('MAP-12')
    def without_initiator(self) -> Finding:
        """A host can be mapped without initiators."""
        self._map_first()
        return findings.confirmed('mapped')

    @checks('MAP-2')
    def lowest_lun(self) -> Finding:
        """The lowest LUN that is free on the host is assigned first."""
        self._map_first()
        self._made.mapping('m2', self._made.host('h2'), 'volumes',
                           self._made.volume('v3', 'g6'))
        found = self._made.answers['m2'].field('lun')
        if found is None:
            hits = self._writer.mappings(f'/hosts/{self._made.host("h2")}')
            found = hits[0].get('lun') if hits else None
        if found is None:
            return findings.not_seen('no LUN is shown')
        return that(base.same(found, 1), f'the first LUN of a host: {found}')

    @checks('MAP-7')
    def several_hosts(self) -> Finding:
        """A volume may be mapped to several hosts."""
        self._map_first()
        host, volume = self._made.host('h2'), self._made.volume()
        try:
            self._made.mapping('m4', host, 'volumes', volume)
        except findings.Skip:
            return done(self._made.answers['m4'])
        return findings.confirmed('mapped twice')

    @checks('MAP-9')
    def another_lun(self) -> Finding:
        """PATCH changes a LUN, but not to one in use on the host."""
        host = self._made.host('h2')
        first, second = (self._made.mapping(part, host, 'volumes', volume)
                         for part, volume in (
                             ('m2', self._made.volume('v3', 'g6')),
                             ('m4', self._made.volume())))
        answer = self._change(_MAP, first, {'lun': _LUN})
        if not answer.ok:
            return done(answer, forms.MAPPING)
        if not any(raw.id_of(hit) == first and base.same(hit.get('lun'), _LUN)
                   for hit in self._writer.mappings(f'/hosts/{host}')):
            return findings.not_seen(f'{said(answer)}, and the LUN is '
                                     'unchanged')
        return findings.both([done(answer), refused(
            self._change(_MAP, second, {'lun': _LUN}))])

    @checks('MAP-8')
    def twice(self) -> Finding:
        """A volume can be mapped to a host only once."""
        self._map_first()
        return refused(self._make(_MAP, {
            'host': ref('hosts', self._made.host()),
            'volume': ref('volumes', self._made.volume())}))

    @checks('MAP-10')
    def chosen_lun(self) -> Finding:
        """POST does not accept a LUN."""
        host, volume = self._made.host('h2'), self._made.volume('v2', 'g5')
        answer = self._make(_MAP, {
            'host': ref('hosts', host), 'lun': 77,
            'volume': ref('volumes', volume)})
        if not answer.ok:
            # The control: the same request without a LUN.
            self._made.mapping('m6', host, 'volumes', volume)
        return refused(answer, lambda: any(
            base.same(hit.get('lun'), 77)
            for hit in self._writer.mappings(f'/hosts/{host}')), forms.MAPPING)

    @checks('SNP-8', 'MAP-13')
    def snapshot(self) -> Finding:
        """A snapshot that is not a view cannot be mapped."""
        return refused(self._make(_MAP, {
            'host': ref('hosts', self._made.host()),
            'volume': ref('snapshots', self._made.snapshot())}))

    @checks('MAP-3')
    def view(self) -> Finding:
        """A mapped view has entries for its volsnaps."""
        host = self._made.host()
        self._made.mapping('m5', host, 'snapshots', self._made.view())
        luns = [hit.get('lun') for hit in self._volsnaps_of(host)]
        return that(len(luns) == 1 and luns[0] is not None,
                    f'{len(luns)} entries')

    def _volsnaps_of(self, host: int) -> list[Any]:
        return [hit for hit in self._writer.mappings(f'/hosts/{host}')
                if asking.ref_of(hit, 'volume').startswith('/volsnaps/')]

    @checks('SNP-15')
    def exposed(self) -> Finding:
        """Mapping a view sets last_exposed_time."""
        self._made.mapping('m5', self._made.host(), 'snapshots',
                           self._made.view())
        one = self._read('snapshots', 'w1')
        if 'last_exposed_time' not in one:
            return findings.not_seen('the field is missing')
        return that(bool(one['last_exposed_time']), 'looked at it')

    @checks('MAP-4')
    def unmap_view(self) -> Finding:
        """Deleting the entry of a view deletes the others."""
        host = self._made.host()
        mapping = self._made.mapping('m5', host, 'snapshots',
                                     self._made.view())
        answer = self._remove(_MAP, mapping, leaf=True)
        if not answer.ok:
            return done(answer)
        self._made.forget('m5')
        left = self._volsnaps_of(host)
        return that(not left, f'{len(left)} are left')

    @checks('HST-2')
    def mapped(self) -> Finding:
        """A mapped host cannot be deleted."""
        self._map_first()
        return refused(self._remove('hosts', self._made.host()))

    @checks('HST-8')
    def counts(self) -> Finding:
        """A host counts its mapped volumes."""
        self._map_first()
        mapped = [hit for hit in self._writer.mappings(
            f'/hosts/{self._made.host("h2")}')
            if asking.ref_of(hit, 'volume').startswith('/volumes/')]
        found = self._read('hosts', 'h2').get('volumes_count')
        if found is None:
            return findings.not_seen('the field is missing')
        return that(base.same(found, len(mapped)), f'{len(mapped)} mapped; '
                    f'volumes_count: {words.public(str(found))}')
