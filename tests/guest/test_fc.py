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

"""Fibre Channel: runs the tests of iSCSI, with K2_TRANSPORT=fc."""

import testtools

from tests.guest import transports

_TESTS = (
    'test_attach.TestAttach', 'test_attach.TestExtend', 'test_copies',
    'test_multipath', 'test_moves.TestMigration', 'test_replication')


class TestTransport(testtools.TestCase):

    def test_is_fibre_channel(self):
        """Without FC the tests would run, and pass, over iSCSI."""
        self.assertEqual('fc', transports.CURRENT.protocol)


def load_tests(loader, standard_tests, pattern):
    return loader.suiteClass([standard_tests, loader.loadTestsFromNames(
        [f'tests.guest.{name}' for name in _TESTS])])
