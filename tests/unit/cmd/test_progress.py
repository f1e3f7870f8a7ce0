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

"""Progress messages of a command that waits for arrays."""

from concurrent import futures
from unittest import mock

import testtools

from cinder_k2.cmd import progress


class ProgressTest(testtools.TestCase):

    def wait(self, **arrays):
        """Return the messages until all are done; each message ends one.

        :param arrays: whether the array of this name is done from the start
        """
        pending = {futures.Future(): name for name in arrays}
        for one, name in pending.items():
            if arrays[name]:
                one.set_result(None)
        said = []

        def say(text):
            said.append(text)
            first = next(one for one in pending if not one.done())
            first.set_exception(OSError())

        with mock.patch.object(progress, '_SECONDS', 0.1):
            progress.wait(pending, say)
        return said

    def test_nothing_to_wait_for(self):
        self.assertEqual([], self.wait(a=True, b=True))
        self.assertEqual([], self.wait())

    def test_those_that_are_not_done(self):
        self.assertEqual(['waiting for a, c', 'waiting for c'],
                         self.wait(a=False, b=True, c=False))

    def test_an_array_is_named_once(self):
        pending = {futures.Future(): 'a', futures.Future(): 'a'}
        said = []

        def say(text):
            said.append(text)
            for one in pending:
                one.set_result(None)

        with mock.patch.object(progress, '_SECONDS', 0.01):
            progress.wait(pending, say)
        self.assertEqual(['waiting for a'], said)
