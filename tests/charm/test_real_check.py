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

"""The charm with the real k2-admin check, on a simulated array."""

import json
import pathlib
import sys

import machine
from tests import arrays
from tests.charm import fakes

# k2-admin of this environment, even if it is not activated.
ADMIN = (sys.executable, '-W', 'ignore', '-c',
         'from cinder_k2.cmd import admin; admin.main()')


class Machine(fakes.FakeMachine):
    """A fake machine with the real k2-admin."""

    def run(self, *command, seconds, **variables):
        if command[0] != 'k2-admin':
            return super().run(*command, seconds=seconds, **variables)
        done = machine.Machine.run(self, *ADMIN, *command[1:],
                                   seconds=120, **variables)
        self.told = json.loads(done.output)['backends']
        return done


class RealCheckTest(fakes.UnitCase):

    def test_the_status_shows_the_problem_of_the_array(self):
        """The fake report has the same keys as the real one."""
        array = arrays.start('k2')
        self.addCleanup(array.stop)
        self.machine.__class__ = Machine
        good = self.new_secret(arrays.PASSWORD, arrays.LOGIN)
        bad = self.new_secret('hush$', arrays.LOGIN)
        self.config = {
            'san_ip': array.host, 'credentials': good.id,
            'tls-ca': pathlib.Path(array.authority).read_text(),
            'backends': f'k2-good:\nk2-bad: {{credentials: "{bad.id}"}}'}
        state = self.run_event(secrets=[good, bad])
        self.assertStatus(
            'blocked', r'^k2-bad: .* \[charm: credentials\]$', state)
        told = self.machine.told[0]
        self.assertEqual(([], [], 'iSCSI'), (
            told['problems'], told['warnings'], told['protocol']))
        self.assertSameKeys(fakes.backend(), told)

    def assertSameKeys(self, fake, real):
        self.assertEqual(set(fake), set(real))
        for name in ('array', 'user', 'capacity'):
            self.assertEqual(set(fake[name]), set(real[name]))
        self.assertEqual(set(fake['ports'][0]), set(real['ports'][0]))
