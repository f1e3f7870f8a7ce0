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

"""Images of Glance and encrypted types, with data, through real services.

Glance is a separate process. Only the initiator (disks) and LUKS (encryption)
are mocks.
"""

import os
import shutil
import subprocess

from cinder import exception
from oslo_config import cfg
import sqlalchemy
import testtools

from tests.functional import backend
from tests.functional import base
from tests.functional import encryption
from tests.functional import images
from tools.cloud import database

MIB = 1048576
GIB = 1024 * MIB
PIECE = 65536
DATA = b'first'.ljust(PIECE, b'\1') + b'last'.rjust(PIECE, b'\2')
OTHER = b'other'.ljust(PIECE, b'\3')
QEMU_IMG = shutil.which('qemu-img')


@base.pairwise_variants
class ImagesTest(images.ImagesTest):

    feature = 'images'

    def test_image_to_volume(self):
        """The volume is attached to this host once, and nothing is left."""
        volume = self.backend.volume_from_image(self.image(DATA), 2)
        self.assertTrue(volume.bootable)
        self.assertEqual(2, volume.size)
        self.assertEqual(DATA, self.disks.read(volume, 0, len(DATA)))
        self.assertEqual((1, 1), (self.disks.total, self.disks.most))
        self.assert_left(volumes=1, volume_groups=1)
        self._another_image(volume)

    def _another_image(self, volume):
        """Write another image over the data; clones keep theirs."""
        snapshot = self.backend.create_snapshot(volume)
        clone = self.backend.clone(volume)
        self.backend.reimage(volume, self.image(OTHER))
        self.assertEqual(OTHER + DATA[PIECE:],
                         self.disks.read(volume, 0, len(DATA)))
        for row in (snapshot, clone):
            self.assertEqual(DATA, self.disks.read(row, 0, len(DATA)))
        self.assertEqual([], self._mappings())

    def test_volume_to_image(self):
        self.disks.set_scale(64)
        volume = self.backend.create_volume(1)
        self.disks.write(volume, 5 * MIB, DATA)
        image = self.upload(volume, 'raw')
        self.assertEqual(('active', 16 * MIB), (image.status, image.size))
        self.assertEqual([], self._mappings())
        again = self.backend.volume_from_image(image)
        self.assertEqual(DATA, self.disks.read(again, 5 * MIB, len(DATA)))
        self._upload_attached(again)

    def _upload_attached(self, volume):
        """Upload a volume in use; only this host disconnects."""
        cfg.CONF.set_override('enable_force_upload', True)
        self.addCleanup(cfg.CONF.clear_override, 'enable_force_upload')
        host = self.host()
        attachment = self.backend.attach(volume, host)
        before = self._mappings()
        self.upload(volume, 'raw')
        self.assertEqual(before, self._mappings())
        self.assertEqual(self.disks.path(volume), self.disks.find(
            attachment.connection_info, host))


@testtools.skipUnless(
    QEMU_IMG, 'qemu-img is not installed: apt-get install qemu-utils')
class ConversionTest(images.ImagesTest):
    """Conversions, which Cinder does with qemu-img."""

    def test_qcow2_to_volume(self):
        """Blocks that the image does not contain read as zeros."""
        folder = cfg.CONF.image_conversion_dir
        raw, made = (os.path.join(folder, name) for name in ('raw', 'made'))
        with open(raw, 'wb') as stream:
            stream.write(DATA)
            stream.truncate(64 * MIB)
        subprocess.run([QEMU_IMG, 'convert', '-f', 'raw', '-O', 'qcow2', raw,
                        made], check=True)
        with open(made, 'rb') as stream:
            image = self.image(stream.read(), 'qcow2')
        volume = self.backend.volume_from_image(image)
        self.assertEqual(DATA + bytes(MIB),
                         self.disks.read(volume, 0, len(DATA) + MIB))

    def test_volume_to_qcow2(self):
        volume = self.backend.create_volume(1)
        self.disks.write(volume, GIB - len(DATA), DATA)
        image = self.upload(volume, 'qcow2')
        self.assertLess(image.size, 2 * MIB)
        again = self.backend.volume_from_image(image)
        self.assertEqual(DATA, self.disks.read(again, GIB - len(DATA),
                                               len(DATA)))


class ImageTroubleTest(images.ImagesTest):
    """Failures that depend neither on the array nor on the protocol."""

    feature = 'images'

    def test_image_that_is_too_large(self):
        image = self.image(DATA, min_disk=5)
        self.assertRaises(exception.InvalidInput,
                          self.backend.volume_from_image, image)
        self.assertNothingLeft()

    def test_failed_download(self):
        """Nothing stays mapped if Glance fails during the download."""
        image = self.image(DATA)
        os.unlink(os.path.join(self.glance.folder, 'images', image.id))
        failure = self.assertRaises(backend.OperationFailed,
                                    self.backend.volume_from_image, image)
        self.assertEqual('error', failure.status)
        self.assertEqual([], self._mappings())

    def test_failed_write(self):
        """The volume is in error, detached here, and can be deleted."""
        image = self.image(DATA)
        self.fault('status', 'POST', 'mappings', status=403)
        failure = self.assertRaises(backend.OperationFailed,
                                    self.backend.volume_from_image, image)
        self.assertEqual('error', failure.status)
        self.backend.delete_volume(failure.row)
        self.assertNothingLeft()


class CacheTest(images.ImagesTest):

    feature = 'image cache'
    options = {'image_volume_cache_enabled': True,
               'image_volume_cache_max_count': 1}

    def cached(self):
        """Return the volumes in the cache."""
        return [v for v in self.backend.volumes()
                if v.display_name.startswith('image-')]


@base.pairwise_variants
class ImageCacheTest(CacheTest):

    def test_second_volume_is_a_clone(self):
        image = self.image(DATA)
        first = self.backend.volume_from_image(image)
        self.assertEqual(1, self.disks.total)
        self.assertEqual(1, len(self.cached()))
        with self.assert_calls(4 if self.profile == 'k2' else 5):
            second = self.backend.volume_from_image(image)
        self.assertEqual(1, self.disks.total)
        for volume in (first, second, *self.cached()):
            self.assertEqual(DATA, self.disks.read(volume, 0, len(DATA)))
        self.disks.write(second, 0, b'OWN')
        self.assertEqual(DATA, self.disks.read(first, 0, len(DATA)))
        self.assertEqual(3, len(self.backend.volumes()))
        self.assertTrue(second.bootable)


class BusyCacheTest(CacheTest):
    """Cases that differ between profiles, but not between protocols."""

    def test_volumes_larger_than_the_image(self):
        """The cached volume has the image's size; volumes are extended."""
        self.ignore_call_budget()
        image = self.image(DATA)
        volumes = [self.backend.volume_from_image(image, size)
                   for size in (3, 1, 2)]
        # The image is written once. A clone by view cannot be extended, so
        # the last one is copied.
        self.assertEqual(1 if self.profile == 'sdp' else 3, self.disks.total)
        self.assertEqual([1], [v.size for v in self.cached()])
        for volume, size in zip(volumes, (3, 1, 2)):
            self.assertEqual(DATA, self.disks.read(volume, 0, len(DATA)))
            self.assertEqual(size * GIB,
                             os.stat(self.disks.path(volume)).st_size)

    def test_many_of_a_new_image_at_once(self):
        """One of them fills the cache, and the others wait for it."""
        image = self.image(DATA)
        results = self.together(
            *[lambda: self.backend.volume_from_image(image)] * 4)
        for volume in results:
            self.assertEqual('available', getattr(volume, 'status', volume))
            self.assertEqual(DATA, self.disks.read(volume, 0, len(DATA)))
        self.assertEqual(1, self.disks.total)
        self.assertEqual(1, len(self.cached()))

    def test_full_cache(self):
        """Clones of volumes removed from the cache stay intact."""
        self.ignore_call_budget()
        made = []
        for number in range(2):
            image = self.image(DATA + bytes([number]))
            made.append([self.backend.volume_from_image(image)
                         for _ in range(2)])
        self.assertEqual(1, len(self.cached()))
        for number, volumes in enumerate(made):
            for volume in volumes:
                self.assertEqual(DATA + bytes([number]), self.disks.read(
                    volume, 0, len(DATA) + 1))


class BusyCacheSDPTest(BusyCacheTest):

    profile = 'sdp'


class ChangedImageTest(CacheTest):
    """A case that does not depend on the array."""

    def test_changed_image(self):
        """The cache is not used if the image has changed."""
        self.ignore_call_budget()
        image = self.image(DATA)
        self.backend.volume_from_image(image)
        # Times have a resolution of seconds, so make the entry older.
        with database.engine().begin() as connection:
            connection.execute(sqlalchemy.text(
                'UPDATE image_volume_cache_entries SET image_updated_at = '
                '"2020-01-01 00:00:00.000000"'))
        self.glance.images.update(image.id, name='changed')
        volume = self.backend.volume_from_image(image)
        self.assertEqual(2, self.disks.total)
        self.assertEqual(DATA, self.disks.read(volume, 0, len(DATA)))
        self.assertEqual(1, len(self.cached()))


@base.pairwise_variants
class EncryptedTypesTest(images.ImagesTest):

    feature = 'encrypted types'

    def setUp(self):
        super().setUp()
        encryption.install(self)

    def _is_encrypted(self, volume):
        """Check that the array has no plain data; return what it has."""
        data = self.disks.read(volume, 0, encryption.HEADER + len(DATA))
        self.assertEqual(b'LUKS', data[:4])
        for piece in (b'first', b'last', bytes(16)):
            self.assertNotIn(piece, data[encryption.HEADER:])
        return data

    def test_images_and_clones(self):
        """A clone gets its own key, for which it is attached to this host."""
        volume = self.backend.volume_from_image(self.image(DATA),
                                                encryption='luks')
        self.assertTrue(volume.encryption_key_id)
        data = self._is_encrypted(volume)
        self._attachment_says_so(volume)
        snapshot = self.backend.create_snapshot(volume)
        self.ignore_call_budget()
        clones = [self.backend.clone(volume),
                  self.backend.volume_from_snapshot(snapshot)]
        # A volume from a snapshot keeps the key of its source in Cinder.
        self.assertEqual(['rekeyed'], self.disks.rekeyed())
        self.assertEqual(2, self.disks.total)
        for clone in clones:
            self.assertTrue(clone.encryption_key_id)
            self.assertEqual(data, self.disks.read(clone, 0, len(data)))
        self.assertEqual([], self._mappings())

    def _attachment_says_so(self, encrypted):
        """Check the flag by which nova decides whether to decrypt."""
        for volume, expected in ((encrypted, True),
                                 (self.backend.create_volume(1), False)):
            attachment = self.backend.attach(volume, self.host())
            self.assertEqual(expected,
                             attachment.connection_info['encrypted'])
            self.backend.detach(attachment)
