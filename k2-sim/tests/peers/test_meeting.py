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
"""Messages between arrays while one of them creates an object on the other."""

import threading

import msgspec

from tests import pairs

LIMIT = 10


class Line:
    """The link to an array; runs something during a request."""

    def __init__(self, array, kind, meanwhile):
        self._array = array
        self._kind = kind
        self._meanwhile = meanwhile

    def __getattr__(self, name):
        return getattr(self._array, name)

    def handle(self, method, path, **options):
        reply = self._array.handle(method, path, **options)
        asked = msgspec.json.decode(options['body']).get('questions', ())
        if self._kind in [question[0] for question in asked]:
            self._meanwhile()
        return reply


class TestMeeting(pairs.PairTest):
    """REP-1: what was created on the peer exists when the request ends."""

    def meet_behind(self, kind, side):
        """Send all sessions of one side to the other during a request."""
        threads = []

        def meet():
            side.array.links.reset()
            thread = threading.Thread(target=side.array.links.sync)
            threads.append(thread)
            thread.start()
            thread.join(0.1)

        self.a.array.links.transport.network = {
            pairs.HOSTS[0]: self.a.array,
            pairs.HOSTS[1]: Line(self.b.array, kind, meet)}
        self.addCleanup(lambda: [thread.join(LIMIT) for thread in threads])

    def check(self):
        for side in (self.a, self.b, self.a):
            side.control.tick()
        self.write('in_sync')
        self.a.control.write(self.volume['id'], 'two')
        self.clock.advance(300)
        self.assertEqual(('two', 'two'), self.contents())

    def test_source_says_all_while_it_makes_a_session(self):
        self.meet_behind('create', self.a)
        self.prepare()
        self.check()

    def test_target_says_all_meanwhile(self):
        self.meet_behind('create', self.b)
        self.prepare()
        self.check()

    def test_source_says_all_while_it_makes_a_volume(self):
        self.meet_behind('add_volume', self.a)
        self.prepare()
        self.check()
