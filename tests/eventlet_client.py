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

"""The main operations of a cinder-volume under eventlet, Cinder's default.

A separate program, because a process must be patched from its start.
Arguments: address and port of an array, the file of its authority, login,
password. Prints errors; the exit status is 0 if there are none.
"""

import os
import sys

os.environ['OS_CINDER_DISABLE_EVENTLET_PATCHING'] = 'false'

import eventlet  # noqa: E402
# Before the patch: testtools subscripts the standard queue, which eventlet's
# does not allow.
import testtools  # noqa: E402, F401

sys.path.insert(0, os.path.dirname(os.path.dirname(__file__)))

from tools.releases import features  # noqa: E402

if features.has_native_threads():
    from cinder import monkey_patch
    monkey_patch.patch()
else:
    eventlet.monkey_patch()

from tests.functional import backend  # noqa: E402

WORKERS = 8


def connector(number):
    """Return the connector of a worker's own host."""
    return {'host': f'compute-{number}', 'multipath': True,
            'initiator': f'iqn.1994-05.com.example:eventlet-{number}'}


def main_job(k2, number):
    """Create, clone, attach, extend and delete the volumes of a worker."""
    volume = k2.create_volume(1)
    snapshot = k2.create_snapshot(volume)
    clone = k2.volume_from_snapshot(snapshot)
    attachment = k2.attach(volume, connector(number))
    k2.extend_volume(volume, 2)
    k2.detach(attachment)
    k2.delete_volume(clone)
    k2.delete_snapshot(snapshot)
    k2.delete_volume(volume)


def main(address, port, authority, login, password):
    """Run all workers concurrently; return the exit status."""
    k2 = backend.Backend(
        address, int(port), 'iscsi', san_login=login, san_password=password,
        driver_ssl_cert_verify=True, driver_ssl_cert_path=authority)
    if not k2.start():
        return 1
    pool = eventlet.GreenPool(WORKERS)
    workers = [pool.spawn(main_job, k2, n) for n in range(WORKERS)]
    for worker in workers:
        worker.wait()
    return 0


if __name__ == '__main__':
    sys.stdout.flush()
    # Cinder's own threads would keep the process alive.
    os._exit(main(*sys.argv[1:]))
