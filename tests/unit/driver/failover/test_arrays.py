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

"""Which array of a back end a volume or snapshot is on."""

import json
from unittest import mock

import ddt
from oslotest import base

from cinder_k2.driver import config
from cinder_k2.driver.failover import arrays
from cinder_k2 import exceptions
from cinder_k2 import rest


def an_array(system, *, met=True):
    """Return an array; unless ``met``, its id is not known yet."""
    found = mock.Mock()
    found.array.system.id = system
    found.array.system.known_id = system if met else None
    found.array.address = f'{system}.example.org'
    return found


def row(system=None, **more):
    """Return a volume with ids of an array, or without ids."""
    ids = json.dumps({'system': system, 'volume': 1}) if system else None
    return mock.Mock(**{
        'id': 'row', 'provider_id': ids, 'volume': None,
        'launched_at': None, 'replication_status': 'enabled', **more})


@ddt.ddt
class ArraySetTest(base.BaseTestCase):

    def setUp(self):
        super().setUp()
        self.home, self.moon = an_array('home'), an_array('moon', met=False)
        self.found = arrays.ArraySet(self.home, {'moon': self.moon}, None)

    @ddt.data(None, '', config.PRIMARY_ID)
    def test_primary_is_active_by_default(self, active):
        found = arrays.ArraySet(self.home, {'moon': self.moon}, active)
        self.assertIs(self.home, found.active)
        self.assertEqual(['moon'], found.targets)

    def test_activate(self):
        self.found.activate('moon')
        self.assertIs(self.moon, self.found.active)
        self.assertEqual('moon', self.found.active_id)

    def test_activate_an_unknown_array(self):
        self.assertRaises(KeyError, self.found.activate, 'mars')
        self.assertIs(self.home, self.found.active)

    def test_other_arrays(self):
        self.assertEqual([self.moon], self.found.others([self.home]))

    @ddt.data('home', 'moon')
    def test_array_of_a_row_with_ids(self, system):
        self.assertEqual(system,
                         self.found.of(row(system)).array.system.id)

    def test_snapshot_without_ids_is_on_the_array_of_its_volume(self):
        self.assertIs(self.moon, self.found.of(row(volume=row('moon'))))

    @ddt.data((None, 'enabled', 'moon'), ('today', 'enabled', 'home'),
              ('today', 'failed-over', 'moon'))
    @ddt.unpack
    def test_volume_without_ids(self, launched_at, status, expected):
        """The in-tree driver only creates volumes on the primary."""
        self.found.activate('moon')
        self.assertIs(
            {'home': self.home, 'moon': self.moon}[expected],
            self.found.of(row(launched_at=launched_at,
                              replication_status=status)))

    def test_row_without_a_volume_attribute(self):
        volume = row()
        del volume.volume
        self.assertIs(self.home, self.found.of(volume))

    def test_back_end_with_one_array(self):
        """It has all rows; the id of the array is not read."""
        alone = arrays.ArraySet(self.home, {}, None)
        self.assertIs(self.home, alone.of(row('gone')))

    def test_unknown_ids_default_to_the_active_array(self):
        self.assertIs(self.home, self.found.of(row('gone')))

    def test_unreachable_array_may_have_the_row(self):
        lost = mock.PropertyMock(side_effect=rest.Unreachable('gone'))
        type(self.moon.array.system).id = lost
        self.assertIs(self.home, self.found.of(row('home')))
        self.assertRaises(rest.Unreachable, self.found.of, row('moon'))

    def test_source_must_be_on_the_active_array(self):
        self.assertIs(self.home, self.found.with_source(row('home')))
        error = self.assertRaises(exceptions.ArrayNotActive,
                                  self.found.with_source, row('moon'))
        self.assertIn('moon.example.org', str(error))
        self.assertIn('row is on the array at moon.example.org, while the '
                      'one at home.example.org serves; fail the back end '
                      'over to that array, or back, first.', str(error))

    def test_array_by_backend_id(self):
        self.assertIs(self.moon, self.found.named('moon'))
        self.assertIs(self.home, self.found.named(config.PRIMARY_ID))
        self.assertRaises(KeyError, self.found.named, 'mars')

    def test_unknown_active_array(self):
        self.assertRaises(KeyError, arrays.ArraySet, self.home, {}, 'moon')

    def test_known_id_is_not_read_again(self):
        asked = mock.PropertyMock(side_effect=AssertionError)
        for one in (self.home, self.moon):
            type(one.array.system).id = asked
        self.moon.array.system.known_id = 'moon'
        self.assertIs(self.moon, self.found.of(row('moon')))

    def test_id_of_the_active_array_is_read_first(self):
        """If it has the row, other ids are not read."""
        self.found.activate('moon')
        self.home.array.system.known_id = None
        type(self.home.array.system).id = mock.PropertyMock(
            side_effect=AssertionError)
        self.assertIs(self.moon, self.found.of(row('moon')))

    def test_unreachable_array_is_skipped_if_another_has_the_row(self):
        sun = an_array('sun', met=False)
        type(self.moon.array.system).id = mock.PropertyMock(
            side_effect=rest.Unreachable('gone'))
        found = arrays.ArraySet(
            self.home, {'moon': self.moon, 'sun': sun}, None)
        self.assertIs(sun, found.of(row('sun')))

    def test_first_error_is_raised(self):
        sun = an_array('sun', met=False)
        for one in (self.moon, sun):
            type(one.array.system).id = mock.PropertyMock(
                side_effect=rest.Unreachable(one.array.address))
        found = arrays.ArraySet(
            self.home, {'moon': self.moon, 'sun': sun}, None)
        error = self.assertRaises(rest.Unreachable, found.of, row('mars'))
        self.assertEqual('moon.example.org', error.message)
