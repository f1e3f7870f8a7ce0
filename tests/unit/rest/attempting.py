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

"""Doubles for tests of attempts to use capabilities."""

import contextlib
import unittest
from unittest import mock

from cinder_k2 import rest
from cinder_k2.rest import attempts
from cinder_k2.rest import calls
from cinder_k2.rest import capabilities
from cinder_k2.rest import verdicts

NAME = 'bulk:snapshots:create'
NO = rest.Refused('no such thing', status=400)


class Script:
    """A callable that plays scripted steps in turn, and counts its calls."""

    def __init__(self, *steps):
        self.steps = list(steps)
        self.calls = 0

    def __call__(self):
        self.calls += 1
        step = self.steps.pop(0) if self.steps else 'ok'
        if isinstance(step, Exception):
            raise step
        return step() if callable(step) else step


class Prober:
    """A session double that records trials and known reads."""

    def __init__(self):
        self.in_trial = False
        self.answered = True
        self.reads = 0
        self.seconds = []
        self.replies = []

    def trial(self, seconds=None, reply=None, awaits_turn=False):
        self.seconds.append(seconds)
        self.replies.append(reply)
        return self._inside()

    def deadline(self, seconds):
        self.seconds.append(seconds)
        return contextlib.nullcontext()

    def limited_retries(self):
        return contextlib.nullcontext()

    def _inside(self):
        return mock.patch.object(self, 'in_trial', True)

    def answers(self):
        self.reads += 1
        yield from ()
        return self.answered

    def run(self, steps):
        """Carry out steps that send nothing."""
        try:
            next(steps)
        except StopIteration as end:
            return end.value
        raise AssertionError('a call was to be sent')


class Plain:
    """Capabilities and attempts, for tests that pass plain callables."""

    def __init__(self, known, prober):
        self._known = known
        self._attempts = attempts.Attempts(known, prober)
        self._run = prober.run

    def __getattr__(self, name):
        return getattr(self._known, name)

    def prefer(self, name, novel, older, **how):
        return self._run(self._attempts.preferring(
            name, calls.plain(novel), calls.plain(older), **how))

    def read(self, names, novel, older):
        return self._run(self._attempts.reading(
            names, calls.plain(novel), calls.plain(older)))

    def require(self, name, novel, **how):
        return self._run(self._attempts.requiring(
            name, calls.plain(novel), **how))

    def learn(self, name, novel, proves):
        return self._attempts.learn(name, novel, proves)


class Time:
    """A double of the time module, whose clocks both show ``now``."""

    def __init__(self):
        self.now = 1e9

    def time(self):
        return self.now

    def monotonic(self):
        return self.now


class Case(unittest.TestCase):

    def setUp(self):
        super().setUp()
        self.time = Time()
        for module in (attempts, capabilities):
            patcher = mock.patch.object(module, 'time', self.time)
            patcher.start()
            self.addCleanup(patcher.stop)
        self.prober = Prober()
        self.store = verdicts.Memory()
        self.known = self.made()
        logs = self.assertLogs(capabilities.LOG, 'WARNING')
        self.logs = logs.__enter__()
        capabilities.LOG.warning('first line')
        self.addCleanup(logs.__exit__, None, None, None)

    def made(self, **settings):
        return Plain(capabilities.Capabilities(
            '10.0.0.1', self.store, **settings), self.prober)

    def state(self, name=NAME):
        return self.known.verdict(name).state

    def prefer(self, *novel, older='older', **settings):
        """Return the result, the calls with NAME, and the calls without it."""
        novel, older = Script(*novel), Script(older)
        return (self.known.prefer(NAME, novel, older, **settings),
                novel.calls, older.calls)
