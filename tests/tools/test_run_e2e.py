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

"""The pictures of the documentation."""

import pathlib
import tempfile
import unittest

from tools import run_e2e


class PicturesTest(unittest.TestCase):

    def setUp(self):
        super().setUp()
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.source = pathlib.Path(place.name, 'made')
        self.target = pathlib.Path(place.name, 'shown')
        self.source.mkdir()
        for name in (*run_e2e.SHOWN, 'other'):
            (self.source / f'{name}.png').write_bytes(b'picture')

    def test_referenced_pictures_are_copied(self):
        run_e2e.copy_pictures(self.source, self.target)
        self.assertEqual(set(run_e2e.SHOWN), {
            picture.stem for picture in self.target.iterdir()})

    def test_missing_picture(self):
        (self.source / f'{run_e2e.SHOWN[0]}.png').unlink()
        with self.assertRaisesRegex(run_e2e.PictureError, 'not made'):
            run_e2e.copy_pictures(self.source, self.target)

    def test_picture_that_is_too_large(self):
        (self.source / f'{run_e2e.SHOWN[1]}.png').write_bytes(
            b' ' * (run_e2e.LARGEST + 1))
        with self.assertRaisesRegex(run_e2e.PictureError, 'larger'):
            run_e2e.copy_pictures(self.source, self.target)
