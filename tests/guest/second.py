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


"""A second initiator of the guest's kernel, with its own name.

os-brick supports one name per host, so this module logs in and out itself. It
must use a portal that the first initiator does not, and log out before it.
"""

import contextlib
import functools
import os
import pathlib

from tools.guest import node

_NAME = 'second'
_SESSIONS = pathlib.Path('/sys/class/iscsi_session')


@functools.cache
def _iface(initiator):
    interface = ('iscsiadm', '-m', 'iface', '-I', _NAME)
    node.run(*interface, '--op=new')
    node.run(*interface, '--op=update', '-n', 'iface.initiatorname',
             '-v', initiator)


@contextlib.contextmanager
def disk(lun):
    """Yield the device of a LUN (iscsi.Path), as this initiator has it."""
    _iface(lun.initiator)
    portal = ('iscsiadm', '-m', 'node', '-T', lun.target, '-p', lun.portal,
              '-I', _NAME)
    node.run(*portal, '--op=new')
    node.run(*portal, '--login')
    try:
        with _scanned(lun.lun) as found:
            yield found
    finally:
        node.run(*portal, '--logout')
        node.run(*portal, '--op=delete')


@contextlib.contextmanager
def _scanned(number):
    session, = [path for path in _SESSIONS.iterdir()
                if (path / 'ifacename').read_text().strip() == _NAME]
    node.run('iscsiadm', '-m', 'session', '-r',
             session.name.removeprefix('session'), '--rescan')
    pattern = f'device/target*/*:{number}/block/*'
    node.wait_until(lambda: list(session.glob(pattern)), 'a second disk')
    found, = session.glob(pattern)
    path = f'/dev/{found.name}'
    node.wait_until(lambda: os.path.exists(path), path)
    try:
        yield path
    finally:
        (found / 'device' / 'delete').write_text('1')
