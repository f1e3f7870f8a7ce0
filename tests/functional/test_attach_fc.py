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

"""Attach and detach over Fibre Channel."""

from typing import Any
from unittest import mock

from cinder import exception

from tests.functional import base

MIGRATION = '7e000000-0000-4000-8000-000000000001'


def plain(wwpn: str) -> str:
    """Return a WWPN as os-brick writes it."""
    return wwpn.replace(':', '').lower()


class AttachFCTest(base.FunctionalTest):

    protocol = 'fc'

    def setUp(self) -> None:
        super().setUp()
        self.volume = self.backend.create_volume(1)
        self.zoned = self._watch('add_fc_zone')
        self.unzoned = self._watch('remove_fc_zone')

    def _watch(self, name: str) -> list[Any]:
        """Return a list to which calls of Cinder's zone manager are added."""
        calls: list[Any] = []
        patch = mock.patch(f'cinder.zonemanager.utils.{name}', calls.append)
        patch.start()
        self.addCleanup(patch.stop)
        return calls

    def _targets(self) -> list[str]:
        return [plain(port['pwwn'])
                for port in self.admin.list('system/fc_ports')
                if port.get('status', 'ok') == 'ok']

    def _ports(self) -> dict[str, Any]:
        return {plain(p['pwwn']): p['host'] for p in self.array.control
                .leftovers().get('host_fc_ports', [])}

    def test_properties(self) -> None:
        host = self.host()
        info = self.backend.attach(self.volume, host).connection_info
        lun = self._mappings()[0]['lun']
        self.assertEqual('fibre_channel', info['driver_volume_type'])
        self.assertCountEqual(self._targets(), info['target_wwn'])
        self.assertGreater(len(info['target_wwn']), 1)
        self.assertEqual(lun, info['target_lun'])
        self.assertIs(True, info['discard'])
        self.assertCountEqual(host['wwpns'],
                              info['initiator_target_map'])
        for targets in info['initiator_target_map'].values():
            self.assertCountEqual(self._targets(), targets)

    def test_without_discard(self) -> None:
        mine = self.use('fc', k2_discard=False)
        info = mine.attach(mine.create_volume(1), self.host()).connection_info
        self.assertIs(False, info['discard'])

    def test_zones(self) -> None:
        """Zones are added at each attach, and removed with the last volume."""
        host = self.host()
        other = self.backend.create_volume(1)
        first = self.backend.attach(self.volume, host)
        second = self.backend.attach(other, host)
        self.assertEqual(2, len(self.zoned))
        self.backend.detach(first)
        self.assertEqual([], [z for z in self.unzoned if
                              z['data'].get('initiator_target_map')])
        self.backend.detach(second)
        zones = [z['data']['initiator_target_map'] for z in self.unzoned
                 if z['data'].get('initiator_target_map')]
        self.assertEqual(1, len(zones))
        self.assertCountEqual(host['wwpns'], zones[0])
        for targets in zones[0].values():
            self.assertCountEqual(self._targets(), targets)

    def test_zones_after_a_forced_detach(self) -> None:
        host = self.host()
        self.backend.attach(self.volume, host)
        self.backend.force_detach(self.volume)
        zones = [z['data']['initiator_target_map'] for z in self.unzoned
                 if z['data'].get('initiator_target_map')]
        self.assertCountEqual(host['wwpns'], zones[0])
        self.assert_left(volumes=1, volume_groups=1)

    def test_zones_that_cannot_be_made(self) -> None:
        """Cinder never detaches a failed attach, so the driver has to."""
        with mock.patch('cinder.zonemanager.utils.add_fc_zone',
                        autospec=True,
                        side_effect=exception.ZoneManagerException('no')):
            self.assertRaises(exception.VolumeBackendAPIException,
                              self.backend.attach, self.volume, self.host())
        self.assert_left(volumes=1, volume_groups=1)

    def test_all_ports_are_registered(self) -> None:
        self.ignore_call_budget()  # One call per port.
        host = self.host(ports=4)
        attachment = self.backend.attach(self.volume, host)
        self.assertCountEqual(host['wwpns'], self._ports())
        self.assertEqual(1, len({p['ref'] for p in self._ports().values()}))
        self.backend.detach(attachment)
        self.assert_left(volumes=1, volume_groups=1)

    def test_a_new_adapter(self) -> None:
        """A port that the host did not have before joins its host."""
        host = self.host(ports=2)
        first = self.backend.attach(self.volume, host)
        host['wwpns'].append(host['wwpns'][0][:-2] + '99')
        other = self.backend.create_volume(1)
        second = self.backend.attach(other, host)
        self.assertCountEqual(host['wwpns'], self._ports())
        self.assertEqual(1, len({p['ref'] for p in self._ports().values()}))
        self.backend.detach(first)
        self.backend.detach(second)
        self.assert_left(volumes=2, volume_groups=2)

    def test_an_adapter_fewer(self) -> None:
        """A host is found by any of its ports."""
        self.ignore_call_budget()  # Two ports are removed.
        host = self.host(ports=2)
        first = self.backend.attach(self.volume, host)
        host = {**host, 'wwpns': host['wwpns'][:1]}
        other = self.backend.create_volume(1)
        second = self.backend.attach(other, host)
        self.assertEqual(1, self.left()['hosts'])
        self.backend.detach(second)
        self.backend.detach(first)
        self.assert_left(volumes=2, volume_groups=2)

    def test_spellings_of_a_port(self) -> None:
        host = self.host()
        attachment = self.backend.attach(self.volume, host)
        other = self.backend.create_volume(1)
        colons = [':'.join(w[i:i + 2] for i in range(0, 16, 2)).upper()
                  for w in host['wwpns']]
        second = self.backend.attach(other, {**host, 'wwpns': colons})
        self.assertEqual(1, self.left()['hosts'])
        self.assertCountEqual(
            host['wwpns'],
            map(plain, second.connection_info['initiator_target_map']))
        self.backend.detach(attachment)
        self.backend.detach(second)

    def test_an_fc_host_needs_no_iqn(self) -> None:
        host = self.host()
        del host['initiator']
        self.backend.detach(self.backend.attach(self.volume, host))
        self.assert_left(volumes=1, volume_groups=1)

    def test_a_connector_without_ports(self) -> None:
        host = self.host()
        for value in (None, ()):
            with self.assert_calls(0):
                refusal = self.assertRaises(
                    exception.InvalidInput, self.backend.attach,
                    self.volume, {**host, 'wwpns': value})
            self.assertIn('wwpns', str(refusal))
            self.backend.force_detach(self.volume)

    def test_seen_ports_are_adopted(self) -> None:
        """INI-2: ports that logged in before the host was created."""
        host = self.host()
        record = self.admin.create('host_fc_ports', pwwn=host['wwpns'][0])
        self.backend.attach(self.volume, host)
        self.assertCountEqual(host['wwpns'], self._ports())
        ports = self.admin.list('host_fc_ports')
        self.assertIn(record['id'], [p['id'] for p in ports])
        self.assertEqual(1, len({p['host']['ref'] for p in ports}))

    def test_initiators_of_two_hosts(self) -> None:
        """An attach is refused if the ports belong to two hosts."""
        connector = self.host()
        for number, wwpn in enumerate(connector['wwpns']):
            host = self.make('hosts', name=f'half-{number}', type='Linux')
            self.make('host_fc_ports', pwwn=wwpn,
                      host={'ref': f'/hosts/{host["id"]}'})
        refusal = self.assertRaises(
            exception.VolumeBackendAPIException, self.backend.attach,
            self.volume, connector)
        self.assertIn('half-0', str(refusal))
        self.assertIn('half-1', str(refusal))
        self.assertEqual([], self._mappings())
        self.backend.force_detach(self.volume)

    def test_one_volume_two_hosts(self) -> None:
        first = self.backend.attach(self.volume, self.host(), MIGRATION)
        second = self.backend.attach(self.volume, self.host(), MIGRATION)
        self.backend.detach(first)
        self.assert_left(volumes=1, volume_groups=1, mappings=1, hosts=1,
                         host_fc_ports=2)
        self.backend.detach(second)
        self.assert_left(volumes=1, volume_groups=1)

    def test_a_host_with_both_transports(self) -> None:
        """Neither back end removes the other's mapping."""
        host = self.host()
        fc = self.backend.attach(self.volume, host)
        iscsi = self.use('iscsi')
        volume = iscsi.create_volume(1)
        other = iscsi.attach(volume, host)
        iscsi.detach(other)
        self.assertEqual(1, len(self._mappings()))
        self.use('fc').detach(fc)
        self.assert_left(volumes=2, volume_groups=2)
