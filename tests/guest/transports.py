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

"""How hosts reach an array: the same for tests, over iSCSI or FC.

K2_TRANSPORT in the environment names one: iscsi (default) or fc.
"""

import contextlib
import dataclasses
import os

from tests.guest import fabric
from tests import iscsi
from tools.guest import node

_OTHER_IQN = 'iqn.1993-08.org.debian:01:other'


def _connector(**initiators):
    """Another host's connector properties for Cinder."""
    return {'host': 'other', 'ip': '127.0.0.9', 'multipath': True,
            'os_type': 'linux', 'platform': 'x86_64',
            'do_local_attach': False, **initiators}


class Iscsi:
    """Portals are addresses of the loopback interface."""

    protocol = 'iscsi'

    def prepare(self):
        """Do what comes before an array; nothing here."""

    def connect(self, array):
        """Do what comes after an array has started; nothing here."""

    def disconnect(self, array):
        """Do what comes before an array has gone; nothing here."""

    def have_multipath(self, wanted):
        """Make the compute node one that uses multipath, or not.

        Nothing here: without it, os-brick gives a disk one path.
        """

    def paths(self, array):
        """What a disk has paths to."""
        return [f'{portal}:3260' for portal in array.portals]

    def is_of(self, info, array):
        """Whether an array gives what one attaches."""
        return info['target_iqn'] == array.iqn

    def used(self):
        """To what the compute node has a path."""
        return node.sessions()

    def scan(self):
        """Have the compute node look for disks again."""
        node.run('iscsiadm', '-m', 'session', '--rescan')

    def has_disks(self, info):
        """Whether what one attaches without multipath is all there."""
        return True

    @contextlib.contextmanager
    def lost(self, array, number):
        """Nothing comes through on one path, inside."""
        route = ('blackhole', array.portals[number], 'table', 'local')
        node.run('ip', 'route', 'add', *route)
        try:
            yield
        finally:
            node.run('ip', 'route', 'del', *route)

    def other(self, array):
        """Another host: an initiator in user space."""
        return OtherIscsi(array, _OTHER_IQN)

    def wait_for_the_end(self):
        """Raises NodeError if somebody stays logged in."""
        node.wait_until(lambda: node.sessions() == [], 'the end of sessions')


class OtherIscsi(iscsi.Initiator):
    """A host in user space."""

    def connector(self):
        """Its connector properties."""
        return _connector(initiator=self.iqn)

    def paths(self, info):
        """All paths to its attached disks."""
        return iscsi.paths(info, self.iqn)


class FibreChannel:
    """Ports stay logged in; all have one in each fabric."""

    protocol = 'fc'

    def prepare(self):
        """Make the ports: the array's must be there when it starts."""
        fabric.start()

    def connect(self, array):
        """Let hosts log in; the array forgets them again."""
        rows = [array.call('POST', 'host_fc_ports', pwwn=name)
                for machine in fabric.HOSTS for name in fabric.names(machine)]
        fabric.link(array.name)
        for row in rows:
            array.call('DELETE', f'host_fc_ports/{row["id"]}')

    def disconnect(self, array):
        """Take its links: hosts would wait for a target that is no more."""
        fabric.unlink(array.name)

    def have_multipath(self, wanted):
        """Make the compute node one that uses multipath, or not.

        Without it, too, a disk has all paths. os-brick takes one of them, and
        removes the disks without a look at maps: a map that multipathd has
        made, and that something has open just then, would stay for ever.
        """
        if wanted:
            node.multipathd.start()
        else:
            node.multipathd.stop()

    def paths(self, array):
        """What a disk has paths to."""
        return fabric.names(array.name)

    def is_of(self, info, array):
        """Whether an array gives what one attaches."""
        ports = {name.replace(':', '') for name in fabric.names(array.name)}
        # os-brick finds disks also with half of what the second one says.
        return all(set(named) == ports for named in (
            info['target_wwn'], *info['initiator_target_map'].values()))

    def used(self):
        """To what the compute node has a path."""
        return sorted(map(fabric.target_of, fabric.disks('compute')))

    def scan(self):
        """Have the compute node look for disks again."""
        fabric.scan('compute')

    def has_disks(self, info):
        """Whether what one attaches without multipath is all there."""
        return all(fabric.has_disk(name, info['target_lun'])
                   for name in info['target_wwn'])

    @contextlib.contextmanager
    def lost(self, array, number):
        """Nothing comes through on one path, inside."""
        ports = fabric.targets('compute', number)
        fabric.set_link('compute', number, 'down')
        try:
            yield
        finally:
            fabric.return_link('compute', number, ports)

    def other(self, array):
        """Another host: further ports of the same kernel."""
        return OtherFibreChannel(array.name)

    def wait_for_the_end(self):
        """Remove what the other host has left; the rest stays."""
        for address in fabric.disks('other'):
            fabric.forget(address)


class OtherFibreChannel:
    """A host of whose disks os-brick and multipathd know nothing."""

    def __init__(self, array):
        self._array = array

    def connector(self):
        """Its connector properties."""
        return _connector(wwpns=[name.replace(':', '')
                                 for name in fabric.names('other')])

    def paths(self, info):
        """All paths to its attached disks."""
        return [fabric.Path(self._array, number, info['target_lun'],
                            is_mapped=True) for number in fabric.FABRICS]

    def path(self, lun, portal=None):
        """The first path to a LUN."""
        return self.paths({'target_lun': lun})[0]

    def io(self, lun, *commands):
        """Run commands of qemu-io, on a LUN that may not be mapped."""
        path = dataclasses.replace(self.path(lun), is_mapped=False)
        return path.io(*commands)

    def luns(self):
        """What it finds when it looks for all that there is."""
        fabric.scan('other')
        return ' '.join(fabric.disks('other'))


CURRENT = {'iscsi': Iscsi, 'fc': FibreChannel}[
    os.environ.get('K2_TRANSPORT', 'iscsi')]()
