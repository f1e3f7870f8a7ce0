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

import os
import pathlib
import select
import socket
import subprocess
import sys
import tempfile
import unittest

from tools.cloud import children
from tools.cloud import errors

# Starts a Child that inherits our pipe and would live for a minute.
PARENT = """
import os, pathlib, sys, time
from tools.cloud import children
child = children.Child(
    'sleeper', [sys.executable, '-c', 'import time; time.sleep(60)'],
    pathlib.Path(sys.argv[1]), os.environ, pathlib.Path('/'))
print('started', flush=True)
time.sleep(60)
"""

# Starts a child process that writes to the pipe.
SPAWNER = """
import subprocess, sys, time
subprocess.Popen(
    [sys.executable, '-c',
     'import time; print("started", flush=True); time.sleep(60)'],
    stdout=open({fifo!r}, 'w'))
time.sleep(60)
"""
ROOT = pathlib.Path(__file__).resolve().parents[2]


def has_ended(pipe):
    """Return whether the last writer of the pipe ends soon."""
    readable, _, _ = select.select([pipe], [], [], 10)
    return bool(readable) and pipe.read() == ''


class PortTest(unittest.TestCase):

    def test_a_port_in_use_names_the_port_and_the_variable(self):
        with socket.create_server(('127.0.0.1', 0)) as server:
            port = server.getsockname()[1]
            with self.assertRaises(errors.CloudError) as raised:
                children.check_port(port, 'SIM_PORT')
        text = str(raised.exception)
        self.assertIn(f'port {port} of 127.0.0.1 is in use', text)
        self.assertIn('make cloud SIM_PORT=', text)
        self.assertEqual(1, len(text.splitlines()))

    def test_a_free_port_is_left_free(self):
        with socket.create_server(('127.0.0.1', 0)) as server:
            port = server.getsockname()[1]
        children.check_port(port, 'PORT')
        socket.create_server(('127.0.0.1', port)).close()


class ChildTest(unittest.TestCase):

    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = pathlib.Path(directory.name)
        self.log = self.directory / 'child.log'

    def start(self, code):
        child = children.Child('child', [sys.executable, '-c', code],
                               self.log, os.environ, self.directory)
        self.addCleanup(child.stop)
        return child

    def test_a_child_that_ends_while_it_starts_shows_its_log(self):
        child = self.start('print("no such luck"); raise SystemExit(3)')
        with self.assertRaises(errors.CloudError) as raised:
            child.wait_ready(lambda: False, 60)
        text = str(raised.exception)
        self.assertIn('status 3', text)
        self.assertIn('no such luck', text)
        self.assertIn(str(self.log), text)

    def test_the_reason_given_by_the_child_comes_first(self):
        child = self.start('print("FAILED the disk is full\\nmore");'
                           'raise SystemExit(1)')
        with self.assertRaisesRegex(errors.CloudError,
                                    '^child: the disk is full\n'):
            child.wait_ready(lambda: False, 60)

    def test_a_child_that_never_answers_has_a_deadline(self):
        child = self.start('import time; time.sleep(60)')
        with self.assertRaisesRegex(errors.CloudError, 'within 0 s'):
            child.wait_ready(lambda: False, 0)

    def test_stopping_a_child_stops_its_own_children(self):
        # A pipe ends when its last writer is gone.
        fifo = self.directory / 'fifo'
        os.mkfifo(fifo)
        child = self.start(SPAWNER.format(fifo=str(fifo)))
        with open(fifo) as pipe:
            self.assertEqual('started\n', pipe.readline())
            child.stop()
            self.assertTrue(has_ended(pipe))

    def test_kill_9_of_the_parent_leaves_nothing_running(self):
        os.mkfifo(self.directory / 'fifo')
        parent = subprocess.Popen(
            [sys.executable, '-c', PARENT, str(self.directory / 'fifo')],
            stdout=subprocess.PIPE,
            env={**os.environ, 'PYTHONPATH': str(ROOT)})
        self.addCleanup(parent.wait)
        self.addCleanup(parent.kill)
        self.addCleanup(parent.stdout.close)
        with open(self.directory / 'fifo') as pipe:
            self.assertEqual(b'started\n', parent.stdout.readline())
            parent.kill()
            self.assertTrue(has_ended(pipe))
