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

import ddt

from cinder_k2.driver.db import attachments
from cinder_k2 import transport as transports
from tests.unit.driver import doubles

#: Keys that earlier versions stored in connectors.
MARKS = {'k2_attachment': 'A', 'k2_released': 'inf'}


class TransportDouble:
    """A transport for which a host has the initiators in its connector."""

    @staticmethod
    def initiators(connector):
        if 'initiators' not in connector:
            raise transports.NoInitiators('initiators')
        return connector['initiators']


class AttachmentsTestCase(doubles.TestCase):

    def setUp(self):
        super().setUp()
        self.rows = []
        objects = mock.Mock(spec_set=['VolumeAttachmentList'])
        self.read = objects.VolumeAttachmentList.get_all_by_volume_id
        self.read.side_effect = lambda context, id: tuple(self.rows)
        self.replace(attachments, 'objects', objects)
        self.volume = doubles.a_volume(_context='context', multiattach=False)
        self.found = attachments.Attachments(TransportDouble())

    def attach(self, id, *initiators, connector=True, **more):
        """Add an attachment of a host with these initiators.

        The row has no method that writes to the database.
        """
        self.rows.append(doubles.Row(id=id, connector={
            'initiators': list(initiators), **more} if connector else None))

    def using(self):
        """Return how many attachments use the volume on host iqn.1."""
        return self.found.using(self.volume, ['iqn.1'])


class AttachmentsTest(AttachmentsTestCase):

    def test_attachments_of_a_host(self):
        """One common initiator is enough; case is ignored (INI-4, INI-5)."""
        self.attach('a', 'IQN.1', 'iqn.2')
        self.attach('b', 'iqn.1')
        self.attach('c', 'iqn.3')
        self.assertEqual(2, self.found.at(self.volume, ['iqn.1']))
        self.assertEqual(1, self.found.at(self.volume, ['IQN.2']))
        self.read.assert_called_with('context', 'v1')

    def test_attachments_of_other_hosts(self):
        self.attach('a', 'IQN.1', 'iqn.2')
        self.attach('b', 'iqn.3')
        other, = self.found.elsewhere(self.volume, ['iqn.1'])
        self.assertIs(self.rows[1].connector, other)

    def test_reserved_attachments_belong_to_no_host(self):
        self.attach('a', connector=False)
        self.rows.append(doubles.Row(id='b', connector={'other': 1}))
        self.assertEqual([], self.found.elsewhere(self.volume, ['iqn.1']))
        self.assertEqual(0, self.found.at(self.volume, ['iqn.1']))
        self.assertEqual(2, self.found.coming(self.volume))

    def test_no_attachments(self):
        self.assertEqual(0, self.found.at(self.volume, ['iqn.1']))
        self.assertEqual(0, self.using())
        self.assertEqual(0, self.found.coming(self.volume))
        self.assertIs(False, self.found.may_use(self.volume, ['iqn.1']))


@ddt.ddt
class UnknownHostTest(AttachmentsTestCase):
    """Attachments whose row does not identify the host yet."""

    @ddt.data((True, 2), (False, 1))
    @ddt.unpack
    def test_reserved_attachments_count_for_multiattach_volumes(
            self, several, counted):
        self.volume.multiattach = several
        self.attach('a', 'iqn.1')
        self.attach('b', connector=False)
        self.attach('c', 'iqn.2')
        self.assertEqual(counted, self.using())

    @ddt.data(
        ([['iqn.1']], True), ([[]], True), ([['iqn.2']], False),
        ([['iqn.2'], []], True))
    @ddt.unpack
    def test_may_use(self, rows, expected):
        """Multiattach or not, reserved attachments may be of this host."""
        for names in rows:
            self.attach('a', *names, connector=bool(names))
        self.assertIs(expected,
                      self.found.may_use(self.volume, ['IQN.1']))


class FormerKeysTest(AttachmentsTestCase):
    """Keys of earlier versions in connectors are ignored."""

    def test_attachment_with_keys_of_earlier_versions(self):
        self.attach('a', 'iqn.1', **MARKS)
        self.attach('b', 'iqn.1', k2_released='1e99 a b')
        self.attach('c', 'iqn.2', k2_released='')
        self.assertEqual(2, self.found.at(self.volume, ['iqn.1']))
        self.assertEqual(2, self.using())
        other, = self.found.elsewhere(self.volume, ['iqn.1'])
        self.assertEqual(['iqn.2'], other['initiators'])
        self.assertIs(True, self.found.may_use(self.volume, ['iqn.1']))
