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

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

import ddt

from cinder_k2.rest import verdicts
from cinder_k2.rest.verdicts import Verdict

WORKS = Verdict(verdicts.WORKS, '', 100.0)
REFUSED = Verdict(verdicts.REFUSED, 'HTTP 400: no', 101.5)
# Holds the lock of a file until its standard input ends.
HOLD = '''
import fcntl, sys
with open(sys.argv[1], 'w') as lock:
    fcntl.flock(lock, fcntl.LOCK_SH)
    print('held', flush=True)
    sys.stdin.read()
'''


class Case(unittest.TestCase):

    def setUp(self):
        super().setUp()
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = pathlib.Path(directory.name) / 'cinder-k2'
        self.file = self.made()

    def made(self, address='10.0.0.1'):
        return verdicts.File(str(self.directory), address)

    def write(self, text):
        self.directory.mkdir(exist_ok=True)
        self.file.path.write_bytes(
            text if isinstance(text, bytes) else text.encode())


class MemoryTest(unittest.TestCase):

    def test_keeps_copies(self):
        memory = verdicts.Memory()
        self.assertEqual(('', {}), memory.load())
        known = {'paging': WORKS}
        memory.save('v1', known)
        known.clear()
        memory.load()[1].clear()
        self.assertEqual(('v1', {'paging': WORKS}), memory.load())


@ddt.ddt
class FileTest(Case):

    def test_save_and_load(self):
        self.assertEqual(('', {}), self.file.load())
        known = {'bulk:snapshots:create': REFUSED, 'paging': WORKS}
        self.file.save('sdp 7', known)
        self.assertEqual(('sdp 7', known), self.made().load())

    def test_permissions(self):
        self.file.save('', {})
        self.assertEqual(0o700, self.directory.stat().st_mode & 0o777)
        self.assertEqual(0o600, self.file.path.stat().st_mode & 0o777)

    @ddt.data('k2.example.org:8443', '[fd00::1]', '../../etc/passwd',
              'manager/a1b2')
    def test_a_file_for_each_address(self, address):
        other = self.made(address)
        self.assertEqual(self.directory, other.path.parent)
        other.save('', {'paging': WORKS})
        self.assertEqual({}, self.file.load()[1])

    def test_file_name(self):
        self.assertEqual(
            '_Fd00__1_-k2.Example_8443.json',
            self.made('[Fd00::1]-k2.Example/8443').path.name)

    def test_parent_directories_are_created(self):
        deep = verdicts.File(str(self.directory / 'a' / 'b'), '10.0.0.1')
        deep.save('v1', {'paging': WORKS})
        self.assertEqual(('v1', {'paging': WORKS}), deep.load())
        self.assertEqual({deep.path}, {
            path for path in deep.path.parent.iterdir()
            if not path.name.endswith('.lock')})

    def test_verdicts_of_other_services_are_kept(self):
        other = self.made()
        other.save('v1', {'paging': WORKS, 'sequence': WORKS})
        self.file.save('v1', {'fields:volumes': REFUSED})
        self.assertEqual(
            ('v1', {'paging': WORKS, 'sequence': WORKS,
                    'fields:volumes': REFUSED}), other.load())

    def test_later_verdict_wins(self):
        """Another service may have tried again since this one loaded it."""
        for before, after in (WORKS, REFUSED), (
                REFUSED, Verdict(verdicts.WORKS, '', 200.0)):
            self.made().save('v1', {'paging': after})
            self.file.save('v1', {'paging': before, 'sequence': WORKS})
            self.assertEqual({'paging': after, 'sequence': WORKS},
                             self.file.load()[1])

    def test_verdicts_on_another_version_are_dropped(self):
        self.file.save('v1', {'paging': REFUSED})
        self.file.save('v2', {'sequence': WORKS})
        self.assertEqual(('v2', {'sequence': WORKS}), self.file.load())

    @ddt.data('', '{', '[]', '5', 'null', '{"version": "v1"}',
              '{"version": "v1", "verdicts": []}',
              '{"version": "v1", "verdicts": {"a": 5}}',
              '{"version": "v1", "verdicts": {"a": {"state": "works"}}}',
              b'\xff\xfe\x00', '[' * 100000)
    def test_a_damaged_file_is_ignored_and_replaced(self, text):
        self.write(text)
        with self.assertLogs(verdicts.LOG, 'WARNING') as logs:
            self.assertEqual(('', {}), self.file.load())
        self.assertIn(str(self.file.path), logs.output[0])
        with self.assertLogs(verdicts.LOG, 'WARNING'):
            self.file.save('v1', {'paging': WORKS})
        self.assertEqual(('v1', {'paging': WORKS}), self.file.load())

    @ddt.data({'state': 'disabled'}, {'state': 'unknown'}, {'state': 'maybe'},
              {'time': 'soon'}, {'time': 'nan'}, {'time': 'inf'})
    def test_invalid_verdict(self, odd):
        self.write(json.dumps({'version': 'v1', 'verdicts': {'a': {
            'state': 'works', 'words': '', 'time': 1.0, **odd}}}))
        with self.assertLogs(verdicts.LOG, 'WARNING'):
            self.assertEqual(('', {}), self.file.load())

    def test_never_half_written(self):
        """Concurrent readers see the old file or the new one."""
        self.file.save('v1', {'paging': WORKS})
        seen = []
        replace = os.replace

        def replaced(source, target):
            seen.append(self.made().load())
            json.loads(pathlib.Path(source).read_text())
            replace(source, target)
        with mock.patch.object(verdicts.os, 'replace', replaced):
            self.file.save('v1', {'sequence': WORKS})
        self.assertEqual([('v1', {'paging': WORKS})], seen)

    def test_full_disk_leaves_only_the_old_file(self):
        self.file.save('v1', {'paging': WORKS})
        with mock.patch.object(verdicts.os, 'replace', autospec=True,
                               side_effect=OSError(28, 'full')):
            self.file.save('v1', {'sequence': WORKS})
        self.assertEqual(('v1', {'paging': WORKS}), self.file.load())
        self.assertEqual(['10.0.0.1.json', '10.0.0.1.lock'],
                         sorted(os.listdir(self.directory)))

    def test_directory_that_cannot_be_created(self):
        """Losing verdicts is harmless, so no error is raised."""
        self.directory.write_text('a file')
        self.file.save('v1', {'paging': WORKS})
        with self.assertLogs(verdicts.LOG, 'WARNING'):
            self.assertEqual(('', {}), self.file.load())

    def test_a_directory_that_cannot_be_written(self):
        self.file.save('v1', {'paging': WORKS})
        with mock.patch('builtins.open', autospec=True,
                        side_effect=PermissionError(13)):
            self.file.save('v1', {'sequence': WORKS})
        self.assertEqual(('v1', {'paging': WORKS}), self.file.load())

    def test_another_process_holds_the_lock(self):
        self.file.save('v1', {'paging': WORKS})
        with subprocess.Popen(
                [sys.executable, '-c', HOLD,
                 str(self.file.path.with_suffix('.lock'))],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
            self.assertEqual(b'held\n', holder.stdout.readline())
            self.file.save('v1', {'sequence': WORKS})
            self.assertEqual({'paging': WORKS}, self.file.load()[1])
            holder.stdin.close()
        # The next save writes what could not be saved.
        self.file.save('v1', {'sequence': WORKS, 'fields:volumes': WORKS})
        self.assertEqual({'paging', 'sequence', 'fields:volumes'},
                         set(self.file.load()[1]))
