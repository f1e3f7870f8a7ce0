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

import threading

import ddt

from cinder_k2 import rest
from cinder_k2.rest import attempts
from cinder_k2.rest import capabilities
from cinder_k2.rest import errors
from cinder_k2.rest.verdicts import Verdict
from tests.unit.rest import attempting
from tests.unit.rest.attempting import NAME
from tests.unit.rest.attempting import NO
from tests.unit.rest.attempting import Script

ABSENT = rest.NotFound('no', status=404)
NOT_ALLOWED = rest.MethodNotAllowed('no', status=405)
FORBIDDEN = rest.Forbidden('no', status=403)
CRASH = rest.ServerError('crash', status=500)
NOT_DONE = rest.ServerError('not implemented', status=501)
DROPPED = rest.Unreachable('reset')
SLOW = errors.NoReply('no reply in time')
BUSY = rest.Busy('MC_ERR_BUSY', status=400, code='MC_ERR_BUSY')
NOT_CONNECTED = errors.NotConnected('no route')


@ddt.ddt
class PreferTest(attempting.Case):

    def test_works(self):
        self.assertEqual(('new', 1, 0), self.prefer('new'))
        self.assertEqual(Verdict('works', '', 1e9), self.known.verdict(NAME))
        self.assertEqual(('new', 1, 0), self.prefer('new'))
        self.assertEqual([None], self.prober.seconds)

    @ddt.data(NO, ABSENT, NOT_ALLOWED, FORBIDDEN)
    def test_refused(self, error):
        self.assertEqual(('older', 1, 1), self.prefer(error))
        self.assertEqual(
            Verdict('refused', f'HTTP {error.status}: {error.message}', 1e9),
            self.known.verdict(NAME))
        self.assertEqual(('older', 0, 1), self.prefer('new'))

    @ddt.data(CRASH, NOT_DONE, DROPPED)
    def test_two_failures_while_known_read_works(self, error):
        self.assertEqual(('older', 2, 1), self.prefer(error, error))
        self.assertEqual(1, self.prober.reads)
        self.assertEqual('refused', self.state())

    @ddt.data((True, ('new', 1, 0), 'works'), (None, ('new', 1, 0), 'unknown'),
              (False, ('older', 1, 1), 'refused'))
    @ddt.unpack
    def test_result_is_checked(self, proof, tried, state):
        """The check runs outside the trial, as it may take longer."""
        def proves(result):
            self.assertEqual('new', result)
            self.assertFalse(self.prober.in_trial)
            yield from ()
            return proof
        self.assertEqual(tried, self.prefer('new', proves=proves))
        self.assertEqual(state, self.state())
        if proof is not None:
            self.assertEqual(tried[0], self.prefer(
                'new', proves=self.fail)[0])

    def test_failure_then_refusal(self):
        self.assertEqual(('older', 2, 1), self.prefer(CRASH, NO))
        self.assertEqual('refused', self.state())

    def test_single_failure(self):
        self.assertEqual(('new', 2, 0), self.prefer(CRASH, 'new'))
        self.assertEqual('works', self.state())

    def test_failure_while_array_is_unreachable(self):
        self.prober.answered = False
        self.assertEqual(('older', 1, 1), self.prefer(CRASH, 'new'))
        self.assertEqual('unknown', self.state())

    @ddt.data(NO, CRASH, BUSY, SLOW)
    def test_no_verdict_if_fallback_fails_too(self, error):
        """Refusals due to a quota, or an object in use, never count."""
        with self.assertRaisesRegex(rest.Refused, 'quota'):
            self.prefer(error, error, older=rest.Refused('quota'))
        self.assertEqual('unknown', self.state())

    @ddt.data(BUSY, SLOW, NOT_CONNECTED, rest.AuthenticationFailed('who?'))
    def test_inconclusive_error_pauses_trials_for_a_minute(self, error):
        self.assertEqual(('older', 1, 1), self.prefer(error, is_unique=True))
        self.assertEqual('unknown', self.state())
        self.time.now += capabilities.PAUSE - 1
        self.assertEqual(('older', 0, 1), self.prefer('new'))
        self.time.now += 1
        self.assertEqual(('new', 1, 0), self.prefer('new'))

    def test_no_second_try_on_slow_array(self):
        self.assertEqual(('older', 1, 1), self.prefer(SLOW, 'new'))
        self.assertEqual(0, self.prober.reads)

    def test_not_tried_inside_another_trial(self):
        self.prober.in_trial = True
        self.assertEqual(('older', 0, 1), self.prefer('new'))
        self.assertEqual('unknown', self.state())

    def test_other_threads_use_fallback_during_trial(self):
        def meanwhile():
            seen = []
            thread = threading.Thread(target=lambda: seen.append(
                self.prefer('another')))
            thread.start()
            thread.join(10)
            return seen[0]
        self.assertEqual((('older', 0, 1), 1, 0), self.prefer(meanwhile))
        self.assertEqual('works', self.state())

    def test_unexpected_error_ends_trial(self):
        with self.assertRaises(KeyError):
            self.prefer(KeyError())
        self.assertEqual(('new', 1, 0), self.prefer('new'))

    def test_working_capability_raises_its_errors(self):
        self.prefer('new')
        for error in (NO, ABSENT, NOT_ALLOWED, CRASH, BUSY):
            with self.assertRaises(type(error)):
                self.prefer(error)
        self.assertEqual('works', self.state())

    def test_refused_for_a_minute_after_it_worked(self):
        """The fallback works, so the objects are not the reason."""
        self.prefer('new')
        for _ in range(5):
            with self.assertRaises(rest.Refused):
                self.prefer(NO)
        self.time.now += capabilities.PAUSE
        for state in ('works', 'works', 'refused'):
            self.assertEqual(('older', 1, 1), self.prefer(NO))
            self.assertEqual(state, self.state())

    def test_refused_objects_do_not_count(self):
        """The fallback is tried once a minute, and is refused as well."""
        self.prefer('new')
        for seconds, count in ((0, 0), (capabilities.PAUSE, 1), (1, 0)):
            self.time.now += seconds
            older = Script(rest.Refused('quota'))
            with self.assertRaisesRegex(rest.Refused, 'quota'):
                self.known.prefer(NAME, Script(rest.Refused('quota')), older)
            self.assertEqual(count, older.calls)
        self.assertEqual('works', self.state())

    def test_hanging_writes(self):
        """After three hangs of three seconds only the fallback is used."""
        for state in ('unknown', 'unknown', 'refused'):
            self.assertEqual(('older', 1, 1), self.prefer(
                SLOW, is_unique=True))
            self.assertEqual(state, self.state())
            self.time.now += capabilities.PAUSE
        self.assertIn('no reply', self.known.verdict(NAME).words)
        self.assertEqual([3.0] * 3, self.prober.replies)

    def test_write_that_must_not_be_interrupted(self):
        """It gets the full read timeout, and is tried only once."""
        self.assertEqual(('older', 1, 1), self.prefer(SLOW))
        self.assertEqual(('refused', [None]),
                         (self.state(), self.prober.replies))

    def test_hangs_do_not_count_if_fallback_is_slower(self):
        """The array is slow in general."""
        def hang():
            self.time.now += 3
            raise SLOW

        def older():
            self.time.now += 4
            return 'older'
        for _ in range(5):
            self.assertEqual('older', self.known.prefer(NAME, hang, older))
            self.time.now += capabilities.PAUSE
        self.assertEqual('unknown', self.state())

    def test_no_second_try_after_three_seconds(self):
        def late():
            self.time.now += 3.1
            raise CRASH
        self.assertEqual(('older', 1, 1), self.prefer(
            late, 'new', is_unique=True))
        self.assertEqual((0, 'unknown'), (self.prober.reads, self.state()))

    def test_only_consecutive_hangs_count(self):
        for _ in range(3):
            for error in (SLOW, SLOW, BUSY):
                self.prefer(error, is_unique=True)
                self.time.now += capabilities.PAUSE
        self.assertEqual('unknown', self.state())

    @ddt.data(ABSENT, NOT_ALLOWED)
    def test_working_capability_is_dropped_after_three_refusals(self, error):
        self.prefer('new')
        for state in ('works', 'works', 'refused'):
            self.assertEqual(('older', 1, 1), self.prefer(
                error, has_own_path=True))
            self.assertEqual(state, self.state())

    def test_only_consecutive_refusals_count(self):
        self.prefer('new')
        for _ in range(5):
            for step in (ABSENT, ABSENT, 'new'):
                self.prefer(step, has_own_path=True)
        self.assertEqual('works', self.state())

    def test_refusal_counts_only_if_fallback_works(self):
        self.prefer('new')
        for _ in range(5):
            with self.assertRaises(rest.NotFound):
                self.prefer(ABSENT, older=ABSENT, has_own_path=True)
        self.assertEqual('works', self.state())


@ddt.ddt
class RequireTest(attempting.Case):

    def require(self, *novel, **settings):
        self.script = Script(*novel)
        return self.known.require(NAME, self.script, **settings)

    def test_works(self):
        self.assertEqual('new', self.require('new'))
        self.assertEqual('works', self.state())

    @ddt.data(NO, ABSENT, NOT_ALLOWED, FORBIDDEN)
    def test_refused_read_is_conclusive(self, error):
        with self.assertRaisesRegex(rest.NotOffered, NAME):
            self.require(error, is_read=True)
        self.assertEqual(('refused', 1), (self.state(), self.prober.reads))
        with self.assertRaises(rest.NotOffered) as caught:
            self.require('new', is_read=True)
        self.assertEqual(0, self.script.calls)
        self.assertIn(error.message, str(caught.exception))
        self.assertIn('k2-admin capabilities', str(caught.exception))

    def test_refused_read_if_array_refuses_all_reads(self):
        self.prober.answered = False
        with self.assertRaises(rest.Refused):
            self.require(NO, is_read=True)
        self.assertEqual('unknown', self.state())

    def test_refused_write_is_inconclusive(self):
        no = rest.Refused('no such thing', status=400)
        with self.assertRaises(rest.Refused) as caught:
            self.require(no)
        self.assertIs(no, caught.exception)
        self.assertIn(f'capability {NAME}', str(no))
        self.assertEqual('unknown', self.state())

    def test_404_for_an_object_never_counts(self):
        """Nor does it mean "gone": NotOffered is raised, not NotFound."""
        with self.assertRaises(rest.NotOffered) as caught:
            self.require(ABSENT, of_object=True)
        self.assertIs(ABSENT, caught.exception.__cause__)
        self.assertEqual('unknown', self.state())

    def test_write_refused_with_405(self):
        with self.assertRaises(rest.NotOffered):
            self.require(NOT_ALLOWED)
        self.assertEqual('refused', self.state())

    def test_write_that_the_role_forbids(self):
        """The role may be changed, so each call is sent."""
        for _ in range(2):
            with self.assertRaises(rest.NotOffered) as caught:
                self.require(FORBIDDEN)
            self.assertIs(FORBIDDEN, caught.exception.__cause__)
            self.assertIn('role mgmt-app', str(caught.exception))
            self.assertEqual(('unknown', 1),
                             (self.state(), self.script.calls))

    @ddt.data(CRASH, NOT_DONE, DROPPED)
    def test_two_failures(self, error):
        """The reason is not known, so no request is sent for a minute."""
        for state in ('unknown', 'unknown', 'refused'):
            with self.assertRaisesRegex(rest.NotOffered, error.message):
                self.require(error, error)
            self.assertEqual((state, 2), (self.state(), self.script.calls))
            self.time.now += capabilities.PAUSE - 1
            with self.assertRaisesRegex(rest.NotOffered, error.message):
                self.require('new')
            self.assertEqual(0, self.script.calls)
            self.time.now += 1

    def test_success_after_two_failures(self):
        """A success resets the count of failures."""
        self.known.note_version('1')
        for version in '234':
            for _ in range(2):
                with self.assertRaises(rest.NotOffered):
                    self.require(CRASH, CRASH)
                self.time.now += capabilities.PAUSE
            self.assertEqual('new', self.require('new'))
            self.known.note_version(version)
            self.assertEqual('unknown', self.state())

    def test_single_failure(self):
        self.assertEqual('new', self.require(CRASH, 'new'))

    @ddt.data(BUSY, NOT_CONNECTED)
    def test_inconclusive_error_is_retried_outside_trial(self, error):
        """Outside a trial the session repeats it until the deadline."""
        self.assertEqual('new', self.require(error, lambda: self._outside()))
        self.assertEqual('unknown', self.state())

    def test_hanging_read_while_others_are_answered(self):
        for state in ('unknown', 'unknown', 'refused'):
            with self.assertRaisesRegex(rest.NotOffered, 'no reply'):
                self.require(SLOW, is_read=True)
            self.assertEqual((state, 1), (self.state(), self.script.calls))
        self.assertEqual([3.0, None] * 3, self.prober.replies)
        self.assertEqual([None, 3.0] * 3, self.prober.seconds)

    @ddt.data(True, False)
    def test_hang_while_known_read_fails_too(self, is_read):
        self.prober.answered = False
        self.assertEqual('new', self.require(SLOW, 'new', is_read=is_read))

    def test_hanging_write_while_others_are_answered(self):
        """Its outcome is unknown, and it is not sent again for a minute."""
        for state in ('unknown', 'unknown', 'refused'):
            with self.assertRaises(errors.NoReply):
                self.require(SLOW, SLOW, 'new')
            self.assertEqual((state, 2), (self.state(), self.script.calls))
            self.assertEqual([None, 3.0, 60.0], self.prober.seconds[-3:])
            self.time.now += capabilities.PAUSE - 1
            with self.assertRaisesRegex(rest.NotOffered, 'no reply'):
                self.require('new')
            self.assertEqual(0, self.script.calls)
            self.time.now += 1

    def test_write_that_hangs_once(self):
        self.assertEqual('new', self.require(SLOW, self._outside))
        self.assertEqual('new', self.require('new'))
        self.assertEqual('works', self.state())

    def test_hanging_slow_request_never_counts(self):
        """The array may still be carrying it out, so nothing else is tried."""
        for _ in range(5):
            with self.assertRaises(errors.NoReply):
                self.require(SLOW, 'new', slow=True)
            self.assertEqual(1, self.script.calls)
        self.assertEqual('unknown', self.state())

    @ddt.data(CRASH, NOT_DONE, DROPPED)
    def test_may_recover(self, error):
        """5xx may be about the state of the array (ERR-6)."""
        settings = {'is_read': True, 'may_recover': True}
        for _ in range(5):
            with self.assertRaises(type(error)):
                self.require(error, error, **settings)
            self.assertEqual(('unknown', 2), (
                self.state(), self.script.calls))
            with self.assertRaisesRegex(rest.NotOffered, error.message):
                self.require('new', **settings)
            self.assertEqual(0, self.script.calls)
            self.time.now += capabilities.PAUSE
        self.assertEqual('new', self.require('new', **settings))
        self.assertEqual('works', self.state())

    def test_may_recover_but_refused(self):
        with self.assertRaises(rest.NotOffered):
            self.require(ABSENT, is_read=True, may_recover=True)
        self.assertEqual('refused', self.state())

    def test_unconfirmed_result(self):
        def confirm(result):
            self.assertEqual('new', result)
            self._outside()
            raise errors.PassedOver('not changed', status=200)
        with self.assertRaisesRegex(rest.NotOffered, 'not changed'):
            self.require('new', confirm=confirm)
        self.assertEqual('refused', self.state())

    def test_result_is_confirmed_only_once(self):
        confirm = Script()
        for _ in range(2):
            self.assertEqual('new', self.require(
                'new', confirm=lambda _: confirm()))
        self.assertEqual(('works', 1), (self.state(), confirm.calls))

    def _outside(self):
        self.assertFalse(self.prober.in_trial)
        return 'new'

    def test_unproven_is_not_a_refusal(self):
        unproven = errors.Unproven('it finds nothing')
        with self.assertRaises(errors.Unproven):
            self.require(unproven, is_read=True)
        self.assertEqual('unknown', self.state())

    def test_inside_another_trial(self):
        self.prober.in_trial = True
        with self.assertRaises(rest.Refused):
            self.require(NO, is_read=True)
        self.assertEqual('unknown', self.state())

    def test_working_capability_raises_its_errors(self):
        self.require('new')
        with self.assertRaises(rest.MethodNotAllowed):
            self.require(NOT_ALLOWED)
        self.assertEqual('works', self.state())


@ddt.ddt
class ReadTest(attempting.Case):

    def setUp(self):
        super().setUp()
        self.known.found(NAME)

    def read(self, *novel, older='older'):
        """Return the result, the calls with NAME, and the calls without it."""
        novel, older = Script(*novel), Script(older)
        return (self.known.read([NAME], novel, older), novel.calls,
                older.calls)

    @ddt.data(NO, ABSENT, NOT_ALLOWED, FORBIDDEN, CRASH, NOT_DONE, DROPPED)
    def test_fallback_replaces_it_after_three_failures(self, error):
        for state in ('works', 'works', 'refused'):
            self.assertEqual(('older', 1, 1), self.read(error))
            self.assertEqual(state, self.state())

    def test_only_consecutive_failures_count(self):
        for _ in range(3):
            for step in (CRASH, CRASH, 'new'):
                self.read(step)
        self.assertEqual('works', self.state())

    def test_unreachable_array(self):
        """The read is repeated as usual."""
        self.prober.answered = False
        for _ in range(5):
            self.assertEqual(('new', 2, 0), self.read(DROPPED, 'new'))
        self.assertEqual('works', self.state())

    def test_failure_counts_only_if_fallback_works(self):
        for _ in range(5):
            with self.assertRaises(rest.ServerError):
                self.read(CRASH, older=CRASH)
        self.assertEqual('works', self.state())

    @ddt.data(SLOW, BUSY, NOT_CONNECTED, rest.BadReply('not all'))
    def test_inconclusive_errors(self, error):
        for _ in range(5):
            with self.assertRaises(type(error)):
                self.read(error)
        self.assertEqual('works', self.state())


@ddt.ddt
class LearnTest(attempting.Case):

    def learn(self, *novel, proves=bool):
        self.script = Script(*novel)
        return self.known.learn(NAME, self.script, proves)

    def test_works(self):
        self.assertEqual('new', self.learn('new'))
        self.assertEqual('works', self.state())
        self.assertIsNone(self.learn('new'))
        self.assertEqual(0, self.script.calls)

    def test_no_error_and_no_effect(self):
        """A condition, parameter or header was silently ignored."""
        self.assertIsNone(self.learn([]))
        self.assertEqual('refused', self.state())
        self.assertIn('nothing was done', self.known.verdict(NAME).words)

    def test_inconclusive_result(self):
        self.assertIsNone(self.learn([], proves=lambda found: None))
        self.assertEqual('unknown', self.state())

    @ddt.data([NO], [CRASH, CRASH], [DROPPED, NO], [ABSENT])
    def test_refused(self, steps):
        self.assertIsNone(self.learn(*steps))
        self.assertEqual('refused', self.state())

    @ddt.data(BUSY, SLOW, NOT_CONNECTED)
    def test_inconclusive_errors(self, error):
        self.assertIsNone(self.learn(error))
        self.assertEqual('unknown', self.state())
        self.assertIsNone(self.learn('new'))
        self.assertEqual(0, self.script.calls)
        self.time.now += capabilities.PAUSE
        self.assertEqual('new', self.learn('new'))

    def test_three_requests_and_three_seconds_at_most(self):
        self.learn(*[CRASH] * 9)
        self.assertEqual(3, self.script.calls + self.prober.reads)
        self.assertEqual([3.0], self.prober.seconds)

    def test_reused_id_is_not_a_refusal(self):
        """OBJ-7: the fallback would change the wrong object as well."""
        calls = []

        def novel():
            raise errors.OtherObject('its id is that of payroll now')

        self.assertRaises(errors.OtherObject, self.known.prefer, NAME, novel,
                          lambda: calls.append('older'))
        self.assertRaises(errors.OtherObject, self.known.require, NAME, novel)
        self.assertEqual(([], 'unknown'), (calls, self.state()))

    def test_fallback_for_plain_calls(self):
        tried = attempts.Attempts(
            capabilities.Capabilities('10.0.0.1'), attempting.Prober())
        self.assertEqual('older', tried.prefer(
            NAME, Script(NO), Script('older')))
