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

"""Copies that share blocks, on file systems with reflinks."""

from concurrent import futures
import contextlib
import os
import pathlib
import shutil
import signal
import subprocess

import ddt
import fixtures
import testtools

import k2_sim
from tests import iscsi

MIB = 2 ** 20
# mkfs.xfs requires at least 300 MiB.
SIZE = 400 * MIB
LIMIT = 240
# The Debian package with mkfs of each type.
PACKAGES = {'btrfs': 'btrfs-progs', 'xfs': 'xfsprogs'}


@ddt.ddt
class TestReflink(testtools.TestCase):

    def mounted(self, kind):
        """Mount an empty file system of this type, in a file; return where."""
        program = shutil.which(f'mkfs.{kind}', path=f'{os.defpath}:/sbin')
        if program is None:
            self.skipTest(f'needs the package {PACKAGES[kind]}')
        folder = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        with open(folder / 'image', 'wb') as image:
            image.truncate(SIZE)
        place = folder / 'place'
        place.mkdir()
        subprocess.run([program, folder / 'image'], check=True,
                       capture_output=True, timeout=LIMIT)
        try:
            subprocess.run(['mount', '-o', 'loop', folder / 'image', place],
                           check=True, capture_output=True, timeout=LIMIT)
        except subprocess.CalledProcessError as exc:
            self.skipTest(f'cannot mount {kind}: {exc.stderr.decode()}')
        self.addCleanup(subprocess.run, ['umount', place], check=True,
                        timeout=LIMIT)
        return place

    def used(self, place):
        """Return the used bytes of a file system."""
        os.sync()
        status = os.statvfs(place)
        return (status.f_blocks - status.f_bfree) * status.f_frsize

    @ddt.data(*PACKAGES)
    def test_snapshot(self, kind):
        """A copy takes no space, and changes independently of its source."""
        place = self.mounted(kind)
        contents = k2_sim.Contents(place / 'content')
        data = os.urandom(64 * MIB)
        token = contents.clone('', 100 * MIB)
        contents.write(token, MIB, data)
        # The fallback may share blocks, too, and hide a failing FICLONE.
        self.useFixture(fixtures.MockPatch(
            'os.copy_file_range', side_effect=AssertionError))
        before = self.used(place)
        copy = contents.clone(token)
        self.assertLess(self.used(place) - before, 8 * MIB)
        contents.write(copy, MIB, b'new')
        contents.discard(token, 2 * MIB, MIB)
        self.assertEqual(data[:3], contents.read(token, MIB, 3))
        self.assertEqual(b'new' + data[3:],
                         contents.read(copy, MIB, len(data)))
        self.assertEqual(bytes(MIB), contents.read(token, 2 * MIB, MIB))
        self.assertLess(self.used(place) - before, 8 * MIB)
        contents.remove(token)
        self.assertEqual(b'new' + data[3:],
                         contents.read(copy, MIB, len(data)))


class TestOwnFilesystem(testtools.TestCase):
    """The Btrfs that k2-sim creates in a file of its state directory."""

    def setUp(self):
        super().setUp()
        reason = iscsi.TGT.missing()
        if reason:
            self.skipTest(reason)
        folder = self.useFixture(fixtures.TempDir()).path
        self.simulator = iscsi.Simulator(f'{folder}/state')
        self.image = self.simulator.directory / 'content.btrfs'

    def start(self, with_btrfs=True):
        """Start k2-sim; return the id of its one volume, of 64 MiB."""
        if with_btrfs and not self.has_btrfs():
            self.skipTest('cannot mount a Btrfs here')
        self.simulator.start()
        self.addCleanup(self.simulator.kill)
        self.assertEqual(with_btrfs, self.image.exists())
        found = self.simulator.hits('volumes?name=v')
        return found[0]['id'] if found else self.make_volume()

    def has_btrfs(self):
        with contextlib.suppress(FileNotFoundError):
            subprocess.run(['/sbin/modprobe', 'btrfs'], check=False,
                           capture_output=True, timeout=LIMIT)
        return (os.geteuid() == 0 and os.access('/dev/loop-control', os.W_OK)
                and shutil.which('mkfs.btrfs', path=f'{os.defpath}:/sbin')
                and 'btrfs' in pathlib.Path('/proc/filesystems').read_text())

    def make_volume(self):
        self.group = self.simulator.call(
            'POST', 'volume_groups', name='g', quota=0)['id']
        return self.simulator.call(
            'POST', 'volumes', name='v', size=65536, volume_group={
                'ref': f'/volume_groups/{self.group}'})['id']

    def attached(self, volume):
        """A session of an initiator that sees the volume."""
        lun, initiator = self.simulator.attach(volume)
        session = iscsi.Session(initiator, lun)
        self.addCleanup(session.close)
        return session

    def loop_devices(self):
        return subprocess.run(
            ['losetup', '--associated', self.image], check=True, text=True,
            capture_output=True, timeout=LIMIT).stdout

    def allocated(self):
        """Return the bytes that the image of the file system occupies."""
        os.sync()
        return self.image.stat().st_blocks * 512

    def test_snapshot(self):
        """A snapshot of a volume in use takes no space."""
        volume = self.start()
        session = self.attached(volume)
        session.io('write -P 1 0 64M')
        session.io('flush')
        before = self.allocated()
        self.assertGreater(before, 64 * MIB)
        snapshot = self.simulator.call(
            'POST', 'snapshots', short_name='s',
            source={'ref': f'/volume_groups/{self.group}'},
            retention_policy={'ref': '/retention_policies/3'})
        self.assertLess(self.allocated() - before, 8 * MIB)
        session.io('write -P 2 0 1M')
        image, = self.simulator.hits(
            f'volsnaps?snapshot.ref=/snapshots/{snapshot["id"]}')
        self.assertEqual({1}, set(self.simulator.read(
            'volsnaps', image['id'], 0, 16 * MIB)))
        self.assertEqual({2}, set(self.simulator.read(
            'volumes', volume, 0, MIB)))

    def test_end(self):
        """Nothing stays mounted, and the data is there at the next start."""
        volume = self.start()
        self.simulator.write('volumes', volume, 0, b'a')
        self.assertNotEqual('', self.loop_devices())
        self.assertEqual((0, ''), self.simulator.stop())
        # udev may still have the device open.
        iscsi.wait_until(lambda: not self.loop_devices(), 'the end')
        self.start()
        self.assertEqual(b'a', self.simulator.read('volumes', volume, 0, 1))

    def test_sudden_end(self):
        volume = self.start()
        for number in range(5):
            self.simulator.write('volumes', volume, number, b'a')
            self.simulator.stop(signal.SIGKILL)
            self.start()
        self.assertEqual(b'aaaaa', self.simulator.read(
            'volumes', volume, 0, 5))
        self.simulator.stop(signal.SIGKILL)
        iscsi.wait_until(lambda: not self.loop_devices(), 'the end')

    def test_device_of_another_process(self):
        """Two devices of one file system would damage it."""
        volume = self.start()
        self.simulator.write('volumes', volume, 0, b'a')
        self.simulator.stop()
        device = subprocess.run(
            ['losetup', '--find', '--show', self.image], check=True,
            text=True, capture_output=True, timeout=LIMIT).stdout.strip()
        try:
            self.start()
            self.assertEqual(1, self.loop_devices().count('/dev/loop'))
            self.assertEqual(
                b'a', self.simulator.read('volumes', volume, 0, 1))
        finally:
            self.simulator.stop()
            subprocess.run(['losetup', '--detach', device], check=True,
                           timeout=LIMIT)

    def test_files_of_before(self):
        """Existing files stay in place, and k2-sim prints the consequences."""
        (self.simulator.directory / 'content').mkdir(parents=True)
        self.start(with_btrfs=False)
        self.assertIn(
            'k2-sim: host writes wait while a snapshot is made, longer with'
            f' more data: {self.simulator.directory}/content is not on Btrfs;'
            ' begin with a new state directory, or move the files to a Btrfs'
            ' that is mounted there\n',
            self.simulator.messages)

    def test_content_that_is_not_mounted(self):
        """It is not replaced by a Btrfs without the volumes."""
        content = self.simulator.directory / 'content'
        content.mkdir(parents=True)
        self.simulator.write(
            'volumes', self.start(with_btrfs=False), 0, b'a')
        self.simulator.stop()
        away = content.with_name('away')
        content.rename(away)
        content.mkdir()
        error = self.assertRaises(iscsi.NotStarted, self.simulator.start)
        self.assertIn(f'{content} has none of the 1 files', str(error))
        content.rmdir()
        away.rename(content)
        self.assertEqual(b'a', self.simulator.read(
            'volumes', self.start(with_btrfs=False), 0, 1))

    def test_image_that_is_not_ours(self):
        volume = self.start()
        self.simulator.write('volumes', volume, 0, b'a')
        self.simulator.stop()
        good = self.image.rename(self.image.with_name('good'))
        with self.image.open('xb') as file:
            file.truncate(8 * 2 ** 30)
        error = self.assertRaises(iscsi.NotStarted, self.simulator.start)
        self.assertIn(f'cannot mount {self.image}: ', str(error))
        subprocess.run(['mkfs.btrfs', '-q', self.image], check=True,
                       capture_output=True, timeout=LIMIT,
                       env={'PATH': f'{os.defpath}:/sbin'})
        error = self.assertRaises(iscsi.NotStarted, self.simulator.start)
        self.assertIn(f'{self.image} has none of the 1 files', str(error))
        good.rename(self.image)
        self.start()
        self.assertEqual(b'a', self.simulator.read('volumes', volume, 0, 1))

    def test_link_to_the_state_directory(self):
        folder = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        (folder / 'deep' / 'deeper').mkdir(parents=True)
        (folder / 'link').symlink_to(folder / 'deep' / 'deeper')
        self.simulator = iscsi.Simulator(folder / 'link' / 'state')
        self.image = self.simulator.directory / 'content.btrfs'
        session = self.attached(self.start())
        self.assertIn('wrote', session.io('write -P 1 0 1M'))

    def test_two_at_once(self):
        """One of them starts, and its file system has one device."""
        if not self.has_btrfs():
            self.skipTest('cannot mount a Btrfs here')
        both = [iscsi.Simulator(self.simulator.directory) for _ in range(2)]

        def start(simulator):
            try:
                simulator.start()
            except iscsi.NotStarted as error:
                return str(error)
            self.addCleanup(simulator.kill)
            return 'started'

        with futures.ThreadPoolExecutor() as pool:
            _, other = sorted(pool.map(start, both), key='started'.__ne__)
        self.assertIn(f'state directory {self.simulator.directory} is in use'
                      ' by another process', other)
        self.assertEqual(1, self.loop_devices().count('/dev/loop'))
        self.assertNotIn('content', os.listdir(self.simulator.directory))

    def test_user_namespace(self):
        """k2-sim cannot mount there: it works, and prints the consequences."""
        plane = iscsi.Tgt()
        plane.wrapper = ['unshare', '--user', '--map-root-user']
        self.simulator.plane = plane
        reason = plane.missing()
        if reason:
            self.skipTest(reason)
        session = self.attached(self.start(with_btrfs=False))
        self.assertIn('wrote', session.io('write -P 1 0 1M'))
        self.assertIn('k2-sim: host writes wait', ''.join(
            self.simulator.messages))
