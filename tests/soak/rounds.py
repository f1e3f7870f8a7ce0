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

"""One round: random operations on random arrays; nothing may be left."""

from collections.abc import Callable
import itertools
import random
from typing import Any
import uuid

from cinder import exception
import fixtures

from tests import arrays
from tests.functional import backend
from tests.functional import base
from tests.functional import disks
from tests.functional import images
from tests.functional import learned
from tests.functional import replicated
from tests.soak import drawn
from tests.soak import foreign_objects

OPERATIONS = 25
# Numbers of foreign volumes; the last one exceeds a short page.
_FOREIGN_VOLUMES = (1, 2, 3, 4, drawn.SHORT_PAGE + 5)
# These are always bugs.
_BUGS = (TypeError, KeyError, AttributeError, IndexError, AssertionError,
         NameError, UnicodeError)
_SPECS = ({}, {}, {'kaminario__thin_prov_type': 'nodedup'},
          {'multiattach': '<is> True'},
          {'kaminario__clone_strategy': 'view'})


class NothingToDoError(Exception):
    """There is no object for an operation."""


class Round(images.ImagesTest, replicated.ReplicatedTest):
    """Two arrays with foreign objects, and two back ends on them.

    :ivar seed: determines everything, with the number of the round
    :ivar number: of the round
    :ivar other: the back end that volumes migrate to, and back from
    """

    seed = 0
    number = 0
    keeps_budgets = False
    has_learned = False

    def setUp(self) -> None:
        self.draw = random.Random(f'{self.seed}/{self.number}')  # nosec
        self.protocol = self.draw.choice(('iscsi', 'fc'))
        self.profile = self.draw.choice(('k2', 'sdp'))
        self.counts = {'done': 0, 'refused': 0}
        self.errors: list[str] = []
        # Ids of Cinder's objects determine names, and names the order. They
        # have a generator of their own, because threads use it, too.
        ids = random.Random(f'{self.seed}/{self.number}/ids')  # nosec
        self.useFixture(fixtures.MockPatchObject(
            uuid, 'uuid4', lambda: uuid.UUID(
                int=ids.getrandbits(128), version=4)))
        self.useFixture(fixtures.MockPatchObject(
            base, '_hosts', itertools.count(1)))
        self.retire_all()
        super().setUp()
        self.disks.set_scale(256)

    def install_disks(self, *served: arrays.Served) -> disks.Disks:
        """Install disks of both arrays, because volumes migrate."""
        return super().install_disks(self.primary, self.secondary)

    def retire_all(self) -> None:
        """Use new arrays: verdicts on the existing ones may be cached."""
        self._before = arrays.give_up()
        self.addCleanup(lambda: [one.stop() for one in self._before])

    def use(self, protocol: str, profile: str | None = None, **options: Any
            ) -> backend.Backend:
        """Take two arrays with foreign objects, and set their behaviors."""
        learned.forget()
        self.primary, self.secondary = arrays.pair(self.profile)
        self.array, self.admin = self.primary, self.primary.admin
        self.foreign = {array: foreign_objects.ForeignObjects(array, self.draw)
                        for array in (self.primary, self.secondary)}
        self.hosts = [self.host() for _ in range(3)]
        for array, others in self.foreign.items():
            for _ in range(self.draw.choice(_FOREIGN_VOLUMES)):
                others.add_volume()
            if self.draw.random() < 0.3:
                others.add_host(self.hosts[0])
        self.behaviors = drawn.behaviors(self.draw)
        for array in self.foreign:
            array.control.set_behaviors(**self.behaviors)
        if self.draw.random() < 0.6:
            options['replication_device'] = self.device()
        self.is_replicated = 'replication_device' in options
        if protocol == 'iscsi':
            options['use_chap_auth'] = self.draw.random() < 0.4
        self.other = self._other(protocol)
        self.backend = self.own(protocol, **options)
        return self.backend

    def _other(self, protocol: str) -> backend.Backend:
        """Return a second back end on one of the arrays."""
        self.array = self.draw.choice((self.primary, self.secondary))
        found = self.own(protocol)
        self.array = self.primary
        return found

    def left(self) -> dict[str, int]:
        """Count the objects on the arrays that are not foreign.

        CHAP profiles stay where the array does not delete them.
        """
        stay = [resource for resource in ('host_auth_profiles',)
                if f'DELETE {resource}/#' in self.behaviors['refuse_only']]
        return {f'{array.array.name} {resource}': len(rows)
                for array, others in self.foreign.items()
                for resource, rows in others.left().items()
                if resource not in stay}

    # The operations

    def run_operations(self) -> None:
        """Run the drawn operations, then clean up and check the result."""
        choices = [*self._volumes(), *self._attachments(), *self._images(),
                   *self._others()]
        if self.is_replicated:
            choices += self._replication()
        for _ in range(OPERATIONS):
            self._attempt(self.draw.choice(choices))
            self._check_foreign()
        self._clear_up()

    def _attempt(self, operation: Callable[[], Any]) -> None:
        """Run one operation; it may be refused."""
        try:
            operation()
            self.counts['done'] += 1
        except NothingToDoError:
            pass
        except (backend.OperationFailed, exception.CinderException) as error:
            cause = getattr(error, 'cause', None)
            self.errors.append(f'{operation.__name__}: {error}')
            if isinstance(cause, _BUGS):
                raise cause
            self.counts['refused'] += 1

    def _volume(self, *statuses: str) -> Any:
        """Return a random volume in one of these states."""
        found = [volume for volume in self.backend.volumes()
                 if volume.status in (statuses or ('available', 'in-use'))]
        if not found:
            raise NothingToDoError()
        return self.draw.choice(found)

    def _snapshot(self) -> Any:
        found = [one for one in self.backend.snapshots()
                 if one.status == 'available']
        if not found:
            raise NothingToDoError()
        return self.draw.choice(found)

    def _group(self) -> Any:
        found = [one for one in self.backend.groups()
                 if one.status == 'available']
        if not found:
            raise NothingToDoError()
        return self.draw.choice(found)

    def _volumes(self) -> list[Callable[[], Any]]:
        api = self.backend

        def create() -> None:
            api.create_volume(1, **self.draw.choice(_SPECS))

        def snapshot() -> None:
            api.create_snapshot(self._volume())

        def from_snapshot() -> None:
            api.volume_from_snapshot(self._snapshot())

        def clone() -> None:
            api.clone(self._volume())

        def extend() -> None:
            volume = self._volume()
            api.extend_volume(volume, volume.size + 1)

        def revert() -> None:
            one = self._snapshot()
            api.revert(api.volume(one.volume_id), one)

        def delete() -> None:
            api.delete_volume(self._volume('available', 'error'))

        def delete_snapshot() -> None:
            api.delete_snapshot(self._snapshot())

        return [create, create, create, snapshot, snapshot, from_snapshot,
                clone, clone, extend, revert, delete, delete,
                delete_snapshot]

    def _attachments(self) -> list[Callable[[], Any]]:
        api = self.backend

        def attach() -> None:
            api.attach(self._volume('available'),
                       self.draw.choice(self.hosts))

        def attach_again() -> None:
            api.attach(self._volume(), self.draw.choice(self.hosts))

        def detach() -> None:
            volume = self._volume('in-use')
            api.detach(self.draw.choice(list(volume.volume_attachment)))

        def force_detach() -> None:
            api.force_detach(self._volume('in-use'))

        return [attach, attach, attach, attach_again, detach, detach,
                force_detach]

    def _images(self) -> list[Callable[[], Any]]:
        api = self.backend

        def from_image() -> None:
            api.volume_from_image(self.image(b'data' * 1024))

        def upload() -> None:
            self.upload(self._volume(), 'raw')

        return [from_image, upload]

    def _others(self) -> list[Callable[[], Any]]:
        api = self.backend
        others = self.foreign[self.primary]

        def manage() -> None:
            wanted = others.add_volume(plain=True)
            api.manage({'source-name': wanted['name']})
            others.give(wanted)

        def retype() -> None:
            api.retype(self._volume(), **self.draw.choice(_SPECS))

        def migrate() -> None:
            api.migrate(self._volume('available'), self.other)

        def migrate_back() -> None:
            found = self.other.volumes()
            if not found:
                raise NothingToDoError()
            self.other.migrate(self.draw.choice(found), api)

        def group() -> None:
            made = api.create_group()
            api.create_volume(1, made)

        def group_snapshot() -> None:
            api.create_group_snapshot(self._group())

        def move() -> None:
            api.update_group(self._group(), add=[self._volume('available')])

        def leave() -> None:
            found = self._group()
            api.update_group(found, remove=api.members(found)[:1])

        def delete_foreign() -> None:
            others = self.foreign[self.draw.choice(
                (self.primary, self.secondary))]
            others.remove_volume()
            others.add_volume()

        def fill() -> None:
            full = self.draw.random() < 0.3
            for array in self.foreign:
                array.control.set_behaviors(full=full)

        def wait() -> None:
            self.clock.sleep(self.draw.choice((1, 60, 700)))

        def stats() -> None:
            api.stats()

        return [manage, manage, retype, migrate, migrate_back, group,
                group_snapshot, move, leave, delete_foreign,
                delete_foreign, delete_foreign, fill, wait, stats]

    def _replication(self) -> list[Callable[[], Any]]:
        api = self.backend

        def create() -> None:
            self.replicated()

        def replicate() -> None:
            api.retype(self._volume(), **replicated.REPLICATED)

        def stop() -> None:
            api.retype(self._volume())

        def fail_over() -> None:
            api.fail_over(replicated.TARGET)

        def fail_back() -> None:
            api.fail_back()
            api.enable()

        return [create, create, replicate, stop, fail_over, fail_back,
                fail_back]

    # Invariants

    def _check_foreign(self) -> None:
        self.assertEqual([], [text for others in self.foreign.values()
                              for text in others.changes()],
                         f'after {self.errors[-1:]}')

    def _clear_up(self) -> None:
        for array in self.foreign:
            array.control.set_behaviors(full=False)
        for _ in range(3):
            if not self.backend.service().active_backend_id:
                break
            self.clock.sleep(600)
            self._attempt(self.backend.fail_back)
        self.backend.enable()
        self.backend.delete_everything()
        self.other.delete_everything()
        self._check_foreign()
        self.clock.sleep(600)
        self.assertEqual({}, self.left(), str([
            others.left() for others in self.foreign.values()]))


def test_case(seed: int, number: int) -> Round:
    """Return the round with a seed and a number, ready to run."""
    kind = type(f'Round{number}', (Round,), {
        'seed': seed, 'number': number, 'runTest': Round.run_operations})
    made: Round = kind('runTest')
    return made
