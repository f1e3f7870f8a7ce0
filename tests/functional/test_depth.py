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

"""How deep the stack is when a request is sent.

A budget, so that a reader of the code gets from Cinder's call to the request
in a few steps. The tests count, and print, all frames from the public method
of the driver to ``requests.Session.send``, of whichever package.
"""

from collections.abc import Callable
from collections.abc import Iterator
import contextlib
import sys
import traceback
from typing import Any
from unittest import mock

import ddt
import requests

from tests.functional import base
from tests.functional import learned

#: The maximum number of frames.
GOAL = 12

Stack = traceback.StackSummary


@ddt.ddt
class DepthTest(base.FunctionalTest):

    @ddt.data(*((protocol, cold) for protocol in ('iscsi', 'fc')
                for cold in (True, False)))
    @ddt.unpack
    def test_depth(self, protocol: str, cold: bool) -> None:
        """With and without capability verdicts."""
        self.use(protocol)
        self.own(protocol)
        if cold:
            learned.forget()
            self.backend.restart()
        driver, attachments = self.backend.driver, []
        host = self.host()
        for name in ('a new host', 'a known host'):
            with self._measured(f'{protocol}, cold: {cold}', 'create_volume',
                                driver):
                volume = self.backend.create_volume(1)
            with self._measured(f'{protocol}, {name}, cold: {cold}',
                                'initialize_connection', driver):
                attachments.append(self.backend.attach(volume, host))
        for attachment in attachments:
            self.backend.detach(attachment)

    @contextlib.contextmanager
    def _measured(self, what: str, method: str, driver: Any
                  ) -> Iterator[None]:
        """Check the stacks of all requests that a driver method sends."""
        stacks: list[Stack] = []
        do = getattr(driver, method)
        inside: list[str] = []

        def watched(*args: Any, **more: Any) -> Any:
            inside.append(method)
            try:
                return do(*args, **more)
            finally:
                inside.pop()

        with mock.patch.object(driver, method, watched), \
                self._sends(lambda: bool(inside), stacks):
            yield
        self.assertTrue(stacks)
        deepest = max((self._from(method, stack) for stack in stacks),
                      key=len)
        print(f'{method} ({what}): {len(deepest)} frames at the deepest '
              f'request, {GOAL} at most', file=sys.stderr)
        for frame in deepest:
            print(f'    {frame.filename.rpartition("site-packages/")[2]}:'
                  f'{frame.lineno} {frame.name}', file=sys.stderr)
        self.assertLessEqual(len(deepest), GOAL, method)

    @contextlib.contextmanager
    def _sends(self, counts: Callable[[], bool], stacks: list[Stack]
               ) -> Iterator[None]:
        send = requests.Session.send

        def seen(*args: Any, **more: Any) -> Any:
            if counts():
                stacks.append(traceback.extract_stack())
            return send(*args, **more)

        with mock.patch.object(requests.Session, 'send', seen):
            yield

    def _from(self, method: str, stack: Stack) -> Stack:
        """Return the frames from a method on.

        The last one, of the wrapper, counts as that of ``send``.
        """
        places = [number for number, frame in enumerate(stack)
                  if frame.name == method
                  and frame.filename.endswith('cinder_k2/driver/base.py')]
        # In another thread, the stack would not include the method.
        self.assertTrue(places, ''.join(stack.format()))
        return Stack.from_list(stack[places[0]:])
