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

"""Collecting the verdicts on an array, as the driver would over time.

The client records what the array refuses. An error ends only the step in which
it occurs.
"""

from collections.abc import Callable
import contextlib
import secrets
import typing

from cinder_k2 import naming
from cinder_k2.probe import findings
from cinder_k2.probe import made as probe_made
from cinder_k2 import rest
from cinder_k2.rest import raw
from cinder_k2.rest import verdicts

_NOBODY = 'k2probe-nobody'
# Capabilities that only writes show.
_WRITES = ('creations', 'updates', 'deletions', 'bulk', 'sequence')
_PAGE = (('__sort', 'id'), ('__sort_order', 'asc'), ('__limit', '10'),
         ('__offset', '0'))


def by_reads(client: rest.Client) -> None:
    """Learn what needs no objects of the probe."""
    for step in (
            lambda: client.volumes.get(1),
            lambda: _value_list(client),
            lambda: _paging(client),
            lambda: _wwpn(client),
            lambda: _peer(client),
            client.performance,
            client.capacity):
        _try(step)
    _fields(client)


def not_seen(client: rest.Client, write: bool) -> dict[str, str]:
    """Capabilities without a verdict, and why."""
    tried = client.capabilities.all()
    missing = [name for name in rest.capability_names.CAPABILITIES
               if not any(f'{each}:'.startswith(f'{name}:')
                          for each in tried)]
    return {name: _why_not(client, name, write) for name in missing}


def _why_not(client: rest.Client, name: str, write: bool) -> str:
    if 'replication' in name:
        peers = client.raw.ask('GET', 'replication/peer_k2arrays')
        return ('sessions are not made: they change a second array'
                if peers.hits else 'the array has no replication peer')
    if not write and name.partition(':')[0] in _WRITES:
        return 'needs --write'
    return 'no request of the probe shows it'


def _fields(client: rest.Client) -> None:
    """Learn to list only some fields, of resources with objects."""
    for reader in (client.volumes, client.volume_groups, client.snapshots,
                   client.volsnaps, client.mappings, client.hosts):
        resource = reader.kind.RESOURCE
        name = f'{rest.capability_names.FIELDS}:{resource}'
        if client.capabilities.verdict(name) == verdicts.Verdict():
            _try(lambda: _fields_of(client, resource, name, ','.join(
                reader.kind.field_names())))


def _fields_of(client: rest.Client, resource: str, name: str, fields: str
               ) -> None:
    """Learn this for one resource, with a page as the driver reads it."""
    def ids(*more: raw.Pair) -> list[int | None]:
        answer = client.raw.ask('GET', resource, query=(*_PAGE, *more))
        if answer.error is not None:
            raise answer.error
        return [*map(raw.id_of, answer.hits)]
    whole = ids()
    if whole:
        # Others may make and remove objects meanwhile.
        client.attempts.learn(
            name, lambda: ids(('__fields', fields)),
            lambda found: found == whole or (None if found else False))


def _value_list(client: rest.Client) -> None:
    """Search for two values; an ignored condition finds more volumes."""
    if client.raw.ask('GET', 'volumes').total > 1:
        client.volumes.search(rest.query.one_of('name', ['CTRL', _NOBODY]))


def _paging(client: rest.Client) -> None:
    """Read two pages of one volume each; the second must have a higher id."""
    if client.raw.ask('GET', 'volumes').total < 2:
        return
    pages = [client.raw.ask('GET', 'volumes', query=(
        ('__sort', 'id'), ('__sort_order', 'asc'), ('__limit', '1'),
        ('__offset', str(offset)))) for offset in (0, 1)]
    known = client.capabilities
    refusals = [page.error for page in pages if page.error is not None]
    if refusals:
        if all(map(rest.errors.is_refusal, refusals)):
            known.refuse(rest.capability_names.PAGING, refusals[0])
        return
    ids = [[raw.id_of(hit) or 0 for hit in page.hits] for page in pages]
    if [*map(len, ids)] == [1, 1] and ids[0] < ids[1]:
        known.found(rest.capability_names.PAGING)
    else:
        known.refuse(rest.capability_names.PAGING, rest.Refused(
            'pages overlap or are not sorted', status=200))


def _wwpn(client: rest.Client) -> None:
    """Search for a Fibre Channel initiator that is listed."""
    listed = client.raw.ask('GET', 'host_fc_ports').hits
    for name in [str(hit['pwwn']) for hit in listed if hit.get('pwwn')][:1]:
        client.host_fc_ports.find(pwwn=name)


def _peer(client: rest.Client) -> None:
    """Read by id a replication peer that is listed."""
    listed = client.raw.ask('GET', 'replication/peer_k2arrays').hits
    for id in [id for hit in listed if (id := raw.id_of(hit))][:1]:
        client.peer_arrays.get(id)


def by_writes(client: rest.Client, made: probe_made.Made) -> None:
    """Learn with objects of the probe."""
    learner = _Learner(client, made)
    # On an array without other volumes there was nothing to page through.
    for step in (lambda: _paging(client), learner.sequence, learner.lookups,
                 learner.move, learner.descriptions, learner.kept_view,
                 learner.bulk, learner.restore, learner.thin_clone,
                 learner.initiator, learner.port, learner.chap,
                 lambda: _fields(client)):
        _try(step)


def _try(step: Callable[[], object]) -> None:
    with contextlib.suppress(rest.RestError, findings.Skip,
                             *findings.UNREADABLE):
        step()


class _Learner:

    def __init__(self, client: rest.Client, made: probe_made.Made) -> None:
        self._client = client
        self._made = made
        self._policy = rest.Ref.parse(made.policy['ref'])

    def lookups(self) -> None:
        """Searches and reads by id of snapshots, volsnaps and mappings."""
        made, client = self._made, self._client
        snapshot, volume = made.snapshot(), made.volume()
        mapping = made.mapping('m1', made.host(), 'volumes', volume)
        group = client.volume_groups.ref(made.group())
        for step in (
                lambda: client.snapshots.get(snapshot),
                lambda: client.mappings.get(mapping),
                lambda: client.snapshots.search(source=group),
                lambda: client.volsnaps.search(
                    source=client.volumes.ref(volume)),
                lambda: client.volumes.search(rest.query.one_of(
                    'name', [made.name('v1'), _NOBODY])),
                lambda: client.volume_groups.search(rest.query.one_of(
                    'name', [made.name('g1'), made.name('g2')]))):
            _try(step)

    def sequence(self) -> None:
        """The header on writes, learned with a separate volume group.

        It is removed with the other objects of the probe.
        """
        with self._made.writer.making('volume_groups'):
            self._client.volume_groups.create(
                name=self._made.name('q1'), quota=0, is_dedup=True)

    def move(self) -> None:
        """Moving a volume, which has no snapshots, to another group."""
        self._client.volumes.update(
            self._made.volume('v5', 'g7'),
            volume_group=self._client.volume_groups.ref(
                self._made.group('g7')))

    def descriptions(self) -> None:
        """Notes in descriptions."""
        made = self._made
        _try(lambda: self._client.volume_groups.update(
            made.group('g6'), description='k2probe'))
        _try(lambda: self._client.volumes.update(
            made.volume('v3', 'g6'), description='k2probe'))

    def kept_view(self) -> None:
        """A view that the array may not delete (SNP-4)."""
        self._client.snapshots.create(
            short_name=self._made.name('w3'), is_exposable=True,
            source=self._client.snapshots.ref(self._made.snapshot()),
            retention_policy=self._policy,
            optional={'is_auto_deleteable': False})

    def bulk(self) -> None:
        """Several snapshots at once (BLK-3)."""
        made = self._made
        made.volume('v2', 'g5'), made.volume('v3', 'g6')
        found = self._client.snapshots.create_many([{
            'short_name': made.name(part), 'is_auto_deleteable': False,
            'source': self._client.volume_groups.ref(made.group(group)),
            'retention_policy': self._policy}
            for part, group in (('f1', 'g5'), ('f2', 'g6'))])
        self._client.snapshots.delete_many({
            each.id: {'short_name': each.short_name} for each in found})

    def restore(self) -> None:
        """Restoring a group in one call."""
        snapshot = self._made.snapshot('s2', 'g6', 'v3')
        self._client.volume_groups.update(
            self._made.group('g6'),
            last_restored_from=self._client.snapshots.ref(snapshot))

    def thin_clone(self) -> None:
        """Thin clones; a plain volume shows that a refusal is about them."""
        self._made.volume()
        name = 'creations:volumes:is_thin_clone'
        _try(self._made.thin_clone)
        answer = self._made.answers.get('c1')
        if answer is None:
            return
        if answer.error is None:
            self._client.capabilities.found(name)
        elif rest.errors.is_refusal(answer.error):
            self._client.capabilities.refuse(name, answer.error)

    def initiator(self) -> None:
        """Finding and deleting an iSCSI initiator."""
        self._in_and_out(self._client.host_iqns, 'h3', iqn=naming.probe_iqn(
            self._made.writer.token.token, 'i2'))

    def port(self) -> None:
        """Finding and deleting a Fibre Channel initiator."""
        self._in_and_out(
            self._client.host_fc_ports, 'h5',
            pwwn=naming.probe_wwpn(self._made.writer.token.token))

    def _in_and_out(self, records: rest.Collection[typing.Any], host: str,
                    **identity: typing.Any) -> None:
        """Make an initiator of a host, find it, and delete it."""
        owner = self._client.hosts.ref(self._made.host(host))
        with self._made.writer.making(records.kind.RESOURCE):
            found = records.create(**identity, host=owner)
        _try(lambda: records.find(**identity))
        records.delete(found.id, **identity)

    def chap(self) -> None:
        """A CHAP profile of a host."""
        name = self._made.name('p2')
        with self._made.writer.making('host_auth_profiles'):
            profile = self._client.host_auth_profiles.create(
                name=name, type='CHAP', username=name,
                password=secrets.token_hex(7))
        host = self._made.host('h3')
        _try(lambda: self._client.hosts.update(
            host, map_auth_profiles_names=name))
        _try(lambda: self._client.hosts.update(
            host, map_auth_profiles_names=None))
        self._client.host_auth_profiles.delete(profile.id, name=name)
