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

"""Original names of managed volumes, which are restored at the end."""

import unittest

import requests

from cinder_k2 import array
from tests.unit.rest import scripted

LOST = requests.ConnectionError('Connection aborted')
NOTE = 'payroll [cinder original name: old]'
VOLUME = {'id': 5, 'name': 'cv-1', 'description': NOTE}
GROUP = {'id': 3, 'name': 'cvg-1', 'description': None}


class RestoreTest(unittest.TestCase):

    def restore(self, *script):
        client, self.array, _ = scripted.client(*script)
        array.Array(client, 'any').original_names.restore('cv-1', 'cvg-1')
        self.assertEqual([], self.array.script)

    def changes(self):
        """Return the calls and bodies of changes."""
        return [(call, self.array.body(number))
                for number, call in enumerate(self.array.calls)
                if call.startswith('PATCH')]

    def test_original_name(self):
        """The note goes, and a group without a note keeps its name."""
        self.restore(scripted.hits(VOLUME), scripted.Reply(200, {
            'id': 5, 'name': 'old', 'description': 'payroll'}),
            scripted.hits(GROUP))
        self.assertEqual([('PATCH /volumes/5', {
            'name': 'old', 'description': 'payroll'})], self.changes())

    def test_lost_reply_and_reused_id(self):
        """OBJ-7: it is not sent again to another volume with that id."""
        with self.assertLogs('cinder_k2.array.original_names') as logs:
            self.restore(scripted.hits(VOLUME), LOST,
                         scripted.hits({'id': 5, 'name': 'other'}),
                         scripted.hits(GROUP))
        self.assertEqual(1, len(self.changes()))
        self.assertIn('original name old', logs.output[0])
