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

"""CHAP while requests fail and services are killed."""

import functools
import operator
from typing import Any
from unittest import mock

from cinder import context
from cinder.db import api as db_api
from cinder import exception
from cinder.volume import driver_utils
import ddt
import sqlalchemy

from cinder_k2 import naming
from tests.faults import steps
from tests.functional import test_chap

FAILED = exception.VolumeBackendAPIException


@ddt.ddt
class FaultsTest(test_chap.ChapTestCase):
    """Failures, kills and concurrent operations."""

    def setUp(self) -> None:
        super().setUp()
        self.ignore_call_budget()

    # Each write fails once, either before or after it was carried out.
    @ddt.data(*[(path, commit, status)
                for path in ('host_auth_profiles', 'hosts', 'hosts/*',
                             'host_iqns', 'mappings')
                for commit, status in (('before', 403), ('after', 500))])
    @ddt.unpack
    def test_whatever_fails_nothing_is_left(
            self, path: str, commit: str, status: int) -> None:
        before = self.left()
        self.fault('status', 'write', path, status=status, commit=commit)
        try:
            attachment = self.backend.attach(self.volume, self.connector)
        except FAILED:
            self.assertEqual(before, self.left())
            self.backend.force_detach(self.volume)
            attachment = self.backend.attach(self.volume, self.connector)
        self.assert_logs_in(self.connector, attachment)
        self.assertEqual(1, len(self.profiles()))

    def test_a_lun_that_cannot_be_read(self) -> None:
        """The failed attach removes the host that it created."""
        clone = self.backend.clone(self.volume)
        before = self.left()
        self.fault('status', 'GET', 'mappings', status=403)
        self.assertRaises(FAILED, self.backend.attach, clone, self.connector)
        self.assertEqual(before, self.left())

    def test_lost_replies(self) -> None:
        """Every write is carried out, and the first replies are lost."""
        for path in ('host_auth_profiles', 'hosts', 'hosts/*', 'host_iqns',
                     'mappings'):
            self.fault('reset', 'write', path, commit='after')
        attachment = self.backend.attach(self.volume, self.connector)
        self.assert_logs_in(self.connector, attachment)
        self.assert_left(volumes=1, volume_groups=1, mappings=1, hosts=1,
                         host_iqns=1, host_auth_profiles=1)

    @ddt.data(('chap', 'ensure', 0, 0), ('iscsi_hosts', 'create', 1, 0),
              ('chap', 'give', 1, 1), ('iscsi_hosts.records', 'add', 1, 1),
              ('mappings', 'map', 1, 1))
    @ddt.unpack
    def test_killed(self, part: str, step: str, profiles: int, hosts: int
                    ) -> None:
        """The service is killed before a write; then a user attaches again."""
        driver = self.backend.driver
        kill = mock.patch.object(
            operator.attrgetter(part)(driver._arrays.active.array), step,
            autospec=True, side_effect=steps.Killed)
        with kill, steps.no_undoing():
            self.assertRaises(steps.Killed, driver.initialize_connection,
                              self.volume, self.connector)
        self.assertEqual((profiles, hosts),
                         (len(self.profiles()), len(self._hosts())))
        attachment = self.backend.attach(self.volume, self.connector)
        self.assert_logs_in(self.connector, attachment)
        self.assert_left(volumes=1, volume_groups=1, mappings=1, hosts=1,
                         host_iqns=1, host_auth_profiles=1)

    def test_killed_before_the_password_was_kept(self) -> None:
        """The password of the leftover profile is lost."""
        self.make('host_auth_profiles', type='CHAP', password='x' * 12, **{
            key: naming.chap_profile(self.connector['initiator'])
            for key in ('name', 'username')})
        attachment = self.backend.attach(self.volume, self.connector)
        self.assert_logs_in(self.connector, attachment)

    def test_killed_before_the_profile_was_removed(self) -> None:
        first = self.backend.attach(self.volume, self.connector)
        with mock.patch.object(self.backend.side.detach._chap, 'forget',
                               autospec=True):
            self.backend.detach(first)
        self.assertEqual(1, len(self.profiles()))
        second = self.backend.attach(self.volume, self.connector)
        self.assert_logs_in(self.connector, second)
        self.assertEqual(self.told(first), self.told(second))

    def test_a_profile_that_cannot_be_removed(self) -> None:
        """The detach succeeds; a warning names the profile."""
        attachment = self.backend.attach(self.volume, self.connector)
        self.fault('status', 'DELETE', 'host_auth_profiles/*', status=403)
        self.backend.detach(attachment)
        profile, = self.profiles()
        self.assertIn(f'{profile["name"]} may stay', self.warnings())
        self.admin.delete('host_auth_profiles', profile['id'])

    def test_many_volumes_one_new_host(self) -> None:
        volumes = [self.backend.create_volume(1) for _ in range(4)]
        services = [self.backend, self.own('iscsi', use_chap_auth=True)] * 2
        attachments = self.together(*[
            functools.partial(service.attach, volume, self.connector)
            for service, volume in zip(services, volumes, strict=True)])
        self.assert_logs_in(self.connector, *attachments)
        self.assertEqual((1, 1), (len(self.profiles()), len(self.kept())))
        self.together(*[functools.partial(self.backend.detach, attachment)
                        for attachment in attachments])
        self.assert_left(volumes=5, volume_groups=5)

    def test_attaches_and_detaches(self) -> None:
        services = [self.backend, self.own('iscsi', use_chap_auth=True)]

        def work(service: Any, volume: Any) -> str:
            for _ in range(3):
                attachment = service.attach(volume, self.connector)
                self.assert_logs_in(self.connector, attachment)
                service.detach(attachment)
            return 'done'

        self.assertEqual(['done'] * 2, self.together(*[
            functools.partial(work, service, service.create_volume(1))
            for service in services]))
        self.assert_left(volumes=3, volume_groups=3)

    def test_a_password_that_others_kept_first(self) -> None:
        """Locks do not prevent that; the first one in the database wins."""
        self._others_keep('Kept-first-pass1')
        attachment = self.backend.attach(self.volume, self.connector)
        self.assert_logs_in(self.connector, attachment)
        self.assertEqual(['Kept-first-pass1'], self.kept())

    def _others_keep(self, secret: str) -> None:
        """Store a password just before the driver stores its own."""
        secrets = self.backend.side.detach._chap.secrets
        generate = secrets.generate

        def meanwhile() -> str:
            driver_utils.VolumeDriverUtils(
                f'k2-{self.backend.side.array.system.id}',
                self.backend.driver.db).insert_driver_initiator_data(
                    self.connector['initiator'], 'chap_password', secret)
            return str(generate())
        patch = mock.patch.object(secrets, 'generate', meanwhile)
        patch.start()
        self.addCleanup(patch.stop)

    @ddt.data('driver_initiator_data_get',
              'driver_initiator_data_insert_by_key')
    def test_a_database_that_fails(self, method: str) -> None:
        """Database errors quote the values to be stored: none is logged."""
        before, secrets = self.left(), []

        def fail(ctxt: context.RequestContext, *args: Any) -> None:
            secrets.append(args[-1])
            raise sqlalchemy.exc.OperationalError(
                'INSERT', {'value': args[-1]}, Exception('gone away'))

        with mock.patch.object(db_api, method, fail):
            error = self.assertRaises(FAILED, self.backend.attach,
                                      self.volume, self.connector)
        self.assertIn('database', str(error))
        self.assertNotIn(secrets[0], self.log.text() + str(error))
        self.assertEqual(before, self.left())
