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

"""Mappings that no attachment needs are removed within one interval.

Two services of a cluster run their steps in every possible order. Cinder
writes its rows before and after the driver's step.
"""

from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Sequence
import itertools
from typing import Any

from cinder import exception

from tests.functional import backend
from tests.functional import base
from tests.functional import clocks

GUEST = '7e000000-0000-4000-8000-00000000000'
FAILED = exception.VolumeBackendAPIException
SHARED = {'multiattach': '<is> True'}
#: Marks that earlier versions wrote into connectors.
MARKS = {'k2_attachment': 'a' * 32, 'k2_released': 'inf'}

Step = Callable[[], None]


def interleavings(first: Sequence[Step], second: Sequence[Step]
                  ) -> Iterator[list[Step]]:
    """Yield all interleavings of two sequences of steps."""
    length = len(first) + len(second)
    for places in itertools.combinations(range(length), len(first)):
        rest = [iter(second), iter(first)]
        yield [next(rest[place in places]) for place in range(length)]


class Detach:
    """The detach of one guest, in Cinder's steps."""

    def __init__(self, service: backend.Backend, attachment: Any) -> None:
        self._service = service
        self._id = attachment.id
        self._volume_id = attachment.volume_id
        self.needs_mapping = True

    def steps(self) -> list[Step]:
        """Return the steps: the driver unmaps, the API removes the row."""
        return [self._unmap, self._forget]

    def _unmap(self) -> None:
        self._service.manager.attachment_delete(
            self._service.context, self._id,
            self._service.volume(self._volume_id))
        self.needs_mapping = False

    def _forget(self) -> None:
        self._service.volume(self._volume_id).finish_detach(self._id)


class Attach:
    """The attach of one guest, in Cinder's steps."""

    def __init__(self, service: backend.Backend, volume: Any,
                 connector: dict[str, Any]) -> None:
        self._service = service
        self._volume_id = volume.id
        self._connector = connector
        self.needs_mapping = False
        self.attachment: Any = None

    def steps(self) -> list[Step]:
        """Return the steps: reserve, map, store the connector."""
        return [self.reserve, self._map, self._note]

    def reserve(self) -> None:
        """Create the row, which does not name the host yet."""
        self.attachment = self._service.api._attachment_reserve(
            self._service.context, self._service.volume(self._volume_id),
            GUEST + '9')

    def cancel(self) -> None:
        """Cancel the reservation, of which the driver is not notified."""
        self._service.volume(self._volume_id).finish_detach(
            self.attachment.id)

    def _map(self) -> None:
        self._service.driver.initialize_connection(
            self._service.volume(self._volume_id), dict(self._connector))
        self.needs_mapping = True

    def _note(self) -> None:
        self.attachment.connector = dict(self._connector)
        self.attachment.save()
        self.attachment = self._service._complete(self.attachment)


class ReconciliationTest(base.FunctionalTest):
    """Two services, and one multiattach volume."""

    keeps_budgets = False

    def setUp(self) -> None:
        super().setUp()
        self.first = self.own(self.protocol)
        self.second = self.new_backend(self.protocol)
        for member in (self.first, self.second):
            member.cluster = f'cluster@{self.first.name}'
            self.assertTrue(member.restart(), self.log.errors_text())
        self.volume = self.first.create_volume(1, **SHARED)

    def attach(self, *connectors: Any) -> list[Any]:
        """Attach the volume to one guest for each connector."""
        return [self.first.attach(self.volume, connector, GUEST + str(n))
                for n, connector in enumerate(connectors)]

    def pass_interval(self) -> None:
        """Let an interval of reconciliation pass on both services."""
        self.reconcile(self.first, self.second)

    def assert_mapped(self, needed: bool, what: str) -> None:
        """Check that the mapping exists, if it is needed."""
        if needed:
            self.assertEqual(1, len(self._mappings()), what)

    def assert_detached(self) -> None:
        """Check that neither mapping nor host is left."""
        self.assert_left(volumes=1, volume_groups=1)

    def keep(self) -> None:
        """Detach two guests of a host at once, which keeps the mapping."""
        host = self.host()
        pair = [Detach(self.first, guest)
                for guest in self.attach(host, host)]
        for step in zip(*(one.steps() for one in pair)):
            for each in step:
                each()
        self.assertEqual(1, len(self._mappings()))


class OrdersTest(ReconciliationTest):
    """Every order of the steps of two guests on one host."""

    def take(self, guests: Sequence[Any], number: int, between: Step) -> None:
        """Run the steps of two guests in the order of that number.

        :param between: called after each step
        """
        steps = list(interleavings(*(one.steps() for one in guests)))[number]
        names = ' '.join(step.__name__ for step in steps)
        for step in steps:
            step()
            self.assert_mapped(any(one.needs_mapping for one in guests),
                               f'{names}: after {step.__name__}')
            between()
            self.assert_mapped(any(one.needs_mapping for one in guests),
                               f'{names}: later than {step.__name__}')

    def detach_both(self, between: Step) -> None:
        """Run two detaches, one on each service, in every order."""
        for number in range(6):
            host = self.host()
            guests = self.attach(host, host)
            self.take([Detach(self.first, guests[0]),
                       Detach(self.second, guests[1])], number, between)
            self.pass_interval()
            self.assert_detached()

    def detach_and_attach(self, between: Step) -> None:
        """Run a detach on one service and an attach on the other."""
        for number in range(10):
            host = self.host()
            guest, = self.attach(host)
            comer = Attach(self.second, self.volume, host)
            self.take([Detach(self.first, guest), comer], number, between)
            self.pass_interval()
            self.assert_mapped(True, 'it stays')
            self.first.detach(comer.attachment)
            self.pass_interval()
            self.assert_detached()

    def test_two_detaches(self) -> None:
        self.detach_both(lambda: None)

    def test_two_slow_detaches(self) -> None:
        """More than an interval passes between any two steps."""
        self.detach_both(self.pass_interval)

    def test_a_detach_and_an_attach(self) -> None:
        self.detach_and_attach(lambda: None)

    def test_a_slow_detach_and_a_slow_attach(self) -> None:
        self.detach_and_attach(self.pass_interval)


class KeptTest(ReconciliationTest):
    """The handling of a mapping that was kept."""

    def test_a_service_is_restarted(self) -> None:
        """The service finds the kept mapping on the array."""
        self.keep()
        for member in (self.first, self.second):
            self.assertTrue(member.restart())
        self.pass_interval()
        self.assert_detached()

    def test_the_array_hangs_before_it_is_removed(self) -> None:
        """Statistics are not delayed; the mapping is removed later."""
        self._hang('GET', 'host_iqns', mappings=1)

    def test_the_array_hangs_after_it_is_removed(self) -> None:
        """The host, to which nothing is mapped any more, is removed later."""
        self._hang('DELETE', 'hosts', mappings=0)

    def _hang(self, method: str, path: str, mappings: int) -> None:
        self.keep()
        self.fault('hang', method, path, seconds=30, times=9)
        begin = self.clock.monotonic()
        self.reconcile(self.first)
        self.assertLess(self.clock.monotonic() - begin,
                        clocks.INTERVAL + 2 * 10)
        self.assertEqual('up', self.first.stats()['backend_state'])
        self.assertEqual(mappings, len(self._mappings()))
        self.array.control.clear_faults()
        self.reconcile(self.first)
        self.assert_detached()

    def test_an_administrator_has_mapped_it(self) -> None:
        """The mapping stays: the host was not created by the driver."""
        host = self.make('hosts', name='by-hand', type='Linux')
        self.make('host_iqns', iqn='iqn.1994-05.com.example:hand',
                  host={'ref': f'/hosts/{host["id"]}'})
        found, = self.array.control.leftovers()['volumes']
        mapping = self.admin.create(
            'mappings', host={'ref': f'/hosts/{host["id"]}'},
            volume={'ref': f'/volumes/{found["id"]}'})
        self.assertTrue(self.first.restart())
        self.pass_interval()
        self.pass_interval()
        self.assertEqual([mapping['id']],
                         [one['id'] for one in self.admin.list('mappings')])
        self.admin.delete('mappings', mapping['id'])

    def test_the_volume_is_deleted(self) -> None:
        self.keep()
        self.first.delete_volume(self.volume)
        self.assertNothingLeft()

    def test_the_volume_is_unmanaged(self) -> None:
        self.keep()
        self.first.unmanage(self.volume)
        self.assert_detached()
        self.first.manage({'source-name': f'cv-{self.volume.id}'})

    def test_it_is_attached_again(self) -> None:
        self.keep()
        guest, = self.attach(self.host())
        self.pass_interval()
        self.assertEqual(1, len(self._mappings()))
        self.first.detach(guest)
        self.assert_detached()

    def test_a_reservation_lasts_long(self) -> None:
        """As of a shelved guest, whose row names no host yet."""
        guest, = self.attach(self.host())
        comer = Attach(self.second, self.volume, {})
        comer.reserve()
        self.first.detach(guest)
        for _ in range(3):
            self.pass_interval()
            self.assertEqual(1, len(self._mappings()))
        comer.cancel()
        self.pass_interval()
        self.assert_detached()

    def test_an_attach_fails_while_another_is_under_way(self) -> None:
        """The other one may already have mapped the volume."""
        host = self.host()
        slow = Attach(self.second, self.volume, host)
        reserve, map_it, note = slow.steps()
        reserve()
        map_it()
        # Otherwise Cinder allows only one reservation at a time.
        row = self.first.volume(self.volume.id)
        row.update({'status': 'in-use'})
        row.save()
        self.fault('status', 'GET', 'mappings', status=403)
        self.assertRaises(FAILED, self.first.attach, self.volume, host,
                          GUEST + '1')
        self.array.control.clear_faults()
        self.assertEqual(1, len(self._mappings()))
        note()
        self.pass_interval()
        self.assertEqual(1, len(self._mappings()))

    def test_rows_with_marks_of_earlier_versions(self) -> None:
        """The marks make no difference."""
        host = self.host()
        guests = self.attach(host, host)
        for guest in guests:
            guest.connector = {**guest.connector, **MARKS}
            guest.save()
        self.first.detach(guests[0])
        self.assertEqual(1, len(self._mappings()))
        self.second.detach(guests[1])
        self.assert_detached()

    def test_no_calls_while_nothing_is_kept(self) -> None:
        self.attach(self.host())
        self.pass_interval()
        with self.assert_calls(0):
            self.clock.slept += 200
            self.first.side.reconciliation.run()


class HostGroupTest(ReconciliationTest):
    """Two hosts that are members of one host group."""

    def setUp(self) -> None:
        super().setUp()
        group = self.make('host_groups', name='cluster')
        self.members = []
        for number in range(2):
            connector = self.host()
            host = self.make('hosts', name=f'member-{number}', type='Linux',
                             host_group={
                                 'ref': f'/host_groups/{group["id"]}'})
            self.make('host_iqns', iqn=connector['initiator'],
                      host={'ref': f'/hosts/{host["id"]}'})
            self.members.append(connector)

    def leave_at_once(self) -> None:
        """Detach both members; each detach sees the row of the other."""
        pair = [Detach(service, guest) for service, guest in zip(
            (self.first, self.second), self.attach(*self.members))]
        for steps in zip(*(one.steps() for one in pair)):
            for step in steps:
                step()
        self.assertEqual(1, len(self._mappings()))

    def test_both_leave_at_once(self) -> None:
        self.leave_at_once()
        self.pass_interval()
        self.assertEqual([], self._mappings())

    def test_the_volume_is_deleted(self) -> None:
        self.leave_at_once()
        self.first.delete_volume(self.volume)
        self.assertEqual([], self._mappings())

    def test_one_member_stays(self) -> None:
        """The member that stays unmaps the volume when it detaches."""
        first, second = self.attach(*self.members)
        self.first.detach(first)
        for _ in range(2):
            self.pass_interval()
            self.assertEqual(1, len(self._mappings()))
        self.second.detach(second)
        self.assertEqual([], self._mappings())
