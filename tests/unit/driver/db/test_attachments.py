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

import ddt

from cinder_k2.driver.db import attachments
from cinder_k2 import transport as transports
from cinder_k2 import waiting
from tests.unit.driver import doubles

NOW = 1000.0
#: Names of what the driver puts into connectors.
TAG, RELEASED = 'k2_attachment', 'k2_released'


class TransportDouble:
    """Hosts have the initiators that their connectors name."""

    @staticmethod
    def initiators(connector):
        if 'initiators' not in connector:
            raise transports.NoInitiators('initiators')
        return connector['initiators']


class AttachmentsTestCase(doubles.TestCase):

    def setUp(self):
        super().setUp()
        self.rows = []
        objects = mock.Mock()
        self.read = objects.VolumeAttachmentList.get_all_by_volume_id
        self.read.side_effect = lambda context, id: tuple(self.rows)
        self.replace(attachments, 'objects', objects)
        self.replace(attachments, 'time', doubles.Row(time=lambda: NOW))
        self.wait = self.function(waiting, 'wait_until')
        self.volume = doubles.a_volume(_context='context', multiattach=False)
        self.found = attachments.Attachments(TransportDouble())

    def attach(self, id, *initiators, connector=True, **more):
        """Let there be an attachment, of a host with initiators."""
        row = doubles.Row(id=id, connector={
            'initiators': list(initiators), **more} if connector else None)
        row.save = lambda: self.log.save(row.id)
        self.rows.append(row)
        return row

    def marks(self):
        """Marks of rows, by id."""
        return {row.id: row.connector[RELEASED] for row in self.rows
                if RELEASED in (row.connector or {})}


@ddt.ddt
class WhoTest(AttachmentsTestCase):

    def test_attachments_of_a_host(self):
        """Initiators have no case (INI-4, INI-5); one is enough."""
        self.attach('a', 'IQN.1', 'iqn.2')
        self.attach('b', 'iqn.1')
        self.attach('c', 'iqn.3')
        self.assertEqual(2, self.found.at(self.volume, ['iqn.1']))
        self.assertEqual(1, self.found.at(self.volume, ['IQN.2']))
        self.read.assert_called_with('context', 'v1')

    def test_attachments_of_other_hosts(self):
        self.attach('a', 'IQN.1', 'iqn.2')
        self.attach('b', 'iqn.3')
        self.assertEqual([['iqn.3']], self.found.elsewhere(
            self.volume, ['iqn.1']))

    def test_reservations_do_not_count(self):
        self.attach('a', connector=False)
        self.rows.append(doubles.Row(id='b', connector={'other': 1}))
        self.assertEqual([], self.found.elsewhere(self.volume, ['iqn.1']))

    @ddt.data(
        ('1000.1 a', 0), ('inf', 0), ('1000.0 a', 1), ('999 a', 1),
        ('1000.1 a gone', 1), ('1000.1 a b', 0))
    @ddt.unpack
    def test_what_was_released_does_not_count(self, mark, counted):
        """Unless that was long ago, or another may have been meant."""
        self.attach('a', 'iqn.1', **{RELEASED: mark})
        self.attach('b', 'iqn.2')
        self.assertEqual(counted, self.found.at(self.volume, ['iqn.1']))

    def test_tags_differ(self):
        one, two = {}, {}
        attachments.add_tag(one)
        attachments.add_tag(two)
        self.assertNotEqual(one[TAG], two[TAG])


@ddt.ddt
class ReleaseTest(AttachmentsTestCase):

    def release(self, **connector):
        return self.found.release(self.volume, ['iqn.1'], connector)

    def test_the_last_one(self):
        self.attach('a', 'iqn.1', **{TAG: 'A'})
        self.attach('b', 'iqn.2', **{TAG: 'B'})
        self.assertIs(False, self.release(**{TAG: 'A'}))
        self.assertEqual({}, self.marks())
        self.assertEqual([], self.calls('wait_until'))

    def test_another_one_stays(self):
        self.attach('a', 'iqn.1', **{TAG: 'A'})
        self.attach('b', 'iqn.1', **{TAG: 'B'})
        self.assertIs(True, self.release(**{TAG: 'B'}))
        self.assertEqual({'b': 'inf'}, self.marks())
        self.assertEqual([call.save('b')], self.calls('save'))
        self.assertEqual('B', self.rows[1].connector[TAG])

    def test_the_mark_lasts(self):
        """Until Cinder removes the row."""
        self.attach('a', 'iqn.1', **{TAG: 'A'})
        self.attach('b', 'iqn.1', **{TAG: 'B'})
        self.release(**{TAG: 'A'})
        self.assertIs(False, self.release(**{TAG: 'B'}))

    def test_one_without_a_tag(self):
        """Nobody knows which; those with tags are others."""
        self.attach('a', 'iqn.1', **{TAG: 'A'})
        self.attach('b', 'iqn.1')
        self.attach('c', 'iqn.1')
        self.assertIs(True, self.release())
        self.assertEqual({'b': '1120.0 b c'}, self.marks())
        self.assertEqual([call.save('b')], self.calls('save'))

    def test_none_has_a_tag(self):
        self.attach('a', 'iqn.1')
        self.attach('b', 'iqn.1')
        self.assertIs(True, self.release())
        self.assertEqual({'a': '1120.0 a b'}, self.marks())

    def test_the_one_that_leaves_is_gone_already(self):
        self.attach('a', 'iqn.1', **{TAG: 'A'})
        self.assertIs(True, self.release(**{TAG: 'B'}))
        self.assertEqual({}, self.marks())

    def test_only_one_without_a_tag(self):
        self.attach('a', 'iqn.1')
        self.assertIs(False, self.release())
        self.assertEqual({}, self.marks())

    def test_all_have_tags_but_the_one_that_leaves(self):
        self.attach('a', 'iqn.1', **{TAG: 'A'})
        self.attach('b', 'iqn.1', **{TAG: 'B'})
        self.assertIs(True, self.release())
        self.assertEqual({'a': '1120.0 a b'}, self.marks())

    def test_nobody_is_there(self):
        self.assertIs(False, self.release(**{TAG: 'A'}))

    def test_one_that_cinder_is_about_to_note(self):
        """Of volumes that several may attach, and no others."""
        self.volume.multiattach = True
        self.attach('a', 'iqn.1', **{TAG: 'A'})
        late = self.attach('b', connector=False)

        def wait(predicate, timeout, *, interval, what):
            self.assertEqual((5.0, 0.1), (timeout, interval))
            self.assertFalse(predicate())
            late.connector = {'initiators': ['iqn.1'], TAG: 'B'}
            self.assertTrue(predicate())

        self.wait.side_effect = wait
        self.assertIs(True, self.release(**{TAG: 'A'}))
        self.assertEqual({'a': 'inf'}, self.marks())

    def test_a_reservation_that_nobody_connects(self):
        self.volume.multiattach = True
        self.attach('a', 'iqn.1', **{TAG: 'A'})
        self.wait.side_effect = waiting.WaitTimeout('connectors', 5.0)
        self.assertIs(False, self.release(**{TAG: 'A'}))

    def test_no_waiting_where_another_is_known(self):
        self.volume.multiattach = True
        self.attach('a', 'iqn.1', **{TAG: 'A'})
        self.attach('b', 'iqn.1', **{TAG: 'B'})
        self.release(**{TAG: 'A'})
        self.assertEqual([], self.calls('wait_until'))

    def test_a_mark_for_other_hosts(self):
        self.attach('a', 'iqn.2')
        self.attach('b', 'iqn.1')
        self.found.mark(self.volume, ['iqn.1'])
        self.assertEqual({'b': '1120.0 b'}, self.marks())

    def test_nothing_to_mark(self):
        self.attach('a', 'iqn.2')
        self.found.mark(self.volume, ['iqn.1'])
        self.assertEqual({}, self.marks())
