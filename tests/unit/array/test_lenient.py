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

"""What the array layer must do whichever way the array behaves."""

import contextlib
import dataclasses
from unittest import mock

from cinder_k2.flows import clones
from cinder_k2.flows import deletion
from cinder_k2.flows import volumes
from tests.unit import simulated

GIB = simulated.GIB


class LenientArrayTest(simulated.SimulatedTest):
    """Assumed rules that a real array might not follow."""

    profile = 'k2'

    def setUp(self):
        super().setUp()
        self.source = volumes.create(self.array, name='src',
                                     group_name='src-group', size=GIB,
                                     dedup=True)
        self.request = clones.CloneRequest(
            name='new', group_name='new-group', view_name='new-view',
            size=GIB, dedup=True, source_size=GIB, source_dedup=True)

    def clone(self, source=None, hidden_name='ccs-1'):
        cloner = clones.Cloner(self.array, self.fail,
                               lambda group: contextlib.nullcontext(),
                               lambda group: None)
        return cloner.from_volume(self.request, source or self.source,
                                  hidden_name, ('thin', 'view'))

    def test_source_of_clones_is_not_deleted(self):
        """VOL-7, SNP-9: a cascading array would delete the clones, too."""
        self.clone()
        self.sim.control.clear_journal()
        self.assertIsNotNone(
            deletion.retire_volume(self.array, self.source, []))
        self.assertEqual([], [c for c in self.calls()
                              if c.startswith('DELETE')])

    def test_view_with_clones_is_not_deleted(self):
        view = self.clone()
        self.request = dataclasses.replace(self.request, name='second')
        self.clone(view, 'ccs-2')
        self.sim.control.clear_journal()
        self.assertIsNotNone(deletion.retire_volume(self.array, view, []))
        self.assertEqual([], [c for c in self.calls()
                              if c.startswith('DELETE')])

    def test_empty_volume_is_not_a_clone(self):
        """CLN-5: an array may ignore the fields that request a clone."""
        client = self.client

        def ignore(name, snapshot, volume):
            return client.volumes.create(
                name=name, size=GIB // 1024,
                volume_group=client.volume_groups.ref(snapshot.group))

        with mock.patch.object(self.array.snapshots, 'create_thin_clone',
                               ignore):
            clone = self.clone()
        self.assertIsNotNone(clone.view)
        self.assertEqual(['src'], self.leftovers()['volumes'])

    def test_source_of_fractional_gib_can_be_cloned(self):
        """Cinder rounds the size of a managed volume up."""
        self.request = dataclasses.replace(self.request, size=2 * GIB,
                                           source_size=2 * GIB)
        self.sim.control.set_behaviors(thin_clones=True, clones_movable=True)
        clone = self.clone()
        self.assertEqual(2 * GIB, self.client.volumes.get(clone.volume).size)


class PortsTest(simulated.SimulatedTest):

    def test_other_addresses_are_not_iscsi_portals(self):
        """NET-1."""
        ips = self.client.net_ips.search()
        odd = dataclasses.replace(ips[0], ip_address='203.0.113.9',
                                  nvme_port=ips[0].net_port)
        with mock.patch.object(self.client.net_ips, 'search',
                               lambda: [*ips, odd]):
            addresses = self.array.system.iscsi_addresses()
        self.assertNotIn('203.0.113.9', addresses)
        self.assertEqual([i.ip_address for i in ips if i.wan_port is None],
                         addresses)
