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

"""Deprecated names that still work."""

import pathlib
import subprocess
import unittest

import ddt

from cinder_k2.cmd import admin

ROOT = pathlib.Path(__file__).parents[2]


def recipe(*arguments):
    """The commands that make would run."""
    return subprocess.run(
        ['make', '--no-print-directory', '-n', *arguments], cwd=ROOT,
        check=True, capture_output=True, text=True).stdout


@ddt.ddt
class DeprecatedNamesTest(unittest.TestCase):

    @ddt.data((('weather',), ('faults',)),
              (('tempest', 'SAMPLE=1'), ('tempest', 'QUICK=1')))
    @ddt.unpack
    def test_make_targets(self, former, now):
        self.assertEqual(recipe(*now), recipe(*former))
        self.assertNotEqual(recipe(now[0]), recipe('unit'))

    def test_quick_is_passed_on(self):
        self.assertIn('--quick', recipe('tempest', 'QUICK=1'))
        self.assertNotIn('--quick', recipe('tempest'))

    def test_k2_admin_subcommands(self):
        self.assertEqual({'hidden': 'deferred', 'reclaim': 'purge'},
                         admin.DEPRECATED)
        self.assertLessEqual(set(admin.DEPRECATED.values()),
                             set(admin.COMMANDS))
