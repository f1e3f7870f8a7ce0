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

import dataclasses
import secrets
from typing import Any

from cinder_k2.probe import asking
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
from cinder_k2.probe import words
from cinder_k2.probe.words import names
from cinder_k2.probe.words import said
from cinder_k2.rest import raw

_MAP = 'mappings'
_CAPACITY = 'vg_capacity_policies'
_LUN = 200
_BULK = ('b1', 'b2')

# Forms that every array carries out.
_RENAME = raw.form('PATCH', 'volume_groups', 1, ['name'])
_RENAME_VOLUME = raw.form('PATCH', 'volumes', 1, ['name'])
_SNAPSHOT = raw.form('POST', 'snapshots', '', [
    'is_auto_deleteable', 'retention_policy', 'short_name', 'source'])
_GROUP = raw.form('POST', 'volume_groups', '', ['is_dedup', 'name', 'quota'])
_VOLUME = raw.form('POST', 'volumes', '', ['name', 'size', 'volume_group'])
_MAPPING = raw.form('POST', 'mappings', '', ['host', 'volume'])
# Forms that an array need not know, with which others are compared.
_QUOTA = raw.form('PATCH', 'volume_groups', 1, ['quota'])
_READ_ONLY = raw.form('PATCH', 'volumes', 1, ['read_only'])
_JOIN = raw.form('PATCH', 'hosts', 1, ['host_group'])


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

    def _read(self, resource: str, part: str) -> dict[str, Any]:
        """An object as a search by its name shows it.

        :raises findings.Skip: it does not
        """
        key, name = tokens.KEYS[resource], self._name(part)
        answer = self._get(resource, '', (key, name))
        for hit in answer.hits:
            if hit.get(key) == name:
                return dict(hit)
        raise findings.Skip(f'{resource} are not found by {key}: '
                            f'{said(answer)}')

    def _shows(self, resource: str, part: str, field: str, value: Any
               ) -> bool:
        """Whether a field of an object has a value."""
        return _same(self._read(resource, part).get(field), value)

    def _keeps(self, resource: str, part: str, id: int, field: str,
               value: Any, control: str = '') -> Finding:
        """The rule says that a field is not changed to a value."""
        return refused(
            self._change(resource, id, {field: value}),
            lambda: self._shows(resource, part, field, value), control)

    def _takes(self, resource: str, part: str, id: int, field: str,
               value: Any, control: str = '') -> Finding:
        """The rule says that a field is changed to a value."""
        answer = self._change(resource, id, {field: value})
        if answer.ok and not self._shows(resource, part, field, value):
            return findings.not_seen(
                f'{said(answer)}, and {field} stays as it was: the array '
                'passes over what it does not know')
        return done(answer, control)

    def _seen_to_take(self, *change: Any) -> None:
        """Make a change with which another is compared.

        :raises findings.Skip: it is not carried out
        """
        finding = self._takes(*change)
        if finding.result != findings.CONFIRMED:
            raise findings.Skip(
                f'{change[0]} take no {change[3]} as far as is seen: '
                f'{finding.seen}')


def _same(found: Any, value: Any) -> bool:
    """Whether a field has a value, in whatever type it is sent."""
    if isinstance(value, dict):
        return isinstance(found, dict) and found.get('ref') == value['ref']
    if isinstance(value, bool):
        return str(found).lower() in (str(value).lower(), str(int(value)))
    return bool(found == value or str(found) == str(value))


class Groups(_Checks):
    """Volume groups, and how objects are made and changed at all."""

    @checks('OBJ-4')
    def status(self) -> Finding:
        """POST answers 201, PATCH 200."""
        post, patch = self._written()
        return that(post.status == 201 and (patch.status == 200
                                            or not patch.ok),
                    f'POST: HTTP {post.status}; PATCH: {said(patch)}')

    @checks('OBJ-3')
    def whole_object(self) -> Finding:
        """POST and PATCH give the whole object back."""
        answers = [answer for answer in self._written() if answer.ok]
        return that(all(answer.id for answer in answers), '; '.join(
            'the object' if answer.id else f'{answer.size} bytes without an '
            'id' for answer in answers))

    def _written(self) -> tuple[raw.Answer, raw.Answer]:
        """The replies to a POST, and to a PATCH."""
        group, answers = self._made.group(), self._made.answers
        if 'patch' not in answers:
            answers['patch'] = self._change('volume_groups', group, {
                'name': self._name('g1')})
        return answers['g1'], answers['patch']

    @checks('VG-2')
    def no_quota(self) -> Finding:
        """A quota of 0 is none, and reads null."""
        self._made.group()
        one = self._read('volume_groups', 'g1')
        if 'quota' not in one:
            return findings.not_seen('the field is missing')
        return that(one['quota'] is None, 'quota: null'
                    if one['quota'] is None else 'quota: not null')

    @checks('OBJ-6')
    def visible_at_once(self) -> Finding:
        """A new object may show late."""
        self._made.group('g2')
        found = self._writer.find('volume_groups', self._name('g2'))
        return (findings.not_seen('shown at once') if found
                else findings.confirmed('not shown at once'))

    @checks('OBJ-2')
    def bare_object(self) -> Finding:
        """One object comes without an envelope: every array reads groups."""
        return findings.is_bare(
            self._get('volume_groups', self._made.group()),
            self._made.group())

    @checks('OBJ-14')
    def same_again(self) -> Finding:
        """The same PATCH again changes nothing."""
        for part in ('g4', 'g1'):
            self._change('volume_groups', self._made.group(), {
                'name': self._name(part)})
        return done(self._change('volume_groups', self._made.group(), {
            'name': self._name('g1')}))

    @checks('OBJ-11')
    def own_id(self) -> Finding:
        """PATCH takes the object's own id."""
        group = self._made.group()
        return done(self._change('volume_groups', group, {
            'id': group, 'name': self._name('g1')}), _RENAME)

    @checks('OBJ-12')
    def unknown_fields(self) -> Finding:
        """An unknown field is refused."""
        return refused(self._change('volume_groups', self._made.group(), {
            'name': self._name('g1'), 'k2probe_field': 1}), control=_RENAME)

    @checks('OBJ-13')
    def required_fields(self) -> Finding:
        """A required field that is left out is refused."""
        return refused(self._make('volume_groups', {
            'name': self._name('g3')}), control=_GROUP)

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
        self._seen_to_take('volume_groups', 'g2', group, 'quota', 100 * GIB)
        return self._keeps('volume_groups', 'g2', group, 'is_dedup', False,
                           _QUOTA)

    @checks('SEQ-1')
    def sequence(self) -> Finding:
        """A number that does not rise is answered with 409."""
        first, again = self._numbered(1), self._numbered(1)
        if not first.ok:
            return findings.not_seen('the header is not taken: '
                                     f'{said(first)}')
        if again.status != 409 and not again.ok:
            return findings.not_seen(f'the second time: {said(again)}')
        return that(again.status == 409, f'the second time: {said(again)}')

    @checks('SEQ-2')
    def gap(self) -> Finding:
        """Numbers need not be consecutive."""
        if self._numbered(1).status != 409:
            return findings.not_seen('the array does not heed the header')
        return done(self._numbered(7))

    def _numbered(self, number: int) -> raw.Answer:
        return self._change(
            'volume_groups', self._made.group(), {'name': self._name('g1')},
            f'k2probe-{self._writer.token.token}={number}')

    @checks('section 14: replication_session')
    def session_field(self) -> Finding:
        """A group shows replication_session, in the singular."""
        self._made.group()
        found = [key for key in self._read('volume_groups', 'g1')
                 if key.startswith('replication_session')]
        if not found:
            return findings.not_seen('fields: none')
        return that(found == ['replication_session'],
                    f'fields: {names(found)}')

    @checks('SNP-12')
    def empty_group(self) -> Finding:
        """A group without volumes is not snapshotted."""
        self._made.group('g2')
        return refused(self._make('snapshots', self._made.snapshot_body(
            'e1', 'g2')))

    @checks('VG-3')
    def small_quota(self) -> Finding:
        """A quota below what is provisioned is refused."""
        self._made.volume()
        group = self._made.group()
        self._seen_to_take('volume_groups', 'g1', group, 'quota', 100 * GIB)
        return self._keeps('volume_groups', 'g1', group, 'quota', GIB // 2)

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
            name = self._read('snapshots', 's1').get('name')
        finally:
            self._change('volume_groups', group, {'name': self._name('g1')})
        if name is None:
            return findings.not_seen('snapshots show no name')
        return that(name == f'{self._name("g4")}:{self._name("s1")}',
                    'looked at a snapshot')

    @checks('VG-8')
    def counts(self) -> Finding:
        """Counts of volumes and snapshots."""
        self._made.snapshot()
        one = self._read('volume_groups', 'g1')
        found = one.get('volumes_count'), one.get('snapshots_count')
        if not all(isinstance(each, int) for each in found):
            return findings.not_seen('a count is missing')
        return that(found == (1, 1), f'1 volume, 1 snapshot: {found}')

    @checks('section 12')
    def long_names(self) -> Finding:
        """Names have 42 characters at most."""
        group = ref('volume_groups', self._made.group('g7'))
        long = tokens.long_name(self._writer.token.token)
        at_most, beyond = (self._make('volumes', {
            'name': name, 'size': GIB, 'volume_group': group})
            for name in (long, f'{long}x'))
        return findings.both([done(at_most, _VOLUME),
                              refused(beyond, control=_VOLUME)])


class Volumes(_Checks):
    """Volumes, snapshots and views."""

    @checks('VOL-1')
    def name_in_use(self) -> Finding:
        """Names of volumes are unique."""
        self._made.volume()
        return refused(self._make('volumes', {
            'name': self._name('v1'), 'size': GIB, 'volume_group': ref(
                'volume_groups', self._made.group('g2'))}))

    @checks('OBJ-10')
    def text(self) -> Finding:
        """Numbers are taken as strings."""
        return self._takes('volumes', 'v2', self._made.volume('v2', 'g5'),
                           'size', str(2 * GIB))

    @checks('VOL-2')
    def shrink(self) -> Finding:
        """Volumes do not shrink."""
        volume = self._made.volume('v2', 'g5')
        self._seen_to_take('volumes', 'v2', volume, 'size', 2 * GIB)
        return self._keeps('volumes', 'v2', volume, 'size', GIB)

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
        self._change('volumes', volume, {'name': self._name('v2')})
        found = self._takes('volumes', 'v2', volume, 'read_only', True,
                            _RENAME_VOLUME)
        if found.result == findings.CONFIRMED:
            self._change('volumes', volume, {'read_only': False})
        return found

    @checks('VOL-13')
    def vmware(self) -> Finding:
        """vmware_support is fixed when the volume is made."""
        return self._keeps(
            'volumes', 'v2', self._made.volume('v2', 'g5'), 'vmware_support',
            True, _READ_ONLY)

    @checks('VOL-15')
    def serial_number(self) -> Finding:
        """scsi_sn is the system id and scsi_suffix, in hex."""
        self._made.volume()
        one = self._read('volumes', 'v1')
        found, suffix = one.get('scsi_sn'), one.get('scsi_suffix')
        if not found:
            return findings.not_seen('the field is missing')
        if suffix is None:
            return that(not set(found) - set('0123456789abcdef'),
                        'it is in hex; scsi_suffix is missing')
        return that(found == f'{self._writer.token.system}{int(suffix):04x}',
                    'looked at one')

    @checks('VOL-3')
    def grow(self) -> Finding:
        """Volumes grow beside snapshots and while mapped."""
        volume = self._made.volume('v2', 'g5')
        self._made.snapshot('s5', 'g5', 'v2')
        self._made.mapping('m3', self._made.host(), 'volumes', volume)
        return self._takes('volumes', 'v2', volume, 'size', 3 * GIB)

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
        return self._not_restored('g5', snapshot)

    @checks('VOL-7')
    def with_snapshot(self) -> Finding:
        """A volume goes after its snapshots."""
        self._made.snapshot()
        return refused(self._remove('volumes', self._made.volume()))

    @checks('VOL-9')
    def move_alone(self) -> Finding:
        """A volume without snapshots moves to another group."""
        return self._takes(
            'volumes', 'v5', self._made.volume('v5', 'g7'), 'volume_group',
            ref('volume_groups', self._made.group('g2')), _RENAME_VOLUME)

    @checks('VOL-11')
    def beyond_quota(self) -> Finding:
        """A volume beyond the quota of its group is refused."""
        self._made.volume('v3', 'g6')
        group = self._made.group('g6')
        self._seen_to_take('volume_groups', 'g6', group, 'quota', 2 * GIB)
        answer = self._make('volumes', {
            'name': self._name('u2'), 'size': 3 * GIB,
            'volume_group': ref('volume_groups', group)})
        self._change('volume_groups', group, {'quota': 0})
        return refused(answer)

    @checks('VOL-10')
    def move(self) -> Finding:
        """A volume with snapshots does not move."""
        self._made.snapshot()
        other = ref('volume_groups', self._made.group('g2'))
        self._seen_to_take('volumes', 'v5', self._made.volume('v5', 'g7'),
                           'volume_group', other)
        return self._keeps('volumes', 'v1', self._made.volume(),
                           'volume_group', other)

    @checks('VG-5')
    def group_in_use(self) -> Finding:
        """A group with volumes is not deleted."""
        self._made.volume('v4', 'g2')
        return refused(self._remove('volume_groups', self._made.group('g2')))

    @checks('SNP-1')
    def name_of_snapshot(self) -> Finding:
        """A snapshot is named after its group."""
        self._made.snapshot()
        name = self._read('snapshots', 's1').get('name')
        if name is None:
            return findings.not_seen('snapshots show no name')
        return that(name == f'{self._name("g1")}:{self._name("s1")}',
                    'looked at a snapshot')

    @checks('SNP-2')
    def name_in_group(self) -> Finding:
        """A short name is unique in its group only."""
        self._made.volume('v2', 'g5'), self._made.volume('v3', 'g6')
        first, other, again = (
            self._make('snapshots', self._made.snapshot_body('a1', group))
            for group in ('g5', 'g6', 'g5'))
        for answer in (other, again):
            # What is removed at the end is found by its name, one by one.
            if answer.ok and answer.id is not None:
                self._remove('snapshots', answer.id, leaf=True)
        if not first.ok:
            return findings.not_seen(said(first))
        return findings.both([done(other), refused(again)])

    @checks('SNP-3')
    def without_policy(self) -> Finding:
        """retention_policy is required."""
        self._made.volume()
        body = self._made.snapshot_body('e1', 'g1')
        del body['retention_policy']
        return refused(self._make('snapshots', body), control=_SNAPSHOT)

    @checks('SNP-4')
    def kept_snapshot(self) -> Finding:
        """is_auto_deleteable false is kept, on views too."""
        self._made.snapshot()
        view = self._make('snapshots', {
            'short_name': self._name('w2'), 'is_exposable': True,
            'is_auto_deleteable': False, 'retention_policy':
            self._made.policy,
            'source': ref('snapshots', self._made.snapshot())})
        found = [self._read('snapshots', part).get('is_auto_deleteable')
                 for part in ('s1', *(['w2'] if view.ok else []))]
        if None in found:
            return findings.not_seen('the field is missing')
        if all(_same(each, False) for each in found) and not view.ok:
            return findings.not_seen('snapshots keep it, views do not take '
                                     f'it: {said(view)}')
        return that(all(_same(each, False) for each in found),
                    'read both' if len(found) == 2 else 'read a snapshot')

    @checks('SNP-6')
    def view_of_group(self) -> Finding:
        """A view is not made of a group."""
        self._made.volume()
        return refused(self._make('snapshots', {
            'short_name': self._name('e1'), 'is_exposable': True,
            'source': ref('volume_groups', self._made.group()),
            'retention_policy': self._made.policy}))

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
        answer = self._change('snapshots', self._made.snapshot(), {
            'is_auto_deleteable': False})
        return (done(answer, _RENAME) if answer.ok
                or answer.status in (404, 405)
                else findings.not_seen(said(answer)))

    @checks('SNP-11', 'VSN-2')
    def volsnaps(self) -> Finding:
        """A snapshot has one volsnap for each volume."""
        hits = self._volsnaps()
        return that(len(hits) == 1, f'1 volume, {len(hits)} volsnaps')

    @checks('VSN-3')
    def source_of_volsnap(self) -> Finding:
        """The source of a view's volsnap is the volume."""
        hits = self._volsnaps()
        if not all(isinstance(hit.get('source'), dict) for hit in hits):
            return findings.not_seen('the field is missing')
        return that([hit['source'].get('ref') for hit in hits] == [
            ref('volumes', self._made.volume())['ref']], 'looked at one')

    def _volsnaps(self) -> list[Any]:
        view = f'/snapshots/{self._made.view()}'
        answer = self._get('volsnaps', '', ('snapshot.ref', view))
        if not answer.ok:
            raise findings.Skip(said(answer))
        return [hit for hit in answer.hits
                if asking.refers(hit, 'snapshot', view)]

    @checks('RST-2')
    def restore_view(self) -> Finding:
        """A group is not restored to a view."""
        return self._not_restored('g1', self._made.view())

    @checks('RST-4')
    def restore(self) -> Finding:
        """A restore leaves later snapshots, sets last_restored_from."""
        snapshot = self._made.snapshot('s2', 'g6', 'v3')
        self._made.snapshot('s7', 'g6', 'v3')
        answer = self._change('volume_groups', self._made.group('g6'), {
            'last_restored_from': ref('snapshots', snapshot)})
        if not answer.ok:
            return findings.not_seen(f'not restored: {said(answer)}')
        if self._writer.find('snapshots', self._name('s7')) is None:
            return findings.contradicted('a later snapshot is gone')
        found = self._read('volume_groups', 'g6').get('last_restored_from')
        if not found:
            return findings.not_seen(f'{said(answer)}, and nothing shows it')
        return that(_same(found, ref('snapshots', snapshot)),
                    'looked at the group')

    def _not_restored(self, group: str, snapshot: int) -> Finding:
        return self._keeps(
            'volume_groups', group, self._made.group(group),
            'last_restored_from', ref('snapshots', snapshot))

    @checks('section 2.5: order')
    def order(self) -> Finding:
        """Without __sort lists come in any order."""
        for part, group in (('v1', 'g1'), ('v2', 'g5'), ('v3', 'g6')):
            self._made.volume(part, group)
        lists = [[hit.get('id') for hit in self._get('volumes').hits]
                 for _ in range(3)]
        # Others make and remove volumes meanwhile.
        common = set(lists[0]).intersection(*lists)
        seen = {tuple(id for id in each if id in common) for each in lists}
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
        except findings.Skip:
            if self._make('volumes', {**body, 'size': GIB}).ok:
                return findings.contradicted(
                    'their fields are ignored: a plain volume was made')
            return refused(self._made.answers['c1'], control=_VOLUME)
        return findings.not_seen('the array offers thin clones')

    @checks('CLN-1')
    def size(self) -> Finding:
        """A thin clone has the size of its source."""
        self._made.thin_clone()
        found = self._read('volumes', 'c1').get('size')
        if found is None:
            return findings.not_seen('the field is missing')
        return that(_same(found, GIB), f'size {found}')

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

    @checks('CLN-6')
    def of_view(self) -> Finding:
        """A view is no source of a thin clone."""
        self._made.thin_clone()
        return refused(self._make('volumes', {
            **self._made.clone_body('c3'),
            'source_snapshot': ref('snapshots', self._made.view())}))

    @checks('CLN-7')
    def move(self) -> Finding:
        """A thin clone does not leave its group."""
        clone = self._made.thin_clone()
        return self._keeps('volumes', 'c1', clone, 'volume_group', ref(
            'volume_groups', self._made.group('g2')))

    @checks('CLN-3')
    def delete(self) -> Finding:
        """A thin clone is deleted as any volume."""
        clone = self._made.thin_clone()
        self._made.forget('c1')
        return done(self._remove('volumes', clone, leaf=True))


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
        if found is None:
            return findings.not_seen('no LUN is shown')
        return that(_same(found, 1), f'the first LUN of a host: {found}')

    @checks('MAP-7')
    def several_hosts(self) -> Finding:
        """A volume may be mapped to several hosts."""
        self._map_first()
        host, volume = self._made.host('h2'), self._made.volume()
        try:
            self._made.mapping('m4', host, 'volumes', volume)
        except findings.Skip:
            return done(self._made.answers['m4'])
        return findings.confirmed('mapped twice')

    @checks('MAP-9')
    def another_lun(self) -> Finding:
        """PATCH changes a LUN, but not to one in use on the host."""
        host = self._made.host('h2')
        first, second = (self._made.mapping(part, host, 'volumes', volume)
                         for part, volume in (
                             ('m2', self._made.volume('v3', 'g6')),
                             ('m4', self._made.volume())))
        answer = self._change(_MAP, first, {'lun': _LUN})
        if not answer.ok:
            return done(answer, _MAPPING)
        if not any(raw.id_of(hit) == first and _same(hit.get('lun'), _LUN)
                   for hit in self._writer.mappings(f'/hosts/{host}')):
            return findings.not_seen(f'{said(answer)}, and the LUN is as '
                                     'before')
        return findings.both([done(answer), refused(
            self._change(_MAP, second, {'lun': _LUN}))])

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
        host, volume = self._made.host('h2'), self._made.volume('v2', 'g5')
        answer = self._make(_MAP, {
            'host': ref('hosts', host), 'lun': 77,
            'volume': ref('volumes', volume)})
        if not answer.ok:
            # The same without it, as the control.
            self._made.mapping('m6', host, 'volumes', volume)
        return refused(answer, lambda: any(
            _same(hit.get('lun'), 77)
            for hit in self._writer.mappings(f'/hosts/{host}')), _MAPPING)

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
        luns = [hit.get('lun') for hit in self._volsnaps_of(host)]
        return that(len(luns) == 1 and luns[0] is not None,
                    f'{len(luns)} entries')

    def _volsnaps_of(self, host: int) -> list[Any]:
        return [hit for hit in self._writer.mappings(f'/hosts/{host}')
                if asking.ref_of(hit, 'volume').startswith('/volsnaps/')]

    @checks('SNP-15')
    def exposed(self) -> Finding:
        """Mapping a view sets last_exposed_time."""
        self._made.mapping('m5', self._made.host(), 'snapshots',
                           self._made.view())
        one = self._read('snapshots', 'w1')
        if 'last_exposed_time' not in one:
            return findings.not_seen('the field is missing')
        return that(bool(one['last_exposed_time']), 'looked at it')

    @checks('MAP-4')
    def unmap_view(self) -> Finding:
        """The entry of a view takes the others along."""
        host = self._made.host()
        mapping = self._made.mapping('m5', host, 'snapshots',
                                     self._made.view())
        answer = self._remove(_MAP, mapping, leaf=True)
        if not answer.ok:
            return done(answer)
        self._made.forget('m5')
        left = self._volsnaps_of(host)
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
        mapped = [hit for hit in self._writer.mappings(
            f'/hosts/{self._made.host("h2")}')
            if asking.ref_of(hit, 'volume').startswith('/volumes/')]
        found = self._read('hosts', 'h2').get('volumes_count')
        if found is None:
            return findings.not_seen('the field is missing')
        return that(_same(found, len(mapped)), f'{len(mapped)} mapped; '
                    f'volumes_count: {words.public(str(found))}')

    @checks('CHP-2')
    def chap(self) -> Finding:
        """CHAP profiles are given by map_auth_profiles_names alone."""
        host = self._made.host('h2')
        self._made.profile()
        older, given, unknown = (self._change('hosts', host, {
            field: self._name('p1')}) for field in (
                'host_auth_profile', 'map_auth_profiles_names',
                'k2probe_field'))
        self._take(host)
        seen = (f'map_auth_profiles_names: {said(given)}; '
                f'host_auth_profile: {said(older)}')
        if unknown.ok or not given.ok and not older.ok:
            return findings.not_seen(
                f'{seen}; a field that is unknown: {said(unknown)}')
        return that(given.ok and not older.ok, seen)

    @checks('CHP-4')
    def profile_name(self) -> Finding:
        """Names of CHAP profiles are unique."""
        self._made.profile()
        return refused(self._make('host_auth_profiles',
                                  self._made.profile_body('p1')))

    @checks('CHP-5')
    def short_password(self) -> Finding:
        """A password of 11 characters is refused."""
        self._made.profile()
        return refused(self._make('host_auth_profiles', {
            **self._made.profile_body('p3'),
            'password': secrets.token_hex(6)[:11]}))

    @checks('CHP-6')
    def shown_profile(self) -> Finding:
        """No field of a host shows its profile."""
        host = self._given()
        one = self._read('hosts', 'h2')
        self._take(host)
        found = [key for key, value in one.items()
                 if self._name('p1') in str(value)]
        return that(not found, f'fields: {names(found) or "none"}')

    @checks('CHP-4')
    def profile_in_use(self) -> Finding:
        """A profile in use is not deleted."""
        host, profile = self._given(), self._made.profile()
        answer = self._remove('host_auth_profiles', profile)
        if answer.ok:
            self._made.forget('p1')
        self._take(host)
        return refused(answer)

    def _given(self) -> int:
        """A host that is seen to have the profile."""
        host = self._made.host('h2')
        self._made.profile()
        answer = self._change('hosts', host, {
            'map_auth_profiles_names': self._name('p1')})
        if not _same(self._read('host_auth_profiles', 'p1').get(
                'hosts_count'), 1):
            self._take(host)
            raise findings.Skip(f'no host has the profile: {said(answer)}')
        return host

    def _take(self, host: int) -> None:
        self._change('hosts', host, {'map_auth_profiles_names': None})

    @checks('HST-5')
    def join_while_mapped(self) -> Finding:
        """A host with mappings does not join a group."""
        self._map_first()
        host, group = self._made.host(), ref(
            'host_groups', self._host_group())
        found = self._keeps('hosts', 'h1', host, 'host_group', group)
        if found.result == findings.CONTRADICTED:
            self._change('hosts', host, {'host_group': None})
        return found

    def _host_group(self) -> int:
        return self._made.made('host_groups', 'n1', {
            'name': self._name('n1')})

    def _member(self) -> int:
        """A host in the host group."""
        host = self._made.host('h3')
        self._seen_to_take('hosts', 'h3', host, 'host_group', ref(
            'host_groups', self._host_group()))
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

    @checks('OBJ-9')
    def empty_reference(self) -> Finding:
        """null, {} and "" clear a reference."""
        host = self._member()
        return findings.both([self._cleared(host, text, value) for text, value
                              in (('null', None), ('{}', {}), ('""', ''))])

    def _cleared(self, host: int, text: str, value: Any) -> Finding:
        group = ref('host_groups', self._host_group())
        self._change('hosts', host, {'host_group': group})
        answer = self._change('hosts', host, {'host_group': value})
        found = (findings.not_seen(f'{said(answer)}, and it stays')
                 if answer.ok and self._read('hosts', 'h3').get('host_group')
                 else done(answer))
        return dataclasses.replace(found, seen=f'{text}: {found.seen}')

    @checks('MAP-5')
    def map_group(self) -> Finding:
        """A mapping of a host group is one entry for all members."""
        host, group = self._member(), self._host_group()
        try:
            self._made.made(_MAP, 'm7', {
                'host': ref('host_groups', group),
                'volume': ref('volumes', self._made.volume('v3', 'g6'))})
        except findings.Skip:
            return done(self._made.answers['m7'])
        found = self._writer.mappings(f'/host_groups/{group}')
        own = self._writer.mappings(f'/hosts/{host}')
        return that([hit.get('lun') is not None for hit in found] == [True]
                    and not own, f'{len(found)} entries of the group, '
                    f'{len(own)} of its member')

    @checks('HST-6')
    def leave(self) -> Finding:
        """A host leaves a group that is mapped."""
        self._group_mapping()
        return self._takes('hosts', 'h3', self._made.host('h3'),
                           'host_group', None)

    def _group_mapping(self) -> int:
        """The mapping of the host group.

        :raises findings.Skip: there is none
        """
        if 'm7' not in self._made.answers:
            raise findings.Skip('no host group was mapped')
        return self._made.made(_MAP, 'm7', {})

    @checks('HGR-1')
    def mapped_group(self) -> Finding:
        """A host group that has mappings is not deleted."""
        mapping = self._group_mapping()
        if self._read('hosts', 'h3').get('host_group'):
            finding = findings.not_seen('it has hosts, too')
        else:
            finding = refused(self._remove(
                'host_groups', self._host_group()))
        self._remove(_MAP, mapping, leaf=True)
        self._made.forget('m7')
        return finding

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
        return self._renamed(self._change(
            'host_groups', self._host_group(), {'name': self._name('n2')}))

    def _renamed(self, answer: raw.Answer) -> Finding:
        if answer.ok and self._writer.find(
                'host_groups', self._name('n2')) is None:
            return findings.not_seen(f'{said(answer)}, and it has its name '
                                     'as before')
        return done(answer, _JOIN)

    @checks('INI-3')
    def of_another_host(self) -> Finding:
        """An initiator of another host is refused."""
        self._made.initiator()
        return refused(self._make('host_iqns', self._made.initiator_body(
            'i1', 'h2')))

    @checks('INI-5')
    def in_another_case(self) -> Finding:
        """It is in another case, too."""
        self._made.initiator()
        return refused(self._make('host_iqns', self._made.initiator_body(
            'I1', 'h2')))

    @checks('HST-3')
    def with_initiators(self) -> Finding:
        """A host with initiators is not deleted."""
        self._made.initiator()
        answer = self._remove('hosts', self._made.host('h4'))
        if answer.ok:
            self._made.forget('h4')
        return refused(answer)

    @checks('INI-6')
    def last_initiator(self) -> Finding:
        """The last initiator of a mapped host may go."""
        self._made.mapping('m8', self._made.host('h4'), 'volumes',
                           self._made.volume('v3', 'g6'))
        answer = self._remove('host_iqns', self._made.initiator(), leaf=True)
        if answer.ok:
            self._made.forget('i1')
        return done(answer)


class Policies(_Checks):
    """Policies; most roles may not make them."""

    @checks('RET-4')
    def retention(self) -> Finding:
        """Users make retention policies."""
        self._retention()
        return findings.confirmed(said(self._made.answers['r1']))

    def _retention(self) -> int:
        return self._made.made('retention_policies', 'r1', {
            'name': self._name('r1'), 'num_snapshots': 1, 'weeks': 0,
            'days': 0, 'hours': 1})

    @checks('RET-3')
    def retention_in_use(self) -> Finding:
        """A policy in use is not deleted."""
        policy = self._retention()
        self._made.volume('v3', 'g6')
        self._made.made('snapshots', 's6', {
            **self._made.snapshot_body('s6', 'g6'),
            'retention_policy': ref('retention_policies', policy)})
        return refused(self._remove('retention_policies', policy))

    @checks('VCP-1')
    def capacity(self) -> Finding:
        """full_threshold may be left out."""
        body = {'name': self._name('y1'), 'warning_threshold': 70,
                'error_threshold': 80, 'critical_threshold': 90,
                'snapshot_overhead_threshold': 50}
        answers = self._made.answers
        answer = answers['y1'] = self._make(_CAPACITY, body)
        if answer.ok:
            return done(answer)
        body['full_threshold'] = 100
        answers['y1'] = self._make(_CAPACITY, body)
        return done(answer, answers['y1'].form)

    def _variant(self, part: str, **thresholds: int) -> Finding:
        """The rule says that thresholds are refused."""
        taken = self._made.answers.get('y1')
        if taken is None or not taken.ok:
            raise findings.Skip('no such policy was made')
        body = {'name': self._name(part), 'warning_threshold': 70,
                'error_threshold': 80, 'critical_threshold': 90,
                'snapshot_overhead_threshold': 50, **thresholds}
        if 'full_threshold' in taken.form:
            body['full_threshold'] = 100
        return refused(self._make(_CAPACITY, body))

    @checks('VCP-1')
    def overhead(self) -> Finding:
        """snapshot_overhead_threshold beyond 97 is refused."""
        return self._variant('y3', snapshot_overhead_threshold=98)

    @checks('VCP-2')
    def falling(self) -> Finding:
        """Thresholds that fall are refused."""
        return self._variant('y2', warning_threshold=85)

    @checks('VCP-2')
    def capacity_in_use(self) -> Finding:
        """A policy in use is not deleted."""
        policy = self._writer.find(_CAPACITY, self._name('y1'))
        if policy is None:
            raise findings.Skip('no such policy was made')
        self._seen_to_take('volume_groups', 'g6', self._made.group('g6'),
                           'capacity_policy', ref(_CAPACITY, policy))
        return refused(self._remove(_CAPACITY, policy))


class Removals(_Checks):
    """What removes objects; the last of all."""

    @checks('BLK-1', 'BLK-3')
    def bulk(self) -> Finding:
        """Snapshots of several groups are made and deleted in one call."""
        answer = self._bulk()
        if not answer.ok:
            return done(answer, _SNAPSHOT)
        ids = [id for part in _BULK if (id := self._writer.find(
            'snapshots', self._name(part))) is not None]
        if len(ids) != 2:
            return findings.contradicted(f'{len(ids)} of 2 were made')
        return done(self._writer.remove_many('snapshots', ids), raw.form(
            'DELETE', 'snapshots', 1))

    def _bulk(self) -> raw.Answer:
        """The reply to a bulk POST, sent once."""
        if 'bulk' not in self._made.answers:
            for part, group in (('v2', 'g5'), ('v3', 'g6')):
                self._made.volume(part, group)
            self._made.answers['bulk'] = self._writer.make_many(
                'snapshots', [self._made.snapshot_body(*each)
                              for each in zip(_BULK, ('g5', 'g6'))])
        return self._made.answers['bulk']

    @checks('BLK-2')
    def reply_to_bulk(self) -> Finding:
        """A bulk POST gives what it made, in the order asked."""
        answer = self._bulk()
        if not answer.ok:
            return findings.not_seen(said(answer))
        found = [hit.get('short_name') for hit in answer.hits]
        return that(found == [*map(self._name, _BULK)],
                    f'{len(found)} of 2 in the reply')

    @checks('BLK-4')
    def half_bad(self) -> Finding:
        """A bulk call with a bad item does nothing."""
        self._made.volume('v3', 'g6')
        # The second group has no volumes (SNP-12).
        answer = self._writer.make_many('snapshots', [
            self._made.snapshot_body('b3', 'g6'),
            self._made.snapshot_body('b4', 'g0')])
        finding = refused(answer)
        if finding.result != findings.CONFIRMED:
            return findings.not_seen(f'nothing to go by: {said(answer)}')
        if self._writer.find('snapshots', self._name('b3')) is None:
            return finding
        return dataclasses.replace(
            finding, result=findings.CONTRADICTED,
            seen=f'{finding.seen}; the good one was made')

    @checks('OBJ-5')
    def delete(self) -> Finding:
        """DELETE answers 204 without a body."""
        snapshot = self._made.snapshot('d1', 'g6', 'v3')
        answer = self._remove('snapshots', snapshot, leaf=True)
        if not answer.ok:
            return findings.not_seen(said(answer))
        return that(answer.status == 204 and not answer.size,
                    f'{said(answer)}, {answer.size} bytes')

    @checks('QRY-10')
    def deleted_snapshot(self) -> Finding:
        """Deleted snapshots may stay listed."""
        hits = self._get('snapshots', '', (
            'short_name', self._name('d1'))).hits
        return (findings.confirmed('listed with is_deleted') if any(
            asking.is_true(hit.get('is_deleted')) for hit in hits)
            else findings.not_seen('gone at once'))

    @checks('VOL-17')
    def deleted_volume(self) -> Finding:
        """marked_for_deletion covers the time until a volume is gone."""
        # The group is left without one (VOL-8).
        volume = self._made.volume('v4', 'g2')
        answer = self._remove('volumes', volume, leaf=True)
        if not answer.ok:
            return findings.not_seen(said(answer))
        self._made.forget('v4')
        hits = self._get('volumes', '', ('name', self._name('v4'))).hits
        return (findings.confirmed('listed with marked_for_deletion') if any(
            asking.is_true(hit.get('marked_for_deletion')) for hit in hits)
            else findings.not_seen('gone at once'))

    @checks('VOL-8')
    def last_volume(self) -> Finding:
        """A group stays when its last volume goes."""
        group = self._made.group('g9')
        volume = self._made.volume('v6', 'g9')
        answer = self._remove('volumes', volume)
        if not answer.ok:
            return findings.not_seen(said(answer))
        return that(self._writer.find(
            'volume_groups', self._name('g9')) == group, 'looked for it')

    @checks('OBJ-7')
    def ids(self) -> Finding:
        """Ids do not come back."""
        before = self._made.group('g9')
        answer = self._remove('volume_groups', before, leaf=True)
        if not answer.ok:
            return findings.not_seen(said(answer))
        self._made.forget('g9')
        after = self._made.group('g8')
        return that(after > before, 'a new object has '
                    + ('a higher id' if after > before else 'a lower id'
                       if after < before else 'the id of a deleted one'))


ALL = (Groups, Volumes, Clones, Hosts, Policies, Removals)
