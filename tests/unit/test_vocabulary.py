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

"""Words in tests/vocabulary.txt are not used again."""

import pathlib
import subprocess
import unittest

import ddt

ROOT = pathlib.Path(__file__).parents[2]
ROWS = [line.split('\t') for line
        in (ROOT / 'tests' / 'vocabulary.txt').read_text().splitlines()
        if not line.startswith('#')]


def found(expression, paths):
    """Lines of tracked files that match, with file and number."""
    done = subprocess.run(
        ['git', 'grep', '-nP', expression, '--', *paths,
         ':!tests/vocabulary.txt', ':!tests/unit/test_vocabulary.py',
         ':!cinder_k2/driver/db/provider_id.py'],
        cwd=ROOT, capture_output=True, text=True)
    # 1: nothing was found.
    if done.returncode not in (0, 1):
        raise AssertionError(done.stderr)
    return done.stdout.splitlines()


@ddt.ddt
class VocabularyTest(unittest.TestCase):

    @ddt.data(*ROWS)
    @ddt.unpack
    def test_words_are_not_used(self, expression, paths):
        for path in paths.split():
            self.assertTrue((ROOT / path).exists(), path)
        self.assertEqual([], found(expression, paths.split()))

    def test_found_finds_matches(self):
        """Otherwise the test above could not fail."""
        self.assertTrue(found(r'\bclass ArrayVolume\b', ['cinder_k2']))
