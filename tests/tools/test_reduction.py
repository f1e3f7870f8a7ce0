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

"""The savings of data reduction, on a small database."""

import contextlib
import io
import re

import fixtures
import testtools

from tools import reduction


class StoryTest(testtools.TestCase):
    """The output, with a database of a few MiB."""

    def setUp(self):
        super().setUp()
        for name in ('_RECORDS', '_IMAGES', '_UNUSED', '_JOURNAL'):
            self.useFixture(fixtures.MonkeyPatch(
                f'tools.reduction.{name}', getattr(reduction, name) // 16))

    def test_ratios(self):
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            self.assertEqual(0, reduction.main())
        ratios = [float(found) for found in re.findall(
            r'([0-9.]+):1 +[0-9,]+:1', printed.getvalue())]
        with_it, without = ratios[:2], ratios[2:]
        self.assertEqual(with_it[0], without[0])
        self.assertLess(with_it[0] * 2, with_it[1])
        self.assertEqual(without[0], without[1])
