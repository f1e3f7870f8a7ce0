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
import subprocess
import sys

from tests import arrays
from tests.functional import base

CLIENT = pathlib.Path(__file__).parent.parent / 'eventlet_client.py'


class EventletTest(base.FunctionalTest):

    def test_main_job_of_many_at_once_under_eventlet(self):
        """Cinder 29 runs on eventlet unless told otherwise."""
        self.array.control.clear_journal()
        self.array.control.set_latency(0.02)
        self.addCleanup(self.array.control.set_latency, 0)
        done = subprocess.run(
            [sys.executable, CLIENT, self.array.address,
             str(self.array.port), self.array.authority, arrays.LOGIN,
             arrays.PASSWORD],
            env={**os.environ, 'PYTHONWARNINGS': 'ignore'},
            capture_output=True, text=True, timeout=120)
        self.assertEqual(0, done.returncode, done.stderr[-2000:])
        self.assertTrue(self.array.is_clean())
        self.assertGreater(self.array.control.max_in_flight, 4)
