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

import os
import threading
import unittest

from cinder_k2.rest import sequence


def parts(header):
    """The id and the number in a header."""
    id, _, number = header.partition('=')
    return id, int(number)


class SequencesTest(unittest.TestCase):

    def setUp(self):
        super().setUp()
        self.sequences = sequence.Sequences()

    def one(self):
        with self.sequences.next() as header:
            return parts(header)

    def test_the_number_rises_under_one_id(self):
        ids, numbers = zip(*[self.one() for _ in range(5)], strict=True)
        self.assertEqual(1, len(set(ids)))
        self.assertRegex(ids[0], r'\Ak2-[0-9a-f]{32}\Z')
        self.assertEqual((1, 2, 3, 4, 5), numbers)

    def test_concurrent_writes_have_different_ids(self):
        with self.sequences.next() as one, self.sequences.next() as two:
            self.assertNotEqual(parts(one)[0], parts(two)[0])
        first, second = parts(one)[0], parts(two)[0]
        # Both ids are reused, so that there are few (SEQ-2).
        with self.sequences.next() as one, self.sequences.next() as two:
            self.assertEqual({(first, 2), (second, 2)},
                             {parts(one), parts(two)})

    def test_failed_write_releases_its_id(self):
        with self.assertRaises(KeyError), self.sequences.next():
            raise KeyError
        self.assertEqual(2, self.one()[1])

    def test_two_clients_never_share_an_id(self):
        with sequence.Sequences().next() as other:
            self.assertNotEqual(self.one()[0], parts(other)[0])

    def test_forked_child_has_its_own_ids(self):
        before = self.one()
        receive, send = os.pipe()
        child = os.fork()
        if not child:
            try:
                header = '%s=%d' % self.one()
                os.write(send, header.encode())
            finally:
                os._exit(0)
        os.close(send)
        os.waitpid(child, 0)
        with open(receive) as pipe:
            inside = parts(pipe.read())
        self.assertNotEqual(before[0], inside[0])
        self.assertEqual(1, inside[1])
        self.assertEqual((before[0], 2), self.one())

    def test_threads(self):
        seen = []

        def work():
            for _ in range(200):
                with self.sequences.next() as header:
                    seen.append(header)
        threads = [threading.Thread(target=work) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(10)
        self.assertEqual(1600, len(set(seen)))
        self.assertLessEqual(len({parts(header)[0] for header in seen}), 8)
