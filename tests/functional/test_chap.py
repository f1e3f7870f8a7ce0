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

"""CHAP: hosts need a password to log in over iSCSI."""

import logging
from typing import Any

from cinder import exception
import ddt
import sqlalchemy

from cinder_k2 import naming
from tests.functional import base
from tests.functional import learned
from tests.functional import test_odd_replies as odd
from tools.cloud import database

MIGRATION = '7e000000-0000-4000-8000-000000000001'
FAILED = exception.VolumeBackendAPIException
AUTH = ('auth_method', 'auth_username', 'auth_password')


class ChapTestCase(base.FunctionalTest):
    """A back end with CHAP, and access to what the array's API hides."""

    feature = 'CHAP'
    options = {'use_chap_auth': True}

    def setUp(self) -> None:
        super().setUp()
        logger = logging.getLogger('taskflow')
        self.addCleanup(logger.setLevel, logger.level)
        logger.setLevel(logging.DEBUG)
        self.addCleanup(self._check_secrets)
        self.volume = self.backend.create_volume(1)
        self.connector = self.host()

    def _check_secrets(self) -> None:
        for secret in self.kept():
            self.assertNotIn(secret, self.log.text())

    def kept(self) -> list[str]:
        """Return the passwords in Cinder's database."""
        with database.engine().begin() as connection:
            return [row[0] for row in connection.execute(sqlalchemy.text(
                'SELECT value FROM driver_initiator_data'))]

    def lose_secrets(self) -> None:
        """Delete all passwords from Cinder's database."""
        with database.engine().begin() as connection:
            connection.execute(sqlalchemy.text(
                'DELETE FROM driver_initiator_data'))

    def asked(self, connector: dict[str, Any]) -> tuple[str, str] | None:
        """Return user name and password that the array requires of a host."""
        record, = [r for r in self.array.rows('host_iqns')
                   if r['iqn'].lower() == connector['initiator'].lower()]
        profile = self.array.row_at(record['host'])['auth_profile']
        if profile is None:
            return None
        row = self.array.row_at(profile)
        return row['username'], row['password']

    def assert_logs_in(self, connector: dict[str, Any], *attachments: Any
                       ) -> None:
        """Check that the host must use CHAP and received the right login."""
        asked = self.asked(connector)
        self.assertIsNotNone(asked)
        for attachment in attachments:
            self.assertEqual(('CHAP', *(asked or ())),
                             self.told(attachment))

    def told(self, attachment: Any) -> tuple[Any, ...]:
        """Return the CHAP properties that os-brick received."""
        return tuple(attachment.connection_info.get(key) for key in AUTH)

    def assert_open(self, connector: dict[str, Any], attachment: Any) -> None:
        """Check that the host need not use CHAP and received no login."""
        self.assertIsNone(self.asked(connector))
        for key in AUTH:
            self.assertNotIn(key, attachment.connection_info)

    def profiles(self) -> Any:
        """Return the CHAP profiles on the array."""
        return self.admin.list('host_auth_profiles')

    def warnings(self) -> str:
        """Return the driver's warnings."""
        return ' '.join(self.log.messages(logging.WARNING, 'cinder_k2'))

    def unprotected(self) -> Any:
        """Return a back end on the same array without the option."""
        return self.own('iscsi')


class ChapTest(ChapTestCase):
    """Creating, using and removing passwords."""

    def test_a_new_host(self) -> None:
        attachment = self.backend.attach(self.volume, self.connector)
        self.assert_logs_in(self.connector, attachment)
        password = attachment.connection_info['auth_password']
        self.assertEqual(16, len(password))
        self.assertEqual([password], self.kept())
        self.assertEqual([1], [p['hosts_count'] for p in self.profiles()])
        self.assert_left(volumes=1, volume_groups=1, mappings=1, hosts=1,
                         host_iqns=1, host_auth_profiles=1)
        self.backend.detach(attachment)
        self.assert_left(volumes=1, volume_groups=1)

    def test_the_host_returns(self) -> None:
        """Its profile was removed; the new one has the same password."""
        first = self.backend.attach(self.volume, self.connector)
        self.backend.detach(first)
        self.assertEqual([], self.profiles())
        second = self.backend.attach(self.volume, self.connector)
        self.assertEqual(self.told(first), self.told(second))
        self.assert_logs_in(self.connector, second)

    def test_further_volumes(self) -> None:
        """Further volumes of a host take no more calls than without CHAP."""
        with self.assert_calls(5 + 2):
            first = self.backend.attach(self.volume, self.connector)
        other = self.backend.create_volume(1)
        with self.assert_calls(3):
            second = self.backend.attach(other, self.connector)
        self.assert_logs_in(self.connector, first, second)
        self.backend.detach(first)
        self.assert_logs_in(self.connector, second)
        with self.assert_calls(7 + 2):
            self.backend.detach(second)
        self.assert_left(volumes=2, volume_groups=2)

    def test_two_hosts(self) -> None:
        connectors = self.host(), self.host()
        made = [self.backend.attach(self.volume, c, MIGRATION)
                for c in connectors]
        for connector, attachment in zip(connectors, made, strict=True):
            self.assert_logs_in(connector, attachment)
        self.assertEqual(2, len({self.told(a)[1] for a in made}))
        self.assertEqual(2, len({self.told(a)[2] for a in made}))

    def test_a_clone_and_its_source(self) -> None:
        """Views are mapped differently, but with the same login."""
        self.ignore_call_budget()
        clone = self.backend.clone(self.volume)
        first = self.backend.attach(clone, self.connector)
        second = self.backend.attach(self.volume, self.connector)
        self.assert_logs_in(self.connector, first, second)

    def test_force_detach(self) -> None:
        self.backend.attach(self.volume, self.connector)
        self.backend.force_detach(self.volume)
        self.assert_left(volumes=1, volume_groups=1)

    def test_another_service(self) -> None:
        """A new service reads a login once, at the first attach to a host."""
        first = self.backend.attach(self.volume, self.connector)
        other = self.own('iscsi', use_chap_auth=True)
        volumes = [other.create_volume(1) for _ in range(3)]
        other.attach(volumes[0], self.host())
        with self.assert_calls(3 + 1):
            second = other.attach(volumes[1], self.connector)
        with self.assert_calls(3):
            third = other.attach(volumes[2], self.connector)
        self.assertEqual(1, len({*map(self.told, (first, second, third))}))
        self.assert_logs_in(self.connector, third)

    def test_a_host_in_capitals(self) -> None:
        """INI-5: the same host, so the same login."""
        first = self.backend.attach(self.volume, self.connector)
        other = self.own('iscsi', use_chap_auth=True)
        second = other.attach(other.create_volume(1), {
            **self.connector, 'initiator':
            self.connector['initiator'].upper()})
        self.assertEqual(self.told(first), self.told(second))
        self.assertEqual(1, len(self.profiles()))

    def test_a_host_with_another_name(self) -> None:
        """A renamed host keeps its login, which depends on the IQN."""
        first = self.backend.attach(self.volume, self.connector)
        second = self.backend.attach(self.backend.create_volume(1), {
            **self.connector, 'host': 'renamed'})
        self.assertEqual(self.told(first), self.told(second))

    def test_an_initiator_that_the_array_has_seen(self) -> None:
        """INI-2."""
        self.make('host_iqns', iqn=self.connector['initiator'])
        attachment = self.backend.attach(self.volume, self.connector)
        self.assert_logs_in(self.connector, attachment)
        self.backend.detach(attachment)
        self.assertEqual(([], []), (self._hosts(), self.profiles()))


class SDPTest(ChapTest):
    """The same on the other kind of array."""

    profile = 'sdp'


class SwitchTest(ChapTestCase):
    """The option is changed while hosts have volumes attached."""

    def test_switched_on(self) -> None:
        """Live sessions stay as they are until the host is empty."""
        self.ignore_call_budget()
        before = self.unprotected()
        first = before.attach(before.create_volume(1), self.connector)
        after = self.own('iscsi', use_chap_auth=True)
        second = after.attach(self.volume, self.connector)
        self.assert_open(self.connector, second)
        self.assertIn(f'{self.connector["initiator"]} logs in without CHAP: '
                      'it has volumes', self.warnings())
        self.assertEqual(([], []), (self.profiles(), self.kept()))
        after.detach(first)
        after.detach(second)
        self.assert_logs_in(self.connector,
                            after.attach(self.volume, self.connector))

    def test_switched_off(self) -> None:
        """Hosts that have volumes must still log in with CHAP."""
        first = self.backend.attach(self.volume, self.connector)
        after = self.unprotected()
        second = after.attach(after.create_volume(1), self.connector)
        self.assert_logs_in(self.connector, first, second)
        after.detach(first)
        after.detach(second)
        self.assert_left(volumes=2, volume_groups=2)
        third = after.attach(self.volume, self.connector)
        self.assert_open(self.connector, third)
        self.assert_open(self.connector, after.attach(
            after.create_volume(1), self.connector))

    def test_off(self) -> None:
        """Without the option there are no additional calls or rows."""
        plain = self.unprotected()
        volumes = [plain.create_volume(1) for _ in range(2)]
        plain.detach(plain.attach(volumes[0], self.host()))
        with self.assert_calls(5):
            first = plain.attach(volumes[0], self.connector)
        with self.assert_calls(3):
            second = plain.attach(volumes[1], self.connector)
        self.assert_open(self.connector, second)
        plain.detach(first)
        with self.assert_calls(7):
            plain.detach(second)
        self.assertEqual([], self.kept())

    def test_a_value_that_is_none(self) -> None:
        wrong = self.new_backend('iscsi', use_chap_auth='perhaps')
        self.assertFalse(wrong.start())
        self.assertIn('use_chap_auth', self.log.errors_text())

    def test_fibre_channel(self) -> None:
        """CHAP is for iSCSI only, with one warning."""
        fc = self.own('fc', use_chap_auth=True)
        self.assertEqual(1, self.warnings().count('use_chap_auth'))
        attachment = fc.attach(fc.create_volume(1), self.connector)
        for key in AUTH:
            self.assertNotIn(key, attachment.connection_info)
        self.assertEqual([], self.profiles())
        fc.detach(attachment)
        self.assertEqual(1, self.warnings().count('use_chap_auth'))


@ddt.ddt
class AdministratorTest(ChapTestCase):
    """Foreign hosts and profiles."""

    def setUp(self) -> None:
        super().setUp()
        self.ignore_call_budget()

    def _host(self, **fields: Any) -> Any:
        host = self.make('hosts', name='by-hand', type='Linux', **fields)
        self.make('host_iqns', iqn=self.connector['initiator'],
                  host={'ref': f'/hosts/{host["id"]}'})
        return host

    def _remove_profiles(self) -> None:
        for host in self.admin.list('hosts'):
            self.admin.update('hosts', host['id'],
                              map_auth_profiles_names=None)
        for profile in self.profiles():
            self.admin.delete('host_auth_profiles', profile['id'])

    def test_an_empty_host(self) -> None:
        """An empty host gets a profile, and is not deleted."""
        self._host()
        first = self.backend.attach(self.volume, self.connector)
        self.assert_logs_in(self.connector, first)
        self.backend.detach(first)
        with self.assert_calls(3):
            second = self.backend.attach(self.volume, self.connector)
        self.assert_logs_in(self.connector, second)
        self.assertEqual(self.told(first), self.told(second))
        self.backend.detach(second)
        self._remove_profiles()

    def _assert_left_alone(self) -> None:
        """Check that the host, and its login, are not changed."""
        before = self.left()
        attachment = self.backend.attach(self.volume, self.connector)
        self.assert_open(self.connector, attachment)
        self.assertIn('logs in without CHAP', self.warnings())
        self.backend.detach(attachment)
        self.assertEqual((before, []), (self.left(), self.kept()))

    def test_a_host_with_volumes(self) -> None:
        host = self._host()
        group = self.make('volume_groups', name='others', quota=0)
        volume = self.make('volumes', name='others', size=1 << 20,
                           volume_group={
                               'ref': f'/volume_groups/{group["id"]}'})
        self.make('mappings', host={'ref': f'/hosts/{host["id"]}'},
                  volume={'ref': f'/volumes/{volume["id"]}'})
        self._assert_left_alone()

    def test_a_host_in_a_host_group(self) -> None:
        group = self.make('host_groups', name='cluster')
        self._host(host_group={'ref': f'/host_groups/{group["id"]}'})
        self._assert_left_alone()

    def test_a_host_with_two_initiators(self) -> None:
        host = self._host()
        self.make('host_iqns', iqn='iqn.2000-01.com.example:two',
                  host={'ref': f'/hosts/{host["id"]}'})
        self._assert_left_alone()

    def test_profiles_of_others(self) -> None:
        """CHP-6: it is unknown whether the host uses one of them."""
        self.make('host_auth_profiles', name='theirs', type='CHAP',
                  username='them', password='Their-Password')
        other = self.make('hosts', name='other', type='Linux')
        self._host()
        self.admin.update('hosts', other['id'],
                          map_auth_profiles_names='theirs')
        self._assert_left_alone()
        self.assertIn('theirs', self.warnings())

    def test_a_refused_profile(self) -> None:
        """The host stays unchanged, and the volume unmapped."""
        self._host()
        before = self.left()
        for path in ('mappings', 'hosts/*', 'host_auth_profiles'):
            self.fault('status', 'write', path, status=403)
            self.assertRaises(FAILED, self.backend.attach, self.volume,
                              self.connector)
            self.assertEqual(before, self.left())
            self.assertIsNone(self.asked(self.connector))
            self.backend.force_detach(self.volume)

    def test_a_profile_that_is_passed_over(self) -> None:
        """The attach fails: the host would log in without CHAP, unnoticed."""
        learned.forget()
        self.has_learned = False
        self.switch(refuse_unlisted='ignored', refuse_only=[
            'PATCH hosts/# map_auth_profiles_names'])
        fresh = self.own('iscsi', use_chap_auth=True)
        for _ in range(2):
            error = self.assertRaises(FAILED, fresh.attach, self.volume,
                                      self.connector)
            self.assertIn('does not offer CHAP for hosts', str(error))
            self.assert_left(volumes=1, volume_groups=1)
            fresh.force_detach(self.volume)

    @ddt.data(['GET host_auth_profiles', 'GET host_auth_profiles name'], [])
    def test_nothing_shows_that_it_is_passed_over(self, refused: list[str]
                                                  ) -> None:
        """CHP-6: profiles, or the number of their hosts, are not shown."""
        learned.forget()
        self.has_learned = False
        self.switch(refuse_unlisted='ignored' if not refused else 'no_hits',
                    refuse_only=['PATCH hosts/# map_auth_profiles_names',
                                 *refused])
        fresh = self.own('iscsi', use_chap_auth=True)
        with odd.with_replies('host_auth_profiles', lambda data: (
                data if refused
                else odd.changed(data, 'hosts_count', odd.MISSING))):
            for _ in range(2):
                self.assertRaises(FAILED, fresh.attach, self.volume,
                                  self.connector)
                self.assert_left(volumes=1, volume_groups=1)
                fresh.force_detach(self.volume)

    def test_how_many_hosts_have_it_is_not_told(self) -> None:
        """CHP-4: the host may use it, and need it to log in."""
        first = self.backend.attach(self.volume, self.connector)
        fresh = self.own('iscsi', use_chap_auth=True)
        with odd.with_replies('host_auth_profiles', lambda data: odd.changed(
                data, 'hosts_count', odd.MISSING)):
            second = fresh.attach(fresh.create_volume(1), self.connector)
        self.assertEqual(self.told(first), self.told(second))
        self.assert_logs_in(self.connector, second)

    def test_a_user_who_may_not_make_profiles(self) -> None:
        """The error names the role; a later attach tries again."""
        learned.forget()
        self.has_learned = False
        fresh = self.own('iscsi', use_chap_auth=True)
        self.fault('status', 'POST', 'host_auth_profiles', status=403)
        error = self.assertRaises(FAILED, fresh.attach, self.volume,
                                  self.connector)
        self.assertIn('needs the role', str(error))
        self.array.control.clear_faults()
        fresh.force_detach(self.volume)
        self.assert_logs_in(self.connector,
                            fresh.attach(self.volume, self.connector))

    def test_a_search_that_finds_nothing(self) -> None:
        """QRY-2: that does not prove that the host has no profile."""
        first = self.backend.attach(self.volume, self.connector)
        learned.forget()
        self.has_learned = False
        self.switch(refuse_unlisted='no_hits', refuse_only=[
            'GET host_auth_profiles name'])
        fresh = self.own('iscsi', use_chap_auth=True)
        second = fresh.attach(fresh.create_volume(1), self.connector)
        self.assertEqual(self.told(first), self.told(second))
        self.assert_logs_in(self.connector, second)

    def test_a_profile_that_was_taken_away(self) -> None:
        """A new service notices that profiles were removed."""
        first = self.backend.attach(self.volume, self.connector)
        self._remove_profiles()
        fresh = self.own('iscsi', use_chap_auth=True)
        other = fresh.create_volume(1)
        second = fresh.attach(other, self.connector)
        self.assert_open(self.connector, second)
        fresh.detach(second)
        self.backend.detach(first)
        third = fresh.attach(other, self.connector)
        self.assert_logs_in(self.connector, third)
        self.assertEqual(self.told(first), self.told(third))

    def test_a_lost_password_of_an_empty_host(self) -> None:
        self._host()
        first = self.backend.attach(self.volume, self.connector)
        self.backend.detach(first)
        self.lose_secrets()
        second = self.backend.attach(self.volume, self.connector)
        self.assert_logs_in(self.connector, second)
        self.assertNotEqual(self.told(first), self.told(second))
        self.backend.detach(second)
        self._remove_profiles()

    def test_a_lost_password_of_a_host_with_volumes(self) -> None:
        """The attach fails: sessions still use the lost password."""
        first = self.backend.attach(self.volume, self.connector)
        asked, before = self.asked(self.connector), self.left()
        self.lose_secrets()
        other = self.backend.create_volume(1)
        error = self.assertRaises(FAILED, self.backend.attach, other,
                                  self.connector)
        self.assertIn(naming.chap_profile(self.connector['initiator']),
                      str(error))
        self.assertIn('detach them all', str(error))
        self.backend.delete_volume(other, force=True)
        self.assertEqual((asked, before, []), (
            self.asked(self.connector), self.left(), self.kept()))
        self.backend.detach(first)
        second = self.backend.attach(self.volume, self.connector)
        self.assert_logs_in(self.connector, second)
