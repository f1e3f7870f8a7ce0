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

import ddt

from cinder_k2 import rest
from cinder_k2.rest import capabilities
from cinder_k2.rest.verdicts import Verdict
from tests.unit.rest import attempting
from tests.unit.rest.attempting import NAME
from tests.unit.rest.attempting import NO
from tests.unit.rest.attempting import Script


@ddt.ddt
class VerdictTest(attempting.Case):

    def refuse(self):
        self.prefer(NO)
        self.assertEqual('refused', self.state())

    def test_refused_capability_is_tried_again_after_a_day(self):
        self.refuse()
        self.time.now += capabilities.ASK_AGAIN
        self.assertTrue(self.known.refused(NAME))
        self.time.now += 1
        self.assertFalse(self.known.refused(NAME))
        self.assertEqual(('new', 1, 0), self.prefer('new'))
        self.assertTrue(self.known.works(NAME))

    def test_working_capability_is_not_tried_again(self):
        self.known.found(NAME)
        self.time.now += 99 * capabilities.ASK_AGAIN
        self.assertTrue(self.known.works(NAME))

    def test_refusal_dated_in_the_future_is_ignored(self):
        """The clock was wrong; it must not block trials for years."""
        self.refuse()
        self.time.now -= 10 * capabilities.ASK_AGAIN
        self.assertEqual('unknown', self.state())

    def test_failed_three_times(self):
        self.known.found(NAME)
        for state in ('works', 'works', 'refused'):
            self.known.failed(NAME, NO)
            self.assertEqual(state, self.state())

    def test_success_resets_failures(self):
        self.known.found(NAME)
        for _ in range(5):
            self.known.failed(NAME, NO)
            self.known.failed(NAME, NO)
            self.known.found(NAME)
        self.assertEqual('works', self.state())

    def test_found_does_not_overrule_a_refusal(self):
        self.refuse()
        self.known.found(NAME)
        self.assertEqual('refused', self.state())

    def test_refuse_changes_only_unknown_state(self):
        self.known.found('paging')
        self.known.refuse('paging', NO)
        self.known.refuse('fields:volumes', NO)
        self.assertEqual('works', self.state('paging'))
        self.assertEqual('refused', self.state('fields:volumes'))

    def test_consequences_are_logged_once(self):
        for _ in range(3):
            self.prefer(NO)
        self.assertEqual(2, len(self.logs.output))
        for text in ('10.0.0.1', NAME, 'one by one',
                     'HTTP 400: no such thing'):
            self.assertIn(text, self.logs.output[1])

    def test_new_version_clears_verdicts(self):
        self.known.note_version('v1')
        self.refuse()
        self.known.found('paging')
        self.known.note_version('v1')
        self.assertEqual(2, len(self.known.all()))
        with self.assertLogs(capabilities.LOG, 'INFO') as logs:
            self.known.note_version('v2')
        self.assertIn('v2', logs.output[0])
        self.assertEqual({}, self.known.all())
        self.assertEqual(('v2', {}), self.store.load())

    def test_first_version_clears_nothing(self):
        self.known.found('paging')
        self.known.note_version('v1')
        self.assertTrue(self.known.works('paging'))
        self.assertEqual('v1', self.store.load()[0])

    def test_verdicts_survive_a_restart(self):
        self.known.note_version('v1')
        self.refuse()
        self.known = self.made()
        self.assertEqual(('older', 0, 1), self.prefer('new'))
        self.known.note_version('v2')
        self.assertEqual(('new', 1, 0), self.prefer('new'))

    @ddt.data('bulk', 'bulk:snapshots', NAME)
    def test_disabled(self, part):
        self.store.save('', {NAME: Verdict('works', '', 1e9),
                             'bulk:volumes:create': Verdict('works')})
        self.known = self.made(disabled=[part])
        self.assertEqual('disabled', self.state())
        self.assertEqual(('older', 0, 1), self.prefer('new'))
        with self.assertRaisesRegex(rest.NotOffered,
                                    'k2_disabled_capabilities'):
            self.known.require(NAME, Script('new'))
        self.assertIsNone(self.known.learn(NAME, Script('new'), bool))
        self.assertEqual(part == 'bulk',
                         self.known.refused('bulk:volumes:create'))
        self.assertEqual('disabled', self.known.all()[NAME].state)
        # Verdicts are kept while a capability is disabled.
        self.assertTrue(self.made().works(NAME))

    def test_disabled_names_match_whole_parts(self):
        self.known = self.made(disabled=['bul', 'bulk:snap'])
        self.assertEqual('unknown', self.state())

    def test_all(self):
        self.refuse()
        self.known.found('paging')
        self.assertEqual(
            {NAME: 'refused', 'paging': 'works'},
            {name: verdict.state
             for name, verdict in self.known.all().items()})

    def test_all_is_sorted(self):
        self.known = self.made(disabled=['lists', 'bulk'])
        for name in ('sequence', 'paging', 'fields', 'reads:volumes'):
            self.known.found(name)
        self.assertEqual(
            ['bulk', 'fields', 'lists', 'paging', 'reads:volumes',
             'sequence'], list(self.known.all()))

    def test_refused_until_a_day_has_passed(self):
        begin = self.time.now
        self.known.refuse(NAME, NO)
        states = []
        for later in (86400, 86400.5, -60, -60.5):
            self.time.now = begin + later
            states.append(self.known.refused(NAME))
        self.assertEqual([True, False, True, False], states)
