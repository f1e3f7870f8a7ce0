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

"""How hosts reach an array, with one interface for iSCSI and FC.

The environment variable K2_TRANSPORT selects iscsi (default) or fc.
"""

import contextlib
import dataclasses
import os

from tests.guest import fabric
from tests import iscsi
from tools.guest import node

_OTHER_IQN = 'iqn.1993-08.org.debian:01:other'


def _connector(**initiators):
    """Return the connector properties of another host."""
    return {'host': 'other', 'ip': '127.0.0.9', 'multipath': True,
            'os_type': 'linux', 'platform': 'x86_64',
            'do_local_attach': False, **initiators}


class Iscsi:
    """iSCSI; the portals are addresses of the loopback interface."""

    protocol = 'iscsi'

    def prepare(self):
        """Prepare for arrays; nothing for iSCSI."""

    def connect(self, array):
        """Connect hosts to an array that has started; nothing for iSCSI."""

    def disconnect(self, array):
        """Disconnect hosts before an array ends; nothing for iSCSI."""

    def have_multipath(self, wanted):
        """Enable or disable multipath on the compute node.

        Nothing to do for iSCSI: without multipath, os-brick connects one path.
        """

    def paths(self, array):
        """Return the portals of an array: a disk has a path to each."""
        return [f'{portal}:3260' for portal in array.portals]

    def is_of(self, info, array):
        """Return whether connection properties are of an array."""
        return info['target_iqn'] == array.iqn

    def used(self):
        """Return the portals to which the compute node has sessions."""
        return node.sessions()

    def scan(self):
        """Rescan for disks on the compute node."""
        node.run('iscsiadm', '-m', 'session', '--rescan')

    def has_disks(self, info):
        """Return whether all disks attached without multipath are there."""
        return True

    @contextlib.contextmanager
    def lost(self, array, number):
        """Lose one path to an array within the context."""
        route = ('blackhole', array.portals[number], 'table', 'local')
        node.run('ip', 'route', 'add', *route)
        try:
            yield
        finally:
            node.run('ip', 'route', 'del', *route)

    def other(self, array):
        """Return another host: an initiator in user space."""
        return OtherIscsi(array, _OTHER_IQN)

    def wait_for_the_end(self):
        """Wait until no session is left; raises NodeError if one stays."""
        node.wait_until(lambda: node.sessions() == [], 'the end of sessions')


class OtherIscsi(iscsi.Initiator):
    """A host in user space."""

    def connector(self):
        """Return its connector properties."""
        return _connector(initiator=self.iqn)

    def paths(self, info):
        """Return all paths of an attachment of this host."""
        return iscsi.paths(info, self.iqn)


class FibreChannel:
    """Fibre Channel; all machines have a port in each fabric, logged in."""

    protocol = 'fc'

    def prepare(self):
        """Create all ports: an array's must exist when it starts."""
        fabric.start()

    def connect(self, array):
        """Let hosts log in, registered with the array only for that time."""
        rows = [array.call('POST', 'host_fc_ports', pwwn=name)
                for machine in fabric.HOSTS for name in fabric.names(machine)]
        fabric.link(array.name)
        for row in rows:
            array.call('DELETE', f'host_fc_ports/{row["id"]}')

    def disconnect(self, array):
        """Set its links down, lest hosts wait for a target that is gone."""
        fabric.unlink(array.name)

    def have_multipath(self, wanted):
        """Enable or disable multipath on the compute node.

        A disk has all paths even without multipath. os-brick then uses one of
        them and removes the disks without checking for maps: a map that
        multipathd made and that is open at that moment would stay. So
        multipathd must not run.
        """
        if wanted:
            node.multipathd.start()
        else:
            node.multipathd.stop()

    def paths(self, array):
        """Return the ports of an array: a disk has a path to each."""
        return fabric.names(array.name)

    def is_of(self, info, array):
        """Return whether connection properties are of an array."""
        ports = {name.replace(':', '') for name in fabric.names(array.name)}
        # os-brick finds disks even if initiator_target_map is incomplete.
        return all(set(named) == ports for named in (
            info['target_wwn'], *info['initiator_target_map'].values()))

    def used(self):
        """Return the array ports of the compute node's disks, sorted."""
        return sorted(map(fabric.target_of, fabric.disks('compute')))

    def scan(self):
        """Rescan for disks on the compute node."""
        fabric.scan('compute')

    def has_disks(self, info):
        """Return whether all disks attached without multipath are there."""
        return all(fabric.has_disk(name, info['target_lun'])
                   for name in info['target_wwn'])

    @contextlib.contextmanager
    def lost(self, array, number):
        """Lose one path of the compute node within the context."""
        ports = fabric.targets('compute', number)
        fabric.set_link('compute', number, 'down')
        try:
            yield
        finally:
            fabric.return_link('compute', number, ports)

    def other(self, array):
        """Return another host: further ports of the same kernel."""
        return OtherFibreChannel(array.name)

    def wait_for_the_end(self):
        """Remove the other host's disks; logins stay."""
        for address in fabric.disks('other'):
            fabric.forget(address)


class OtherFibreChannel:
    """A host whose disks os-brick and multipathd ignore."""

    def __init__(self, array):
        self._array = array

    def connector(self):
        """Return its connector properties."""
        return _connector(wwpns=[name.replace(':', '')
                                 for name in fabric.names('other')])

    def paths(self, info):
        """Return all paths of an attachment of this host."""
        return [fabric.Path(self._array, number, info['target_lun'],
                            is_mapped=True) for number in fabric.FABRICS]

    def path(self, lun, portal=None):
        """Return the first path to a LUN; ``portal`` is ignored."""
        return self.paths({'target_lun': lun})[0]

    def io(self, lun, *commands):
        """Run qemu-io commands on a LUN that may not be mapped."""
        path = dataclasses.replace(self.path(lun), is_mapped=False)
        return path.io(*commands)

    def luns(self):
        """Rescan all ports; return the addresses of disks, as one text."""
        fabric.scan('other')
        return ' '.join(fabric.disks('other'))


CURRENT = {'iscsi': Iscsi, 'fc': FibreChannel}[
    os.environ.get('K2_TRANSPORT', 'iscsi')]()
