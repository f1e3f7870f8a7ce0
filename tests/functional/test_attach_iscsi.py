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

"""Attach and detach over iSCSI."""

from typing import Any

from cinder import exception
import ddt

from tests.functional import base

MIGRATION = '7e000000-0000-4000-8000-000000000001'


@ddt.ddt
class AttachTest(base.FunctionalTest):
    """Attaching over iSCSI; most of it applies to both transports."""

    def setUp(self) -> None:
        super().setUp()
        self.volume = self.backend.create_volume(1)

    def _admins_host(self, connector: dict[str, Any], **fields: Any
                     ) -> Any:
        """Create a host with the connector's IQN, as an administrator."""
        host = self.make('hosts', name='by-hand', type='Linux', **fields)
        self.make('host_iqns', iqn=connector['initiator'],
                  host={'ref': f'/hosts/{host["id"]}'})
        return host

    def test_properties(self) -> None:
        info = self.backend.attach(self.volume, self.host()).connection_info
        portals = [f'{ip["ip_address"]}:3260' if ':' not in ip['ip_address']
                   else f'[{ip["ip_address"]}]:3260'
                   for ip in self.admin.list('system/net_ips')
                   if ip['wan_port'] is None and ip['nvme_port'] is None]
        state = self.admin.list('system/state')[0]
        lun = self._mappings()[0]['lun']

        self.assertEqual('iscsi', info['driver_volume_type'])
        self.assertCountEqual(portals, info['target_portals'])
        self.assertGreater(len(portals), 1)
        self.assertEqual(
            [state['iscsi_qualified_target_name']] * len(portals),
            info['target_iqns'])
        self.assertEqual([lun] * len(portals), info['target_luns'])
        self.assertEqual(info['target_portals'][0], info['target_portal'])
        self.assertEqual(info['target_iqns'][0], info['target_iqn'])
        self.assertEqual(lun, info['target_lun'])
        self.assertIs(True, info['discard'])
        self.assertIs(False, info['target_discovered'])

    def test_without_discard(self) -> None:
        mine = self.use('iscsi', k2_discard=False)
        info = mine.attach(mine.create_volume(1), self.host()).connection_info
        self.assertIs(False, info['discard'])

    def test_host_type(self) -> None:
        """The type of hosts that the driver creates."""
        self.backend.attach(self.volume, self.host())
        mine = self.use('iscsi', k2_host_type='ESX')
        mine.attach(mine.create_volume(1), self.host('other'))
        self.assertEqual(['ESX', 'Linux'], sorted(
            host['type'] for host in self.admin.list('hosts')))

    def test_wan_addresses_are_left_out(self) -> None:
        wan = [ip['ip_address'] for ip in self.admin.list('system/net_ips')
               if ip['wan_port'] is not None]
        self.assertNotEqual([], wan)
        info = self.backend.attach(self.volume, self.host()).connection_info
        for address in wan:
            self.assertNotIn(address, str(info))

    def test_only_allowed_portals(self) -> None:
        address = next(ip['ip_address']
                       for ip in self.admin.list('system/net_ips')
                       if ip['wan_port'] is None)
        mine = self.use('iscsi', k2_iscsi_cidrs=f'203.0.113.0/24,{address}/32')
        volume = mine.create_volume(1)
        info = mine.attach(volume, self.host()).connection_info
        self.assertEqual([f'{address}:3260'], info['target_portals'])

    def test_a_host_without_multipath(self) -> None:
        info = self.backend.attach(
            self.volume, self.host(multipath=False)).connection_info
        self.assertGreater(len(info['target_portals']), 1)

    def test_two_volumes_one_host(self) -> None:
        host = self.host()
        other = self.backend.create_volume(1)
        first = self.backend.attach(self.volume, host)
        second = self.backend.attach(other, host)
        self.assertNotEqual(first.connection_info['target_lun'],
                            second.connection_info['target_lun'])
        self.assert_left(volumes=2, volume_groups=2, mappings=2, hosts=1,
                         host_iqns=1)
        self.backend.detach(first)
        self.assert_left(volumes=2, volume_groups=2, mappings=1, hosts=1,
                         host_iqns=1)
        self.backend.detach(second)
        self.assert_left(volumes=2, volume_groups=2)

    def test_one_volume_two_hosts(self) -> None:
        """Live migration: the volume is on both for a while."""
        source = self.backend.attach(self.volume, self.host(), MIGRATION)
        target = self.backend.attach(self.volume, self.host(), MIGRATION)
        self.assert_left(volumes=1, volume_groups=1, mappings=2, hosts=2,
                         host_iqns=2)
        self.backend.detach(source)
        self.assert_left(volumes=1, volume_groups=1, mappings=1, hosts=1,
                         host_iqns=1)
        self.backend.detach(target)
        self.assert_left(volumes=1, volume_groups=1)

    def test_two_attachments_on_one_host(self) -> None:
        """Two guests of one host: one mapping until the last detach."""
        volume = self.backend.create_volume(1, multiattach='<is> True')
        host = self.host()
        first = self.backend.attach(volume, host, MIGRATION)
        second = self.backend.attach(volume, host,
                                     MIGRATION.replace('1', '2'))
        self.assertEqual(first.connection_info['target_lun'],
                         second.connection_info['target_lun'])
        self.assertEqual(1, len(self._mappings()))
        self.backend.detach(first)
        self.assertEqual(1, len(self._mappings()))
        self.backend.detach(second)
        self.assert_left(volumes=2, volume_groups=2)

    def test_again(self) -> None:
        """A repeated request, as from nova after a reboot, changes nothing."""
        host = self.host()
        first = self.backend.attach(self.volume, host)
        again = self.backend.manager.initialize_connection(
            self.backend.context, self.backend.volume(self.volume.id), host)
        for key in ('target_lun', 'target_portals', 'target_iqn'):
            self.assertEqual(first.connection_info[key], again['data'][key])
        self.assertEqual(1, len(self._mappings()))

    def test_again_without_an_attachment(self) -> None:
        """A mapping is left from an attach that Cinder does not know."""
        host = self.host()
        driver = self.backend.driver
        first = driver.initialize_connection(self.volume, host)
        again = driver.initialize_connection(self.volume, host)
        self.assertEqual(first, again)
        driver.terminate_connection(self.volume, host)
        self.assert_left(volumes=1, volume_groups=1)

    def test_detach_twice(self) -> None:
        host = self.host()
        self.backend.detach(self.backend.attach(self.volume, host))
        self.backend.driver.terminate_connection(self.volume, host)
        self.assert_left(volumes=1, volume_groups=1)

    def test_detach_what_an_administrator_unmapped(self) -> None:
        attachment = self.backend.attach(self.volume, self.host())
        self.admin.delete('mappings', self._mappings()[0]['id'])
        self.backend.detach(attachment)
        self.assert_left(volumes=1, volume_groups=1)

    def test_detach_of_a_volume_that_is_gone(self) -> None:
        host = self.host()
        attachment = self.backend.attach(self.volume, host)
        self.admin.delete('mappings', self._mappings()[0]['id'])
        self.admin.delete('volumes', self.admin.list(
            'volumes', name=f'cv-{self.volume.id}')[0]['id'])
        self.backend.detach(attachment)
        self.backend.delete_volume(self.volume)
        self.assertNothingLeft()

    def test_a_host_that_an_administrator_made(self) -> None:
        """The host is found by its initiator, used, and never deleted."""
        connector = self.host()
        host = self._admins_host(connector)
        attachment = self.backend.attach(self.volume, connector)
        self.assertEqual([f'/hosts/{host["id"]}'],
                         [m['host']['ref'] for m in self._mappings()])
        self.backend.detach(attachment)
        self.assert_left(volumes=1, volume_groups=1, hosts=1, host_iqns=1)

    @ddt.data(('IQN.X:HOST', 'IQN.X:HOST'), ('IQN.X:HOST', 'iqn.x:host'),
              ('iqn.x:host', 'IQN.X:HOST'), ('iqn.X:host', 'iqn.x:Host'))
    @ddt.unpack
    def test_capitals(self, on_array: str, on_host: str) -> None:
        """INI-5: names are compared without regard to case."""
        connector = self.host()
        host = self._admins_host({'initiator': on_array})
        attachment = self.backend.attach(
            self.volume, {**connector, 'initiator': on_host})
        self.assertEqual(f'/hosts/{host["id"]}',
                         self._mappings()[0]['host']['ref'])
        self.backend.detach(attachment)
        self.assert_left(volumes=1, volume_groups=1, hosts=1, host_iqns=1)

    def test_a_host_in_a_host_group(self) -> None:
        """MAP-6: volumes are mapped to the host group."""
        connector = self.host()
        group = self.make('host_groups', name='cluster')
        self._admins_host(connector, host_group={
            'ref': f'/host_groups/{group["id"]}'})
        attachment = self.backend.attach(self.volume, connector)
        self.assertEqual([f'/host_groups/{group["id"]}'],
                         [m['host']['ref'] for m in self._mappings()])
        self.assertEqual(self._mappings()[0]['lun'],
                         attachment.connection_info['target_lun'])
        self.backend.detach(attachment)
        self.assertEqual([], self._mappings())

    def test_two_hosts_of_one_host_group(self) -> None:
        """The group's mapping stays until the last member detaches."""
        group = self.make('host_groups', name='cluster')
        connectors = [self.host(), self.host()]
        for number, connector in enumerate(connectors):
            host = self.make('hosts', name=f'member-{number}', type='Linux',
                             host_group={
                                 'ref': f'/host_groups/{group["id"]}'})
            self.make('host_iqns', iqn=connector['initiator'],
                      host={'ref': f'/hosts/{host["id"]}'})
        first, second = [
            self.backend.attach(self.volume, connector, MIGRATION)
            for connector in connectors]
        self.assertEqual(1, len(self._mappings()))
        self.backend.detach(first)
        self.assertEqual(1, len(self._mappings()))
        self.backend.detach(second)
        self.assertEqual([], self._mappings())

    def test_an_initiator_that_the_array_has_seen(self) -> None:
        """INI-2: the initiator's record is adopted."""
        connector = self.host()
        self.admin.create('host_iqns', iqn=connector['initiator'])
        attachment = self.backend.attach(self.volume, connector)
        self.assert_left(volumes=1, volume_groups=1, mappings=1, hosts=1,
                         host_iqns=1)
        self.backend.detach(attachment)
        self.assertEqual({'volumes': 1, 'volume_groups': 1},
                         {k: v for k, v in self.left().items()
                          if k != 'host_iqns'})
        for record in self.admin.list('host_iqns'):
            self.admin.delete('host_iqns', record['id'])

    def test_force_detach(self) -> None:
        """Without a connector, this volume is unmapped from all hosts."""
        other = self.backend.create_volume(1)
        busy, idle = self.host(), self.host()
        self.backend.attach(self.volume, busy, MIGRATION)
        self.backend.attach(self.volume, idle, MIGRATION)
        kept = self.backend.attach(other, busy)

        self.backend.force_detach(self.volume)

        self.assertEqual('available',
                         self.backend.volume(self.volume.id).status)
        self.assert_left(volumes=2, volume_groups=2, mappings=1, hosts=1,
                         host_iqns=1)
        self.backend.detach(kept)
        self.assert_left(volumes=2, volume_groups=2)

    def test_force_detach_from_a_host_group(self) -> None:
        connector = self.host()
        group = self.make('host_groups', name='cluster')
        self._admins_host(connector, host_group={
            'ref': f'/host_groups/{group["id"]}'})
        self.backend.attach(self.volume, connector)
        self.backend.force_detach(self.volume)
        self.assertEqual([], self._mappings())

    def test_force_detach_of_what_is_not_attached(self) -> None:
        self.backend.driver.terminate_connection(self.volume, None,
                                                 force=True)
        self.assert_left(volumes=1, volume_groups=1)

    def test_a_view(self) -> None:
        """The LUN of a view is that of its volsnap's entry (MAP-3)."""
        clone = self.backend.clone(self.volume)
        host = self.host()
        first = self.backend.attach(self.volume, host)
        second = self.backend.attach(clone, host)
        luns = {m['volume']['ref'].split('/')[1]: m['lun']
                for m in self._mappings()}
        self.assertEqual(luns['volsnaps'],
                         second.connection_info['target_lun'])
        self.assertNotEqual(first.connection_info['target_lun'],
                            second.connection_info['target_lun'])
        self.backend.detach(first)
        self.assertEqual(1, len(self._hosts()))
        self.backend.detach(second)
        self.assertEqual([], self._hosts())

    def test_force_detach_of_a_view(self) -> None:
        clone = self.backend.clone(self.volume)
        self.backend.attach(clone, self.host())
        self.backend.force_detach(clone)
        self.assertEqual(([], []), (self._mappings(), self._hosts()))

    @ddt.data(True, False)
    def test_a_lun_that_cannot_be_read(self, known_host: bool) -> None:
        """A failed attach leaves no mapping: it would never be detached."""
        connector, other = self.host(), self.backend.create_volume(1)
        if known_host:
            self.backend.attach(other, connector)
        clone = self.backend.clone(self.volume)
        before = self.left()
        self.fault('status', 'GET', 'mappings', status=403)
        self.assertRaises(exception.VolumeBackendAPIException,
                          self.backend.attach, clone, connector)
        self.assertEqual(before, self.left())

    def test_a_connector_without_initiator(self) -> None:
        connector = self.host()
        for value in ({}, {'initiator': None}, {'initiator': ''}):
            bad = {**connector, **value}
            if not value:
                del bad['initiator']
            with self.assert_calls(0):
                refusal = self.assertRaises(
                    exception.InvalidInput, self.backend.attach,
                    self.volume, bad)
            self.assertIn('initiator', str(refusal))
            self.backend.force_detach(self.volume)
        self.assert_left(volumes=1, volume_groups=1)

    def test_refused_mapping_leaves_no_host(self) -> None:
        self.fault('status', 'POST', 'mappings', status=403)
        self.assertRaises(exception.VolumeBackendAPIException,
                          self.backend.attach, self.volume, self.host())
        self.assert_left(volumes=1, volume_groups=1)
        self.backend.force_detach(self.volume)

    def test_refused_initiator_leaves_no_host(self) -> None:
        self.fault('status', 'POST', 'host_iqns', status=403)
        self.assertRaises(exception.VolumeBackendAPIException,
                          self.backend.attach, self.volume, self.host())
        self.assert_left(volumes=1, volume_groups=1)
        self.backend.force_detach(self.volume)
