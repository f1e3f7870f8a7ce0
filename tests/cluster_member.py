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

"""One cinder-volume of a cluster, in its own process.

Argument: JSON with the arguments of ``main``: a directory that all members
share (``state``), the name of this member, and address, port, protocol and
options of its back end. Reads commands from standard input, each a JSON list
in one line, and answers each with one line of JSON. ``mix`` also writes a line
after each operation.
"""

import collections
import concurrent.futures
import json
import os
import random
import sys
import threading
from unittest import mock

sys.path.insert(0, os.path.dirname(os.path.dirname(__file__)))

# Chooses native threads, which must come before any import of Cinder.
import tests.functional  # noqa: E402, F401

from cinder import exception  # noqa: E402
from cinder import objects  # noqa: E402
from cinder import policy  # noqa: E402

from cinder_k2.array import ArraySnapshot  # noqa: E402
from cinder_k2.array import ArrayVolume  # noqa: E402
from cinder_k2.driver.db import provider_id  # noqa: E402
from cinder_k2 import polling  # noqa: E402
from tests.functional import backend  # noqa: E402
from tests.functional import cinder_env  # noqa: E402
from tests.functional import clocks  # noqa: E402
from tests.functional import lock_order  # noqa: E402

HOSTS = 3
MOST_VOLUMES = 10
# With fewer volumes, the members have nothing to do.
FEWEST_VOLUMES = 4
THREADS = 2
# Errors of Cinder when another request came first.
TOO_LATE = (exception.Invalid, exception.NotFound)
# States of interrupted operations that Cinder itself does not clean up.
UNDER_WAY = ('creating', 'deleting', 'extending', 'reserved', 'attaching')


# Threads must not write at the same time.
_telling = threading.Lock()


def tell(answer):
    """Write one line of JSON to standard output."""
    with _telling:
        os.write(1, (json.dumps(answer) + '\n').encode())


def connector(number):
    """Return the connector of one of the hosts that all members use."""
    return {'host': f'shared-{number}', 'multipath': True,
            'initiator': f'iqn.1994-05.com.example:shared-{number}',
            'wwpns': [f'500143800000{number:02x}{port:02x}'
                      for port in range(2)],
            'wwnns': [f'500143810000{number:02x}00'],
            'os_type': 'linux', 'platform': 'x86_64'}


def grows(volume):
    """Return whether a volume is one of those that may be extended."""
    return int(volume.id[0], 16) % 4 == 0


class Mix:
    """Random operations on volumes that other threads and members use, too."""

    def __init__(self, k2, seed):
        self._k2 = k2
        self._random = random.Random(seed)
        # Only our own attachments are ended, not those in use by others.
        self._attachments = []
        self.done = collections.Counter()
        self.failures = []

    def step(self):
        """Run a random operation; coming too late is not a failure."""
        operation = self._random.choices(
            (self.create, self.clone, self.snapshot, self.from_snapshot,
             self.attach, self.detach, self.extend, self.delete,
             self.delete_snapshot),
            (4, 3, 3, 3, 6, 5, 2, 2, 2))[0]
        if len(self._k2.volumes()) < FEWEST_VOLUMES:
            operation = self.create
        name = operation.__name__
        try:
            operation()
        except TOO_LATE:
            name = 'too late'
        except backend.OperationFailed as failure:
            if isinstance(failure.cause, TOO_LATE):
                name = 'too late'
            elif failure.cause is not None or 'error' in failure.status:
                self.failures.append(f'{name}: {failure}')
            # Otherwise another member has changed the row since.
        self.done[name] += 1

    def create(self):
        self._check_room()
        self._k2.create_volume(1, **self._random.choice(
            ({}, {'multiattach': '<is> True'})))

    def clone(self):
        self._check_room()
        self._k2.clone(self._source())

    def snapshot(self):
        self._k2.create_snapshot(self._source())

    def from_snapshot(self):
        self._check_room()
        self._k2.volume_from_snapshot(self._snapshot())

    def attach(self):
        self._attachments.append(self._k2.attach(
            self._volume('available', 'in-use'),
            connector(self._random.randrange(HOSTS))))

    def detach(self):
        self._random.shuffle(self._attachments)
        self._need(self._attachments)
        self._k2.detach(self._attachments.pop())

    def extend(self):
        # Cinder lets a source grow between the request for a clone and the
        # clone, so volumes that grow are never cloned here. A view is not
        # extended, because that copies its data, and there are no disks here.
        volume = self._random.choice(self._need(
            [v for v in self._k2.volumes() if grows(v)
             and 'view' not in (v.provider_id or 'view')]))
        self._k2.extend_volume(volume, volume.size + 1)

    def delete(self):
        self._k2.delete_volume(self._volume('available'),
                               cascade=self._random.random() < 0.3)

    def delete_snapshot(self):
        self._k2.delete_snapshot(self._snapshot())

    def _check_room(self):
        if len(self._k2.volumes()) >= MOST_VOLUMES:
            raise exception.NotFound

    def _volume(self, *states):
        return self._random.choice(self._need(
            [v for v in self._k2.volumes() if v.status in states]))

    def _source(self):
        return self._random.choice(self._need(
            [v for v in self._k2.volumes() if not grows(v)
             and v.status in ('available', 'in-use')]))

    def _snapshot(self):
        return self._random.choice(self._need(
            [s for s in self._k2.snapshots() if s.status == 'available']))

    @staticmethod
    def _need(rows):
        if not rows:
            raise exception.NotFound
        return rows


class Member:
    """Runs commands: each method is one, and its result is the answer."""

    def __init__(self, k2, watch, clock):
        self._k2 = k2
        self._watch = watch
        self._clock = clock

    def mix(self, seed, count):
        """Run ``count`` random operations in each of ``THREADS`` threads."""
        mixes = [Mix(self._k2, f'{seed}-{n}') for n in range(THREADS)]

        def run(mix):
            for _ in range(count):
                mix.step()
                tell({'progress': True})
        with concurrent.futures.ThreadPoolExecutor(THREADS) as pool:
            list(pool.map(run, mixes))
        return {'done': sum((mix.done for mix in mixes),
                            collections.Counter()),
                'failures': [f for mix in mixes for f in mix.failures]}

    def attach(self, count):
        """Attach volumes, one for each thread, to the same host.

        The first attachment creates the host, and the end of the last one
        deletes it.
        """
        def run(_):
            volume = self._k2.create_volume(1)
            for _ in range(count):
                self._k2.detach(self._k2.attach(volume, connector(0)))
        with concurrent.futures.ThreadPoolExecutor(THREADS) as pool:
            runs = [pool.submit(run, n) for n in range(THREADS)]
        return {'failures': [str(run.exception()) for run in runs
                             if run.exception()]}

    def rows(self):
        """Return Cinder's rows, with references to the array's objects."""
        system = self._k2.driver._arrays.active.array.system.id
        volumes, attachments = [], []
        for row in self._k2.volumes():
            made = provider_id.decode(ArrayVolume, system, row.provider_id,
                                      row.name_id)
            ref = made and str(made.mappable)
            volumes.append({'id': row.id, 'size': row.size, 'ref': ref,
                            'status': row.status})
            attachments += [{'volume': ref, 'host': a.connector['host']}
                            for a in row.volume_attachment]
        snapshots = []
        for row in self._k2.snapshots():
            made = provider_id.decode(ArraySnapshot, system, row.provider_id)
            snapshots.append({'id': row.id, 'status': row.status,
                              'ref': made and str(made.ref)})
        return {'volumes': volumes, 'snapshots': snapshots,
                'attachments': attachments}

    def locks(self):
        """Return the locks that were taken while another one was held."""
        return {'nested': sorted(self._watch.nested),
                'wrong': self._watch.wrong}

    def clean(self, service):
        """Clean up after a service that was killed.

        First as Cinder does, then as an operator does: no service works on
        any row now.
        """
        self._k2.manager.do_cleanup(
            self._k2.context, objects.CleanupRequest(service_id=service))
        for row in [*self._k2.volumes(), *self._k2.snapshots()]:
            if row.status in UNDER_WAY:
                row.status = 'error'
                row.save()
        return {'errors': sum(row.status == 'error'
                              for row in self._k2.volumes())}

    def reconcile(self):
        """Let one interval of reconciliation pass."""
        self._clock.reconcile(self._k2)
        return {}

    def detach(self):
        """End all attachments."""
        for row in self._k2.volumes():
            for attachment in row.volume_attachment:
                self._k2.detach(attachment)
        return {}

    def revisit(self):
        """Use each host again.

        A host that a killed service has created and not mapped is completed by
        the next attach and deleted with its last detach.
        """
        volume = self._k2.create_volume(1)
        for number in range(HOSTS):
            self._k2.detach(self._k2.attach(volume, connector(number)))
        self._k2.delete_volume(volume)
        return {}

    def delete(self, share, shares):
        """Delete a part of the volumes, with their snapshots."""
        ours = [row.id for row in self._k2.volumes()
                if int(row.id[:8], 16) % shares == share]
        failures = []
        # Some can be deleted only after others: an interrupted clone may be
        # in a snapshot of its source.
        for _ in range(3):
            failures = [f for f in map(self._try_to_delete, ours) if f]
            if not failures:
                break
        return {'failures': failures}

    def _try_to_delete(self, key):
        try:
            volume = self._k2.volume(key)
            # Concurrent requests may have left it in any status.
            volume.update({'status': 'available',
                           'attach_status': 'detached'})
            volume.save()
            self._k2.delete_volume(volume, cascade=True)
        except exception.VolumeNotFound:
            pass
        except backend.OperationFailed as failure:
            return str(failure)


def main(state, name, port, address, protocol, options):
    """Join the cluster, and run commands until standard input ends."""
    cinder_env.join(state, name)
    k2 = backend.Backend(address, port, protocol, 'cluster', **options)
    # Otherwise two threads could initialize the policy at the same time.
    policy.init()
    watch = lock_order.Watch()
    # Pauses are not skipped, because members wait for each other.
    clock = clocks.SkippingClock()
    with watch.installed(), mock.patch.object(
            polling.Clock, 'monotonic', lambda _: clock.monotonic()):
        member = Member(k2, watch, clock)
        tell({'up': k2.start(), 'service': k2.service_id,
              'cluster': k2.manager.cluster})
        for line in sys.stdin:
            order, *arguments = json.loads(line)
            tell(getattr(member, order)(*arguments))


if __name__ == '__main__':
    main(**json.loads(sys.argv[1]))
    # Cinder's own threads would keep the process alive.
    os._exit(0)
