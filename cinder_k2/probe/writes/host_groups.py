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

"""Host groups."""

import dataclasses
from typing import Any

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
from cinder_k2.rest import raw

_MAP = 'mappings'


class HostGroups(base.Checks):
    """Host groups."""

    @checks('HST-5')
    def join_while_mapped(self) -> Finding:
        """A host with mappings cannot join a group."""
        self._map_first()
        host, group = self._made.host(), ref(
            'host_groups', self._host_group())
        found = self._keeps('hosts', 'h1', host, 'host_group', group)
        if found.result == findings.CONTRADICTED:
            self._change('hosts', host, {'host_group': None})
        return found

    def _host_group(self) -> int:
        return self._made.made('host_groups', 'n1', {
            'name': self._name('n1')})

    def _member(self) -> int:
        """A host in the host group."""
        host = self._made.host('h3')
        self._seen_to_take('hosts', 'h3', host, 'host_group', ref(
            'host_groups', self._host_group()))
        return host

    @checks('HGR-1')
    def group_with_hosts(self) -> Finding:
        """A host group with hosts cannot be deleted."""
        self._member()
        return refused(self._remove('host_groups', self._host_group()))

    @checks('MAP-6')
    def map_member(self) -> Finding:
        """A member of a host group cannot be mapped individually."""
        return refused(self._make(_MAP, {
            'host': ref('hosts', self._member()),
            'volume': ref('volumes', self._made.volume())}))

    @checks('OBJ-9')
    def empty_reference(self) -> Finding:
        """null, {} and "" clear a reference."""
        host = self._member()
        return findings.both([self._cleared(host, text, value) for text, value
                              in (('null', None), ('{}', {}), ('""', ''))])

    def _cleared(self, host: int, text: str, value: Any) -> Finding:
        group = ref('host_groups', self._host_group())
        self._change('hosts', host, {'host_group': group})
        answer = self._change('hosts', host, {'host_group': value})
        found = (findings.not_seen(f'{said(answer)}, and it is not cleared')
                 if answer.ok and self._read('hosts', 'h3').get('host_group')
                 else done(answer))
        return dataclasses.replace(found, seen=f'{text}: {found.seen}')

    @checks('MAP-5')
    def map_group(self) -> Finding:
        """A mapping of a host group is one entry for all members."""
        host, group = self._member(), self._host_group()
        try:
            self._made.made(_MAP, 'm7', {
                'host': ref('host_groups', group),
                'volume': ref('volumes', self._made.volume('v3', 'g6'))})
        except findings.Skip:
            return done(self._made.answers['m7'])
        found = self._writer.mappings(f'/host_groups/{group}')
        own = self._writer.mappings(f'/hosts/{host}')
        return that([hit.get('lun') is not None for hit in found] == [True]
                    and not own, f'{len(found)} entries of the group, '
                    f'{len(own)} of its member')

    @checks('HST-6')
    def leave(self) -> Finding:
        """A host can leave a group that is mapped."""
        self._group_mapping()
        return self._takes('hosts', 'h3', self._made.host('h3'),
                           'host_group', None)

    def _group_mapping(self) -> int:
        """The mapping of the host group.

        :raises findings.Skip: there is none
        """
        if 'm7' not in self._made.answers:
            raise findings.Skip('no host group was mapped')
        return self._made.made(_MAP, 'm7', {})

    @checks('HGR-1')
    def mapped_group(self) -> Finding:
        """A host group with mappings cannot be deleted."""
        mapping = self._group_mapping()
        if self._read('hosts', 'h3').get('host_group'):
            finding = findings.not_seen('it has hosts, too')
        else:
            finding = refused(self._remove(
                'host_groups', self._host_group()))
        self._remove(_MAP, mapping, leaf=True)
        self._made.forget('m7')
        return finding

    @checks('HST-4')
    def in_group(self) -> Finding:
        """A member of a host group cannot be deleted."""
        host = self._member()
        answer = self._remove('hosts', host)
        if answer.ok:
            self._made.forget('h3')
        else:
            self._change('hosts', host, {'host_group': None})
        return refused(answer)

    @checks('HGR-2')
    def rename_group(self) -> Finding:
        """Host groups can be renamed."""
        return self._renamed(self._change(
            'host_groups', self._host_group(), {'name': self._name('n2')}))

    def _renamed(self, answer: raw.Answer) -> Finding:
        if answer.ok and self._writer.find(
                'host_groups', self._name('n2')) is None:
            return findings.not_seen(f'{said(answer)}, and the name is '
                                     'unchanged')
        return done(answer, forms.JOIN)
