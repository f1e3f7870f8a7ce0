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

"""Checks of rules that need objects of the probe's own.

They run in the order in which they stand: what removes something comes
last.
"""

import secrets
from typing import Any

from cinder_k2.probe import findings
from cinder_k2.probe.findings import checks
from cinder_k2.probe.findings import done
from cinder_k2.probe.findings import Finding
from cinder_k2.probe.findings import refused
from cinder_k2.probe.findings import that
from cinder_k2.probe import made as probe_made
from cinder_k2.probe.made import GIB
from cinder_k2.probe.made import ref
from cinder_k2.probe import tokens

_MAP = 'mappings'


class _Checks:
    """What all have."""

    def __init__(self, made: probe_made.Made) -> None:
        self._made = made
        self._writer = made.writer
        self._get = made.writer.get
        self._make = made.writer.make
        self._change = made.writer.change
        self._remove = made.writer.remove
        self._name = made.name

    def _read(self, resource: str, key: str, name: str) -> dict[str, Any]:
        """An object as a search shows it.

        :raises findings.Skip: it does not
        """
        answer = self._get(resource, '', (key, name))
        for hit in answer.hits:
            if hit.get(key) == name:
                return dict(hit)
        raise findings.Skip(f'{resource} are not found by {key}: '
                            f'{answer.words}')


class Groups(_Checks):
    """Volume groups, and how objects are made and changed at all."""

    @checks('OBJ-4')
    def status(self) -> Finding:
        """POST answers 201."""
        self._made.group()
        found = self._made.answers['g1'].status
        return that(found == 201, f'POST: HTTP {found}')

    @checks('OBJ-3')
    def whole_object(self) -> Finding:
        """POST gives the whole object back."""
        self._made.group()
        answer = self._made.answers['g1']
        return that(answer.id is not None, 'the object' if answer.id
                    else f'{answer.size} bytes without an id')

    @checks('OBJ-6')
    def visible_at_once(self) -> Finding:
        """A new object may show late."""
        self._made.group('g2')
        found = self._writer.find('volume_groups', self._name('g2'))
        return (findings.not_seen('shown at once') if found
                else findings.confirmed('not shown at once'))

    @checks('OBJ-11')
    def own_id(self) -> Finding:
        """PATCH takes the object's own id."""
        group = self._made.group()
        return done(self._change('volume_groups', group, {
            'id': group, 'name': self._name('g1')}))

    @checks('OBJ-14')
    def same_again(self) -> Finding:
        """The same PATCH again changes nothing."""
        return done(self._change('volume_groups', self._made.group(), {
            'name': self._name('g1')}))

    @checks('OBJ-12')
    def unknown_fields(self) -> Finding:
        """An unknown field is refused."""
        return refused(self._change('volume_groups', self._made.group(), {
            'name': self._name('g1'), 'k2probe_field': 1}))

    @checks('OBJ-13')
    def required_fields(self) -> Finding:
        """A required field that is left out is refused."""
        return refused(self._make('volume_groups', {
            'name': self._name('g3')}))

    @checks('ERR-8', 'VG-1')
    def name_in_use(self) -> Finding:
        """A name that is in use is refused."""
        self._made.group()
        return refused(self._make('volume_groups', {
            'name': self._name('g1'), 'quota': 0, 'is_dedup': True}))

    @checks('VG-4')
    def dedup(self) -> Finding:
        """is_dedup is fixed when the group is made."""
        group = self._made.group('g2')
        return refused(self._change('volume_groups', group, {
            'is_dedup': False}))

    @checks('SEQ-1')
    def sequence(self) -> Finding:
        """A number that does not rise is answered with 409."""
        number, group = f'k2probe-{self._writer.token.token}=1', (
            self._made.group())
        body = {'name': self._name('g1')}
        first = self._change('volume_groups', group, body, number)
        if not first.ok:
            return done(first)
        again = self._change('volume_groups', group, body, number)
        return that(again.status == 409, f'the second time: {again.words}')

    @checks('SEQ-2')
    def gap(self) -> Finding:
        """Numbers need not be consecutive."""
        return done(self._change(
            'volume_groups', self._made.group(), {'name': self._name('g1')},
            f'k2probe-{self._writer.token.token}=7'))

    @checks('section 14: replication_session')
    def session_field(self) -> Finding:
        """A group shows replication_session, in the singular."""
        self._made.group()
        one = self._read('volume_groups', 'name', self._name('g1'))
        found = [key for key in one if key.startswith('replication_session')]
        return that(found == ['replication_session'],
                    f'fields: {", ".join(found) or "none"}')

    @checks('SNP-12')
    def empty_group(self) -> Finding:
        """A group without volumes is not snapshotted."""
        return refused(self._make('snapshots', self._made.snapshot_body(
            'e1', 'g2')))

    @checks('VG-3')
    def small_quota(self) -> Finding:
        """A quota below what is provisioned is refused."""
        self._made.volume()
        return refused(self._change('volume_groups', self._made.group(), {
            'quota': GIB // 2}))

    @checks('VG-9')
    def rename(self) -> Finding:
        """Names of snapshots follow that of their group."""
        self._made.snapshot()
        group = self._made.group()
        answer = self._change('volume_groups', group, {
            'name': self._name('g4')})
        if not answer.ok:
            return done(answer)
        try:
            name = self._read('snapshots', 'short_name', self._name('s1'))
        finally:
            self._change('volume_groups', group, {'name': self._name('g1')})
        return that(name.get('name') == f'{self._name("g4")}:'
                    f'{self._name("s1")}', 'looked at a snapshot')

    @checks('VG-8')
    def counts(self) -> Finding:
        """Counts of volumes and snapshots."""
        self._made.snapshot()
        one = self._read('volume_groups', 'name', self._name('g1'))
        found = one.get('volumes_count'), one.get('snapshots_count')
        return that(found == (1, 1), f'1 volume, 1 snapshot: {found}')

    @checks('section 12')
    def long_names(self) -> Finding:
        """Names have 42 characters at most."""
        group = ref('volume_groups', self._made.group('g7'))
        long = tokens.long_name(self._writer.token.token)
        at_most = self._make('volumes', {
            'name': long, 'size': GIB, 'volume_group': group})
        beyond = self._make('volumes', {
            'name': f'{long}x', 'size': GIB, 'volume_group': group})
        return that(at_most.ok and not beyond.ok, f'42 characters: '
                    f'{at_most.words}; 43 characters: {beyond.words}')


class Volumes(_Checks):
    """Volumes, snapshots and views."""

    @checks('VOL-1')
    def name_in_use(self) -> Finding:
        """Names of volumes are unique."""
        self._made.volume()
        return refused(self._make('volumes', {
            'name': self._name('v1'), 'size': GIB, 'volume_group': ref(
                'volume_groups', self._made.group('g2'))}))

    @checks('VOL-2')
    def shrink(self) -> Finding:
        """Volumes do not shrink."""
        return refused(self._change('volumes', self._made.volume(), {
            'size': GIB // 2}))

    @checks('VOL-5')
    def no_size(self) -> Finding:
        """A size is positive."""
        return refused(self._make('volumes', {
            'name': self._name('u1'), 'size': 0, 'volume_group': ref(
                'volume_groups', self._made.group())}))

    @checks('VOL-12')
    def read_only(self) -> Finding:
        """read_only can be changed."""
        volume = self._made.volume('v2', 'g5')
        return done(self._change('volumes', volume, {'read_only': True}))

    @checks('VOL-13')
    def vmware(self) -> Finding:
        """vmware_support is fixed when the volume is made."""
        return refused(self._change('volumes', self._made.volume('v2', 'g5'), {
            'vmware_support': True}))

    @checks('VOL-15')
    def serial_number(self) -> Finding:
        """scsi_sn is there, in hex."""
        self._made.volume()
        found = self._read('volumes', 'name', self._name('v1')).get('scsi_sn')
        return that(isinstance(found, str) and not set(found) - set(
            '0123456789abcdef'), 'looked at one' if found else 'missing')

    @checks('VOL-3')
    def grow(self) -> Finding:
        """Volumes grow beside snapshots and while mapped."""
        volume = self._made.volume('v2', 'g5')
        self._made.mapping('m3', self._made.host(), 'volumes', volume)
        return done(self._change('volumes', volume, {'size': 2 * GIB}))

    @checks('VOL-6')
    def mapped(self) -> Finding:
        """A mapped volume is not deleted."""
        volume = self._made.volume('v2', 'g5')
        self._made.mapping('m3', self._made.host(), 'volumes', volume)
        return refused(self._remove('volumes', volume))

    @checks('RST-3')
    def restore_mapped(self) -> Finding:
        """No restore while mapped."""
        snapshot = self._made.snapshot('s3', 'g5', 'v2')
        self._made.mapping('m3', self._made.host(), 'volumes',
                           self._made.volume('v2', 'g5'))
        return refused(self._restore('g5', snapshot))

    @checks('VOL-7')
    def with_snapshot(self) -> Finding:
        """A volume goes after its snapshots."""
        self._made.snapshot()
        return refused(self._remove('volumes', self._made.volume()))

    @checks('VOL-10')
    def move(self) -> Finding:
        """A volume with snapshots does not move."""
        self._made.snapshot()
        return refused(self._change('volumes', self._made.volume(), {
            'volume_group': ref('volume_groups', self._made.group('g2'))}))

    @checks('VG-5')
    def group_in_use(self) -> Finding:
        """A group with volumes is not deleted."""
        self._made.volume('v4', 'g2')
        return refused(self._remove('volume_groups', self._made.group('g2')))

    @checks('SNP-3')
    def without_policy(self) -> Finding:
        """retention_policy is required."""
        self._made.volume()
        body = self._made.snapshot_body('e1', 'g1')
        del body['retention_policy']
        return refused(self._make('snapshots', body))

    @checks('SNP-4')
    def kept_snapshot(self) -> Finding:
        """is_auto_deleteable false is kept, on views too."""
        snapshot = self._made.snapshot()
        view = self._make('snapshots', {
            'short_name': self._name('w2'), 'is_exposable': True,
            'is_auto_deleteable': False, 'retention_policy':
            self._made.policy, 'source': ref('snapshots', snapshot)})
        if not view.ok:
            return done(view)
        found = self._read('snapshots', 'short_name', self._name('w2'))
        return that(found.get('is_auto_deleteable') is False,
                    f'reads {found.get("is_auto_deleteable")}')

    @checks('SNP-6')
    def view_of_group(self) -> Finding:
        """A view is not made of a group."""
        self._made.volume()
        return refused(self._make('snapshots', {
            **self._made.snapshot_body('e1', 'g1'), 'is_exposable': True}))

    @checks('SNP-7')
    def view_of_view(self) -> Finding:
        """A view is not made of a view."""
        return refused(self._make('snapshots', {
            'short_name': self._name('e1'), 'is_exposable': True,
            'source': ref('snapshots', self._made.view()),
            'retention_policy': self._made.policy}))

    @checks('SNP-9')
    def with_view(self) -> Finding:
        """A snapshot with a view is not deleted."""
        self._made.view()
        return refused(self._remove('snapshots', self._made.snapshot()))

    @checks('SNP-10')
    def change_snapshot(self) -> Finding:
        """PATCH of a snapshot is offered."""
        return done(self._change('snapshots', self._made.snapshot(), {
            'is_auto_deleteable': False}))

    @checks('SNP-11', 'VSN-2')
    def volsnaps(self) -> Finding:
        """A snapshot has one volsnap for each volume."""
        hits = self._volsnaps()
        return that(len(hits) == 1, f'1 volume, {len(hits)} volsnaps')

    @checks('VSN-3')
    def source_of_volsnap(self) -> Finding:
        """The source of a view's volsnap is the volume."""
        hits = self._volsnaps()
        return that([hit.get('source') for hit in hits] == [
            ref('volumes', self._made.volume())], 'looked at one')

    def _volsnaps(self) -> list[Any]:
        return self._get('volsnaps', '', (
            'snapshot.ref', f'/snapshots/{self._made.view()}')).hits

    @checks('RST-2')
    def restore_view(self) -> Finding:
        """A group is not restored to a view."""
        return refused(self._restore('g1', self._made.view()))

    @checks('RST-4')
    def restore(self) -> Finding:
        """A restore sets last_restored_from."""
        snapshot = self._made.snapshot('s2', 'g6', 'v3')
        answer = self._restore('g6', snapshot)
        if not answer.ok:
            return done(answer)
        found = self._read('volume_groups', 'name', self._name('g6'))
        return that(found.get('last_restored_from') == ref(
            'snapshots', snapshot), 'looked at the group')

    def _restore(self, group: str, snapshot: int) -> Any:
        return self._change('volume_groups', self._made.group(group), {
            'last_restored_from': ref('snapshots', snapshot)})

    @checks('section 2.5: order')
    def order(self) -> Finding:
        """Without __sort lists come in any order."""
        for part, group in (('v1', 'g1'), ('v2', 'g5'), ('v3', 'g6')):
            self._made.volume(part, group)
        seen = {tuple(hit.get('id') for hit in self._get('volumes').hits)
                for _ in range(3)}
        return (findings.confirmed('three lists differ') if len(seen) > 1
                else findings.not_seen('three lists are the same'))


class Clones(_Checks):
    """Thin clones; of arrays that have none just how they refuse them."""

    @checks('CLN-5')
    def offered(self) -> Finding:
        """An array without thin clones refuses their fields."""
        body = self._made.clone_body('c2')
        try:
            self._made.thin_clone()
        except findings.Skip as reason:
            plain = self._make('volumes', {**body, 'size': GIB})
            if plain.ok:
                return findings.contradicted(
                    'their fields are ignored: a plain volume was made')
            return findings.confirmed(f'not offered: {reason}')
        return findings.not_seen('the array offers thin clones')

    @checks('CLN-1')
    def size(self) -> Finding:
        """A thin clone has the size of its source."""
        self._made.thin_clone()
        found = self._read('volumes', 'name', self._name('c1')).get('size')
        return that(found == GIB, f'size {found}')

    @checks('CLN-4')
    def source(self) -> Finding:
        """A snapshot stays while it has thin clones."""
        self._made.thin_clone()
        return refused(self._remove(
            'snapshots', self._made.snapshot('s4')))

    @checks('CLN-2')
    def other_group(self) -> Finding:
        """A thin clone is made in the group of its source."""
        self._made.thin_clone()
        return refused(self._make('volumes', {
            **self._made.clone_body('c2'),
            'volume_group': ref('volume_groups', self._made.group('g2'))}))

    @checks('CLN-7')
    def move(self) -> Finding:
        """A thin clone does not leave its group."""
        clone = self._made.thin_clone()
        return refused(self._change('volumes', clone, {
            'volume_group': ref('volume_groups', self._made.group('g2'))}))

    @checks('CLN-3')
    def delete(self) -> Finding:
        """A thin clone is deleted as any volume."""
        clone = self._made.thin_clone()
        self._made.forget('c1')
        return done(self._remove('volumes', clone))


class Hosts(_Checks):
    """Hosts, initiators, mappings and CHAP profiles."""

    @checks('HST-1')
    def name_in_use(self) -> Finding:
        """Names of hosts are unique."""
        self._made.host()
        return refused(self._make('hosts', {
            'name': self._name('h1'), 'type': 'Linux'}))

    @checks('MAP-12')
    def without_initiator(self) -> Finding:
        """A host needs no initiator to be mapped."""
        self._map_first()
        return findings.confirmed('mapped')

    def _map_first(self) -> int:
        return self._made.mapping('m1', self._made.host(), 'volumes',
                                  self._made.volume())

    @checks('MAP-2')
    def lowest_lun(self) -> Finding:
        """The lowest LUN that is free on the host is given first."""
        self._map_first()
        self._made.mapping('m2', self._made.host('h2'), 'volumes',
                           self._made.volume('v3', 'g6'))
        found = self._made.answers['m2'].field('lun')
        if found is None:
            hits = self._writer.mappings(f'/hosts/{self._made.host("h2")}')
            found = hits[0].get('lun') if hits else None
        return that(found == 1, f'the first LUN of a host: {found}')

    @checks('MAP-7')
    def several_hosts(self) -> Finding:
        """A volume may be mapped to several hosts."""
        self._map_first()
        self._made.mapping('m4', self._made.host('h2'), 'volumes',
                           self._made.volume())
        return findings.confirmed('mapped twice')

    @checks('MAP-8')
    def twice(self) -> Finding:
        """One host and one volume are mapped once."""
        self._map_first()
        return refused(self._make(_MAP, {
            'host': ref('hosts', self._made.host()),
            'volume': ref('volumes', self._made.volume())}))

    @checks('MAP-10')
    def chosen_lun(self) -> Finding:
        """POST does not take a LUN."""
        return refused(self._make(_MAP, {
            'host': ref('hosts', self._made.host('h2')), 'lun': 77,
            'volume': ref('volumes', self._made.volume('v2', 'g5'))}))

    @checks('SNP-8', 'MAP-13')
    def snapshot(self) -> Finding:
        """A plain snapshot is not mapped."""
        return refused(self._make(_MAP, {
            'host': ref('hosts', self._made.host()),
            'volume': ref('snapshots', self._made.snapshot())}))

    @checks('MAP-3')
    def view(self) -> Finding:
        """A mapped view has entries for its volsnaps."""
        host = self._made.host()
        self._made.mapping('m5', host, 'snapshots', self._made.view())
        luns = [hit.get('lun') for hit in self._writer.mappings(
            f'/hosts/{host}') if str((hit.get('volume') or {}).get(
                'ref', '')).startswith('/volsnaps/')]
        return that(len(luns) == 1 and luns[0] is not None,
                    f'{len(luns)} entries')

    @checks('SNP-15')
    def exposed(self) -> Finding:
        """Mapping a view sets last_exposed_time."""
        self._made.mapping('m5', self._made.host(), 'snapshots',
                           self._made.view())
        one = self._read('snapshots', 'short_name', self._name('w1'))
        return that(bool(one.get('last_exposed_time')), 'looked at it')

    @checks('MAP-4')
    def unmap_view(self) -> Finding:
        """The entry of a view takes the others along."""
        host = self._made.host()
        mapping = self._made.mapping('m5', host, 'snapshots',
                                     self._made.view())
        answer = self._remove(_MAP, mapping)
        if not answer.ok:
            return done(answer)
        self._made.forget('m5')
        left = [hit for hit in self._writer.mappings(f'/hosts/{host}')
                if str(hit.get('volume')).find('/volsnaps/') >= 0]
        return that(not left, f'{len(left)} are left')

    @checks('HST-2')
    def mapped(self) -> Finding:
        """A mapped host is not deleted."""
        self._map_first()
        return refused(self._remove('hosts', self._made.host()))

    @checks('HST-8')
    def counts(self) -> Finding:
        """A host counts its mapped volumes."""
        self._map_first()
        one = self._read('hosts', 'name', self._name('h2'))
        return that(isinstance(one.get('volumes_count'), int),
                    f'volumes_count: {one.get("volumes_count")}')

    @checks('CHP-2')
    def chap(self) -> Finding:
        """CHAP profiles are given by map_auth_profiles_names alone."""
        host = self._made.host('h2')
        body = {'name': self._name('p1'), 'type': 'CHAP',
                'username': self._name('p1'),
                'password': secrets.token_hex(7)}
        profile = self._make('host_auth_profiles', body)
        if not profile.ok:
            return done(profile)
        older = self._change('hosts', host, {
            'host_auth_profile': self._name('p1')})
        given = self._change('hosts', host, {
            'map_auth_profiles_names': self._name('p1')})
        self._change('hosts', host, {'map_auth_profiles_names': None})
        return that(given.ok and not older.ok, 'map_auth_profiles_names: '
                    f'{given.words}; host_auth_profile: {older.words}')

    @checks('HST-5')
    def join_while_mapped(self) -> Finding:
        """A host with mappings does not join a group."""
        self._map_first()
        return refused(self._change('hosts', self._made.host(), {
            'host_group': ref('host_groups', self._host_group())}))

    def _host_group(self) -> int:
        return self._made.made('host_groups', 'n1', {
            'name': self._name('n1')})

    def _member(self) -> int:
        """A host in the host group."""
        host = self._made.host('h3')
        answer = self._change('hosts', host, {
            'host_group': ref('host_groups', self._host_group())})
        if not answer.ok:
            raise findings.Skip(f'no host joins a group: {answer.words}')
        return host

    @checks('HGR-1')
    def group_with_hosts(self) -> Finding:
        """A host group that has hosts is not deleted."""
        self._member()
        return refused(self._remove('host_groups', self._host_group()))

    @checks('MAP-6')
    def map_member(self) -> Finding:
        """A member of a host group is not mapped alone."""
        return refused(self._make(_MAP, {
            'host': ref('hosts', self._member()),
            'volume': ref('volumes', self._made.volume())}))

    @checks('HST-4')
    def in_group(self) -> Finding:
        """A member of a host group is not deleted."""
        host = self._member()
        answer = self._remove('hosts', host)
        if answer.ok:
            self._made.forget('h3')
        else:
            self._change('hosts', host, {'host_group': None})
        return refused(answer)

    @checks('HGR-2')
    def rename_group(self) -> Finding:
        """Host groups can be renamed."""
        return done(self._change('host_groups', self._host_group(), {
            'name': self._name('n2')}))

    @checks('HST-3')
    def with_initiators(self) -> Finding:
        """A host with initiators is not deleted."""
        host = self._made.made('hosts', 'h4', {
            'name': self._name('h4'), 'type': 'Linux'})
        iqn, _ = self._writer.token.names['host_iqns']
        answer = self._make('host_iqns', {
            'iqn': iqn, 'host': ref('hosts', host)})
        if not answer.ok:
            return done(answer)
        answer = self._remove('hosts', host)
        if answer.ok:
            self._made.forget('h4')
        return refused(answer)


class Policies(_Checks):
    """Policies; most roles may not make them."""

    @checks('RET-4')
    def retention(self) -> Finding:
        """Users make retention policies."""
        return done(self._make('retention_policies', {
            'name': self._name('r1'), 'num_snapshots': 1, 'weeks': 0,
            'days': 0, 'hours': 1}))

    @checks('VCP-1')
    def capacity(self) -> Finding:
        """full_threshold may be left out."""
        return done(self._make('vg_capacity_policies', {
            'name': self._name('y1'), 'warning_threshold': 70,
            'error_threshold': 80, 'critical_threshold': 90,
            'snapshot_overhead_threshold': 50}))


class Removals(_Checks):
    """What removes objects; the last of all."""

    @checks('BLK-1', 'BLK-2', 'BLK-3')
    def bulk(self) -> Finding:
        """Snapshots of several groups are made and deleted in one call."""
        self._made.volume('v2', 'g5')
        self._made.volume('v3', 'g6')
        answer = self._writer.make_many('snapshots', [
            self._made.snapshot_body('b1', 'g5'),
            self._made.snapshot_body('b2', 'g6')])
        ids = [hit['id'] for hit in answer.hits
               if isinstance(hit.get('id'), int)]
        if not answer.ok:
            return done(answer)
        if len(ids) != 2:
            return findings.contradicted(f'{len(ids)} of 2 in the reply')
        return done(self._writer.remove_many('snapshots', ids))

    @checks('OBJ-5')
    def delete(self) -> Finding:
        """DELETE answers 204 without a body."""
        snapshot = self._made.snapshot('d1', 'g6', 'v3')
        answer = self._remove('snapshots', snapshot)
        return that(answer.status == 204 and not answer.size, answer.words)

    @checks('QRY-10')
    def deleted_snapshot(self) -> Finding:
        """Deleted snapshots may stay listed."""
        hits = self._get('snapshots', '', (
            'short_name', self._name('d1'))).hits
        return (findings.confirmed('listed with is_deleted') if any(
            hit.get('is_deleted') for hit in hits)
            else findings.not_seen('gone at once'))

    @checks('VOL-17')
    def deleted_volume(self) -> Finding:
        """marked_for_deletion covers the time until a volume is gone."""
        volume = self._made.volume('v4', 'g2')
        answer = self._remove('volumes', volume)
        if not answer.ok:
            return findings.not_seen(answer.words)
        hits = self._get('volumes', '', ('name', self._name('v4'))).hits
        return (findings.confirmed('listed with marked_for_deletion') if any(
            hit.get('marked_for_deletion') for hit in hits)
            else findings.not_seen('gone at once'))

    @checks('VOL-8')
    def last_volume(self) -> Finding:
        """A group stays when its last volume goes."""
        if self._made.answers.get('v4') is None:
            raise findings.Skip('no volume was deleted')
        return that(self._writer.find(
            'volume_groups', self._name('g2')) is not None, 'looked for it')

    @checks('OBJ-7')
    def ids(self) -> Finding:
        """Ids do not come back."""
        before = self._made.group('g9')
        answer = self._remove('volume_groups', before)
        if not answer.ok:
            return findings.not_seen(answer.words)
        self._made.forget('g9')
        after = self._made.group('g8')
        return that(after > before, 'a new object has '
                    + ('a higher id' if after > before else 'a lower id'
                       if after < before else 'the id of a deleted one'))


ALL = (Groups, Volumes, Clones, Hosts, Policies, Removals)
