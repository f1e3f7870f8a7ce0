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

"""The driver on an array that supports only the known requests.

Everything that in-tree Cinder can do works there (section 16 of the API
rules), however the array refuses other requests. test_known tests in-tree
Cinder itself.
"""

from collections.abc import Callable
from collections.abc import Iterable
import contextlib
import logging
import types
from typing import Any
from unittest import mock

from cinder import exception
import ddt

from cinder_k2.driver.operations import host_holds
from cinder_k2 import naming
from cinder_k2.rest import attempts
from cinder_k2.rest import capability_names
from cinder_k2.rest import errors as rest_errors
from cinder_k2.rest import transport
from tests import contexts
from tests.functional import backend
from tests.functional import base
from tests.functional import disks
from tests.functional import images
from tests.functional import in_tree
from tests.functional import learned
from tests.functional import replicated
from tests.functional import test_known
from tests.functional import test_upgrade

MIB = 1 << 20
MIGRATION = '7e000000-0000-4000-8000-000000000001'
REFUSALS = ('400', *test_known.REFUSALS)


class FloorBase(base.FunctionalTest):
    """A test on a clean array without verdicts."""

    profile = 'known'
    keeps_budgets = False

    def _shared(self, protocol: str, **options: Any) -> backend.Backend:
        # Verdicts from other ways of refusing must not count.
        learned.forget()
        return self.own(protocol, **options)


@ddt.ddt
class FloorTest(FloorBase, images.ImagesTest):
    """Over iSCSI."""

    def setUp(self) -> None:
        super().setUp()
        self.disks.set_scale(64)

    @ddt.data(*REFUSALS)
    def test_all(self, refusal: str) -> None:
        self.switch(refuse_unlisted=refusal)
        self.own(self.protocol)
        plain = self.backend.create_volume(1, **in_tree.NODEDUP)
        source = self.backend.volume_from_image(self.image(b'first'))
        in_tree.copies(self, source)
        self.backend.extend_volume(plain, 2)
        in_tree.attachments(self, source, plain)
        in_tree.managed(self)
        # Let the cached statistics expire.
        self.clock.sleep(600)
        self.assertEqual(3, self.backend.stats()['pools'][0]['total_volumes'])
        self.backend.delete_everything()
        self.assertNothingLeft()

    def test_views_that_show_late(self) -> None:
        """OBJ-6: views that are visible late are found without searches."""
        source = self.backend.volume_from_image(self.image(b'first'))
        snapshot = self.backend.create_snapshot(source)
        for after, make in enumerate((
                lambda: self.backend.volume_from_snapshot(snapshot),
                lambda: self.backend.clone(source))):
            self.fault('late', 'POST', 'snapshots', after=after, reads=3)
            self.assertEqual(b'first', self.disks.read(make(), 0, 5))
        self.assert_left(volumes=3, volume_groups=3, snapshots=1)


@ddt.ddt
class HostsTest(FloorBase):
    """Hosts of either driver, even if the array hides their initiators."""

    def _attach_beside(self, first: Any, other: Any, host: Any) -> None:
        """Map another volume to the same host, and detach both."""
        second = self.backend.attach(other, host)
        self.assertEqual((1, 2), (self.left()['hosts'],
                                  self.left()['mappings']))
        self.backend.detach(first)
        self.assertEqual(1, self.left()['mappings'])
        self.backend.detach(second)
        self.assertNotIn('mappings', self.left())
        # The next test changes how the array refuses.
        self.backend.delete_everything()

    def _told(self) -> int:
        """Return how often a warning about unverified hosts was logged."""
        return sum('could not be verified' in message for message
                   in self.log.messages(logging.WARNING, 'cinder_k2'))

    @ddt.data(('400', True), ('400', False), ('drop', True),
              ('no_hits', False), ('ignored', True))
    @ddt.unpack
    def test_in_tree(self, refusal: str, fqdn: bool) -> None:
        """The host is used under the in-tree driver's name, and kept."""
        self.switch(refuse_unlisted=refusal)
        self.own(test_upgrade.OLD[self.protocol], san_api_port=None,
                 san_ip=self.array.host, unique_fqdn_network=fqdn)
        volume, other = (self.backend.create_volume(1) for _ in range(2))
        host = self.host()
        first = self.backend.attach(volume, host)
        self.assertTrue(self.backend.change_driver(self.protocol))
        self._attach_beside(first, other, host)
        theirs, = self.admin.list('hosts')
        self.admin.delete('hosts', theirs['id'])
        self.assertEqual(self.protocol == 'iscsi', self._told() == 1)

    @ddt.data('400', '500', 'no_hits')
    def test_ours(self, refusal: str) -> None:
        """The driver's own host is deleted with its last volume."""
        self.switch(refuse_unlisted=refusal)
        volume, other = (self.backend.create_volume(1) for _ in range(2))
        host = self.host()
        first = self.backend.attach(volume, host)
        self.backend.restart()
        self._attach_beside(first, other, host)
        self.assertNotIn('hosts', self.left())

    @ddt.data('400', 'no_hits')
    def test_one_of_two_names(self, refusal: str) -> None:
        """INI-3: services on one machine may report different host names."""
        self.switch(refuse_unlisted=refusal)
        self.own(self.protocol, unique_fqdn_network=False)
        volume, other = (self.backend.create_volume(1) for _ in range(2))
        host = self.host()
        first = self.backend.attach(volume, host)
        self._attach_beside(first, other, {**host, 'host': 'another-name'})
        self.assertNotIn('hosts', self.left())

    @ddt.data(('400', True), ('no_hits', True), ('400', False))
    @ddt.unpack
    def test_other_names_after_a_restart(self, refusal: str, unique: bool
                                         ) -> None:
        """The host is found under its first name."""
        self.switch(refuse_unlisted=refusal)
        self.own(self.protocol, unique_fqdn_network=unique)
        volume, other = (self.backend.create_volume(1) for _ in range(2))
        host = self.host()
        first = self.backend.attach(volume, host)
        self.assertTrue(self.backend.change(unique_fqdn_network=not unique))
        self._attach_beside(first, other, host)
        self.assertNotIn('hosts', self.left())

    def test_in_other_capitals_after_a_restart(self) -> None:
        """INI-4, INI-5: an initiator may be spelled in any case."""
        volume, other = (self.backend.create_volume(1) for _ in range(2))
        host = self.host()
        capitals = {key: value.replace('com.example', 'com.EXAMPLE')
                    if key == 'initiator' else
                    [each.upper() for each in value] if key == 'wwpns'
                    else value for key, value in host.items()}
        self.assertNotEqual(capitals, host)
        first = self.backend.attach(volume, capitals)
        self.backend.restart()
        self._attach_beside(first, other, host)
        self.assertNotIn('hosts', self.left())

    def test_idle_host_of_a_former_name(self) -> None:
        """The idle host is replaced by a new one."""
        self.own(self.protocol)
        host = self.host()
        own, former = self.backend.driver._arrays.active.transport.host_names(
            host, unique=True)
        idle = self.make('hosts', name=former, type='Linux')
        for resource, fields in self._initiators(host):
            self.make(resource, host={'ref': f'/hosts/{idle["id"]}'}, **fields)
        volume = self.backend.create_volume(1)
        attachment = self.backend.attach(volume, host)
        self.assertEqual(1, self.left()['hosts'])
        self.backend.detach(attachment)
        self.assertNotIn('hosts', self.left())

    def _empty(self, host: Any) -> Any:
        """Create an empty host, as left by a service killed in an attach."""
        transport = self.backend.driver._arrays.active.transport
        return self.make('hosts', type='Linux',
                         name=transport.host_names(host, unique=True)[0])

    def _attached_before(self, host: Any, volumes: int) -> list[Any]:
        """Attach under a former name; add an empty host with the new name."""
        self.own(self.protocol, unique_fqdn_network=False)
        made = [self.backend.attach(self.backend.create_volume(1), host)
                for _ in range(volumes)]
        self.assertTrue(self.backend.change(unique_fqdn_network=True))
        self._empty(host)
        return made

    def test_detached_beside_an_empty_host(self) -> None:
        """Both hosts are deleted with the last volume."""
        first, second = self._attached_before(self.host(), 2)
        self.backend.detach(first)
        self.assertEqual(1, self.left()['mappings'])
        self.backend.detach(second)
        self.assert_left(volumes=2, volume_groups=2)

    def test_detached_together_beside_an_empty_host(self) -> None:
        """No host is left, and zones stay until the last volume goes."""
        *first, last = self._attached_before(self.host(), 3)
        unzoned = contexts.enter(self, mock.patch(
            'cinder.zonemanager.utils.remove_fc_zone', autospec=True))
        with mock.patch.object(host_holds.Hold, 'is_alone', False):
            for attachment in first:
                self.backend.detach(attachment)
            self.assertEqual(
                [], [call for call in unzoned.mock_calls
                     if call.args[0]['data'].get('initiator_target_map')])
            self.backend.detach(last)
        self.assert_left(volumes=3, volume_groups=3)

    def test_in_tree_beside_an_empty_host(self) -> None:
        """The in-tree driver's host has the initiators and is used."""
        self.own(self.protocol)
        host = self.host()
        theirs = self.make('hosts', type='Linux',
                           name=naming.in_tree_host(host['host']))
        for resource, fields in self._initiators(host):
            self.make(resource, host={'ref': f'/hosts/{theirs["id"]}'},
                      **fields)
        self._empty(host)
        volume = self.backend.create_volume(1)
        attachment = self.backend.attach(volume, host)
        self.assertEqual([f'/hosts/{theirs["id"]}'], [
            mapping['host']['ref'] for mapping in self._mappings()])
        self.backend.detach(attachment)
        self.assertNotIn('mappings', self.left())

    def test_detached_again_while_a_host_group_has_it(self) -> None:
        """Another host of the volume is a member of the host group."""
        self.switch(refuse_unlisted='400')
        self.own(self.protocol)
        group = self.make('host_groups', name='cluster')
        host, member = self.host(), self._member(group)
        volume, other = (self.backend.create_volume(1) for _ in range(2))
        self.backend.attach(other, host)
        first = self.backend.attach(volume, host, MIGRATION)
        self.backend.attach(volume, member, MIGRATION)
        for _ in range(2):
            self.backend.driver.terminate_connection(
                self.backend.volume(volume.id), dict(host))
            self.assertEqual(2, self.left()['mappings'])
        self.backend.detach(first)
        self.assertEqual(2, self.left()['mappings'])

    def test_deleted_after_a_detach_kept_a_mapping(self) -> None:
        """A killed service left another mapping, which stays."""
        self.own(self.protocol)
        volume, other = (self.backend.create_volume(1) for _ in range(2))
        host = self.host()
        self.backend.attach(other, host)
        for attachment in [self.backend.attach(volume, host, MIGRATION)
                           for _ in range(2)]:
            self.backend.detach(attachment)
        self.backend.driver.initialize_connection(
            self.backend.volume(volume.id), self.host())
        self.backend.delete_volume(volume)
        self.assertEqual(1, self.left()['mappings'])

    @ddt.data('400', 'no_hits')
    def test_detached_twice(self, refusal: str) -> None:
        """The repetition does not unmap the volume from another host."""
        self.switch(refuse_unlisted=refusal)
        volume = self.backend.create_volume(1)
        hosts = [self.host(f'overcloud-novacompute-{number}.localdomain')
                 for number in range(2)]
        first, second = [self.backend.attach(volume, host, MIGRATION)
                         for host in hosts]
        self.backend.driver.terminate_connection(
            self.backend.volume(volume.id), hosts[0])
        self.assertEqual(1, self.left()['mappings'])
        self.backend.detach(first)
        self.assertEqual(1, self.left()['mappings'])
        self.backend.detach(second)
        self.assertNotIn('hosts', self.left())
        # Afterwards the array refuses in another way than was learnt.
        self.backend.delete_everything()

    @ddt.data('400', 'drop', 'no_hits')
    def test_members_of_a_host_group(self, refusal: str) -> None:
        """MAP-6: a volume of both stays mapped until the last detach."""
        self.switch(refuse_unlisted=refusal)
        group = self.make('host_groups', name='cluster')
        hosts = [self._member(group) for _ in range(2)]
        volume = self.backend.create_volume(1)
        first, second = [self.backend.attach(volume, host, MIGRATION)
                         for host in hosts]
        self.assertEqual(1, self.left()['mappings'])
        self.backend.detach(first)
        self.assertEqual(1, self.left()['mappings'])
        self.backend.detach(second)
        self.assertNotIn('mappings', self.left())
        # Afterwards the array refuses in another way than was learnt.
        self.backend.delete_everything()

    def test_members_of_a_host_group_beside_empty_hosts(self) -> None:
        """An empty host with the member's first name does not hide it."""
        self.own(self.protocol)
        group = self.make('host_groups', name='cluster')
        hosts = [self._member(group) for _ in range(2)]
        volume = self.backend.create_volume(1)
        first, second = [self.backend.attach(volume, host, MIGRATION)
                         for host in hosts]
        for host in hosts:
            self._empty(host)
        self.backend.detach(first)
        self.assertEqual(1, self.left()['mappings'])
        self.backend.detach(second)
        self.assertNotIn('mappings', self.left())

    def _member(self, group: Any) -> Any:
        """Create a host in a host group, with a name of the in-tree driver.

        :returns: its connector
        """
        connector = self.host()
        host = self.make('hosts', name=naming.in_tree_host(connector['host']),
                         type='Linux', host_group={
                             'ref': f'/host_groups/{group["id"]}'})
        for resource, fields in self._initiators(connector):
            self.make(resource, host={'ref': f'/hosts/{host["id"]}'},
                      **fields)
        return connector

    def _initiators(self, connector: Any) -> Iterable[tuple[str, Any]]:
        """Return resource and fields for each initiator of a host."""
        return [('host_iqns', {'iqn': connector['initiator']})]


@ddt.ddt
class HostsOverFCTest(HostsTest):
    """Over Fibre Channel."""

    protocol = 'fc'

    def _initiators(self, connector: Any) -> Iterable[tuple[str, Any]]:
        return [('host_fc_ports', {'pwwn': wwpn})
                for wwpn in connector['wwpns']]

    @ddt.data('400', 'drop', 'no_hits')
    def test_other_ports(self, refusal: str) -> None:
        """Two WWPNs, then one of them, then the other one and a new one."""
        self.switch(refuse_unlisted=refusal)
        host, (new, _) = self.host(), self.host()['wwpns']
        first, second = host['wwpns']
        attachments = [
            self.backend.attach(self.backend.create_volume(1),
                                {**host, 'wwpns': wwpns})
            for wwpns in ([first, second], [first], [second, new])]
        self.assertEqual({'hosts': 1, 'host_fc_ports': 3, 'mappings': 3}, {
            kind: count for kind, count in self.left().items()
            if kind not in ('volumes', 'volume_groups')})
        for attachment in attachments:
            self.backend.detach(attachment)
        self.assert_left(volumes=3, volume_groups=3)
        # Afterwards the array refuses in another way than was learnt.
        self.backend.delete_everything()

    @ddt.data(False, True)
    def test_other_ports_keep_their_zones(self, killed: bool) -> None:
        """A volume is detached again; a killed service left an empty host."""
        self.own(self.protocol)
        host, (new, _) = self.host(), self.host()['wwpns']
        changed = {**host, 'wwpns': [host['wwpns'][1], new]}
        volume, other = (self.backend.create_volume(1) for _ in range(2))
        self.backend.attach(other, host)
        self.backend.detach(self.backend.attach(volume, changed))
        self.backend.restart()
        if killed:
            self._empty(changed)
        unzoned = contexts.enter(self, mock.patch(
            'cinder.zonemanager.utils.remove_fc_zone', autospec=True))
        self.backend.driver.terminate_connection(
            self.backend.volume(volume.id), dict(changed))
        self.assertEqual(1, self.left()['mappings'])
        unzoned.assert_not_called()


class CutOffListTest(base.FunctionalTest):
    """An array that lists only one page, but can search for initiators."""

    profile = 'sdp'

    def test_detached_from_a_host_in_capitals(self) -> None:
        self.switch(refuse_unlisted='400', page_size=8, refuse_only=[
            f'GET * *{word}*' for word in ('__sort', '__limit', '__offset')])
        self.own(self.protocol)
        for number in range(12):
            self.make('host_iqns', iqn=f'iqn.2000-01.com.example:{number}')
        host, volume = self.host(), self.backend.create_volume(1)
        made = self.make('hosts', name=naming.in_tree_host(host['host']),
                         type='Linux')
        self.make('host_iqns', host={'ref': f'/hosts/{made["id"]}'},
                  iqn=host['initiator'].replace('com.example', 'com.EXAMPLE'))
        found, = self.admin.list('volumes', name=f'cv-{volume.id}')
        self.admin.create('mappings', host={'ref': f'/hosts/{made["id"]}'},
                          volume={'ref': f'/volumes/{found["id"]}'})
        self.backend.driver.terminate_connection(
            self.backend.volume(volume.id), dict(host))
        self.assertNotIn('mappings', self.left())


class LostRepliesTest(FloorBase):
    """Requests that were carried out without a reply."""

    def test_an_initiator(self) -> None:
        """The array cannot search for it, so the host is created again."""
        volume, host = self.backend.create_volume(1), self.host()
        self.fault('reset', 'POST', 'host_iqns', commit='after')
        attachment = self.backend.attach(volume, host)
        self.assert_left(volumes=1, volume_groups=1, hosts=1, host_iqns=1,
                         mappings=1)
        self.backend.detach(attachment)
        self.assert_left(volumes=1, volume_groups=1)

    def test_an_initiator_of_somebody_else(self) -> None:
        """The refused request is not repeated: the initiator is foreign."""
        volume, host = self.backend.create_volume(1), self.host()
        theirs = self.make('hosts', name='theirs', type='Linux')
        self.make('host_iqns', iqn=host['initiator'],
                  host={'ref': f'/hosts/{theirs["id"]}'})
        self.array.control.clear_journal()
        self.assertRaises(exception.VolumeBackendAPIException,
                          self.backend.attach, volume, host)
        self.assertEqual(1, sum(
            (entry.method, entry.path) == ('POST', '/api/v2/host_iqns')
            for entry in self.array.control.journal()))
        self.backend.force_detach(volume)


class FloorOverFCTest(FloorTest):
    """Over Fibre Channel."""

    protocol = 'fc'


class LearningTest(base.FunctionalTest):
    """A service without verdicts, on an array with all capabilities."""

    profile = 'sdp'
    has_learned = False
    keeps_budgets = False

    def setUp(self) -> None:
        super().setUp()
        # Pauses and repeated failures depend on the clock of the test.
        contexts.enter(self, mock.patch.object(
            attempts, 'time',
            types.SimpleNamespace(monotonic=self.clock.monotonic)))
        learned.forget()
        self.own(self.protocol, **self.options)

    def state(self, name: str) -> str:
        """Return the verdict on a capability."""
        return learned.verdict(self.array.host, name)


@ddt.ddt
class HangsTest(LearningTest):
    """An array that does not reply to requests beyond the known ones."""

    def setUp(self) -> None:
        super().setUp()
        self.waits: list[float] = []
        self.hung: list[transport.Request] = []

    def hang(self, newer: Callable[[transport.Request], object],
             late: str = '') -> None:
        """Do not reply to requests that ``newer`` selects.

        :param late: carry them out late, 'before' or 'after' the next POST to
            the same path
        """
        send = transport.Transport.exchange

        def exchange(connection: Any, request: transport.Request,
                     timeout: float, *args: Any) -> bytes:
            def deliver(when: str) -> None:
                while late == when and request.method == 'POST' and (
                        self.hung and self.hung[0].path == request.path):
                    with contextlib.suppress(rest_errors.RestError):
                        send(connection, self.hung.pop(), timeout, *args)
            if newer(request):
                self.waits.append(round(min(timeout, 60.0), 1))
                self.hung.append(request)
                self.clock.sleep(self.waits[-1])
                raise rest_errors.NoReply(
                    'no reply in time', connection.place(request))
            deliver('before')
            reply = send(connection, request, timeout, *args)
            deliver('after')
            return reply
        contexts.enter(self, mock.patch.object(
            transport.Transport, 'exchange', exchange))

    def test_writes(self) -> None:
        """Three tries of 3 seconds, then none for a day."""
        self.hang(lambda request: request.sequence)
        for number in (1, 2, 3, 3):
            self.backend.create_volume(1)
            self.assertEqual([3.0] * number, self.waits)
            self.clock.sleep(100)
        self.assertEqual('refused', self.state('sequence'))

    @ddt.data('before', 'after')
    def test_writes_that_are_carried_out_late(self, late: str) -> None:
        """Only one object is created, which the volume refers to."""
        self.hang(lambda request: request.sequence, late)
        volume = self.backend.create_volume(1)
        self.assertEqual(([3.0], []), (self.waits, self.hung))
        self.assert_left(volumes=1, volume_groups=1)
        self.backend.extend_volume(volume, 2)
        self.backend.delete_volume(volume)
        self.assertNothingLeft()

    def test_writes_without_an_older_road(self) -> None:
        """The first clone fails in two minutes; the next needs no wait."""
        self.hang(lambda request: 'is_thin_clone' in (request.body or ()))
        source = self.backend.create_volume(1)
        self.assertRaises(backend.OperationFailed, self.backend.clone, source)
        self.assertLessEqual(sum(self.waits), 121)
        waited = len(self.waits)
        self.backend.clone(source)
        self.assertEqual(waited, len(self.waits))

    def test_searches(self) -> None:
        """Tries of 3 seconds, then none for a day."""
        self.switch(delete_host_with_initiators=True)
        self.hang(lambda request: request.path == '/host_iqns' and (
            request.method == 'GET'))
        volume = self.backend.create_volume(1)
        for _ in range(4):
            self.backend.detach(self.backend.attach(volume, self.host()))
        self.assertEqual({3.0}, set(self.waits))
        waited = len(self.waits)
        self.backend.detach(self.backend.attach(volume, self.host()))
        self.assertEqual(waited, len(self.waits))


@ddt.ddt
class CrashesTest(base.FunctionalTest):
    """An array that stops supporting a request that worked before."""

    protocol = 'fc'
    profile = 'sdp'
    keeps_budgets = False

    @ddt.data('500', 'drop')
    def test_searches(self, refusal: str) -> None:
        """After three failures in a row the fallback is used at once."""
        self.learned(self.array)
        self.own(self.protocol)
        self.addCleanup(learned.forget)
        volume = self.backend.create_volume(1)
        self.switch(refuse_unlisted=refusal, refuse_only=['GET * *__in'],
                    delete_host_with_initiators=True)
        asked = []
        for _ in range(5):
            self.array.control.clear_journal()
            begin = self.clock.slept
            self.backend.attach(volume, self.host())
            self.assertLess(self.clock.slept - begin, 1)
            asked.append(sum('__in' in each for each in self.calls()))
            self.backend.force_detach(volume)
        self.assertEqual([2, 2, 2, 0, 0], asked)


class DeletionsTest(LearningTest):
    """An array that twice replies with 5xx to a call that it supports."""

    def test_initiators(self) -> None:
        """The host stays; without a fallback, that is no verdict for a day."""
        volume, host = self.backend.create_volume(1), self.host()
        attachment = self.backend.attach(volume, host)
        self.fault('status', 'DELETE', 'host_iqns/*', status=502, times=2)
        self.backend.detach(attachment)
        self.assertEqual('unknown', self.state('deletions:host_iqns'))
        self.clock.sleep(100)
        self.backend.detach(self.backend.attach(volume, host))
        self.assert_left(volumes=1, volume_groups=1)
        self.assertEqual('works', self.state('deletions:host_iqns'))


class StatisticsTest(LearningTest):
    """An array that is not ONLINE at first (ERR-6)."""

    def test_after_a_while(self) -> None:
        self.fault('status', 'GET', 'stats/system', times=99, status=500)
        learned.forget()
        self.own(self.protocol)
        for known in (False, True):
            self.clock.sleep(301)
            pool, = self.backend.stats()['pools']
            self.assertEqual(known, pool['performance_known'])
            self.array.control.clear_faults()
        self.assertEqual('works', self.state('statistics'))


class PassedOverTest(LearningTest, disks.DisksTest):
    """An array that replies with 200, and does nothing."""

    def test_reverts(self) -> None:
        """The first revert waits for the array; later ones copy the data."""
        feature = 'PATCH volume_groups/# last_restored_from'
        self.switch(refuse_unlisted='ignored', refuse_only=[feature])
        self.own(self.protocol)
        volume = self.backend.create_volume(1)
        self.disks.write(volume, 0, b'before')
        snapshot = self.backend.create_snapshot(volume)
        self.array.control.clear_journal()
        waited = []
        for _ in range(2):
            self.disks.write(volume, 0, b'later!')
            begin = self.clock.slept
            self.backend.revert(volume, snapshot)
            waited.append(self.clock.slept - begin)
            self.assertEqual(b'before', self.disks.read(volume, 0, 6))
        self.assertGreaterEqual(waited[0], 9)
        self.assertLess(waited[1], 5)
        self.assertEqual('refused', self.state(capability_names.RESTORE))
        self.assertEqual(1, sum(
            entry.method == 'PATCH' and '/volume_groups/' in entry.path
            for entry in self.array.control.journal()))


@ddt.ddt
class FloorReplicationTest(FloorBase, replicated.ReplicatedTest):
    """Replicated volumes, with the features of in-tree Cinder."""

    @ddt.data(*REFUSALS)
    def test_all(self, refusal: str) -> None:
        for array in (self.primary, self.secondary):
            array.control.set_behaviors(refuse_unlisted=refusal)
            self.addCleanup(array.control.set_behaviors,
                            refuse_unlisted='400')
        self.own(self.protocol, replication_device=self.device())
        volume, other = self.replicated(), self.backend.create_volume(1)
        self.write(volume, 'first')
        self.clock.sleep(120)
        self.backend.retype(other, **replicated.REPLICATED)
        self.assertEqual(
            {'in_sync'}, {state for _, state in self.sessions().values()})
        self.backend.retype(other)
        self.backend.retype(other, **replicated.REPLICATED)
        self.backend.delete_volume(other)
        self.backend.fail_over(replicated.TARGET)
        self.assertEqual('first', self.read(volume))
        self.backend.detach(self.backend.attach(volume, self.host()))
        self.write(volume, 'second')
        self.backend.fail_back()
        self.assertEqual('second', self.read(volume))
        self.assertEqual(
            ('source', 'in_sync'), self.sessions()[f'ssn-{volume.id}'])
        self.backend.enable()
        self.backend.delete_volume(volume)
        self.assertNothingLeft()

    def test_more_volumes_than_a_page(self) -> None:
        """A failback does not depend on a complete list of volumes."""
        for array in (self.primary, self.secondary):
            array.control.set_behaviors(page_size=8)
            self.addCleanup(array.control.set_behaviors, page_size=100)
            self.strangers(array)
        self.own(self.protocol, replication_device=self.device())
        volume = self.replicated()
        self.clock.sleep(120)
        self.backend.fail_over(replicated.TARGET)
        self.write(volume, 'second')
        self.backend.fail_back()
        self.assertEqual(
            ('source', 'in_sync'), self.sessions()[f'ssn-{volume.id}'])
        self.assertEqual('second', self.read(volume))
        self.backend.enable()
        self.backend.delete_volume(volume)

    def strangers(self, array: Any) -> None:
        """Create foreign volumes."""
        group = array.admin.create('volume_groups', name='db', quota=0)
        self.addCleanup(array.admin.delete, 'volume_groups', group['id'])
        for number in range(9):
            volume = array.admin.create(
                'volumes', name=f'db-{number}', size=MIB,
                volume_group={'ref': f'/volume_groups/{group["id"]}'})
            self.addCleanup(array.admin.delete, 'volumes', volume['id'])


class FloorReplicationOverFCTest(FloorReplicationTest):
    """Over Fibre Channel."""

    protocol = 'fc'
