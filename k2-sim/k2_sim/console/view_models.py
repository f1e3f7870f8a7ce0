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

"""What each view of the console shows, as JSON, read under the lock."""

from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Mapping
import dataclasses
from typing import Any

from k2_sim.access import users as users_module
from k2_sim.console import history as history_module
from k2_sim.console import volume_tree as volume_tree_module
from k2_sim import core as core_module
from k2_sim import errors
from k2_sim.recording import journal as journal_module
from k2_sim.rules import base
from k2_sim.rules import events
from k2_sim.rules import ports
from k2_sim.rules import registry
from k2_sim.rules import replicas
from k2_sim.rules import transfers
from k2_sim.state import catalogue
from k2_sim.state import schema
from k2_sim.state.schema import Row


Fields = dict[str, Any]
_PAGE = 50
_LINES = 100
_LARGEST = 10 ** 6
_NEWS = 8
# Mappings of one opened host, and rounds of one session.
_MAPPINGS = 200
_ROUNDS = 60
_COUNTED = ('volume_groups', 'hosts', 'host_groups', 'mappings',
            replicas.SESSIONS)
_LISTED = ('name', 'rpo', 'state', 'current_role', 'suspend_reason',
           'current_snapshot_progress', 'estimated_remaining_time',
           'target_exposure', 'generation_number')


@dataclasses.dataclass(frozen=True)
class Asked:
    """The parameters of a view.

    search: part of a name or text. offset: the number of objects to skip.
    opened: references of expanded objects. kind: filter of lines. since:
    seconds since the epoch. ref: the object to show.
    """

    search: str = ''
    offset: int = 0
    opened: tuple[str, ...] = ()
    kind: str = ''
    since: float = 0.0
    ref: str = ''


def read(query: Mapping[str, str]) -> Asked:
    """The parameters in a query.

    Raises ApiError (400) for invalid numbers.
    """
    try:
        offset = int(query.get('offset', '0'))
        since = float(query.get('since', '0'))
    except ValueError as exc:
        raise errors.refused('offset and since must be numbers') from exc
    if not 0 <= offset <= _LARGEST:
        raise errors.refused(f'offset must be from 0 to {_LARGEST}')
    opened = query.get('open', '')
    return Asked(query.get('search', ''), offset,
                 tuple(opened.split(',')) if opened else (),
                 query.get('kind', ''), since, query.get('ref', ''))


class ViewModels:
    """The views of one array.

    look: does what is due on the array.
    """

    def __init__(self, core: core_module.Core,
                 users: users_module.Users,
                 look: Callable[[], object]) -> None:
        self.history = history_module.History(core)
        self._core = core
        self._users = users
        self._look = look
        clock = core.clock
        # So that a request has the same time whenever it is shown.
        self._started = clock.time() - clock.monotonic()
        self._views: dict[str, Callable[[base.Scope, Asked], Fields]] = {
            'overview': self._overview, 'volumes': _volumes,
            'hosts': _hosts, 'replication': _replication,
            'events': _events, 'requests': self._requests,
            'system': self._system, 'object': _object}

    def answer(self, name: str, asked: Asked) -> Fields:
        """What a view shows now; raises ApiError (404) for unknown views."""
        view = self._views.get(name)
        if view is None:
            raise errors.no_resource()
        core = self._core
        if not core.has_maintenance:
            self._look()
        with core.lock:
            return view(base.Scope(
                core.store, core.behaviors, core.clock), asked)

    def _overview(self, scope: base.Scope, asked: Asked) -> Fields:
        return {
            **self._identity(scope),
            'capacity': _singleton(scope, catalogue.SYSTEM_CAPACITY.name),
            'counts': _counts(scope),
            'step': history_module.STEP,
            'columns': history_module.Sample._fields,
            'samples': self.history.since(asked.since),
            'sessions': _tally(
                row['state'] for row in scope.store.rows(replicas.SESSIONS)),
            'events': _newest(scope, _NEWS, lambda row: True)}

    def _identity(self, scope: base.Scope) -> Fields:
        state = _singleton(scope, catalogue.SYSTEM_STATE.name)
        # They differ by request: no reply would equal the previous one.
        del state['system_time'], state['current_user_role']
        return {'profile': self._core.profile, 'system': state}

    def _requests(self, scope: base.Scope, asked: Asked) -> Fields:
        """The newest first; kind is errors, faults or writes."""
        wanted = _KINDS.get(asked.kind, _any)
        text = asked.search.lower()
        entries = self._core.journal.newest(
            _LINES, lambda entry: wanted(entry) and text in (
                f'{entry.method} {entry.path}?{entry.query}'.lower()))
        return {'count': self._core.journal.count,
                'most': self._core.journal.max_in_flight,
                'limit': _LINES, 'requests': list(map(self._line, entries))}

    def _line(self, entry: journal_module.Entry) -> Fields:
        took = None if entry.ended is None else round(
            (entry.ended - entry.started) * 1000, 2)
        return {
            'time': round(self._started + entry.started, 3),
            'method': entry.method, 'path': entry.path,
            'query': entry.query, 'status': entry.status, 'ms': took,
            'fault': entry.fault, 'carried_out': entry.carried_out}

    def _system(self, scope: base.Scope, asked: Asked) -> Fields:
        return {
            **self._identity(scope),
            'ports': ports.listed(scope), 'addresses': _addresses(scope),
            'users': self._users.roles(),
            'behaviors': dataclasses.asdict(scope.behaviors)}


def _any(entry: journal_module.Entry) -> bool:
    return True


_KINDS: dict[str, Callable[[journal_module.Entry], bool]] = {
    'errors': lambda entry: entry.status == 0 or (entry.status or 0) >= 400,
    'faults': lambda entry: bool(entry.fault),
    'writes': lambda entry: entry.method != 'GET'}


def _singleton(scope: base.Scope, resource: str) -> Row:
    return registry.shown(scope, resource, scope.store.at(f'/{resource}/1'))


def _tally(items: Iterable[str]) -> dict[str, int]:
    found: dict[str, int] = {}
    for item in items:
        found[item] = found.get(item, 0) + 1
    return found


def _counts(scope: base.Scope) -> dict[str, int]:
    """The numbers of objects, without the internal volume."""
    tables = scope.store.tables
    views = sum(row['is_exposable'] for row in scope.store.rows('snapshots'))
    return {**{name: len(tables[name].rows) for name in _COUNTED},
            'volumes': len(tables['volumes'].rows) - 1, 'views': views,
            'snapshots': len(tables['snapshots'].rows) - views}


def _part(rows: list[Row], asked: Asked) -> list[Row]:
    return rows[asked.offset:asked.offset + _PAGE]


def _volumes(scope: base.Scope, asked: Asked) -> Fields:
    tree = volume_tree_module.VolumeTree(scope, asked.search, asked.opened)
    groups = tree.groups()
    return {'total': len(groups), 'offset': asked.offset, 'limit': _PAGE,
            'nodes': tree.nodes(_part(groups, asked))}


def _hosts(scope: base.Scope, asked: Asked) -> Fields:
    text = asked.search.lower()
    found = [row for row in scope.store.rows(base.HOSTS)
             if text in row['name'].lower()]
    return {'total': len(found), 'offset': asked.offset, 'limit': _PAGE,
            'hosts': [_host(scope, row, asked)
                      for row in _part(found, asked)],
            'groups': [_host_group(scope, row) for row
                       in scope.store.rows(base.HOST_GROUPS)[:_PAGE]]}


def _host(scope: base.Scope, row: Row, asked: Asked) -> Fields:
    """A host, its initiators, and its mappings if it is expanded."""
    ref = schema.make_ref(base.HOSTS, row['id'])
    group = row['host_group']
    refs = [ref, *([group] if group else [])]
    initiators = [
        initiator[field]
        for name, field in (('host_iqns', 'iqn'), ('host_fc_ports', 'pwwn'),
                            ('host_nqns', 'nqn'))
        for initiator in scope.store.find(name, 'host', ref)]
    return {'ref': ref, 'name': row['name'], 'type': row['type'],
            'group': scope.store.at(group)['name'] if group else None,
            'initiators': initiators,
            'count': sum(scope.store.count('mappings', 'host', place)
                         for place in refs),
            'mappings': _mappings(scope, refs)
            if ref in asked.opened else None}


def _mappings(scope: base.Scope, refs: list[str]) -> list[Fields]:
    return [{'lun': row['lun'], 'name': scope.store.at(row['volume'])['name'],
             'kind': schema.split_ref(row['volume'])[0],
             'through': schema.split_ref(ref)[0]}
            for ref in refs
            for row in scope.store.find('mappings', 'host', ref)][:_MAPPINGS]


def _host_group(scope: base.Scope, row: Row) -> Fields:
    ref = schema.make_ref(base.HOST_GROUPS, row['id'])
    hosts = scope.store.find(base.HOSTS, 'host_group', ref)
    return {'name': row['name'], 'hosts': [host['name'] for host in hosts],
            'count': scope.store.count('mappings', 'host', ref)}


def _replication(scope: base.Scope, asked: Asked) -> Fields:
    return {
        'peers': [registry.shown(scope, replicas.PEERS, row)
                  for row in scope.store.rows(replicas.PEERS)],
        'sessions': [_session(scope, row) for row
                     in scope.store.rows(replicas.SESSIONS)]}


def _session(scope: base.Scope, row: Row) -> Fields:
    """A session; lag: the age in seconds of the latest replicated data."""
    shown = registry.shown(scope, replicas.SESSIONS, row)
    latest = shown['latest_replicated_snapshot']
    lag = None
    if latest is not None:
        snapshot = scope.store.at(latest['ref'])
        lag = int(scope.now - (
            snapshot.get('data_creation_time') or snapshot['creation_time']))
    return {
        **{name: shown[name] for name in _LISTED}, 'lag': lag,
        'peer': scope.store.at(row['replication_peer_k2array'])['name'],
        'group': scope.store.at(row['local_volume_group'])['name'],
        'rounds': [
            {'ended': done['round_end'],
             'seconds': done['round_end'] - done['round_start'],
             'bytes': done['bytes_transmitted_logical']}
            for done in transfers.history(scope, row)[-_ROUNDS:]]}


def _newest(scope: base.Scope, count: int, wanted: Callable[[Row], bool]
            ) -> list[Row]:
    """Events, the newest first."""
    table = scope.store.tables[events.NAME]
    found: list[Row] = []
    for number in reversed(table.numbers):
        if len(found) == count:
            break
        if wanted(table.rows[number]):
            found.append(table.rows[number])
    return found


def _events(scope: base.Scope, asked: Asked) -> Fields:
    """kind: a level, or '' for all."""
    text = asked.search.lower()
    return {'total': len(scope.store.tables[events.NAME].rows),
            'limit': _LINES, 'events': _newest(
                scope, _LINES, lambda row: asked.kind in ('', row['level'])
                and text in f'{row["name"]} {row["message"]}'.lower())}


def _addresses(scope: base.Scope) -> list[Fields]:
    """IP addresses and the interfaces that have them."""
    found = []
    for row in scope.store.rows(catalogue.NET_IPS.name):
        interface = row.get('net_port') or row.get(
            'net_portchannel') or row.get('net_vlan')
        found.append({
            'address': row['ip_address'], 'mask': row['network_mask'],
            'service': 'Replication' if row.get('wan_port') else 'iSCSI',
            'interface': scope.store.at(interface)['name']
            if interface else ''})
    return found


def _object(scope: base.Scope, asked: Asked) -> Fields:
    """One object as the REST API shows it."""
    resource, _, number = asked.ref.strip('/').rpartition('/')
    if not number.isdecimal() or not scope.store.exists(asked.ref):
        raise errors.missing(asked.ref)
    return {'ref': asked.ref,
            'fields': registry.shown(
                scope, resource, scope.store.at(asked.ref))}
