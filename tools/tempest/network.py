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
"""A private network: the loopback, and a link to the guest."""

import os
import subprocess  # nosec B404

from tools.cloud import errors
from tools.tempest import layout

SECONDS = 30
_NEW_TAP = ('tuntap', 'add', 'dev', layout.TAP, 'mode', 'tap')


def namespace() -> list[str]:
    """Return a command that runs another one in new namespaces.

    When it ends, all its processes are killed. Its network is private, so
    each service can use its usual port.
    """
    return ['unshare', '--net', '--mount', '--pid', '--fork', '--mount-proc',
            '--kill-child=KILL']


def missing() -> str:
    """Return why such a network cannot be created, or nothing."""
    if os.geteuid() != 0:
        return 'needs root to create a private network: sudo make tempest'
    tried = subprocess.run(  # nosec B603 B607
        [*namespace(), 'ip', *_NEW_TAP], capture_output=True, text=True,
        timeout=SECONDS)
    if not tried.returncode:
        return ''
    return ('needs namespaces and /dev/net/tun, which a container must be'
            f' given explicitly: {tried.stderr.strip()}')


def set_up() -> None:
    """Set up the network of this namespace, with the arrays' addresses.

    :raises CloudError: the kernel refuses it
    """
    _ip('link', 'set', 'lo', 'up')
    _ip(*_NEW_TAP)
    portals = [portal for array in layout.ARRAYS for portal in array.portals]
    for address in (layout.HOST, *portals):
        _ip('address', 'add', f'{address}/{layout.PREFIX}', 'dev', layout.TAP)
    _ip('link', 'set', layout.TAP, 'up')


def _ip(*arguments: str) -> None:
    """Run ip."""
    done = subprocess.run(  # nosec B603 B607
        ['ip', *arguments], capture_output=True, text=True, timeout=SECONDS)
    if done.returncode:
        raise errors.CloudError(
            f'ip {" ".join(arguments)}: {done.stderr.strip()}')
