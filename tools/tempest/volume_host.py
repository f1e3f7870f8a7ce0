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
"""In the guest: cinder-volume and cinder-backup, which attach volumes.

    python -m tools.tempest.volume_host CINDER_CONF

It ends with status 0 when there is a file "stop" in /out, and with 1 when one
of the services ends.
"""

from collections.abc import Sequence
import subprocess  # nosec B404
import sys
import time

from tools.guest import node
from tools.tempest import layout

SERVICES = ('cinder-volume', 'cinder-backup')
STOP = 'stop'
DEVICE = 'vec0'
STOP_SECONDS = 20.0


def set_up_network() -> None:
    """Set up the network link."""
    node.run('ip', 'address', 'add', f'{layout.GUEST}/{layout.PREFIX}', 'dev',
             DEVICE)
    node.run('ip', 'link', 'set', DEVICE, 'up')


def watch(services: Sequence[subprocess.Popen[bytes]]) -> int:
    """Wait for the request to stop; return the exit status."""
    while not (node.OUT / STOP).exists():
        if any(service.poll() is not None for service in services):
            return 1
        time.sleep(1)
    for service in services:
        service.terminate()
    for service in services:
        try:
            service.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            service.kill()
    return 0


def main() -> int:
    """Run the services; return the exit status."""
    conf = sys.argv[1]
    set_up_network()
    node.start()
    return watch([node.daemon(name, f'{sys.prefix}/bin/{name}',
                              f'--config-file={conf}') for name in SERVICES])


if __name__ == '__main__':
    sys.exit(main())
