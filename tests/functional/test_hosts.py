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

"""Hosts with unusual, foreign or changed names."""

from typing import Any

import ddt

from tests.functional import base


@ddt.ddt
class HostsTest(base.FunctionalTest):

    def setUp(self) -> None:
        super().setUp()
        self.volume = self.backend.create_volume(1)

    def _iqns(self, host: Any) -> list[str]:
        return [r['iqn'] for r in self.admin.list('host_iqns')
                if r['host'] == {'ref': f'/hosts/{host["id"]}'}]

    def test_names_that_share_their_first_32_characters(self) -> None:
        name = 'compute-0001.rack-12.az1.region-'
        one, two = self.host(name + 'one'), self.host(name + 'two')
        other = self.backend.create_volume(1)
        first = self.backend.attach(self.volume, one)
        second = self.backend.attach(other, two)
        hosts = self._hosts()
        self.assertEqual(2, len(hosts))
        for connector, attachment in ((one, first), (two, second)):
            volume = self.admin.list(
                'volumes', name=f'cv-{attachment.volume_id}')[0]
            mapping = self.admin.list(
                'mappings', **{'volume.ref': f'/volumes/{volume["id"]}'})
            host = next(h for h in hosts if mapping[0]['host']['ref']
                        == f'/hosts/{h["id"]}')
            self.assertEqual([connector['initiator']], self._iqns(host))
        self.backend.detach(first)
        self.assertEqual(1, len(self._hosts()))
        self.backend.detach(second)

    def test_two_hosts_of_one_name(self) -> None:
        """Two hosts are called localhost."""
        other = self.backend.create_volume(1)
        first = self.backend.attach(self.volume, self.host('localhost'))
        second = self.backend.attach(other, self.host('localhost'))
        self.assertEqual(2, len(self._hosts()))
        self.backend.detach(first)
        self.assertEqual(1, len(self._mappings()))
        self.backend.detach(second)

    @ddt.data('h', 'über.example', 'a b/c', 'x' * 300, '', '-')
    def test_odd_names(self, name: str) -> None:
        attachment = self.backend.attach(self.volume, self.host(name))
        host = self._hosts()[0]
        self.assertRegex(host['name'], r'\A[0-9A-Za-z_-]{1,32}\Z')
        self.backend.detach(attachment)

    def test_a_reinstalled_host(self) -> None:
        """A host with the same name and a new IQN is another host."""
        old = self.host('compute-7')
        new = {**self.host('compute-7'), 'ip': old['ip']}
        other = self.backend.create_volume(1)
        before = self.backend.attach(self.volume, old)
        after = self.backend.attach(other, new)
        volume = self.admin.list('volumes', name=f'cv-{other.id}')[0]
        mapping = self.admin.list(
            'mappings', **{'volume.ref': f'/volumes/{volume["id"]}'})[0]
        host = next(h for h in self._hosts()
                    if mapping['host']['ref'] == f'/hosts/{h["id"]}')
        self.assertEqual([new['initiator']], self._iqns(host))
        self.backend.detach(before)
        self.backend.detach(after)
        self.assert_left(volumes=2, volume_groups=2)

    def test_a_reinstalled_host_of_an_administrator(self) -> None:
        """An administrator's host of that name has no initiators; it stays."""
        connector = self.host('compute-8')
        self.make('hosts', name='compute-8', type='Linux')
        attachment = self.backend.attach(self.volume, connector)
        mapped = self._mappings()[0]['host']['ref']
        owner = self.admin.list('host_iqns')[0]['host']['ref']
        self.assertEqual(owner, mapped)
        self.backend.detach(attachment)
        self.assert_left(volumes=1, volume_groups=1, hosts=1)

    def test_an_initiator_moved_to_another_host(self) -> None:
        """The volume is mapped to the host that now has the initiator."""
        connector = self.host()
        attachment = self.backend.attach(self.volume, connector)
        host = self.make('hosts', name='by-hand', type='Linux')
        self.admin.delete('host_iqns',
                          self.admin.list('host_iqns')[0]['id'])
        record = self.admin.create(
            'host_iqns', iqn=connector['initiator'],
            host={'ref': f'/hosts/{host["id"]}'})
        other = self.backend.create_volume(1)
        second = self.backend.attach(other, connector)
        self.assertIn(f'/hosts/{host["id"]}',
                      [m['host']['ref'] for m in self._mappings()])
        self.backend.detach(second)
        self.backend.detach(attachment)
        self.backend.force_detach(self.volume)
        self.assertEqual([], self._mappings())
        for left in self.admin.list('hosts'):
            if left['id'] != host['id']:
                self.admin.delete('hosts', left['id'])
        self.admin.delete('host_iqns', record['id'])

    def test_two_services(self) -> None:
        """Another service deleted the host that this one has cached."""
        here, connector = self.backend, self.host()
        there = self.own('iscsi')
        other = there.create_volume(1)
        here.detach(here.attach(self.volume, connector))
        there.detach(there.attach(other, connector))
        first = here.attach(self.volume, connector)
        second = there.attach(other, connector)
        self.assertEqual(1, len(self._hosts()))
        here.detach(first)
        there.detach(second)
        self.assert_left(volumes=2, volume_groups=2)
