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
"""Copies that share their blocks, on file systems that can do that."""

import os
import pathlib
import shutil
import subprocess

import ddt
import fixtures
import testtools

import k2_sim

MIB = 2 ** 20
# The smallest that XFS takes.
SIZE = 400 * MIB
LIMIT = 240
# The package of Debian that makes each kind.
PACKAGES = {'btrfs': 'btrfs-progs', 'xfs': 'xfsprogs'}


@ddt.ddt
class TestReflink(testtools.TestCase):

    def mounted(self, kind):
        """An empty file system of this kind, in a file."""
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
        """Bytes that are taken of a file system."""
        os.sync()
        status = os.statvfs(place)
        return (status.f_blocks - status.f_bfree) * status.f_frsize

    @ddt.data(*PACKAGES)
    def test_snapshot(self, kind):
        """A copy takes no space, and each side changes independently."""
        place = self.mounted(kind)
        contents = k2_sim.Contents(place / 'content')
        data = os.urandom(64 * MIB)
        token = contents.clone('', 100 * MIB)
        contents.write(token, MIB, data)
        # It would share blocks, too, and hide that the rest does not.
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
