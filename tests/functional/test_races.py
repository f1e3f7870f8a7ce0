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

"""Attachments that run concurrently, or are interrupted."""

import concurrent.futures
import functools
import threading
import time
from typing import Any
from unittest import mock

from cinder import exception
from cinder.volume import driver as cinder_driver
from cinder.zonemanager import utils as fczm_utils
import ddt

from cinder_k2.array import host_identity
from cinder_k2.driver.operations import host_holds
from cinder_k2 import rest
from tests.functional import backend
from tests.functional import base

GUEST = '7e000000-0000-4000-8000-00000000000'
FAILED = exception.VolumeBackendAPIException
TIMEOUT = 10
SHARED = {'multiattach': '<is> True'}

_share = host_holds.Hold.share


def _share_late(hold: host_holds.Hold) -> None:
    """Share a hold only once another thread waits for it."""
    end = time.monotonic() + TIMEOUT
    while not hold._round.waiting and hold._lock and time.monotonic() < end:
        time.sleep(0.005)
    _share(hold)


class GuestsTest(base.FunctionalTest):
    """Several guests of one volume."""

    def setUp(self) -> None:
        super().setUp()
        self.volume = self.backend.create_volume(1, **SHARED)

    def mapped_hosts(self) -> list[str]:
        """Return references of the hosts that volumes are mapped to."""
        return [m['host']['ref'] for m in self.admin.list('mappings')]

    def attach_guests(self, *connectors: Any) -> list[Any]:
        """Attach the volume to one guest for each connector."""
        return [self.backend.attach(self.volume, c, GUEST + str(n))
                for n, c in enumerate(connectors)]


class RacesTest(GuestsTest):
    """Guests on single hosts."""

    def test_the_last_two_guests_of_a_host_leave_at_once(self) -> None:
        """Cinder removes the rows after both detaches are done.

        So each detach may keep the mapping for the other guest.
        """
        for _ in range(3):
            host = self.host()
            first, second = self.attach_guests(host, host)
            self.together(lambda: self.backend.detach(first),
                          lambda: self.backend.detach(second))
            self.reconcile()
            self.assert_left(volumes=1, volume_groups=1)

    def test_a_guest_leaves_while_another_comes(self) -> None:
        """Cinder stores the new connector only after the driver has mapped."""
        host = self.host()
        first, = self.attach_guests(host)
        self.ignore_call_budget()
        parse = self.backend.manager._parse_connection_options

        def between(*args: Any) -> Any:
            self.backend.detach(first)
            return parse(*args)

        with mock.patch.object(self.backend.manager,
                               '_parse_connection_options', between):
            second = self.backend.attach(self.volume, host, GUEST + '2')
        self.assertEqual(1, len(self.mapped_hosts()))
        self.backend.detach(second)
        self.assertEqual([], self.mapped_hosts())

    def test_the_newest_of_three_guests_leaves_first(self) -> None:
        """It must not be mistaken for one of the other guests."""
        host = self.host()
        first, second, third = self.attach_guests(host, host, host)
        self.backend.detach(third)
        self.backend.detach(self.backend.attach(self.volume, host,
                                                GUEST + '9'))
        self.backend.detach(second)
        self.assertEqual(1, len(self.mapped_hosts()))
        self.backend.detach(first)
        self.assertEqual([], self.mapped_hosts())

    def test_a_host_gets_a_volume_while_another_is_forced_off(self) -> None:
        """The host, which seemed idle, keeps its initiators throughout."""
        other, host = self.backend.create_volume(1), self.host()
        self.attach_guests(host)
        mappings, made = self.backend.side.array.mappings, []
        hosts_in_use = mappings.hosts_in_use

        def then_attach(hosts: Any) -> Any:
            found = hosts_in_use(hosts)
            made.append(self.backend.attach(other, host))
            return found

        with mock.patch.object(mappings, 'hosts_in_use', then_attach):
            self.backend.force_detach(self.volume)
        self.assertEqual([], [c for c in self.calls()
                              if c.startswith('DELETE /api/v2/host')])
        self.assertEqual(1, len(self.mapped_hosts()))
        self.backend.detach(made[0])
        self.assertNotIn('hosts', self.left())

    def test_guests_that_another_driver_has_attached(self) -> None:
        """The connectors in their rows are identical."""
        host = self.host()
        guests = self.attach_guests(host, host, host)
        for row in guests:
            row.connector = dict(host)
            row.save()
        self.backend.detach(guests[2])
        self.backend.detach(guests[1])
        self.assertEqual(1, len(self.mapped_hosts()))
        self.backend.detach(guests[0])
        self.assertEqual([], self.mapped_hosts())

    def test_a_failed_detach_is_repeated(self) -> None:
        """Cinder failed after the driver had detached, and keeps the row."""
        host = self.host()
        first, second = self.attach_guests(host, host)
        driver, row = self.backend.driver, self.backend.volume(
            self.volume.id)
        for _ in range(2):
            self.assertTrue(driver.terminate_connection(
                row, self.backend.attachment(second.id).connector))
        self.backend.detach(second)
        self.assertEqual(1, len(self.mapped_hosts()))
        self.backend.detach(first)
        self.assertEqual([], self.mapped_hosts())

    def test_cinder_copies_on_the_host_of_a_guest(self) -> None:
        """An image is created from an attached volume; no row shows it."""
        host = self.host()
        self.attach_guests(host)
        before, row = self.mapped_hosts(), self.backend.volume(
            self.volume.id)
        device = {'device': {'path': '/dev/null'}, 'connector': mock.Mock()}
        with mock.patch.object(cinder_driver.BaseVD, '_connect_device',
                               lambda _, conn: {'conn': conn, **device}):
            driver = self.backend.driver
            info, _ = driver._attach_volume(self.backend.context, row,
                                            dict(host))
            driver._detach_volume(self.backend.context, info, row,
                                  dict(host), force=True)
        self.assertEqual(before, self.mapped_hosts())

    def test_cinder_copies_on_a_host_of_its_own(self) -> None:
        host = self.host()
        device = {'device': {'path': '/dev/null'}, 'connector': mock.Mock()}
        with mock.patch.object(cinder_driver.BaseVD, '_connect_device',
                               lambda _, conn: {'conn': conn, **device}):
            driver = self.backend.driver
            info, _ = driver._attach_volume(self.backend.context,
                                            self.volume, dict(host))
            driver._detach_volume(self.backend.context, info, self.volume,
                                  dict(host))
        self.assert_left(volumes=1, volume_groups=1)

    def test_killed_after_the_mapping(self) -> None:
        """No attachment knows of it, so the deletion removes it."""
        self.ignore_call_budget()
        self.backend.driver.initialize_connection(self.volume, self.host())
        self.backend.delete_volume(self.volume)
        self.assertNothingLeft()

    def test_a_failed_second_attach_spares_the_first(self) -> None:
        host = self.host()
        self.attach_guests(host)
        self.fault('status', 'GET', 'mappings', status=403)
        self.assertRaises(FAILED, self.backend.attach, self.volume, host,
                          GUEST + '2')
        self.array.control.clear_faults()
        self.assertEqual(1, len(self.mapped_hosts()))

    def test_portals_cannot_be_read(self) -> None:
        """They are read before anything is changed."""
        mine = self.own('iscsi')
        mine.side.array.system._cache.drop('net_ips')
        self.fault('status', 'GET', 'system/net_ips', status=403)
        self.assertRaises(FAILED, mine.attach, self.volume, self.host())
        self.array.control.clear_faults()
        self.assert_left(volumes=1, volume_groups=1)

    def test_an_array_that_ignores_conditions(self) -> None:
        """A foreign initiator must not lead to its host."""
        self.attach_guests(self.host())
        records = self.backend.side._client.host_iqns.search()
        with mock.patch.object(rest.Collection, 'search', autospec=True,
                               return_value=records):
            found = self.backend.side.array.iscsi_hosts.locate(
                host_identity.Sought(('iqn.1994-05.com.example:stranger',)))
        self.assertIsNone(found.host)


class HostGroupRacesTest(GuestsTest):
    """Two hosts that are members of one host group."""

    def setUp(self) -> None:
        super().setUp()
        self.group = self.make('host_groups', name='cluster')
        self.members = [self.member(n) for n in range(2)]

    def member(self, number: int) -> Any:
        """The connector of a member."""
        connector = self.host()
        host = self.make('hosts', name=f'member-{number}', type='Linux',
                         host_group={
                             'ref': f'/host_groups/{self.group["id"]}'})
        self.make('host_iqns', iqn=connector['initiator'],
                  host={'ref': f'/hosts/{host["id"]}'})
        return connector

    def test_both_members_leave_at_once(self) -> None:
        first, second = self.attach_guests(*self.members)
        self.together(lambda: self.backend.detach(first),
                      lambda: self.backend.detach(second))
        self.reconcile()
        self.assertEqual([], self.mapped_hosts())

    def test_the_group_keeps_what_a_member_needs(self) -> None:
        first, second = self.attach_guests(*self.members)
        self.backend.detach(first)
        self.assertEqual([f'/host_groups/{self.group["id"]}'],
                         self.mapped_hosts())
        self.backend.detach(second)
        self.assertEqual([], self.mapped_hosts())

    def test_a_single_host_does_not_hold_the_group(self) -> None:
        first, second = self.attach_guests(self.members[0], self.host())
        self.backend.detach(first)
        self.assertEqual(1, len(self.mapped_hosts()))
        self.assertNotIn('host_groups', self.mapped_hosts()[0])
        self.backend.detach(second)
        self.assertEqual([], self.mapped_hosts())


class FabricRacesTest(base.FunctionalTest):

    protocol = 'fc'

    def test_zones_change_under_the_lock_of_the_host(self) -> None:
        """An attach waits for a detach that removes zones."""
        self.ignore_call_budget()
        volumes = [self.backend.create_volume(1) for _ in range(2)]
        host = self.host()
        zones: set[str] = set()
        removing, attached = threading.Event(), threading.Event()

        def add(connection: Any) -> None:
            zones.update(connection['data']['initiator_target_map'])

        def remove(connection: Any) -> None:
            removing.set()
            attached.wait(0.3)
            zones.difference_update(
                connection['data']['initiator_target_map'])

        def attach_second() -> None:
            removing.wait(5)
            self.backend.attach(volumes[1], host)
            attached.set()

        with mock.patch.multiple(fczm_utils, add_fc_zone=add,
                                 remove_fc_zone=remove):
            attachment = self.backend.attach(volumes[0], host)
            threading.Thread(target=attach_second).start()
            self.backend.detach(attachment)
            self.assertTrue(attached.wait(10))
        self.assertEqual(set(host['wwpns']), zones)

    def test_a_fabric_that_fails_leaves_no_mapping(self) -> None:
        volume = self.backend.create_volume(1)
        with mock.patch.object(fczm_utils, 'add_fc_zone', autospec=True,
                               side_effect=OSError('fabric')):
            self.assertRaises(FAILED, self.backend.attach, volume,
                              self.host())
        self.assert_left(volumes=1, volume_groups=1)

    def test_a_failed_attach_with_a_new_port_spares_the_guest(self) -> None:
        volume = self.backend.create_volume(1, **SHARED)
        host = self.host(ports=1)
        self.backend.attach(volume, host, GUEST + '1')
        more = {**host, 'wwpns': [*host['wwpns'], '5001438099999999']}
        self.fault('status', 'GET', 'mappings', status=403)
        self.assertRaises(FAILED, self.backend.attach, volume, more,
                          GUEST + '2')
        self.array.control.clear_faults()
        self.assertEqual(1, len(self.admin.list('mappings')))
        self.assertEqual(1, len(self.admin.list('host_fc_ports')))

    def test_unhealthy_ports_are_unzoned_too(self) -> None:
        volume = self.backend.create_volume(1)
        attachment = self.backend.attach(volume, self.host())
        system = self.backend.side.array.system
        with mock.patch.object(system, 'healthy_fc_wwpns', lambda: []), \
                mock.patch.object(fczm_utils, 'remove_fc_zone',
                                  autospec=True) as remove:
            self.backend.detach(attachment)
        targets = remove.call_args.args[0]['data']['target_wwn']
        self.assertEqual(len(self.admin.list('system/fc_ports')),
                         len(targets))


@ddt.ddt
class ManyAtOnceTest(base.FunctionalTest):
    """Several volumes and hosts at the same time."""

    def setUp(self) -> None:
        super().setUp()
        self.volume = self.backend.create_volume(1)

    @ddt.data('iscsi', 'fc')
    def test_one_new_host_many_volumes(self, protocol: str) -> None:
        """Only one of the attaches creates the host."""
        self.use(protocol)
        volumes = [self.backend.create_volume(1) for _ in range(6)]
        connector = self.host()
        attachments = self.together(*[
            functools.partial(self.backend.attach, volume, connector)
            for volume in volumes])
        luns = {a.connection_info['target_lun'] for a in attachments}
        self.assertEqual(6, len(luns))
        self.assertEqual(1, len(self._hosts()))
        self.together(*[functools.partial(self.backend.detach, attachment)
                        for attachment in attachments])
        self.assert_left(volumes=7, volume_groups=7)

    @ddt.data('iscsi', 'fc')
    def test_volumes_of_one_host_at_once(self, protocol: str) -> None:
        """Attaches run concurrently; the last detach deletes the host."""
        self.use(protocol)
        self.ignore_call_budget()
        volumes = [self.backend.create_volume(1) for _ in range(8)]
        connector = self.host()
        control = self.array.control
        # Long enough that the slowest threads overlap, on any machine.
        control.set_latency(0.3)
        self.addCleanup(control.set_latency, 0)
        control.clear_journal()
        attachments = self.together(*[
            functools.partial(self.backend.attach, volume, connector)
            for volume in volumes])
        self.assertGreater(self._mapped_together('POST'), 2)
        control.clear_journal()
        self.together(*[functools.partial(self.backend.detach, attachment)
                        for attachment in attachments])
        self.assertGreater(self._mapped_together('DELETE'), 2)
        self.assert_left(volumes=9, volume_groups=9)

    def _mapped_together(self, method: str) -> int:
        """Return the maximum number of concurrent writes of mappings."""
        writes = [entry for entry in self.array.control.journal()
                  if entry.method == method and '/mappings' in entry.path]
        return max(sum(other.started <= one.started < other.ended
                       for other in writes) for one in writes)

    @ddt.data('iscsi', 'fc')
    def test_attaches_and_detaches_of_one_host(self, protocol: str) -> None:
        """The host may not be deleted while another attach needs it."""
        self.use(protocol)
        connector = self.host()

        def work(volume: Any) -> str:
            for _ in range(3):
                self.backend.detach(self.backend.attach(volume, connector))
            return 'done'

        volumes = [self.backend.create_volume(1) for _ in range(4)]
        results = self.together(*[functools.partial(work, volume)
                                  for volume in volumes])
        self.assertEqual(['done'] * 4, results)
        self.assert_left(volumes=5, volume_groups=5)

    def test_many_hosts(self) -> None:
        volumes = [self.backend.create_volume(1) for _ in range(6)]
        attachments = self.together(*[
            functools.partial(self.backend.attach, volume, self.host())
            for volume in volumes])
        self.assertEqual(6, len(self._hosts()))
        self.together(*[functools.partial(self.backend.detach, attachment)
                        for attachment in attachments])
        self.assert_left(volumes=7, volume_groups=7)

    def test_a_new_host_while_requests_fail(self) -> None:
        """Six attaches of one new host while every third write is lost."""
        volumes = [self.backend.create_volume(1) for _ in range(6)]
        connector = self.host()
        self.fault('reset', 'write', '*', times=9999, commit='after',
                   probability=0.3)
        attachments = self.together(*[
            functools.partial(self.backend.attach, volume, connector)
            for volume in volumes])
        self.array.control.clear_faults()
        self.assertEqual(6, len({a.connection_info['target_lun']
                                 for a in attachments}))
        self.assertEqual((1, 6), (len(self._hosts()),
                                  len(self._mappings())))

    @ddt.data(1, 2)
    def test_a_new_host_whose_first_volumes_are_refused(self, refused: int
                                                        ) -> None:
        """The host stays for another volume; otherwise it is removed."""
        volumes = [self.backend.create_volume(1) for _ in range(2)]
        connector = self.host()
        self.fault('status', 'POST', 'mappings', status=400, times=refused)
        with mock.patch.object(host_holds.Hold, 'share', _share_late):
            results = self.together(*[
                functools.partial(self._attached, volume, connector)
                for volume in volumes])
        self.assertEqual(refused, results.count(None))
        self.assertEqual((2 - refused,) * 2,
                         (len(self._hosts()), len(self._mappings())))
        for volume in volumes:
            self.backend.force_detach(volume)
        self.assert_left(volumes=3, volume_groups=3)

    def _attached(self, *which: Any) -> Any:
        """Attach; return the attachment, or None if it was refused."""
        try:
            return self.backend.attach(*which)
        except FAILED:
            return None

    def test_a_new_host_whose_volumes_await_other_attachments(self) -> None:
        """A host without mappings is removed, though attaches are pending."""
        volumes = [self.backend.create_volume(1, **SHARED) for _ in range(2)]
        for volume in volumes:
            self.backend.api.attachment_create(
                self.backend.context, self.backend.volume(volume.id),
                GUEST + '1')
        connector = self.host()
        self.fault('status', 'POST', 'mappings', status=400, times=99)
        with mock.patch.object(host_holds.Hold, 'share', _share_late):
            self.assertEqual([None, None], self.together(*[
                functools.partial(self._attached, volume, connector,
                                  GUEST + '1') for volume in volumes]))
        self.assert_left(volumes=3, volume_groups=3)
        self.array.control.clear_faults()
        for volume in volumes:
            for attachment in self.backend.volume(volume.id).volume_attachment:
                self.backend.detach(attachment)

    def test_the_first_volume_of_a_new_host_does_not_hold_up_others(
            self) -> None:
        """Other volumes are mapped at the same time."""
        self.ignore_call_budget()
        volumes = [self.backend.create_volume(1) for _ in range(2)]
        connector, control = self.host(), self.array.control
        control.clear_journal()
        control.set_latency(0.3)
        self.addCleanup(control.set_latency, 0)
        with mock.patch.object(host_holds.Hold, 'share', _share_late):
            self.together(*[
                functools.partial(self.backend.attach, volume, connector)
                for volume in volumes])
        created = [entry for entry in control.journal()
                   if entry.method == 'POST']
        last_of_host = max(entry.ended for entry in created
                           if 'mappings' not in entry.path)
        mapped = min(entry.ended for entry in created
                     if 'mappings' in entry.path)
        # Another attach sends a read while the first volume is mapped.
        self.assertTrue([entry for entry in control.journal()
                         if entry.method == 'GET'
                         and last_of_host <= entry.started < mapped])

    def test_one_host_and_two_services(self) -> None:
        """Locks hold across services, not only across threads of one."""
        connector = self.host()
        services = [self.backend, self.own('iscsi'), self.own('iscsi')]

        def work(service: backend.Backend, volume: Any) -> str:
            for _ in range(3):
                service.detach(service.attach(volume, connector))
            return 'done'

        results = self.together(*[
            functools.partial(work, service, service.create_volume(1))
            for service in services])
        self.assertEqual(['done'] * 3, results)
        self.assert_left(volumes=4, volume_groups=4)

    def test_two_services_map_to_one_host_at_once(self) -> None:
        """Requests of one that hang do not hold up the other."""
        self.ignore_call_budget()
        connector, first, second = self.host(), self.backend, self.own('iscsi')
        volumes = [first.create_volume(1) for _ in range(4)]
        attached = [first.attach(volumes.pop(), connector)]
        mapped, may_reply = threading.Semaphore(0), threading.Event()
        send, in_time = first.side.array.mappings.map, []

        def send_and_wait(*args: Any, **how: Any) -> Any:
            lun = send(*args, **how)
            mapped.release()
            in_time.append(may_reply.wait(TIMEOUT))
            return lun

        with concurrent.futures.ThreadPoolExecutor() as pool, \
                mock.patch.object(first.side.array.mappings, 'map',
                                  send_and_wait):
            with mock.patch.object(host_holds.Hold, 'share', _share_late):
                attaching = [pool.submit(first.attach, volume, connector)
                             for volume in volumes[:2]]
                for _ in attaching:
                    self.assertTrue(mapped.acquire(timeout=TIMEOUT))
            attached.append(second.attach(volumes[2], connector))
            may_reply.set()
            attached += [each.result() for each in attaching]
        self.assertEqual([True, True], in_time)
        self.assertEqual((1, 4), (len(self._hosts()), len(self._mappings())))
        self.together(*[functools.partial(service.detach, each)
                        for service, each in zip([first, second] * 2, attached,
                                                 strict=True)])
        self.assert_left(volumes=5, volume_groups=5)

    def test_creates_and_deletes(self) -> None:
        def work() -> str:
            for _ in range(3):
                self.backend.delete_volume(self.backend.create_volume(1))
            return 'done'

        self.assertEqual(['done'] * 4, self.together(*[work] * 4))
        self.assert_left(volumes=1, volume_groups=1)
