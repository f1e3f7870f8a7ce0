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

import pathlib
import tempfile
import types
import unittest
from unittest import mock

from cinderclient import exceptions as cinder_exceptions

from tools.cloud import client
from tools.cloud import errors


class FakeTime:
    """A clock that only sleep() advances."""

    def __init__(self):
        self.now = 0.0

    def monotonic(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds


class Resource:
    """A volume or snapshot whose status changes with every request."""

    id = 'id-1'
    name = 'data'

    def __init__(self, *statuses):
        self.manager = self
        self._statuses = list(statuses)

    def get(self, resource_id):
        status = self._statuses[0]
        if len(self._statuses) > 1:
            self._statuses.pop(0)
        if status == 'gone':
            raise cinder_exceptions.NotFound(404)
        return types.SimpleNamespace(id=self.id, status=status)


class WatcherTest(unittest.TestCase):

    def setUp(self):
        clock = mock.patch.object(client, 'time', FakeTime())
        clock.start()
        self.addCleanup(clock.stop)
        log = tempfile.NamedTemporaryFile('w', suffix='.log')
        self.addCleanup(log.close)
        log.write('about id-1: refused\nabout id-2: fine\n'
                  'now ERROR everything\n')
        log.flush()
        messages = [types.SimpleNamespace(user_message='No space left.')]
        cinder = mock.Mock()
        cinder.messages.list.side_effect = lambda search_opts: (
            messages if search_opts == {'resource_uuid': 'id-1'} else [])
        self.watcher = client.Watcher(cinder, pathlib.Path(log.name))

    def test_a_status_is_waited_for(self):
        found = self.watcher.until(
            Resource('creating', 'creating', 'available'), 'available')
        self.assertEqual('available', found.status)

    def test_an_error_is_explained_by_cinder_and_its_log(self):
        for status in ('error', 'error_extending'):
            with self.assertRaises(errors.CloudError) as raised:
                self.watcher.until(Resource('creating', status), 'available')
            text = str(raised.exception)
            self.assertIn(f'data is in status {status}', text)
            self.assertIn('No space left.', text)
            self.assertIn('about id-1: refused', text)
            self.assertIn('ERROR everything', text)
            self.assertNotIn('id-2', text)

    def test_waiting_ends(self):
        with self.assertRaisesRegex(errors.CloudError, 'within 60 s'):
            self.watcher.until(Resource('creating'), 'available')
        with self.assertRaisesRegex(errors.CloudError, 'within 60 s'):
            self.watcher.until_gone(Resource('deleting'))

    def test_waiting_for_deletion(self):
        self.watcher.until_gone(Resource('deleting', 'gone'))

    def test_a_refused_deletion_is_an_error(self):
        with self.assertRaisesRegex(errors.CloudError,
                                    'not deleted; its status is available'):
            self.watcher.until_gone(Resource('deleting', 'available'))
