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

"""Fixtures of the tests of attaching and detaching."""

import contextlib
import functools
from unittest import mock

from oslotest import base

from cinder_k2.array import ArrayVolume
from cinder_k2.array import host_identity
from cinder_k2.array import hosts as array_hosts
from cinder_k2.array import mappings
from cinder_k2.array import NamedVolume
from cinder_k2.driver.db import attachments
from cinder_k2.driver.operations import attach
from cinder_k2.driver.operations import detach
from cinder_k2.driver.operations import host_access
from cinder_k2.driver.operations import host_holds
from cinder_k2.driver.operations import kept
from cinder_k2.driver.operations import resolver
from cinder_k2.driver.operations import volume_holders
from cinder_k2.driver.operations import zoning
from cinder_k2.flows import hosts
from cinder_k2 import naming
from cinder_k2 import rest
from cinder_k2 import transport
from tests.unit.driver import autospec
from tests.unit.driver import rows

IQN = 'iqn.2024:a'
HOST, OTHER_HOST = 71, 72
RECORDS = {IQN: 9}
OURS = rest.Host(HOST, 'cinder-node1-01234567')
BACKING = ArrayVolume(group=5, volume=6)
NAMED = NamedVolume(BACKING, ['view'])
CONNECTOR = {'host': 'node', 'initiator': IQN}
GROUP = rest.Ref('host_groups', 3)

HELD = ['+hold sys-1 iqn.2024:a', '+deadline fresh=True']
LEFT = ['-deadline', '-hold']
IDLE = detach.Disconnected(idle={IQN})
SETTLED = detach.Disconnected()


def held(*events, what=None, timeout=None, alone=False):
    """Return the events of holding the host for the volume ``what``."""
    return [f'{HELD[0]} {what} {timeout} alone={alone}', HELD[1], *events,
            *LEFT]


def mapping(number, host=HOST):
    return rest.Mapping(id=number, host=rest.Ref('hosts', host),
                        volume=BACKING.mappable, lun=number)


class ConnectingCase(base.BaseTestCase):
    """Attach and Detach with doubles, on a host that is held exclusively."""

    def setUp(self):
        super().setUp()
        self.journal = autospec.Journal()
        self.array = autospec.array(
            self.journal, 'identity', 'mappings', 'volumes')
        self.resolver = autospec.Double(resolver.Resolver)
        self.resolver.peers = {}
        self.resolver.held.side_effect = (
            lambda volume, timeout=None: contextlib.nullcontext())
        self.resolver.known.return_value = BACKING
        self.resolver.check_free.side_effect = functools.partial(
            resolver.Resolver.check_free, self.resolver)
        self.resolver.find.return_value = BACKING
        self.registry = autospec.Double(array_hosts.Hosts)
        self.transport = autospec.Double(transport.Transport)
        self.transport.hosts.side_effect = {
            self.array: self.registry}.__getitem__
        self.transport.initiators.return_value = [IQN]
        self.transport.host_names.side_effect = (
            lambda connector, unique: [naming.host(connector['host'], [IQN])])
        self.targets = autospec.Double(transport.Targets)
        self.transport.targets.return_value = self.targets
        self.targets.properties.side_effect = lambda lun: {
            'driver_volume_type': 'iscsi', 'data': {'target_lun': lun}}
        self.zoning = autospec.Double(zoning.Zoning)
        self.zoning.report.return_value = mock.sentinel.report
        self.configuration = mock.Mock(
            spec_set=['k2_discard'], k2_discard=mock.sentinel.discard)
        self.volume = rows.volume(BACKING)
        self.events = self.journal.events
        self._replace_modules()
        self.make()
        self._record()

    def _replace_modules(self):
        self.users = autospec.Double(attachments.Attachments)
        self.users.at.return_value = 0
        self.users.using.return_value = 1
        self.users.elsewhere.return_value = []
        autospec.replace(self, attachments, 'Attachments',
                         {self.transport: self.users}.get)
        self.hold = autospec.Double(host_holds.Hold)
        self.hold.is_alone = True
        self.hold.timeout = None
        self.holds = autospec.Double(host_holds.HostHolds)
        self.holds.hold.side_effect = self.journal.context('hold', self.hold)
        autospec.replace(self, host_holds, 'HostHolds', lambda: self.holds)
        self.holders = autospec.Double(volume_holders.VolumeHolders)
        self.holders.group_of.return_value = None
        autospec.replace(self, volume_holders, 'VolumeHolders',
                         lambda *args: {(self.array, self.registry):
                                        self.holders}[args])
        self.journal.record_locks(self)
        self.attach = autospec.patched(self, hosts, 'attach')
        self.attach.return_value = hosts.Attached(lun=4)
        self.remove = autospec.patched(self, hosts, 'remove')

    def _record(self):
        for double, name in [
                (self.attach, 'attach'), (self.remove, 'remove'),
                (self.array.mappings.unmap, 'unmap'),
                (self.array.mappings.unmap_from_group, 'unmap_from_group'),
                (self.array.mappings.delete, 'delete'),
                (self.array.mappings.is_mapped, 'is_mapped'),
                (self.registry.owners, 'owners'),
                (self.hold.share, 'share'),
                (self.users.at, 'at'), (self.users.using, 'using'),
                (self.zoning.connected, 'connected'),
                (self.zoning.now_idle, 'now_idle')]:
            self.journal.record(double, name)
        self.array.mappings.unmap.return_value = mappings.Unmapped(
            found=True, busy=False)
        self.array.mappings.is_mapped.return_value = False
        self.array.mappings.group_of.return_value = None
        self.registry.owners.return_value = {HOST: RECORDS}
        self.registry.initiators_of.return_value = {}
        self.registry.ours.return_value = OURS

    def connected(self, volume, connector=CONNECTOR):
        """Attach a volume, or an object without a row if it is None."""
        if volume is None:
            return self.attaching.connect_backing(NAMED, connector)
        return self.attaching.initialize_connection(volume, connector)

    def make(self, protection=None):
        hosts_of_array = host_access.HostAccess(
            self.array, self.transport, unique_fqdn_network=True)
        fabric = host_access.Fabric(self.transport, self.zoning, protection)
        self.detaching = detach.Detach(
            self.array, self.resolver, fabric, hosts_of_array)
        self.attaching = attach.Attach(
            self.array, self.resolver, self.configuration, fabric,
            hosts_of_array, self.detaching)
        self.kept = self.detaching.kept

    def owned_by_two(self):
        """Let two hosts own initiators; the other one has more volumes."""
        self.registry.owners.return_value = {HOST: RECORDS,
                                             OTHER_HOST: {'iqn.b': 8}}
        self.array.mappings.unmap.side_effect = lambda _, host, shared: (
            mappings.Unmapped(found=True, busy=host == OTHER_HOST))

    def kept_at(self, *hosts):
        """Record kept mappings of the volume to hosts of these initiators."""
        found = [kept.Mapping(self.volume.id, BACKING.mappable,
                              host_identity.Sought((host,)))
                 for host in hosts]
        for each in found:
            self.kept.add(each)
        return found

    @property
    def sought(self):
        """The host criteria that hosts.attach was called with."""
        return self.attach.call_args.kwargs['sought']
