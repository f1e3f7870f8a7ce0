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


class LogStep(engine.Step):
    """Adds an entry to a log when it is run, and when it is undone."""

    default_provides = 'length'

    def execute(self, array, log, word):
        log.append(f'do {word}')
        return len(log)

    def undo(self, done, **inputs):
        inputs['log'].append(f'undo {inputs["word"]} {done}')


class BadUndo(LogStep):
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
    """A double of an array that counts cleanup deadlines."""

    def __init__(self):
        self.cleanups = 0

    @contextlib.contextmanager
    def cleanup_deadline(self):
        self.cleanups += 1
        yield


class EngineTest(base.BaseTestCase):

    def test_results_are_returned_by_name(self):
        log = []
        made = engine.run(linear_flow.Flow('f').add(LogStep()),
                          array=NoArray(), log=log,
                          word='a')
        self.assertEqual(1, made['length'])
        self.assertEqual(['do a'], log)

    def test_failure_undoes_steps_in_reverse_order(self):
        log = []
        flow = linear_flow.Flow('f').add(
            named(LogStep, 'one', 'first'), named(LogStep, 'two', 'second'),
            Fail())
        self.assertRaises(KeyError, engine.run, flow,
                          array=NoArray(), log=log, first='a',
                          second='b')
        self.assertEqual(['do a', 'do b', 'undo b 2', 'undo a 1'], log)

    def test_failed_undo_does_not_stop_the_others(self):
        log = []
        flow = linear_flow.Flow('f').add(
            named(LogStep, 'one', 'first'), named(BadUndo, 'two', 'second'),
            Fail())
        self.assertRaises(KeyError, engine.run, flow,
                          array=NoArray(), log=log, first='a',
                          second='b')
        self.assertEqual(['do a', 'do b', 'undo a 1'], log)


if __name__ == '__main__':
    unittest.main()
