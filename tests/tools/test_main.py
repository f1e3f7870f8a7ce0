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
import subprocess
import unittest

from tools.cloud import __main__ as cloud
from tools.cloud import settings


class HintsTest(unittest.TestCase):

    def test_hints_are_quoted_for_the_shell(self):
        run = settings.Settings(
            root=pathlib.Path('/'), state=pathlib.Path("/it's mine/cloud"),
            cinder_port=1, sim_port=2)
        script = '\n'.join(cloud.hints(run))
        done = subprocess.run(['sh', '-n'], input=script, text=True,
                              capture_output=True)
        self.assertEqual((0, ''), (done.returncode, done.stderr))
        self.assertIn(':2/api/v2"$@"', script)
        self.assertIn(':2/sim/v1"$@"', script)
        self.assertNotIn('Settings(', script)
