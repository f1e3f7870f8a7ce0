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

"""Sessions that were suspended by a user or by the link."""

import json
import logging
from typing import Any
from unittest import mock

from cinder_k2.driver.db import backend_rows
from cinder_k2.driver.operations import replication_monitor
from cinder_k2.rest import transport
from tests.functional import replicated


class WatchTest(replicated.ReplicatedTest):
    """Suspended sessions of volumes that are in no group."""

    def setUp(self) -> None:
        super().setUp()
        replication_monitor.TOLD.clear()
        # A new monitor, without a history.
        self.own(self.protocol, replication_device=self.device())
        self.volume = self.replicated()
        self.time_passes()

    def time_passes(self) -> None:
        self.primary.control.advance(400)

    def look(self) -> None:
        """Cinder's periodic call, once a minute."""
        self.backend.manager._report_driver_status(self.backend.context)

    def state(self) -> str:
        """Return the state of the session on the primary."""
        session, = self.admin.list('replication/sessions',
                                   name=f'ssn-{self.volume.id}')
        return str(session['state'])

    def command(self, array: Any, state: str) -> None:
        """Command a session as another user, or a killed service, did."""
        session, = array.admin.list('replication/sessions')
        array.admin.update('replication/sessions', session['id'],
                           name=session['name'], state=state)

    def assert_status(self, expected: str, *words: str) -> None:
        self.volume.refresh()
        self.assertEqual(expected, self.volume.replication_status)
        why = self.volume.replication_extended_status or ''
        for word in words:
            self.assertIn(word, why)
        self.assertEqual(bool(words), bool(why))

    def errors(self) -> list[str]:
        return self.log.messages(logging.ERROR, 'cinder_k2')

    def patches(self) -> list[str]:
        return [call for array in (self.primary, self.secondary)
                for call in map(str, array.control.journal())
                if 'PATCH' in call]

    def clear_journals(self) -> None:
        for array in (self.primary, self.secondary):
            array.control.clear_journal()

    def test_the_link_was_cut(self) -> None:
        self.primary.control.cut_link()
        for _ in range(3):
            self.look()
        self.assert_status('error', f'ssn-{self.volume.id}', 'suspended',
                           'Peer cannot be reached')
        self.assertEqual(1, len(self.errors()), str(self.errors()))
        self.assertIn(f'ssn-{self.volume.id}', self.errors()[0])
        # Only "ok" is known, so a resume is tried nevertheless; logged once.
        for words in ('cannot be resumed', 'is disconnected, not ok'):
            self.assertEqual(1, self.log.text().count(words), words)
        self.primary.control.restore_link()
        self.write(self.volume, 'second')
        for _ in range(3):
            self.look()
        self.assert_status('enabled')
        self.assertEqual(1, self.log.text().count('not suspended any more'))
        self.assertEqual(1, len(self.errors()))
        self.time_passes()
        with self.lost(self.primary):
            self.backend.fail_over(replicated.TARGET)
            self.assertEqual('second', self.read(self.volume))
        self.backend.fail_back()
        self.assert_status('enabled')

    def says(self, word: str) -> Any:
        """Let the array report another state of its link to the peer."""
        decode = transport.Transport.decode

        def odd(connection: Any, request: Any, body: bytes) -> Any:
            data = decode(connection, request, body)
            if '/peer_k2arrays' in request.path:
                for hit in data.get('hits', [data]):
                    hit['mgmt_connectivity_state'] = word
            return data
        return mock.patch.object(transport.Transport, 'decode', odd)

    def test_a_word_that_is_not_known(self) -> None:
        """REP-19 defines only "ok": suspended sessions are still resumed."""
        volumes = [self.volume, self.replicated(), self.replicated()]
        with self.says('Connected'):
            for times in (1, 2):
                for volume in volumes:
                    self.suspend(volume)
                self.look()
                self.assertEqual(3 * times, self.log.text().count(
                    'It is resumed.'))
        self.assert_replicated(*volumes)
        self.assertEqual(1, self.log.text().count('is Connected, not ok'))

    def suspend(self, volume: Any) -> None:
        """Suspend the session of a volume."""
        session, = self.admin.list('replication/sessions',
                                   name=f'ssn-{volume.id}')
        self.admin.update('replication/sessions', session['id'],
                          name=session['name'], state='suspended')

    def test_one_of_many_is_tried(self) -> None:
        """If the link is reported as down, one resume is tried at a time."""
        volumes = [self.volume, self.replicated(), self.replicated()]
        self.primary.control.cut_link()
        self.look()
        self.clear_journals()
        for _ in volumes:
            self.look()
        tried = {call.split()[1] for call in self.patches()}
        self.assertEqual(3, len(tried), str(tried))
        self.assertLessEqual(len(self.patches()), 2 * 3)
        self.assertEqual(3, self.log.text().count('cannot be resumed'))
        self.primary.control.restore_link()
        self.look()
        self.assert_replicated(*volumes)

    def test_a_restart_meanwhile(self) -> None:
        self.primary.control.cut_link()
        self.look()
        self.primary.control.restore_link()
        self.assertTrue(self.backend.restart())
        self.look()
        self.assert_status('enabled')
        self.assert_replicated(self.volume)

    def test_suspended_without_a_reason(self) -> None:
        """As when a service was killed while it extended a volume."""
        self.command(self.primary, 'suspended')
        self.look()
        self.assertEqual('in_sync', self.state())
        self.assert_status('enabled')
        self.assertEqual([], self.errors())
        self.assertEqual(1, self.log.text().count('It is resumed.'))

    def test_an_extension_suspends_on_purpose(self) -> None:
        """An extend that takes too long is assumed to have been killed."""
        self.volume.status = 'extending'
        self.volume.save()
        self.command(self.primary, 'suspended')
        for _ in range(2):
            self.look()
            self.assert_status('enabled')
            self.clock.slept += 400
        self.clock.slept += 400
        self.look()
        self.assert_status('error', 'suspended')
        self.assertEqual('suspended', self.state())
        self.volume.status = 'available'
        self.volume.save()
        self.look()
        self.assert_status('enabled')
        self.assertEqual('in_sync', self.state())

    def test_the_peer_has_taken_over(self) -> None:
        """A resume would lose the peer's data, so none is even sent."""
        self.command(self.secondary, 'failed_over')
        self.assertEqual('suspended', self.state())
        self.clear_journals()
        for _ in range(2):
            self.look()
        self.assertEqual([], self.patches())
        self.assert_status('error', 'Peer failed over')
        self.backend.fail_over(replicated.TARGET)
        for _ in range(2):
            self.look()
        self.assert_status('failed-over')
        self.backend.fail_back()
        self.assert_status('enabled')

    def test_while_a_failback_is_at_work(self) -> None:
        self.command(self.primary, 'suspended')
        service = self.backend.service()
        service.replication_status = 'failing-over'
        service.save()
        self.clear_journals()
        self.look()
        self.assertEqual([], self.patches())
        self.assert_status('enabled')
        service.replication_status = 'enabled'
        service.save()
        self.look()
        self.assertEqual('in_sync', self.state())

    def test_others_deal_with_it(self) -> None:
        """The row shows that an operation is responsible for the session."""
        known = json.dumps(self.ids(self.volume), separators=(',', ':'))
        self.command(self.primary, 'suspended')
        for change in ({'replication_status': 'disabling'},
                       {'migration_status': 'migrating'},
                       {'provider_id': known[:-1] + ',"reserved":true}'}):
            self.volume.update(change)
            self.volume.save()
            self.look()
            self.assertEqual('suspended', self.state(), str(change))
            self.volume.update({'replication_status': 'enabled',
                                'migration_status': None,
                                'provider_id': known})
            self.volume.save()
        self.look()
        self.assert_replicated(self.volume)

    def _in_error(self) -> None:
        """Set the row to error, though the session runs."""
        self.volume.update({'replication_status': 'error'})
        self.volume.save()

    def test_nothing_is_set_right_while_a_failback_is_at_work(self) -> None:
        """The failback may be about to save an error."""
        self._in_error()
        service = self.backend.service()
        for status, found in (('failing-over', 'error'),
                              ('enabled', 'enabled')):
            service.replication_status = status
            service.save()
            self.look()
            self.volume.refresh()
            self.assertEqual(found, self.volume.replication_status)

    def test_a_row_that_changes_while_it_is_set_right(self) -> None:
        """The concurrent change wins."""
        is_failing_over = backend_rows.BackendRows.is_failing_over
        elsewhere = json.dumps({**self.ids(self.volume), 'reserved': True})
        for change in ({'status': 'retyping'}, {'provider_id': elsewhere}):
            self._in_error()
            before = {key: self.volume[key] for key in change}

            def late(side: Any) -> bool:
                self.volume.update(change)
                self.volume.save()
                return is_failing_over(side)

            with mock.patch.object(backend_rows.BackendRows, 'is_failing_over',
                                   late):
                self.look()
            self.volume.refresh()
            self.assertEqual('error', self.volume.replication_status,
                             str(change))
            self.volume.update(before)
            self.volume.save()
            self.look()
            self.assert_status('enabled')

    def test_another_array_has_the_volume(self) -> None:
        before = self.ids(self.volume)
        self.volume.provider_id = json.dumps(
            {**before, 'system': '77'}, separators=(',', ':'))
        self.volume.save()
        self.command(self.primary, 'suspended')
        self.look()
        self.assert_status('enabled')
        self.assertEqual('suspended', self.state())
        self.volume.provider_id = json.dumps(before, separators=(',', ':'))
        self.volume.save()

    def test_the_array_refuses(self) -> None:
        self.command(self.primary, 'suspended')
        self.fault('status', 'PATCH', 'replication/sessions*', status=400,
                   times=99)
        for _ in range(3):
            self.look()
        self.assert_status('error', 'suspended')
        self.assertEqual(1, self.log.text().count('cannot be resumed'))
        self.array.control.clear_faults()
        self.look()
        self.assert_status('enabled')

    def test_the_peer_does_not_answer(self) -> None:
        """Nothing is resumed: it is unknown whether the peer took over."""
        for times in (1, 2):
            self.command(self.primary, 'suspended')
            self.secondary.control.add_fault(
                {'kind': 'status', 'status': 503, 'method': '*', 'path': '*'})
            for _ in range(3):
                begun = self.clock.slept
                self.look()
                self.assertLess(self.clock.slept - begun, 10)
            self.assert_status('error', 'suspended')
            self.assertEqual('suspended', self.state())
            self.assertEqual(times, self.log.text().count(
                'Suspended sessions are not resumed'))
            self.secondary.control.clear_faults()
            self.look()
            self.assert_status('enabled')

    def test_one_call(self) -> None:
        """The monitor adds one call to statistics, and none to the peer."""
        self.backend.stats()
        self.clear_journals()
        with self.assert_calls(3):
            self.backend.stats()
        self.assertEqual([], list(self.secondary.control.journal()))

    def test_in_a_cluster(self) -> None:
        self.backend.cluster = f'cluster@{self.backend.name}'
        self.assertTrue(self.backend.restart(), self.log.errors_text())
        self.backend.report()
        self.volume = self.replicated()
        self.time_passes()
        session, = self.admin.list('replication/sessions',
                                   name=f'ssn-{self.volume.id}')
        self.admin.update('replication/sessions', session['id'],
                          name=session['name'], state='suspended')
        self.look()
        self.assertEqual('in_sync', self.state())
