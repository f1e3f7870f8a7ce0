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


"""A second initiator of the guest's kernel, with a name of its own.

os-brick knows one name for each host, so this does what it would do. It logs
in through a portal that the first one does not use, and logs out before it.
"""

import functools
import os
import pathlib

from tests.guest import node

_NAME = 'second'
_SESSIONS = pathlib.Path('/sys/class/iscsi_session')


@functools.cache
def _iface(initiator):
    interface = ('iscsiadm', '-m', 'iface', '-I', _NAME)
    node.run(*interface, '--op=new')
    node.run(*interface, '--op=update', '-n', 'iface.initiatorname',
             '-v', initiator)


class Disk:
    """A LUN that this initiator has.

    :param lun: portal, target and number, as iscsi.Path
    :ivar path: of the device, once it is connected
    """

    def __init__(self, lun):
        self._lun = lun
        self._node = ('iscsiadm', '-m', 'node', '-T', lun.target,
                      '-p', lun.portal, '-I', _NAME)

    def connect(self):
        """Give itself, when the device is there."""
        _iface(self._lun.initiator)
        node.run(*self._node, '--op=new')
        node.run(*self._node, '--login')
        session = self._session()
        node.run('iscsiadm', '-m', 'session', '-r',
                 session.name.removeprefix('session'), '--rescan')
        node.wait_until(lambda: self._found(session), 'a second disk')
        self._device, = self._found(session)
        self.path = f'/dev/{self._device.name}'
        node.wait_until(lambda: os.path.exists(self.path), self.path)
        return self

    @staticmethod
    def _session():
        found, = [path for path in _SESSIONS.iterdir()
                  if (path / 'ifacename').read_text().strip() == _NAME]
        return found

    def _found(self, session):
        return list((session / 'device').glob(
            f'target*/*:{self._lun.lun}/block/*'))

    def disconnect(self):
        """Remove the device, log out, and forget the target."""
        (self._device / 'device' / 'delete').write_text('1')
        node.run(*self._node, '--logout')
        node.run(*self._node, '--op=delete')
