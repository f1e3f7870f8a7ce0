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

"""Which array of a back end has a row."""

import json
from unittest import mock

import ddt
from oslotest import base

from cinder_k2.driver import config
from cinder_k2.driver.failover import arrays
from cinder_k2 import exceptions
from cinder_k2 import rest


def an_array(system, *, met=True):
    """An array; one that was not met says who it is when it is asked."""
    found = mock.Mock()
    found.array.system.id = system
    found.array.system.known_id = system if met else None
    found.array.address = f'{system}.example.org'
    return found


def row(system=None, **more):
    """A volume with ids of an array, or without any."""
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
    def test_the_primary_is_active_at_first(self, active):
        found = arrays.ArraySet(self.home, {'moon': self.moon}, active)
        self.assertIs(self.home, found.active)
        self.assertEqual(['moon'], found.targets)

    def test_another_becomes_active(self):
        self.found.activate('moon')
        self.assertIs(self.moon, self.found.active)
        self.assertEqual('moon', self.found.active_id)

    def test_an_unknown_one_changes_nothing(self):
        self.assertRaises(KeyError, self.found.activate, 'mars')
        self.assertIs(self.home, self.found.active)

    def test_others(self):
        self.assertEqual([self.moon], self.found.others([self.home]))

    @ddt.data('home', 'moon')
    def test_the_ids_of_a_row_say_where_it_is(self, system):
        self.assertEqual(system,
                         self.found.of(row(system)).array.system.id)

    def test_a_snapshot_without_ids_is_where_its_volume_is(self):
        self.assertIs(self.moon, self.found.of(row(volume=row('moon'))))

    @ddt.data((None, 'enabled', 'moon'), ('today', 'enabled', 'home'),
              ('today', 'failed-over', 'moon'))
    @ddt.unpack
    def test_a_volume_without_ids(self, launched_at, status, expected):
        """The in-tree driver makes all on the primary."""
        self.found.activate('moon')
        self.assertIs(
            {'home': self.home, 'moon': self.moon}[expected],
            self.found.of(row(launched_at=launched_at,
                              replication_status=status)))

    def test_a_volume_has_no_volume(self):
        volume = row()
        del volume.volume
        self.assertIs(self.home, self.found.of(volume))

    def test_one_array_has_all(self):
        """Nobody is asked who he is."""
        alone = arrays.ArraySet(self.home, {}, None)
        self.assertIs(self.home, alone.of(row('gone')))

    def test_ids_of_no_array_are_the_active_ones(self):
        self.assertIs(self.home, self.found.of(row('gone')))

    def test_a_lost_array_may_be_meant(self):
        lost = mock.PropertyMock(side_effect=rest.Unreachable('gone'))
        type(self.moon.array.system).id = lost
        self.assertIs(self.home, self.found.of(row('home')))
        self.assertRaises(rest.Unreachable, self.found.of, row('moon'))

    def test_a_clone_is_made_beside_its_source(self):
        self.assertIs(self.home, self.found.with_source(row('home')))
        error = self.assertRaises(exceptions.ArrayNotActive,
                                  self.found.with_source, row('moon'))
        self.assertIn('moon.example.org', str(error))
        self.assertIn('row is on the array at moon.example.org, while the '
                      'one at home.example.org serves; fail the back end '
                      'over to that array, or back, first.', str(error))

    def test_by_name(self):
        self.assertIs(self.moon, self.found.named('moon'))
        self.assertIs(self.home, self.found.named(config.PRIMARY_ID))
        self.assertRaises(KeyError, self.found.named, 'mars')

    def test_an_array_that_is_not_there_cannot_be_active(self):
        self.assertRaises(KeyError, arrays.ArraySet, self.home, {}, 'moon')

    def test_who_is_known_is_not_asked(self):
        asked = mock.PropertyMock(side_effect=AssertionError)
        for one in (self.home, self.moon):
            type(one.array.system).id = asked
        self.moon.array.system.known_id = 'moon'
        self.assertIs(self.moon, self.found.of(row('moon')))

    def test_the_active_one_is_asked_first(self):
        """And the others not, if it has the row."""
        self.found.activate('moon')
        self.home.array.system.known_id = None
        type(self.home.array.system).id = mock.PropertyMock(
            side_effect=AssertionError)
        self.assertIs(self.moon, self.found.of(row('moon')))

    def test_a_lost_array_is_not_the_one_that_is_meant(self):
        sun = an_array('sun', met=False)
        type(self.moon.array.system).id = mock.PropertyMock(
            side_effect=rest.Unreachable('gone'))
        found = arrays.ArraySet(
            self.home, {'moon': self.moon, 'sun': sun}, None)
        self.assertIs(sun, found.of(row('sun')))

    def test_the_first_error_counts(self):
        sun = an_array('sun', met=False)
        for one in (self.moon, sun):
            type(one.array.system).id = mock.PropertyMock(
                side_effect=rest.Unreachable(one.array.address))
        found = arrays.ArraySet(
            self.home, {'moon': self.moon, 'sun': sun}, None)
        error = self.assertRaises(rest.Unreachable, found.of, row('mars'))
        self.assertEqual('moon.example.org', error.message)
