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

"""In-tree Cinder on an array that supports only the known requests.

The in-tree driver sends only known requests. So whichever way the array
refuses other requests, it refuses none in these tests.
"""

import types
from typing import Any
from unittest import mock

from cinder.volume.drivers.kaminario import kaminario_common
import ddt

from tests import contexts
from tests.functional import backend
from tests.functional import base
from tests.functional import images
from tests.functional import in_tree
from tests.functional import replicated
from tests.functional import test_upgrade

# The ways of refusing that test_all does not use.
REFUSALS = ('404', '405', '500', '501', 'drop', 'no_hits', 'ignored')


def refused(*served: Any) -> list[str]:
    """Return the requests that failed since journals were cleared."""
    return [f'{entry.method} {entry.path}?{entry.query} {entry.status}'
            for one in served for entry in one.control.journal()
            if not entry.status or entry.status >= 400]


class InTreeBase(base.FunctionalTest):
    """A test of the in-tree driver on a clean array."""

    profile = 'known'
    # Volumes of in-tree Cinder have no ids: names are looked up.
    keeps_budgets = False

    def _shared(self, protocol: str, **options: Any) -> backend.Backend:
        return self.own(test_upgrade.OLD[protocol], san_api_port=None,
                        san_ip=self.array.host, **options)


@ddt.ddt
class InTreeTest(InTreeBase, images.ImagesTest):
    """Over iSCSI."""

    def setUp(self) -> None:
        super().setUp()
        self.disks.set_scale(64)

    @ddt.data(*REFUSALS)
    def test_volumes(self, refusal: str) -> None:
        self.switch(refuse_unlisted=refusal)
        volume = self.backend.create_volume(1)
        attachment = self.backend.attach(volume, self.host())
        self.backend.detach(attachment)
        self.backend.delete_volume(volume)
        self.assertNothingLeft()
        self.assertEqual([], refused(self.array))

    def test_all(self) -> None:
        """All features work; the array answers other requests with 400."""
        plain = self.backend.create_volume(1, **in_tree.NODEDUP)
        source = self.backend.volume_from_image(self.image(b'first'))
        in_tree.copies(self, source)
        self.backend.extend_volume(plain, 2)
        in_tree.attachments(self, source, plain)
        in_tree.managed(self)
        self.assertEqual(3, self.backend.stats()['total_volumes'])
        self.backend.delete_everything()
        self.assertNothingLeft()
        self.assertEqual([], refused(self.array))


class InTreeOverFCTest(InTreeTest):
    """Over Fibre Channel."""

    protocol = 'fc'


class InTreeReplicationTest(InTreeBase, replicated.ReplicatedTest):
    """Replicated volumes, with the features of in-tree Cinder."""

    def setUp(self) -> None:
        super().setUp()
        # Pauses take no time; the clocks of the arrays advance.
        time = types.SimpleNamespace(
            time=self.primary.time, sleep=self.clock.sleep)
        contexts.enter(self, mock.patch.object(kaminario_common, 'time', time))

    def device(self, **more: Any) -> str:
        """Return a device; in-tree its id must be the peer's address."""
        return super().device(backend_id=self.secondary.host, **more)

    def test_all(self) -> None:
        volume, other = self.replicated(), self.backend.create_volume(1)
        self.backend.retype(other, **replicated.REPLICATED)
        self.assertEqual(
            {'in_sync'}, {state for _, state in self.sessions().values()})
        self.backend.retype(other)
        self.backend.retype(other, **replicated.REPLICATED)
        self.backend.delete_volume(other)
        self.backend.fail_over(self.secondary.host)
        self.assertEqual(
            ('target', 'failed_over'), self.sessions()[f'rssn-{volume.id}'])
        self.backend.detach(self.backend.attach(volume, self.host()))
        # The in-tree driver fails back if the target is the active array.
        self.backend.fail_over(self.secondary.host)
        self.assertEqual(
            ('source', 'in_sync'), self.sessions()[f'ssn-{volume.id}'])
        self.backend.delete_volume(volume)
        self.assertNothingLeft()
        self.assertEqual([], refused(self.primary, self.secondary))
