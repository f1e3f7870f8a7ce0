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

from unittest import mock
from unittest.mock import call

from cinder_k2.array import ArrayVolume
from cinder_k2.driver.operations import detach
from cinder_k2.driver.operations import replication
from cinder_k2.driver.operations import resolver
from cinder_k2.driver.operations import unmanaging
from cinder_k2 import exceptions
from tests.unit.driver import doubles

FOUND = ArrayVolume(group=5, volume=31)


class UnmanagingTest(doubles.TestCase):

    def setUp(self):
        super().setUp()
        self.known = self.double('resolver', resolver.Resolver)
        self.known.known.return_value = FOUND
        self.known.held.side_effect = self.held
        self.known.may_be_replicated.return_value = False
        self.sessions = self.double('replication', replication.Replication)
        self.array.volumes.find.return_value = None
        self.array.original_names.restore.return_value = None
        self.volume = doubles.a_volume(name_id='n1')
        self.options = mock.Mock(k2_unmanage_restores_names=True)
        self.unmanaging = unmanaging.Unmanaging(
            self.array, self.known,
            self.double('detach', detach.Detach),
            self.sessions, self.options)

    def done(self):
        return self.calls('hold', 'free', 'array', 'replication')

    def restored(self, group):
        """Return the calls that restore names while the group is locked."""
        return [call.hold(group),
                call.array.original_names.restore('cv-n1', 'cvg-n1'),
                call.free(group)]

    def test_names_are_restored(self):
        self.unmanaging.unmanage(self.volume)
        self.assertEqual(self.restored(5), self.done())
        self.known.known.assert_called_once_with(self.volume)

    def test_names_are_kept_by_option(self):
        self.options.k2_unmanage_restores_names = False
        self.unmanaging.unmanage(self.volume)
        self.assertEqual([call.detach.release(self.volume)],
                         self.calls('detach'))
        self.assertEqual([], self.done())

    def test_volume_is_held(self):
        self.unmanaging.unmanage(self.volume)
        self.assertEqual(call.resolver.held(self.volume), self.calls()[0])
        self.assertEqual(call.released(self.volume), self.calls()[-1])

    def test_volume_being_flattened(self):
        """Refused whatever the option says: its row must be kept."""
        self.options.k2_unmanage_restores_names = False
        self.known.held.side_effect = exceptions.ObjectInUse('v1', 'copied')
        self.raised(exceptions.ObjectInUse, self.unmanaging.unmanage,
                    self.volume)

    def test_volume_without_ids(self):
        self.known.known.return_value = None
        self.array.volumes.find.return_value = ArrayVolume(group=9, volume=31)
        self.unmanaging.unmanage(self.volume)
        self.assertEqual([call.array.volumes.find('cv-n1'),
                          *self.restored(9)], self.done())

    def test_missing_volume(self):
        self.known.known.return_value = None
        self.unmanaging.unmanage(self.volume)
        self.assertEqual(self.restored(0), self.done()[1:])

    def test_volume_that_could_not_be_managed(self):
        """Its names are restored whatever the option says."""
        self.options.k2_unmanage_restores_names = False
        self.unmanaging.end(self.volume)
        self.assertEqual(self.restored(5), self.done())

    def test_replication_of_a_failed_manage_is_stopped(self):
        self.known.may_be_replicated.return_value = True
        self.array.volumes.find.return_value = FOUND
        self.unmanaging.end(self.volume)
        self.assertEqual([
            call.array.volumes.find('cv-n1'),
            call.replication.unprotect(self.volume, FOUND, 'n1'),
            *self.restored(5)], self.done())

    def test_failed_manage_without_replication(self):
        self.known.may_be_replicated.return_value = True
        self.unmanaging.end(self.volume)
        self.assertEqual([], self.calls('replication'))
