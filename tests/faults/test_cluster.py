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

"""Two cinder-volume services in one cluster, on one array."""

import atexit
import collections
import functools
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
from typing import Any

from cinder_k2.array import deferred_deletion
from cinder_k2.array import description_tags
from tests import arrays
from tests.functional import base
from tests.functional import cinder_env

PROGRAM = pathlib.Path(__file__).parent.parent / 'cluster_member.py'
# Optionally, an interpreter with another release for the second member.
OTHER_PYTHON = os.environ.get('OTHER_PYTHON', sys.executable)
GIB = 1 << 20


class Member:
    """A cinder-volume in its own process: tests/cluster_member.py."""

    def __init__(self, python: str, **options: Any) -> None:
        self._process = subprocess.Popen(
            [python, '-W', 'ignore', PROGRAM, json.dumps(options)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            stderr=subprocess.PIPE)
        atexit.register(self.kill)
        self.service: int | None = None

    def wait_until_up(self) -> None:
        """Wait until the service has started."""
        if self.service is None:
            self.service = self.line()['service']

    def begin(self, *order: Any) -> None:
        """Send a command."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(order) + '\n')
        self._process.stdin.flush()

    def line(self) -> Any:
        """Read the next line: a progress report or a reply."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise AssertionError(self._process.communicate()[1][-3000:])
        return json.loads(line)

    def end(self) -> Any:
        """Wait for the reply to the command."""
        line = self.line()
        while 'progress' in line:
            line = self.line()
        return line

    def do(self, *order: Any) -> Any:
        """Send a command, and wait for the reply."""
        self.begin(*order)
        return self.end()

    def is_alive(self) -> bool:
        """Return whether the process is running."""
        return self._process.poll() is None

    def kill(self) -> None:
        """Kill the process with SIGKILL."""
        atexit.unregister(self.kill)
        self._process.kill()
        self._process.communicate()


class Cluster:
    """Two members that share database, locks and array."""

    def __init__(self, array: arrays.Served, protocol: str) -> None:
        self._options = {'address': array.address, 'port': array.port,
                         'protocol': protocol, 'options': array.options()}
        self._state = cinder_env.temporary_directory()
        # The copy saves creating the tables.
        shutil.copy(os.path.join(cinder_env.cinder().state, 'cinder.sqlite'),
                    self._state)
        self._members: dict[str, Member] = {}

    def members(self) -> list[Member]:
        """Return both members; one that was killed is started again."""
        for name, python in (('first', sys.executable),
                             ('second', OTHER_PYTHON)):
            if name not in self._members or (
                    not self._members[name].is_alive()):
                self._members[name] = Member(python, name=name,
                                             state=self._state,
                                             **self._options)
        for member in self._members.values():
            member.wait_until_up()
        return list(self._members.values())

    def locks(self) -> list[str]:
        """Return the names of the driver's lock files."""
        files = os.listdir(os.path.join(self._state, 'coordination'))
        return [name for name in files if name.startswith('cinder-k2-')]


@functools.cache
def cluster(array: arrays.Served, protocol: str) -> Cluster:
    """Return this process's cluster for an array, started on first use."""
    return Cluster(array, protocol)


class ClusterTest(base.FunctionalTest):
    """Members that run random operations on the same volumes.

    Only the driver's locks and database rows coordinate them: Cinder's API
    behaves as in a cloud, and all else is separate for each process.
    """

    profile = 'sdp'
    # Operations of each of the four threads.
    steps = 20

    def setUp(self) -> None:
        super().setUp()
        self.cluster = cluster(self.array, self.protocol)
        self.first, self.second = self.cluster.members()

    def test_nothing_is_lost_or_doubled(self) -> None:
        for member, seed in ((self.first, 1), (self.second, 2)):
            member.begin('mix', seed, self.steps)
        done: collections.Counter[str] = collections.Counter()
        for member in (self.first, self.second):
            result = member.end()
            self.assertEqual([], result['failures'])
            done.update(result['done'])
        self.assertGreater(done.total() - done['too late'], self.steps, done)
        # Two concurrent detaches from one host may each keep the mapping
        # for the other one.
        for member in (self.first, self.second):
            member.do('reconcile')
        self.check_rows(self.first.do('rows'))
        self.first.do('detach')
        self.assertEqual([], self.admin.list('hosts'))
        self.delete(self.first, self.second)
        self.check_nothing_is_left(self.first, self.second)

    def test_all_meet_at_one_host(self) -> None:
        members = (self.first, self.second)
        # Make attaches and detaches overlap.
        self.array.control.set_latency(0.03)
        for member in members:
            member.begin('attach', 5)
        for member in members:
            self.assertEqual([], member.end()['failures'])
        self.array.control.set_latency(0)
        self.assertEqual([], self.admin.list('hosts'))
        self.delete(*members)
        self.check_nothing_is_left(*members)

    def test_one_is_killed(self) -> None:
        """The other one continues, and cleans up."""
        self.array.control.set_latency(0.01)
        self.first.begin('mix', 3, 10)
        self.second.begin('mix', 4, 1000)
        for _ in range(15):
            self.assertIn('progress', self.second.line())
        self.second.kill()
        self.assertEqual([], self.first.end()['failures'])
        self.array.control.set_latency(0)
        self.first.do('clean', self.second.service)
        self.first.do('detach')
        self.delete(self.first)
        self.first.do('revisit')
        self.check_nothing_is_left(self.first)

    def delete(self, *members: Member) -> None:
        """Delete everything, all members at the same time."""
        for number, member in enumerate(members):
            member.begin('delete', number, len(members))
        for member in members:
            self.assertEqual({'failures': []}, member.end())

    def check_nothing_is_left(self, *members: Member) -> None:
        """Check the array and the directory of locks."""
        self.assertNothingLeft()
        # Locks of hosts stay, as hosts attach again.
        self.assertEqual([], [name for name in self.cluster.locks()
                              if not re.search('-(host|maps)-', name)])
        for member in members:
            self.assertEqual([], member.do('locks')['wrong'])

    def found(self, kind: str) -> Any:
        """Return the users' objects of that type on the array."""
        return self.array.control.leftovers().get(kind, [])

    def check_rows(self, rows: Any) -> None:
        """Check that database and array agree."""
        marks = deferred_deletion.DeferredIds()
        for group in self.admin.list('volume_groups'):
            marks |= deferred_deletion.DeferredIds.parse(description_tags.read(
                group['description'], deferred_deletion.TAG))
        self._check_volumes(rows['volumes'], marks)
        self._check_snapshots(rows['snapshots'], rows['volumes'], marks)
        self._check_mappings(rows['attachments'])

    def _check_volumes(self, rows: Any,
                       marks: deferred_deletion.DeferredIds) -> None:
        made = [row for row in rows if row['ref']]
        # Creation of the others failed: their sources had been deleted.
        self.assertEqual(set(), {row['status'] for row in rows
                                 if row not in made} - {'error'})
        volumes = [v for v in self.found('volumes')
                   if v['id'] not in marks.volumes]
        views = [v for v in self.found('views')
                 if v['id'] not in marks.snapshots]
        self.assertEqual(
            sorted((row['ref'], f'cv-{row["id"]}') for row in made),
            sorted([*((f'/volumes/{v["id"]}', v['name']) for v in volumes),
                    *((f'/snapshots/{s["id"]}', s['short_name'])
                      for s in views)]))
        sizes = {row['ref']: row['size'] * GIB for row in made}
        for volume in volumes:
            self.assertEqual(sizes[f'/volumes/{volume["id"]}'],
                             volume['size'])

    def _check_snapshots(self, rows: Any, volumes: Any,
                         marks: deferred_deletion.DeferredIds
                         ) -> None:
        taken = [s for s in self.found('snapshots')
                 if s['id'] not in marks.snapshots]
        clones = {f'ccs-{row["id"]}' for row in volumes}
        self.assertEqual(
            sorted((row['ref'], f'cs-{row["id"]}') for row in rows),
            sorted((f'/snapshots/{s["id"]}', s['short_name']) for s in taken
                   if s['short_name'] not in clones))

    def _check_mappings(self, rows: Any) -> None:
        hosts = {f'/hosts/{host["id"]}': host['name'].split('-')[2]
                 for host in self.admin.list('hosts')}
        self.assertEqual(len(hosts), len(set(hosts.values())), hosts)
        found = [(m['volume']['ref'], hosts[m['host']['ref']])
                 for m in self.admin.list('mappings')
                 if 'volsnaps' not in m['volume']['ref']]
        self.assertEqual(
            sorted({(row['volume'], row['host'].split('-')[1])
                    for row in rows}), sorted(found))
        self.assertEqual(set(hosts.values()), {host for _, host in found})


class OldArrayClusterTest(ClusterTest):
    """The same with views instead of thin clones, over Fibre Channel."""

    profile = 'k2'
    protocol = 'fc'
    steps = 12
