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
import unittest

from oslotest import base
from taskflow.patterns import linear_flow

from cinder_k2.flows import engine


class Note(engine.Step):
    """Appends to a list, and takes it away again."""

    default_provides = 'length'

    def execute(self, array, log, word):
        log.append(f'do {word}')
        return len(log)

    def undo(self, done, **inputs):
        inputs['log'].append(f'undo {inputs["word"]} {done}')


class BadUndo(Note):
    """Cannot be undone."""

    default_provides = None

    def undo(self, done, **inputs):
        raise OSError('no way back')


class Fail(engine.Step):
    """Always fails."""

    def execute(self, array, log):
        raise KeyError('broken')

    def undo(self, done, **inputs):
        inputs['log'].append('undo of what never was')


def named(kind, name, word):
    """A step that takes its word from an input of its own."""
    return kind(name=name, rebind={'word': word}, provides=None)


class NoArray:
    """An array that gives time for undoing, and counts how often."""

    def __init__(self):
        self.graces = 0

    @contextlib.contextmanager
    def cleanup_deadline(self):
        self.graces += 1
        yield


class EngineTest(base.BaseTestCase):

    def test_results_come_back_by_name(self):
        log = []
        made = engine.run(linear_flow.Flow('f').add(Note()),
                          array=NoArray(), log=log,
                          word='a')
        self.assertEqual(1, made['length'])
        self.assertEqual(['do a'], log)

    def test_a_failure_undoes_what_was_done_backwards(self):
        log = []
        flow = linear_flow.Flow('f').add(
            named(Note, 'one', 'first'), named(Note, 'two', 'second'), Fail())
        self.assertRaises(KeyError, engine.run, flow,
                          array=NoArray(), log=log, first='a',
                          second='b')
        self.assertEqual(['do a', 'do b', 'undo b 2', 'undo a 1'], log)

    def test_a_step_that_cannot_be_undone_does_not_stop_the_others(self):
        log = []
        flow = linear_flow.Flow('f').add(
            named(Note, 'one', 'first'), named(BadUndo, 'two', 'second'),
            Fail())
        self.assertRaises(KeyError, engine.run, flow,
                          array=NoArray(), log=log, first='a',
                          second='b')
        self.assertEqual(['do a', 'do b', 'undo a 1'], log)


if __name__ == '__main__':
    unittest.main()
