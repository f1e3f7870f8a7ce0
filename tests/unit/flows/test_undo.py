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

import contextlib

import ddt
from oslotest import base

from cinder_k2.flows import undo
from cinder_k2 import rest


class Killed(BaseException):
    """The service is killed."""


class NoArray:
    """A double of an array that counts cleanup deadlines."""

    def __init__(self):
        self.cleanups = 0

    @contextlib.contextmanager
    def cleanup_deadline(self):
        self.cleanups += 1
        yield


@ddt.ddt
class UndoTest(base.BaseTestCase):

    def setUp(self):
        super().setUp()
        self.array, self.log = NoArray(), []

    def note(self, word):
        return lambda: self.log.append(word)

    def run_two(self, error, **more):
        """Run one step that succeeds, and one that fails."""
        with undo.Undo(self.array) as steps:
            with steps.step('one', self.note('one in doubt')):
                pass
            steps.on_failure('one', self.note('one undone'))
            with steps.step('two', self.note('two in doubt'), **more):
                raise error

    def test_nothing_is_undone_without_a_failure(self):
        with undo.Undo(self.array) as steps:
            with steps.step('one', self.note('in doubt')):
                pass
            steps.on_failure('one', self.note('undone'))
        self.assertEqual([], self.log)
        self.assertEqual(0, self.array.cleanups)

    @ddt.data(rest.Refused('no'), rest.Forbidden('no'), KeyError('bug'))
    def test_refused_step(self, error):
        """It was not carried out, so only the step before is undone."""
        self.assertRaises(type(error), self.run_two, error)
        self.assertEqual(['one undone'], self.log)
        self.assertEqual(1, self.array.cleanups)

    @ddt.data(rest.Unreachable('gone'), rest.ServerError('why', status=500))
    def test_step_of_unknown_outcome(self, error):
        self.assertRaises(type(error), self.run_two, error)
        self.assertEqual(['two in doubt', 'one undone'], self.log)

    def test_always_unknown(self):
        self.assertRaises(rest.Refused, self.run_two, rest.Refused('no'),
                          always_unknown=True)
        self.assertEqual(['two in doubt', 'one undone'], self.log)

    def test_killed_service_undoes_nothing(self):
        self.assertRaises(Killed, self.run_two, Killed())
        self.assertEqual([], self.log)

    def test_last_step_is_undone_first(self):
        with contextlib.suppress(KeyError), undo.Undo(self.array) as steps:
            steps.on_failure('one', self.note('one'))
            steps.on_failure('two', self.note('two'))
            raise KeyError
        self.assertEqual(['two', 'one'], self.log)

    def test_failed_undo_does_not_stop_the_rest(self):
        def fail():
            raise OSError('no way back')

        def go():
            with undo.Undo(self.array) as steps:
                steps.on_failure('one', self.note('one'))
                steps.on_failure('two', fail)
                with steps.step('three', fail, always_unknown=True):
                    raise KeyError('why')

        with self.assertLogs('cinder_k2.flows.undo', 'WARNING') as told:
            self.assertRaises(KeyError, go)
        self.assertEqual(['one'], self.log)
        self.assertEqual(2, len(told.output), told.output)
        self.assertIn('"three": no way back', told.output[0])
