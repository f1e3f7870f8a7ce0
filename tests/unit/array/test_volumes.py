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

"""What moving a volume asks for, and what shows that it was moved."""

from unittest import mock

import ddt

from cinder_k2.array import volumes
from cinder_k2 import rest
from tests.unit.array import recorded

TARGET, OTHER = rest.Ref('volume_groups', 9), rest.Ref('volume_groups', 5)
LOOK = mock.call.volumes.search(volume_group=TARGET)


@ddt.ddt
class MoveTest(recorded.RecordedTest):

    def setUp(self):
        super().setUp()
        self.volumes = volumes.Volumes(self.client)

    def shows(self, changed):
        """Move volume 7; whether this reply shows it."""
        self.volumes.move(7, 9, ['cv-1'])
        call, = self.client.volumes.update.call_args_list
        shows = call.kwargs['shows']
        self.assertEqual(mock.call(7, names=['cv-1'], volume_group=TARGET,
                                   shows=shows), call)
        return shows(changed)

    @ddt.data((TARGET, True), (OTHER, False))
    @ddt.unpack
    def test_the_reply_tells(self, group, expected):
        self.assertIs(expected, self.shows(
            rest.Volume(7, 'cv-1', volume_group=group)))
        self.assertNotIn(LOOK, self.calls())

    @ddt.data(([7, 8], True), ([8], False), ([], False))
    @ddt.unpack
    def test_the_reply_does_not_tell(self, listed, expected):
        """VOL-10: the volume is looked for in its new group."""
        self.client.volumes.search.return_value = [
            rest.Volume(id, f'cv-{id}', volume_group=TARGET) for id in listed]
        self.assertIs(expected, self.shows(rest.Volume(
            7, 'cv-1', unread=frozenset({'volume_group'}))))
        self.assertEqual(LOOK, self.calls()[-1])
