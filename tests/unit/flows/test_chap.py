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

from cinder_k2.array import chap as profiles
from cinder_k2.array import hosts as array_hosts
from cinder_k2 import exceptions
from cinder_k2.flows import chap
from cinder_k2.flows import hosts
from cinder_k2.flows import volumes
from cinder_k2 import naming
from tests.unit import simulated

IQN = 'iqn.1994-05.com.example:node1'
SOUGHT = array_hosts.Sought((IQN,), (naming.host('node1', [IQN]),))


class Secrets:
    """Passwords in memory; the first one that is kept counts."""

    def __init__(self):
        self.kept = {}
        self.generated = 0

    def find(self, initiator):
        return self.kept.get(initiator.lower())

    def keep(self, initiator, secret):
        return self.kept.setdefault(initiator.lower(), secret)

    def generate(self):
        self.generated += 1
        return f'Generated-{self.generated:04}'


class GuardTest(simulated.SimulatedTest):

    def setUp(self):
        super().setUp()
        self.backing = volumes.create(self.array, name='v', group_name='g',
                                      size=simulated.GIB, dedup=True)
        self.registry = self.array.iscsi_hosts
        self.secrets = Secrets()
        self.chap = chap.Chap(self.array, self.registry, self.secrets, True)
        self.guard = self.chap.guard([IQN])
        self.name = naming.chap_profile(IQN)
        self.sim.control.clear_journal()

    def attach(self):
        return hosts.attach(
            self.array, self.registry, self.backing,
            sought=SOUGHT, look_first=False, hold=mock.Mock(),
            guard=self.guard)

    def password(self):
        """The one on the array."""
        row, = self.sim.store.rows('host_auth_profiles')
        return row['password']

    def give(self, password, mapped=False):
        """Let another host have the profile, with a password of its own."""
        self.array.chap.ensure(profiles.Login(self.name, password))
        host = self.registry.create('another')
        self.array.chap.give(host, self.name)
        if mapped:
            self.array.access.grant(self.backing, host)
        return host

    def test_new_profile(self):
        login = self.guard.make()
        self.assertEqual(['POST host_auth_profiles'], self.calls())
        self.assertEqual(self.secrets.kept, {IQN: login.password})
        self.assertEqual(login.password, self.password())

    def test_no_secret_in_a_repr(self):
        login = self.guard.make()
        self.assertNotIn(login.password, repr(login))
        self.assertIn(self.name, repr(login))

    def test_order_of_the_writes(self):
        """Whoever finds the host by its initiator finds it with CHAP."""
        self.attach()
        host = self.registry.locate(SOUGHT).host
        self.assertEqual(
            ['POST host_auth_profiles', 'POST hosts', f'PATCH hosts/{host}',
             'POST host_iqns', 'POST mappings'],
            [c for c in self.calls() if not c.startswith('GET')])

    def test_a_profile_in_use_keeps_its_password(self):
        self.secrets.kept[IQN] = 'Kept-before-1'
        self.give('Kept-before-1', mapped=True)
        self.sim.control.clear_journal()
        self.assertEqual('Kept-before-1', self.guard.make().password)
        self.assertNotIn('PATCH', ' '.join(self.calls()))

    def test_a_profile_in_use_with_an_unknown_password(self):
        self.give('Nobody-knows-1', mapped=True)
        error = self.assertRaises(exceptions.ChapSecretLost,
                                  self.guard.make)
        self.assertIn(self.name, str(error))
        self.assertEqual({}, self.secrets.kept)
        self.assertEqual('Nobody-knows-1', self.password())

    def test_a_profile_left_behind_gets_the_password(self):
        self.array.chap.ensure(profiles.Login(self.name, 'Nobody-knows-1'))
        self.assertEqual(self.guard.make().password, self.password())
        self.assertEqual(self.secrets.kept, {IQN: self.password()})

    def test_another_service_kept_a_password_first(self):
        self.secrets.keep = lambda initiator, secret: 'Others-kept-1'
        self.assertEqual('Others-kept-1', self.guard.make().password)
        self.assertEqual('Others-kept-1', self.password())

    def test_a_known_login_is_not_looked_at_again(self):
        login = self.attach().login
        host = self.registry.locate(SOUGHT).host
        self.sim.control.clear_journal()
        self.assertEqual(login, self.guard.login(host))
        self.assertEqual([], self.calls())

    def test_a_profile_that_no_host_has(self):
        """A known password does not mean that the array asks for it."""
        self.guard.make()
        self.assertIsNone(self.guard.login(self.registry.create('another')))

    def test_a_lost_password_is_renewed_on_an_idle_host(self):
        host = self.give('Nobody-knows-1')
        login = self.guard.login(host)
        self.assertEqual(login.password, self.password())
        self.assertEqual(self.secrets.kept, {IQN: self.password()})

    def test_a_lost_password_of_a_mapped_host_stays(self):
        host = self.give('Nobody-knows-1', mapped=True)
        self.assertRaises(exceptions.ChapSecretLost, self.guard.login, host)
        self.assertEqual('Nobody-knows-1', self.password())

    def test_a_lost_password_of_a_member_of_a_group_stays(self):
        """Its volumes are mapped to the group."""
        host = self.give('Nobody-knows-1')
        group = self.client.host_groups.create(name='cluster')
        self.client.hosts.update(host, host_group=group.ref)
        self.assertRaises(exceptions.ChapSecretLost, self.guard.login, host)
        self.assertEqual('Nobody-knows-1', self.password())

    def test_off_without_a_password(self):
        """No call for hosts that never had CHAP."""
        off = chap.Chap(self.array, self.registry, self.secrets, False)
        self.assertIsNone(off.guard([IQN]).login(1))
        self.assertFalse(off.guard([IQN]).may_give(1))
        off.forget([IQN])
        self.assertEqual([], self.calls())

    def test_forgetting(self):
        self.guard.make()
        self.chap.forget([IQN.upper()])
        self.assertNotIn('host_auth_profiles', self.leftovers())
        self.assertEqual([IQN], list(self.secrets.kept))

    def test_a_profile_in_use_is_not_forgotten(self):
        """Whether the array would refuse that or not (CHP-4)."""
        self.give('Kept-before-1')
        self.sim.control.clear_journal()
        self.chap.forget([IQN])
        self.assertEqual(['GET host_auth_profiles'], self.calls())
