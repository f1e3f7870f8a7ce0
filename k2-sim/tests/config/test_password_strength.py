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

import secrets

import ddt
import testtools

from k2_sim.config import password_strength

GUESSED = 'is one that everybody tries first'


@ddt.ddt
class TestFlaw(testtools.TestCase):

    @ddt.data(
        ('', 'has fewer than 8 characters'),
        ('k2', 'has fewer than 8 characters'),
        ('Xk7_q%b', 'has fewer than 8 characters'),
        ('aaaaaaaa', 'has fewer than 5 different characters'),
        ('12121212', 'has fewer than 5 different characters'),
        ('password', GUESSED), ('Password1!', GUESSED),
        ('P@ssw0rd', GUESSED), ('p@ssw0rd2026!', GUESSED),
        ('123password', GUESSED), ('changeme', GUESSED),
        ('kaminario', GUESSED), ('Kaminario_K2', GUESSED),
        ('adminadmin', GUESSED), ('admin12345', GUESSED),
        ('secretadmin', GUESSED), ('openstack1', GUESSED),
        ('12345678', GUESSED), ('87654321', GUESSED), ('abcdefgh', GUESSED),
        ('qwertyui', GUESSED), ('qwerty2026', GUESSED),
        ('1qaz2wsx', GUESSED), ('!@#$%^&*', GUESSED))
    @ddt.unpack
    def test_guessed(self, password, flaw):
        self.assertEqual(flaw, password_strength.flaw(password))

    @ddt.data('operate7', 'Grafana-1', 'gr4f4n4!', 'alicegrafana')
    def test_names_of_accounts(self, password):
        names = ('operate', 'grafana', 'alice')
        self.assertEqual(GUESSED, password_strength.flaw(password, names))
        self.assertEqual('', password_strength.flaw(password))

    @ddt.data('correct horse battery', 'Xk7_q%bf', '84920571', 'kaffeekanne',
              'adminofthearctic', '8492057b39', 'wg-4-berlin')
    def test_not_guessed(self, password):
        self.assertEqual('', password_strength.flaw(password, ('admin', '')))

    def test_what_is_generated(self):
        for _ in range(200):
            self.assertEqual('', password_strength.flaw(
                secrets.token_urlsafe(18), ('admin', 'control')))
