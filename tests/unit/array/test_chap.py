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


"""REST calls for CHAP profiles."""

from unittest import mock

from cinder_k2.array import chap
from cinder_k2 import naming
from cinder_k2 import rest
from tests.unit.array import recorded

LOGIN = chap.Login('me', 'Password-0001')
IDLE = rest.HostAuthProfile(8, 'me', 0, 0)
IN_USE = rest.HostAuthProfile(8, 'me', 1, 0)
FIND = mock.call.host_auth_profiles.find(name='me')
CREATE = mock.call.host_auth_profiles.create(
    name='me', type='CHAP', username='me', password='Password-0001')


class ProfilesTest(recorded.RecordedTest):

    def setUp(self):
        super().setUp()
        self.records = self.client.host_auth_profiles
        self.chap = chap.Profiles(self.client)

    def verify(self):
        self.log.verify()

    def test_find(self):
        self.records.find.return_value = IDLE
        self.assertIs(IDLE, self.chap.find('me'))
        self.assertEqual([FIND], self.calls())

    def test_find_without_a_search(self):
        """QRY-2: all profiles are listed instead."""
        self.records.find.side_effect = rest.NotOffered('no')
        self.records.search.return_value = [
            rest.HostAuthProfile(7, 'other'), IDLE]
        self.assertIs(IDLE, self.chap.find('me'))
        self.assertEqual([FIND, mock.call.host_auth_profiles.search()],
                         self.calls())
        self.records.search.return_value = [rest.HostAuthProfile(7, 'other')]
        self.assertIsNone(self.chap.find('me'))

    def test_ensure(self):
        self.records.create.return_value = IDLE
        self.assertEqual((IDLE, True), self.chap.ensure(LOGIN))
        self.assertEqual(
            [CREATE, mock.call.host_auth_profiles.prove(name='me')],
            self.calls())

    def test_ensure_existing_profile(self):
        self.records.create.side_effect = rest.Refused('name')
        self.records.find.return_value = IN_USE
        self.assertEqual((IN_USE, False), self.chap.ensure(LOGIN))
        self.assertEqual([CREATE, FIND], self.calls())

    def test_ensure_refused(self):
        refusal = rest.Refused('password')
        self.records.create.side_effect = refusal
        self.assertIs(refusal, self.raised(
            rest.Refused, self.chap.ensure, LOGIN))

    def test_ensure_not_offered(self):
        """Even if a search would find the profile."""
        self.records.create.side_effect = rest.NotOffered('no')
        self.records.find.return_value = IDLE
        self.raised(rest.NotOffered, self.chap.ensure, LOGIN)
        self.assertEqual([CREATE], self.calls())

    def test_set_password(self):
        self.chap.set_password(IDLE, 'Password-0002')
        self.assertEqual([mock.call.host_auth_profiles.update(
            8, names=['me'], new_password='Password-0002')], self.calls())

    def test_discard(self):
        self.records.find.return_value = IDLE
        self.chap.discard('me')
        self.assertEqual(
            [FIND, mock.call.host_auth_profiles.delete(8, name='me')],
            self.calls())

    def test_discard_new_profile(self):
        """Even if the array does not show profiles."""
        self.records.find.side_effect = rest.NotOffered('no')
        self.chap.discard('me', made=8)
        self.assertEqual([mock.call.host_auth_profiles.delete(8, name='me')],
                         self.calls())
        self.records.search.side_effect = rest.NotOffered('no')
        self.assertRaises(rest.NotOffered, self.chap.discard, 'me')

    def test_discard_profile_of_an_earlier_operation(self):
        """Its id may have been reused (OBJ-7), so it is looked up."""
        self.records.create.return_value = IDLE
        self.records.find.return_value = rest.HostAuthProfile(9, 'me', 0, 0)
        self.chap.ensure(LOGIN)
        self.chap.discard('me')
        self.assertEqual(
            [FIND, mock.call.host_auth_profiles.delete(9, name='me')],
            self.calls()[-2:])

    def test_discard_missing_or_used_profile(self):
        self.chap.discard('me')
        self.records.find.return_value = IN_USE
        self.chap.discard('me')
        self.assertEqual([FIND, FIND], self.calls())

    def shown(self):
        """Give a profile; return whether the array shows that."""
        self.chap.give(5, 'me', verify=self.verify)
        call, = self.client.hosts.update.call_args_list
        self.client.hosts.update.call_args_list.clear()
        shows = call.kwargs['shows']
        self.assertEqual(mock.call(5, map_auth_profiles_names='me',
                                   shows=shows, verify=self.verify), call)
        return shows(None)

    def test_give(self):
        self.records.find.return_value = IN_USE
        self.assertIs(True, self.shown())
        self.assertEqual(FIND, self.calls()[-1])
        self.assertIs(True, self.chap.was_given(5, 'me'))
        self.assertIs(False, self.chap.was_given(5, 'other'))
        self.assertIs(False, self.chap.was_given(6, 'me'))

    def test_give_ignored_by_the_array(self):
        self.records.find.return_value = IDLE
        self.assertIs(False, self.shown())

    def test_give_that_cannot_be_verified(self):
        """CHP-6: the array may have ignored what it does not show."""
        self.assertIs(False, self.shown())
        for found in (rest.HostAuthProfile(8, 'me'), rest.HostAuthProfile(
                8, 'me', unread=frozenset({'hosts_count'}))):
            self.records.find.return_value = found
            self.assertIs(False, self.shown())
        for error in rest.Incomplete('more'), rest.NotOffered('no'):
            self.records.find.side_effect = error
            self.records.search.side_effect = error
            self.assertIs(False, self.shown())

    def test_take(self):
        self.chap.note_given(5, 'me')
        self.chap.take(5, verify=self.verify)
        self.assertEqual(
            [mock.call.verify(), mock.call.hosts.update(
                5, map_auth_profiles_names=None, verify=self.verify)],
            self.calls())
        self.assertIs(False, self.chap.was_given(5, 'me'))

    def test_profiles_of_others(self):
        ours = naming.chap_profile('iqn.1')
        self.records.search.return_value = [
            IN_USE, rest.HostAuthProfile(9, ours, 1),
            rest.HostAuthProfile(10, 'idle', 0, 0)]
        self.assertEqual(['me'], self.chap.of_others())
