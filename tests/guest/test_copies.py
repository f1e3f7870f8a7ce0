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

"""Snapshots, and volumes made from others."""

import contextlib
import pathlib

from tests.guest import base
from tests.guest import disk
from tests.guest import load
from tools.guest import node

# Data that each volume has to itself, as ranges of MiB. Copying it takes time,
# in which writes would get into a snapshot that is not atomic.
_OWN = (range(8, 24), range(24, 40))


class TestClones(base.GuestTest):
    """Clones of a volume that is attached and written to."""

    def check(self, strategy):
        source = self.backend.create_volume(1)
        attached = self.attach(source)
        self.fill(attached.path, 0, 1023)
        clone = self.backend.clone(
            source, kaminario__clone_strategy=strategy)
        disk.write(attached.path, 0, disk.pattern('later'))
        copy = self.attach(clone)
        self.assertNotEqual(attached.path, copy.path)
        self.assert_filled(copy.path, 0, 1023)
        self.fill(copy.path, 5)
        self.assert_zeros(attached.path, 5)
        self.assert_bytes(disk.pattern('later'), attached.path, 0)
        self.assert_filled(attached.path, 1023)

    def test_thin(self):
        self.check('thin')

    def test_view(self):
        self.check('view')

    def test_copy(self):
        self.check('copy')


class TestSnapshots(base.GuestTest):

    def test_revert(self):
        volume = self.backend.create_volume(1)
        attached = self.attach(volume)
        self.fill(attached.path, 0, 1)
        snapshot = self.backend.create_snapshot(volume)
        for place in (0, 2):
            disk.write(attached.path, place * disk.MIB,
                       disk.pattern('later'))
        attached.detach()
        self.backend.revert(volume, snapshot)
        again = self.attach(volume)
        self.assert_filled(again.path, 0, 1)
        self.assert_zeros(again.path, 2)

    def test_busy_file_system(self):
        """Synced data is complete; the journal recovers the file system."""
        volume = self.backend.create_volume(1)
        attached = self.attach(volume, multipath=True)
        node.run('mkfs.ext4', '-q', '-F', attached.path)
        with mounted(attached.path) as place:
            with load.Files(place).running() as files:
                count = files.written
                snapshot = self.backend.create_snapshot(volume)
                files.wait_for_more()
        attached.detach()
        copy = self.attach(self.backend.volume_from_snapshot(snapshot),
                           multipath=True)
        with mounted(copy.path) as place:
            load.Files.check(place, count)
            self.assertFalse((place / str(files.written)).exists())
        node.run('fsck.ext4', '-f', '-n', copy.path)


class TestGroups(base.GuestTest):

    def test_order_of_writes(self):
        """The snapshot is of one point in time for all volumes in use."""
        kind = self.backend.volume_type()
        group = self.backend.create_group(kind)
        volumes = [self.backend.create_volume(1, group) for _ in range(2)]
        attached = list(map(self.attach, volumes))
        # What the writer writes is the same on both.
        for own, one in zip(_OWN, attached):
            self.fill(one.path, *own)
        with load.Writer(*[one.path for one in attached]).running() as writer:
            taken = self.backend.create_group_snapshot(group)
            writer.wait_for_more()
        for one in attached:
            one.detach()
        copies = self.copies(taken)
        paths = [self.attach(copies[volume.id]).path for volume in volumes]
        for own, path in zip(_OWN, paths):
            self.assert_filled(path, *own)
        first, second = map(load.check, paths)
        self.assertIn(first - second, (0, 1))
        self.assertGreater(second, 0)
        self.assertLess(first, writer.written)

    def copies(self, taken):
        """Create a group from a snapshot; return its volumes by source id."""
        sources = {snapshot.id: snapshot.volume_id
                   for snapshot in self.backend.snapshots()}
        return {sources[copy.snapshot_id]: copy for copy
                in self.backend.members(self.backend.group_from(taken))}


@contextlib.contextmanager
def mounted(path):
    """Mount the file system of a disk; yield the mount point."""
    place = pathlib.Path('/run/mounted')
    place.mkdir(exist_ok=True)
    node.run('mount', '-t', 'ext4', path, str(place))
    try:
        yield place
    finally:
        node.run('umount', str(place))
