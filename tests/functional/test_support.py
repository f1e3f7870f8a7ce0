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

"""The operations that every driver must have, on all variants.

Each class is a row of the support matrix. The modules of the operations test
in more detail what does not depend on transport and array.
"""

from typing import Any

from tests.functional import base

GIB = 1048576
GUEST = '7e000000-0000-4000-8000-00000000000'
SHARED = {'multiattach': '<is> True'}
VIEW = {'kaminario__clone_strategy': 'view'}


class SupportTest(base.FunctionalTest):
    """Common parts of the classes below; it has no tests of its own."""

    def on_array(self, volume: Any) -> Any:
        """Return the array's volume of a Cinder volume that is not a view."""
        return self.admin.list('volumes', name=f'cv-{volume.id}')[0]

    def known_host(self, connector: dict[str, Any], name: str,
                   **fields: Any) -> str:
        """Create a host, as an administrator; return its reference."""
        host = self.make('hosts', name=name, type='Linux', **fields)
        ref = {'ref': f'/hosts/{host["id"]}'}
        if self.protocol == 'iscsi':
            self.make('host_iqns', iqn=connector['initiator'], host=ref)
            return ref['ref']
        for wwpn in connector['wwpns']:
            self.make('host_fc_ports', pwwn=wwpn, host=ref)
        return ref['ref']

    def host_group(self, *names: str) -> tuple[str, list[Any]]:
        """Create a host group; return its reference and connectors."""
        group = self.make('host_groups', name='cluster')
        ref = f'/host_groups/{group["id"]}'
        connectors = [self.host() for _ in names]
        for name, connector in zip(names, connectors):
            self.known_host(connector, name, host_group={'ref': ref})
        return ref, connectors

    def view(self, **specs: str) -> Any:
        """Create a volume backed by a view; ``self.volume`` is its source."""
        self.volume = self.backend.create_volume(1, **specs)
        return self.backend.clone(self.volume, **VIEW, **specs)

    def guests(self, volume: Any, *connectors: Any) -> list[Any]:
        """Attach a volume to one guest for each connector."""
        return [self.backend.attach(volume, connector, GUEST + str(n))
                for n, connector in enumerate(connectors)]

    def initiators(self) -> Any:
        """Return the initiators of all hosts."""
        left = self.array.control.leftovers()
        return left.get('host_iqns', []), left.get('host_fc_ports', [])

    def mapped(self) -> list[str]:
        """Return the references of hosts and host groups in mappings.

        The second entry of a view (MAP-3) does not count.
        """
        return sorted(m['host']['ref'] for m in self._mappings()
                      if not m['volume']['ref'].startswith('/volsnaps'))

    def assert_mapped(self, *hosts: str) -> None:
        """Check that exactly these hosts and host groups have mappings."""
        self.assertEqual(sorted(hosts), self.mapped())


@base.all_variants
class VolumesTest(SupportTest):

    feature = 'create and delete volumes'

    def test_create_and_delete(self) -> None:
        volume = self.backend.create_volume(3)
        self.assertEqual(3 * GIB, self.on_array(volume)['size'])
        self.assert_left(volumes=1, volume_groups=1)
        self.backend.delete_volume(volume)
        self.assertNothingLeft()


@base.pairwise_variants
class GoneTest(SupportTest):
    """The object is missing on the array: its deletion succeeds."""

    feature = 'delete what is gone'

    def test_a_volume(self) -> None:
        volume = self.backend.create_volume()
        self.admin.delete('volumes', self.on_array(volume)['id'])
        self.backend.delete_volume(volume)
        self.assertNothingLeft()

    def test_a_snapshot(self) -> None:
        volume = self.backend.create_volume(1)
        snapshot = self.backend.create_snapshot(volume)
        self.admin.delete('snapshots', self.admin.list(
            'snapshots', short_name=f'cs-{snapshot.id}')[0]['id'])
        self.backend.delete_snapshot(snapshot)
        self.assert_left(volumes=1, volume_groups=1)


@base.all_variants
class ThinTest(SupportTest):

    feature = 'thin provisioning'

    def test_a_new_volume_takes_no_space(self) -> None:
        before = self.backend.stats()['pools'][0]
        self.backend.create_volume(100)
        after = self.backend.stats()['pools'][0]
        self.assertIs(True, after['thin_provisioning_support'])
        self.assertEqual(before['provisioned_capacity_gb'] + 100,
                         after['provisioned_capacity_gb'])
        self.assertAlmostEqual(before['free_capacity_gb'],
                               after['free_capacity_gb'], 1)
        self.assertGreaterEqual(
            float(after['max_over_subscription_ratio']), 1)


@base.all_variants
class ExtendTest(SupportTest):

    feature = 'extend volumes'

    def test_extend(self) -> None:
        volume = self.backend.create_volume(1)
        self.backend.extend_volume(volume, 3)
        self.assertEqual(3 * GIB, self.on_array(volume)['size'])

    def test_extend_with_a_snapshot(self) -> None:
        volume = self.backend.create_volume(1)
        self.backend.create_snapshot(volume)
        self.backend.extend_volume(volume, 2)
        self.assertEqual(2 * GIB, self.on_array(volume)['size'])


@base.all_variants
class ExtendAttachedTest(SupportTest):

    feature = 'extend attached volumes'

    def test_extend(self) -> None:
        volume = self.backend.create_volume(1)
        attachment = self.backend.attach(volume, self.host())
        volume = self.backend.extend_volume(volume, 3)
        self.assertEqual((3, 'in-use'), (volume.size, volume.status))
        self.assertEqual(3 * GIB, self.on_array(volume)['size'])
        self.assertIs(True, self.backend.stats()['pools'][0][
            'online_extend_support'])
        self.backend.detach(attachment)


@base.all_variants
class SnapshotsTest(SupportTest):

    feature = 'snapshots'

    def test_create_and_delete(self) -> None:
        volume = self.backend.create_volume(1)
        first, second = [self.backend.create_snapshot(volume)
                         for _ in range(2)]
        self.assert_left(volumes=1, volume_groups=1, snapshots=2)
        self.backend.delete_snapshot(first)
        self.backend.delete_snapshot(second)
        self.assert_left(volumes=1, volume_groups=1)

    def test_of_an_attached_volume(self) -> None:
        volume = self.backend.create_volume(1)
        self.backend.attach(volume, self.host())
        self.backend.delete_snapshot(self.backend.create_snapshot(volume))
        self.assertEqual(0, self.left().get('snapshots', 0))


@base.all_variants
class FromSnapshotTest(SupportTest):

    feature = 'volumes from snapshots'

    def test_use_it_and_delete_it(self) -> None:
        volume = self.backend.create_volume(1)
        snapshot = self.backend.create_snapshot(volume)
        before = self.left()
        made = self.backend.volume_from_snapshot(snapshot)
        self.assertEqual(1, made.size)
        self.backend.detach(self.backend.attach(made, self.host()))
        self.backend.delete_volume(made)
        self.assertEqual(before, self.left())


@base.all_variants
class CloneTest(SupportTest):

    feature = 'clones'

    def test_use_it_and_delete_it(self) -> None:
        volume = self.backend.create_volume(1)
        before = self.left()
        clone = self.backend.clone(volume)
        self.backend.detach(self.backend.attach(clone, self.host()))
        self.backend.delete_volume(clone)
        self.assertEqual(before, self.left())


@base.all_variants
class CloneAttachedTest(SupportTest):

    feature = 'clones of attached volumes'

    def test_guests_of_both(self) -> None:
        volume = self.backend.create_volume(1)
        host = self.host()
        first = self.backend.attach(volume, host)
        second = self.backend.attach(self.backend.clone(volume), host)
        self.assertNotEqual(first.connection_info['target_lun'],
                            second.connection_info['target_lun'])
        self.backend.detach(first)
        self.assertEqual(1, len(self.mapped()))
        self.backend.detach(second)
        self.assert_mapped()


@base.all_variants
class AttachTest(SupportTest):

    feature = 'attach and detach'

    def test_two_volumes_of_one_host(self) -> None:
        host = self.host()
        volumes = [self.backend.create_volume(1) for _ in range(2)]
        first, second = [self.backend.attach(v, host) for v in volumes]
        self.assertEqual(
            {'iscsi': 'iscsi', 'fc': 'fibre_channel'}[self.protocol],
            first.connection_info['driver_volume_type'])
        luns = {a.connection_info['target_lun'] for a in (first, second)}
        self.assertEqual({m['lun'] for m in self._mappings()}, luns)
        self.assertEqual(2, len(luns))
        self.backend.detach(first)
        self.assertEqual(1, len(self.mapped()))
        self.backend.detach(second)
        self.assert_left(volumes=2, volume_groups=2)

    def test_a_host_of_the_administrator(self) -> None:
        """The host is found by its initiators, and stays."""
        connector = self.host()
        host = self.known_host(connector, 'by-hand')
        before = self.left()
        volume = self.backend.create_volume(1)
        attachment = self.backend.attach(volume, connector)
        self.assert_mapped(host)
        self.backend.detach(attachment)
        self.backend.delete_volume(volume)
        self.assertEqual(before, self.left())

    def test_detach_after_a_restart(self) -> None:
        attachment = self.backend.attach(self.backend.create_volume(1),
                                         self.host())
        self.assertTrue(self.backend.restart())
        self.backend.detach(attachment)
        self.assert_left(volumes=1, volume_groups=1)


@base.pairwise_variants
class LiveMigrationTest(SupportTest):

    feature = 'live migration of instances'

    def test_on_both_hosts_for_a_while(self) -> None:
        volume = self.backend.create_volume(1)
        source, target = [
            self.backend.attach(volume, self.host(), GUEST + '0')
            for _ in range(2)]
        self.assertEqual(2, len(set(self.mapped())))
        self.backend.detach(source)
        self.assertEqual(1, len(self.mapped()))
        self.backend.detach(target)
        self.assert_mapped()


@base.pairwise_variants
class HostGroupTest(SupportTest):

    feature = 'host groups of the array'
    keeps_budgets = False  # The host is read first (MAP-6).

    def test_members_share_a_mapping(self) -> None:
        """A detach of both leaves the group's other volumes mapped."""
        group, members = self.host_group('first', 'second')
        kept = self.backend.attach(self.backend.create_volume(1), members[0])
        for volume in (self.backend.create_volume(1), self.view()):
            source, target = [
                self.backend.attach(volume, member, GUEST + '0')
                for member in members]
            self.assert_mapped(group, group)
            self.assertEqual(source.connection_info['target_lun'],
                             target.connection_info['target_lun'])
            self.backend.detach(source)
            self.assert_mapped(group, group)
            self.backend.detach(target)
            self.assert_mapped(group)
        self.backend.detach(kept)
        self.assert_mapped()


@base.pairwise_variants
class MultiattachTest(SupportTest):
    """Several guests of a volume."""

    feature = 'multiattach'

    def test_it_is_reported(self) -> None:
        self.assertIs(True, self.backend.stats()['pools'][0]['multiattach'])

    def _leave_in_turn(self, volume: Any) -> None:
        """Detach two guests on one host and one on another, in turn.

        The service is restarted meanwhile, as it keeps no essential state in
        memory only.
        """
        host = self.host()
        first, second, third = self.guests(volume, host, host, self.host())
        self.assertEqual(first.connection_info['target_lun'],
                         second.connection_info['target_lun'])
        both = self.mapped()
        self.assertEqual(2, len(set(both)))
        self.assertEqual(2, len(both))
        self.backend.detach(second)
        self.assert_mapped(*both)
        self.assertTrue(self.backend.restart())
        self.backend.detach(third)
        self.assertEqual(1, len(self.mapped()))
        self.backend.detach(first)
        self.assert_mapped()
        self.assertEqual([], self._hosts())

    def test_a_volume(self) -> None:
        self._leave_in_turn(self.backend.create_volume(1, **SHARED))

    def test_a_view(self) -> None:
        self._leave_in_turn(self.view(**SHARED))

    def test_a_host_group(self) -> None:
        """Two guests on one member and one on another."""
        self.ignore_call_budget()  # Reading the host first takes two calls.
        group, (one, other) = self.host_group('first', 'second')
        first, second, third = self.guests(self.view(**SHARED), one, one,
                                           other)
        self.assert_mapped(group)
        self.backend.detach(first)
        self.assert_mapped(group)
        self.backend.detach(second)
        self.assert_mapped(group)
        self.backend.detach(third)
        self.assert_mapped()

    def test_only_the_guests_volume_leaves(self) -> None:
        """A source and its view, each with two guests on one host."""
        host, view = self.host(), self.view(**SHARED)
        first, second = self.guests(self.volume, host, host)
        third, fourth = self.guests(view, host, host)
        self.assertEqual(2, len(self.mapped()))
        self.backend.detach(first)
        self.backend.detach(third)
        self.assertEqual(2, len(self.mapped()))
        self.backend.detach(second)
        self.assertEqual(1, len(self.mapped()))
        self.backend.detach(fourth)
        self.assert_mapped()


@base.pairwise_variants
class ForceDetachTest(SupportTest):
    """A forced detach removes all mappings of the volume, and no others."""

    feature = 'force detach'
    keeps_budgets = False  # A few calls for each of many hosts.

    def _free(self, volume: Any) -> None:
        """End all attachments of a volume."""
        self.backend.force_detach(volume)
        self.assertEqual('available', self.backend.volume(volume.id).status)

    def _everywhere_but_not_others(self, volume: Any, other: Any) -> None:
        """Three hosts: with both volumes, with two guests, with one guest."""
        busy, pair = self.host(), self.host()
        kept = self.backend.attach(other, busy)
        before, initiators = self.mapped(), self.initiators()
        self.guests(volume, busy, pair, pair, self.host())
        self.assertEqual(4, len(self.mapped()))
        self._free(volume)
        self.assert_mapped(*before)
        self.assertEqual(1, len(self._hosts()))
        # The host of the other volume keeps its initiators throughout.
        self.assertEqual(initiators, self.initiators())
        self.assertEqual(
            [kept.connection_info['target_lun']],
            [m['lun'] for m in self._mappings() if m['lun'] is not None])
        self.backend.detach(kept)
        self.assertEqual([], self._hosts())

    def test_a_view_but_not_its_source(self) -> None:
        view = self.view(**SHARED)
        self._everywhere_but_not_others(view, self.volume)

    def test_a_source_but_not_its_view(self) -> None:
        view = self.view(**SHARED)
        self._everywhere_but_not_others(self.volume, view)

    def test_a_host_group_and_a_host(self) -> None:
        """The group keeps its other volume."""
        group, (one, other) = self.host_group('first', 'second')
        view = self.view(**SHARED)
        for volume, kept in ((view, self.volume), (self.volume, view)):
            self.backend.attach(kept, one, GUEST + '9')
            self.guests(volume, one, other, self.host())
            self.assertEqual(3, len(self.mapped()))
            self._free(volume)
            self.assert_mapped(group)
            self._free(kept)
            self.assert_mapped()

    def test_a_host_of_the_administrator(self) -> None:
        """The host stays, and the volume can be attached to it again."""
        connector = self.host()
        self.known_host(connector, 'by-hand')
        volume = self.backend.create_volume(1)
        before = self.left()
        for _ in range(2):
            self.backend.attach(volume, connector)
            self._free(volume)
            self.assertEqual(before, self.left())

    def test_what_is_not_attached(self) -> None:
        for volume in (self.backend.create_volume(1), self.view()):
            before = self.left()
            self.backend.driver.terminate_connection(volume, None,
                                                     force=True)
            self.assertEqual(before, self.left())
