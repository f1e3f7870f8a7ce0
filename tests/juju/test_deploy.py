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

"""The charm on a real Juju controller, with machines and the cinder charm.

Unlike other tests, these need a controller of a cloud with machines, charms
from Charmhub, and an array or k2-sim that the machines can reach. If anything
is missing, they are skipped with the reason.
"""

import json
import os
import pathlib
import shutil
import unittest

from tools import pack_charm

# The array: K2_ADDRESS (with a port if not 443), K2_USER, K2_PASSWORD, and
# K2_CA, a file with its certificate authority.
NEEDED = ('K2_ADDRESS', 'K2_USER', 'K2_PASSWORD', 'K2_CA')
CHANNEL = os.environ.get('CINDER_CHANNEL', '2024.1/stable')
# Seconds for machines to come up and charms to install.
SLOW = 3600
SOON = 900
SECRET_FILE = '/etc/cinder/cinder.conf.d/cinder-k2.conf'


def missing():
    """Return why these tests cannot run here, or an empty string."""
    if not shutil.which('juju'):
        return 'needs a Juju controller: snap install juju, juju bootstrap'
    try:
        import jubilant  # noqa: F401  only looked for
    except ImportError:
        return 'needs jubilant: pip install -r tests/juju/requirements.txt'
    absent = [name for name in NEEDED if not os.environ.get(name)]
    if absent:
        return f'needs an array in the environment: {", ".join(absent)}'
    return pack_charm.missing()


class DeployTest(unittest.TestCase):
    """One cinder with the charm, deployed once for all tests."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        reason = missing()
        if reason:
            raise unittest.SkipTest(reason)
        import jubilant
        cls.juju = cls.enterClassContext(jubilant.temp_model())
        cls.deploy(pack_charm.pack(), pack_charm.build_wheel())

    @classmethod
    def deploy(cls, charm, wheel):
        juju = cls.juju
        cls.secret = juju.add_secret('k2', {
            'username': os.environ['K2_USER'],
            'password': os.environ['K2_PASSWORD']})
        juju.deploy('cinder', channel=CHANNEL, base='ubuntu@24.04',
                    config={'block-device': 'None'})
        juju.deploy(charm, 'cinder-k2', resources={'driver': str(wheel)},
                    config={
                        'san_ip': os.environ['K2_ADDRESS'],
                        'backend_name': 'k2', 'credentials': cls.secret,
                        'tls-ca': pathlib.Path(
                            os.environ['K2_CA']).read_text()})
        juju.integrate('cinder-k2:storage-backend', 'cinder:storage-backend')
        cls.wait('blocked', 'grant-secret', SLOW)
        juju.grant_secret('k2', 'cinder-k2')
        cls.wait('active', 'k2', SOON)

    @classmethod
    def wait(cls, word, part, seconds):
        """Wait until the charm's unit has a status."""
        def so(status):
            found = cls.unit(status)
            return found is not None and (
                found.workload_status.current == word
                and part in found.workload_status.message)

        cls.juju.wait(so, timeout=seconds)

    @staticmethod
    def unit(status):
        """Return the charm's unit; cinder's may not be up yet."""
        cinder = status.apps['cinder'].units.get('cinder/0')
        return cinder and cinder.subordinates.get('cinder-k2/0')

    def read(self, name):
        """Return the text of a file on the machine."""
        return self.juju.exec('cat', name, unit='cinder/0').stdout

    def published(self):
        """Return the relation data of the unit, as Juju stores it."""
        shown = json.loads(self.juju.cli(
            'show-unit', 'cinder/0', '--format', 'json'))
        return json.dumps(shown)

    def test_cinder_has_the_back_end(self):
        text = self.read('/etc/cinder/cinder.conf')
        self.assertIn('[k2]', text)
        self.assertRegex(text, r'(?m)^enabled_backends = .*\bk2\b')

    def test_the_password_is_in_one_file(self):
        listed = self.juju.exec('stat', '-c', '%a %U %G', SECRET_FILE,
                                unit='cinder/0').stdout
        self.assertEqual('640 root cinder', listed.strip())
        for text in (self.published(), self.read('/etc/cinder/cinder.conf')):
            self.assertNotIn(os.environ['K2_PASSWORD'], text)

    def test_a_new_revision_of_the_secret(self):
        """A wrong password is detected, and so is its correction."""
        account = {'username': os.environ['K2_USER']}
        before = self.read('/etc/cinder/cinder.conf')
        self.juju.update_secret('k2', {**account, 'password': 'wrong'})
        self.wait('blocked', '401', SOON)
        self.juju.update_secret('k2', {
            **account, 'password': os.environ['K2_PASSWORD']})
        self.wait('active', 'k2', SOON)
        self.assertNotEqual(before, self.read('/etc/cinder/cinder.conf'))

    def test_actions(self):
        for name in ('check-array', 'list-capacity', 'show-volume-types',
                     'discover-paths', 'failover-plan',
                     'collect-diagnostics'):
            task = self.juju.run('cinder-k2/0', name)
            self.assertTrue(task.success, name)
            self.assertNotIn(os.environ['K2_PASSWORD'], str(task.results))

    def test_an_invalid_option(self):
        """The back end is not changed."""
        before = self.read('/etc/cinder/cinder.conf')
        self.juju.config('cinder-k2', {'protocol': 'smoke signals'})
        self.wait('blocked', 'protocol', SOON)
        self.assertEqual(before, self.read('/etc/cinder/cinder.conf'))
        self.juju.config('cinder-k2', reset='protocol')
        self.wait('active', 'k2', SOON)
