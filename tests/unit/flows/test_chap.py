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
from cinder_k2.array import host_identity
from cinder_k2.array import hosts as array_hosts
from cinder_k2 import exceptions
from cinder_k2.flows import chap
from cinder_k2.flows import hosts
from cinder_k2.flows import volumes
from cinder_k2 import naming
from cinder_k2 import rest
from tests.unit.driver import doubles
from tests.unit import simulated

IQN = 'iqn.1994-05.com.example:node1'
SOUGHT = host_identity.Sought((IQN,), (naming.host('node1', [IQN]),))


class Secrets:
    """Passwords in memory; the first one kept for an initiator wins."""

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
            verify_volume=mock.Mock(),
            guard=self.guard)

    def password(self):
        """The password on the array."""
        row, = self.sim.store.rows('host_auth_profiles')
        return row['password']

    def give(self, password, mapped=False):
        """Let another host have the profile, with a password of its own."""
        self.array.chap.ensure(profiles.Login(self.name, password))
        host = self.registry.create('another')
        self.array.chap.give(host, self.name)
        if mapped:
            self.array.mappings.map(self.backing, host)
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
        """CHAP is set before the host can be found by its initiator."""
        self.attach()
        host = self.registry.locate(SOUGHT).host
        self.assertEqual(
            ['POST host_auth_profiles', 'POST hosts', f'PATCH hosts/{host}',
             'POST host_iqns', 'POST mappings'],
            [c for c in self.calls() if not c.startswith('GET')])

    def test_login_of_a_known_host(self):
        """It is that of the first attachment, and nothing is written."""
        first = self.attach().login
        self.assertEqual((self.name, self.password()),
                         (first.name, first.password))
        self.sim.control.clear_journal()
        self.assertEqual(first, self.attach().login)
        self.assertEqual({'GET host_iqns', 'POST mappings', 'GET mappings'},
                         set(self.calls()))

    def test_known_host_gets_a_profile(self):
        """The host is claimed first, since others may log in without CHAP."""
        host = self.client.hosts.create(name='admins', type='Linux')
        self.client.host_iqns.create(iqn=IQN, host=host.ref)
        hold = mock.Mock(spec_set=['claim', 'share', 'is_alone'])
        login = hosts.attach(
            self.array, self.registry, self.backing, sought=SOUGHT,
            look_first=False, hold=hold, verify_volume=mock.Mock(),
            guard=self.guard).login
        self.assertEqual(self.password(), login.password)
        self.assertEqual([mock.call.claim(), mock.call.share()],
                         hold.mock_calls)

    def test_known_host_that_is_shared(self):
        """Nothing is written until this operation has the host alone."""
        host = self.client.hosts.create(name='admins', type='Linux')
        self.client.host_iqns.create(iqn=IQN, host=host.ref)
        hold = mock.Mock(spec_set=['claim', 'share'])
        hold.claim.side_effect = hosts.MustBeAlone
        self.sim.control.clear_journal()
        self.assertRaises(
            hosts.MustBeAlone, hosts.attach, self.array, self.registry,
            self.backing, sought=SOUGHT, look_first=False, hold=hold,
            verify_volume=mock.Mock(), guard=self.guard)
        self.assertEqual({'GET'}, {call[:3] for call in self.calls()})

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

    def test_leftover_profile_gets_the_password(self):
        self.array.chap.ensure(profiles.Login(self.name, 'Nobody-knows-1'))
        self.assertEqual(self.guard.make().password, self.password())
        self.assertEqual(self.secrets.kept, {IQN: self.password()})

    def test_another_service_kept_a_password_first(self):
        self.secrets.keep = lambda initiator, secret: 'Others-kept-1'
        self.assertEqual('Others-kept-1', self.guard.make().password)
        self.assertEqual('Others-kept-1', self.password())

    def test_known_login_needs_no_call(self):
        login = self.attach().login
        host = self.registry.locate(SOUGHT).host
        self.sim.control.clear_journal()
        self.assertEqual(login, self.guard.login(host, self.fail))
        self.assertEqual([], self.calls())

    def test_profile_without_a_host(self):
        """A known password does not mean that the host has the profile."""
        self.guard.make()
        self.assertIsNone(self.guard.login(self.registry.create('another'),
                                           self.fail))

    def test_a_lost_password_is_renewed_on_an_idle_host(self):
        host = self.give('Nobody-knows-1')
        claim = mock.Mock(spec_set=[])
        login = self.guard.login(host, claim)
        claim.assert_called_once_with()
        self.assertEqual(login.password, self.password())
        self.assertEqual(self.secrets.kept, {IQN: self.password()})

    def test_a_lost_password_of_a_mapped_host_stays(self):
        host = self.give('Nobody-knows-1', mapped=True)
        self.assertRaises(exceptions.ChapSecretLost, self.guard.login, host,
                          mock.Mock(spec_set=[]))
        self.assertEqual('Nobody-knows-1', self.password())

    def test_lost_password_of_a_host_group_member_stays(self):
        """Its volumes are mapped to the group."""
        host = self.give('Nobody-knows-1')
        group = self.client.host_groups.create(name='cluster')
        self.client.hosts.update(host, host_group=group.ref)
        self.assertRaises(exceptions.ChapSecretLost, self.guard.login, host,
                          mock.Mock(spec_set=[]))
        self.assertEqual('Nobody-knows-1', self.password())

    def test_disabled_without_a_password(self):
        """No call for hosts that never had CHAP."""
        off = chap.Chap(self.array, self.registry, self.secrets, False)
        self.assertIsNone(off.guard([IQN]).login(1, self.fail))
        self.assertFalse(off.guard([IQN]).may_give(1))
        off.forget([IQN])
        self.assertEqual([], self.calls())

    def test_forget(self):
        self.guard.make()
        self.chap.forget([IQN.upper()])
        self.assertNotIn('host_auth_profiles', self.leftovers())
        self.assertEqual([IQN], list(self.secrets.kept))

    def test_forget_initiators_that_are_not_shown(self):
        """The caller passes the initiator that the host connected with."""
        made = self.guard.make()
        self.assertIn('host_auth_profiles', self.leftovers())
        host = self.registry.create(naming.host('h', [IQN]))
        hosts.remove(
            self.array, self.registry, self.registry.ours(host), {},
            self.chap, connected=[IQN.upper()])
        self.assertNotIn('host_auth_profiles', self.leftovers(), made)

    def test_profile_in_use_is_not_deleted(self):
        """Even if the array would allow it (CHP-4)."""
        self.give('Kept-before-1')
        self.sim.control.clear_journal()
        self.chap.forget([IQN])
        self.assertEqual(['GET host_auth_profiles'], self.calls())


class RecordedGuardTest(doubles.TestCase):
    """The calls for one host, 5, whose profile is 8."""

    IDLE = rest.HostAuthProfile(8, naming.chap_profile(IQN), 0, 0)
    IN_USE = rest.HostAuthProfile(8, naming.chap_profile(IQN), 1, 0)
    LOST = (f'Initiator {IQN} logs in to the array at 198.51.100.7 by CHAP '
            f'profile {naming.chap_profile(IQN)}, but Cinder\'s database has '
            'no password for it. It gets a new one when no volume is mapped '
            'to its host: detach them all, then try again.')

    def setUp(self):
        super().setUp()
        self.array.chap = self.double('profiles', profiles.Profiles)
        self.registry = self.double('registry', array_hosts.Hosts)
        self.secrets = self.double('secrets', chap.Secrets)
        self.secrets.keep.side_effect = lambda initiator, secret: secret
        self.secrets.generate.return_value = 'Generated-0001'
        self.array.mappings.is_mapped.return_value = False
        self.registry.initiators.return_value = {IQN: 1}
        self.array.chap.of_others.return_value = []
        self.array.chap.was_given.return_value = False
        self.name = naming.chap_profile(IQN)
        self.claim = mock.Mock(spec_set=[])

    def guard(self, required=True, initiator=IQN):
        return chap.Chap(self.array, self.registry, self.secrets,
                         required).guard([initiator])

    def may_not(self, *words, initiator=IQN):
        with self.assertLogs('cinder_k2.flows.chap', 'WARNING') as told:
            self.assertIs(False, self.guard(initiator=initiator).may_give(5))
        record, = told.records
        self.assertEqual(f'Host with initiator {initiator} logs in without '
                         f'CHAP: {"".join(words)}.', record.getMessage())

    def test_may_give(self):
        self.assertIs(True, self.guard().may_give(5))
        self.assertEqual(
            [mock.call.array.mappings.is_mapped(5),
             mock.call.array.mappings.group_of(5),
             mock.call.registry.initiators(5),
             mock.call.profiles.of_others()], self.calls())

    def test_may_give_in_any_case(self):
        """INI-5."""
        self.registry.initiators.return_value = {IQN.upper(): 1}
        self.assertIs(True, self.guard(
            initiator=IQN.capitalize()).may_give(5))

    def test_need_not_give(self):
        self.assertIs(False, self.guard(required=False).may_give(5))
        self.assertEqual([], self.calls())

    def test_may_not_give_with_volumes(self):
        self.array.mappings.is_mapped.return_value = True
        self.may_not('it has volumes, so it cannot be given a CHAP profile '
                     'now')

    def test_may_not_give_in_a_host_group(self):
        self.array.mappings.group_of.return_value = rest.Ref('host_groups', 1)
        self.may_not('it is a member of a host group')

    def test_may_not_give_with_other_initiators(self):
        self.registry.initiators.return_value = {IQN: 1, 'iqn.other': 2}
        self.may_not('its record on the array has other initiators, too')

    def test_may_not_give_with_profiles_of_others(self):
        self.array.chap.of_others.return_value = ['one', 'two']
        self.may_not('it may have a foreign CHAP profile: one, two')

    def test_login_is_remembered(self):
        self.secrets.find.return_value = 'Kept-before-1'
        self.array.chap.find.return_value = self.IN_USE
        self.assertEqual(profiles.Login(self.name, 'Kept-before-1'),
                         self.guard().login(5, self.claim))
        self.assertEqual(
            [mock.call.secrets.find(IQN),
             mock.call.profiles.was_given(5, self.name),
             mock.call.profiles.find(self.name),
             mock.call.profiles.note_given(5, self.name)], self.calls())

    def test_login_with_a_new_password(self):
        self.array.chap.find.return_value = self.IN_USE
        self.assertEqual(profiles.Login(self.name, 'Generated-0001'),
                         self.guard().login(5, self.claim))
        self.assertEqual(
            [mock.call.secrets.find(IQN),
             mock.call.profiles.find(self.name),
             mock.call.array.mappings.is_mapped(5),
             mock.call.array.mappings.group_of(5),
             mock.call.secrets.generate(),
             mock.call.profiles.set_password(self.IN_USE, 'Generated-0001'),
             mock.call.secrets.keep(IQN, 'Generated-0001'),
             mock.call.profiles.note_given(5, self.name)], self.calls())

    def test_password_of_a_host_that_others_use(self):
        """It is not changed while another service may log in with it."""
        self.array.chap.find.return_value = self.IN_USE
        self.claim.side_effect = hosts.MustBeAlone
        self.assertRaises(hosts.MustBeAlone, self.guard().login, 5,
                          self.claim)
        self.assertEqual([], self.calls('profiles.set_password'))

    def test_login_when_another_service_kept_a_password_first(self):
        self.secrets.keep.side_effect = lambda initiator, secret: 'Theirs-1'
        self.array.chap.find.return_value = self.IN_USE
        self.assertEqual(profiles.Login(self.name, 'Theirs-1'),
                         self.guard().login(5, self.claim))
        self.assertEqual(
            [mock.call.profiles.set_password(self.IN_USE, 'Generated-0001'),
             mock.call.profiles.set_password(self.IN_USE, 'Theirs-1')],
            self.calls('profiles.set_password'))

    def test_login_with_lost_password(self):
        self.array.mappings.is_mapped.return_value = True
        self.array.chap.find.return_value = self.IN_USE
        error = self.raised(exceptions.ChapSecretLost,
                            self.guard().login, 5, self.claim)
        self.assertEqual(self.LOST, str(error))
        self.assertEqual([], self.calls('secrets.keep'))

    def test_make(self):
        self.array.chap.ensure.return_value = self.IDLE, True
        login = profiles.Login(self.name, 'Generated-0001')
        self.assertEqual(login, self.guard().make())
        self.assertEqual(
            [mock.call.secrets.find(IQN), mock.call.secrets.generate(),
             mock.call.profiles.ensure(login),
             mock.call.secrets.keep(IQN, 'Generated-0001')], self.calls())

    def test_discard(self):
        """By id only if it was created for this host."""
        self.array.chap.ensure.return_value = self.IDLE, True
        guard = self.guard()
        guard.discard()
        guard.make()
        guard.discard()
        self.array.chap.ensure.return_value = self.IDLE, False
        guard.make()
        guard.discard()
        self.assertEqual(
            [mock.call.profiles.discard(self.name, made)
             for made in (None, self.IDLE.id, None)],
            self.calls('profiles.discard'))

    def test_make_takes_over_a_profile(self):
        self.secrets.find.return_value = 'Kept-before-1'
        self.array.chap.ensure.return_value = self.IDLE, False
        login = profiles.Login(self.name, 'Kept-before-1')
        self.assertEqual(login, self.guard().make())
        self.assertEqual(
            [mock.call.secrets.find(IQN), mock.call.profiles.ensure(login),
             mock.call.secrets.keep(IQN, 'Kept-before-1'),
             mock.call.profiles.set_password(self.IDLE, 'Kept-before-1')],
            self.calls())

    def test_forget_several(self):
        owner = chap.Chap(self.array, self.registry, self.secrets, False)
        self.secrets.find.side_effect = ['Kept-before-1', None, 'Kept-2']
        self.array.chap.discard.side_effect = [rest.Unreachable('no'), None]
        with self.assertLogs('cinder_k2.flows.chap', 'WARNING') as told:
            owner.forget(['iqn.1', 'iqn.2', 'iqn.3'])
        self.assertIn(naming.chap_profile('iqn.1'),
                      told.records[0].getMessage())
        self.assertEqual(
            [mock.call.profiles.discard(naming.chap_profile('iqn.1')),
             mock.call.profiles.discard(naming.chap_profile('iqn.3'))],
            self.calls('profiles'))

    def test_registry(self):
        owner = chap.Chap(self.array, self.registry, self.secrets, True)
        self.assertIs(self.registry, owner.registry)
