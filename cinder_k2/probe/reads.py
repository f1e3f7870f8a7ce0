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

"""Checks of rules that need no write."""

import re
from typing import Any

from cinder_k2.probe import asking
from cinder_k2.probe import findings
from cinder_k2.probe.findings import checks
from cinder_k2.probe.findings import Finding
from cinder_k2.probe.findings import that
from cinder_k2.probe import words
from cinder_k2.probe.words import ELSE
from cinder_k2 import rest
from cinder_k2.rest import raw

_MANY = 300
_WWPN = re.compile('([0-9a-f]{2}:){7}[0-9a-f]{2}')
_NOBODY = 'k2probe-nobody'
# A form that every array carries out.
_STATE = raw.form('GET', 'system/state')


class _Checks:
    """Common parts of the checks."""

    def __init__(self, asker: asking.Asker, state: rest.SystemState) -> None:
        self._get = asker.get
        self._state = state

    def _ask(self, resource: str, *query: tuple[str, str]) -> Any:
        """A 2xx reply to a search.

        :raises findings.Skip: the array replied with an error
        """
        answer = self._get(resource, '', *query)
        if not answer.ok:
            raise findings.Skip(words.said(answer))
        return answer


class Reads(_Checks):
    """Checks of objects that every array has, such as the volume CTRL."""

    @checks('CON-6')
    def content_type(self) -> Finding:
        """The content type of a reply."""
        found = self._ask('system/state').content_type
        return that(found == 'application/json',
                    f'Content-Type: {words.public(found)}')

    @checks('CON-7')
    def trailing_slash(self) -> Finding:
        """A path that ends with a slash."""
        return findings.done(self._get('system/state', '/'), _STATE)

    @checks('DIS-1')
    def index(self) -> Finding:
        """The index names each resource with its url."""
        found = self._index()
        urls = found.get('resources')
        return that(isinstance(urls, dict) and 'volumes' in urls and all(
            isinstance(each, dict) and str(each.get('url')) == f'/{name}'
            for name, each in urls.items()), 'read the index')

    @checks('DIS-2')
    def index_has_statistics(self) -> Finding:
        """The resources that references point to are in the index."""
        urls = self._index().get('resources')
        missing = [name for name in (
            'stats/volumes', 'replication/stats/volumes',
            'replication/rpo_history', 'system/servers',
            'system/hardware_states', 'system/pairs', 'system/vlans',
            'system/wan_ports') if not isinstance(urls, dict)
            or name not in urls]
        return that(not missing, f'missing: {", ".join(missing) or "none"}')

    @checks('DIS-3')
    def index_keys(self) -> Finding:
        """The index has one key."""
        keys = sorted(self._index())
        return that(keys == ['resources'], f'keys: {words.names(keys)}')

    @checks('OBJ-2')
    def bare_object(self) -> Finding:
        """A single object is returned without an envelope."""
        return findings.is_bare(self._get('volumes', 1), 1)

    @checks('VOL-14')
    def control_volume(self) -> Finding:
        """Volume 1 is CTRL."""
        found = raw.id_of(self._control())
        return that(found == 1, f'CTRL has id {"1" if found == 1 else ELSE}')

    def _control(self, *query: tuple[str, str]) -> dict[str, Any]:
        """CTRL as a search shows it.

        :raises findings.Skip: the search does not find it
        """
        for hit in self._ask('volumes', ('name', 'CTRL'), *query).hits:
            if hit.get('name') == 'CTRL':
                return dict(hit)
        raise findings.Skip('no volume CTRL is found by its name')

    @checks('QRY-1')
    def long_list(self) -> Finding:
        """A list of many values."""
        nobody, few, many = (self._get('volumes', '', (
            'name__in', ','.join([*names, *(
                f'{_NOBODY}-{n}' for n in range(number))])))
            for names, number in (([], 2), (['CTRL'], 1), (['CTRL'], _MANY)))
        if not few.ok or (nobody.total, few.total) != (0, 1):
            return findings.not_seen(
                'no search for two values finds just the one volume: '
                + words.said(few))
        return findings.done(many, few.form) if not many.ok else that(
            many.total == 1, f'{many.total} of 1 volume found')

    @checks('QRY-2')
    def unknown_field(self) -> Finding:
        """A condition on a field that the resource lacks."""
        answer = self._get('volumes', '', ('k2probe_field', '1'))
        if not answer.ok:
            # A field that volumes have, but that no array needs to know.
            return findings.done(answer, self._get(
                'volumes', '', ('read_only', 'false')).form)
        return that(not answer.total, 'nothing was found' if not answer.total
                    else 'the condition was ignored')

    @checks('QRY-3')
    def empty_value(self) -> Finding:
        """A condition without a value is ignored."""
        self._control()
        answer = self._get('volumes', '', ('name', ''))
        if not answer.ok:
            return findings.done(answer)
        return that(answer.total > 0, 'all volumes' if answer.total
                    else 'nothing was found')

    @checks('QRY-5')
    def case(self) -> Finding:
        """String comparison is case-sensitive."""
        self._control()
        found = self._ask('volumes', ('name', 'ctrl')).hits
        return that(not any(hit.get('name') == 'CTRL' for hit in found),
                    'ctrl does not find CTRL' if not found
                    else 'ctrl finds volumes')

    @checks('QRY-6')
    def case_of_booleans(self) -> Finding:
        """Booleans are compared without regard to case."""
        if self._is_found('read_only', 'true'):
            return findings.not_seen('the condition is ignored')
        if not self._is_found('read_only', 'false'):
            return findings.not_seen('no volume is found by read_only')
        holds = self._is_found('read_only', 'False')
        return that(holds, f'false finds CTRL, False '
                    f'{"too" if holds else "does not"}')

    def _is_found(self, key: str, value: str) -> bool:
        """Whether CTRL meets a condition."""
        return any(hit.get('name') == 'CTRL' for hit in self._ask(
            'volumes', ('name', 'CTRL'), (key, value)).hits)

    @checks('QRY-7')
    def percent(self) -> Finding:
        """Values may be percent-encoded."""
        return self._finds_control('%43TRL')

    @checks('QRY-8')
    def quotes(self) -> Finding:
        """A pair of double quotes is removed."""
        return self._finds_control('%22CTRL%22')

    def _finds_control(self, text: str) -> Finding:
        self._control()
        answer = self._get('volumes', '', ('name', text))
        if not answer.ok:
            return findings.done(answer)
        found = any(hit.get('name') == 'CTRL' for hit in answer.hits)
        return that(found, 'finds CTRL' if found else 'does not find CTRL')

    @checks('section 2.5')
    def paging(self) -> Finding:
        """Lists are truncated by __limit."""
        answer = self._ask('volumes', ('__limit', '0'))
        return that(not answer.hits and answer.total > 0,
                    f'__limit=0: {len(answer.hits)} hits')

    @checks('BLK-6')
    def meta(self) -> Finding:
        """__meta is not for clients."""
        answer = self._get('volumes', '__meta')
        return (that(answer.status == 404, words.said(answer))
                if answer.ok or answer.status == 404
                else findings.not_seen(words.said(answer)))

    @checks('section 14: net_vlans')
    def other_name_of_vlans(self) -> Finding:
        """system/net_vlans is not also found at system/netvlans."""
        known, other = (self._get(f'system/{name}')
                        for name in ('net_vlans', 'netvlans'))
        if not known.ok and not other.ok:
            return findings.not_seen(words.said(known))
        if other.ok or other.status == 404:
            return that(not other.ok, words.said(other))
        return findings.not_seen(words.said(other))

    @checks('INI-1')
    def initiators_without_host(self) -> Finding:
        """An initiator may have no host."""
        alone = [hit for resource in ('host_iqns', 'host_fc_ports')
                 for hit in self._get(resource).hits
                 if 'host' in hit and hit['host'] is None]
        return (findings.confirmed('one has none') if alone else
                findings.not_seen('each that is listed has a host'))

    @checks('INI-4')
    def form_of_wwpns(self) -> Finding:
        """A pwwn is shown as lower-case pairs with colons."""
        found = [str(hit['pwwn']) for hit in self._ask('host_fc_ports').hits
                 if hit.get('pwwn')]
        if not found:
            return findings.not_seen('no Fibre Channel initiator is listed')
        return that(all(_WWPN.fullmatch(each) for each in found),
                    f'looked at {len(found)}')

    @checks('RET-1')
    def retention_policies(self) -> Finding:
        """Policies that every array has."""
        names = ('Best_Effort_Retention', 'Replication_Retention')
        missing = [name for name in names if not self._ask(
            'retention_policies', ('name', name)).hits]
        return that(not missing, f'missing: {", ".join(missing) or "none"}')

    @checks('VCP-1')
    def capacity_policy(self) -> Finding:
        """There is a default, with full_threshold 100."""
        for hit in self._ask('vg_capacity_policies').hits:
            if hit.get('name') == 'default_vg_capacity_policy':
                found = hit.get('full_threshold')
                return (findings.not_seen('the field is missing')
                        if found is None else that(
                            str(found) == '100', f'full_threshold: {found}'))
        return findings.not_seen('no default is listed')

    @checks('CAP-1')
    def capacity(self) -> Finding:
        """The figures that the scheduler needs."""
        one = self._capacity()
        missing = [name for name in ('free', 'total', 'provisioned_volumes')
                   if not isinstance(one.get(name), int | float)]
        return that(not missing, f'missing: {", ".join(missing) or "none"}')

    @checks('CAP-2')
    def reduction(self) -> Finding:
        """The figures of data reduction."""
        one = self._capacity()
        missing = [name for name in ('allocated', 'physical', 'provisioned')
                   if not isinstance(one.get(name), int | float)]
        return that(not missing, f'missing: {", ".join(missing) or "none"}')

    @checks('CAP-3')
    def sum_of_capacities(self) -> Finding:
        """Free is total minus allocated and reserved."""
        one = self._capacity()
        total, free, allocated, reserved = (
            one.get(name) for name in ('total', 'free', 'allocated',
                                       'reserved'))
        if not (isinstance(total, int | float)
                and isinstance(free, int | float)
                and isinstance(allocated, int | float)
                and isinstance(reserved, int | float)):
            return findings.not_seen('a figure is missing')
        beyond = abs(total - allocated - reserved - free)
        return that(beyond < 1 + total / 1e3,
                    f'the sum differs by {beyond / (total or 1):.2%}')

    def _capacity(self) -> dict[str, Any]:
        hits = self._ask('system/capacity').hits
        if not hits:
            raise findings.Skip('no capacity in the reply')
        return dict(hits[0])

    @checks('NET-1')
    def portals(self) -> Finding:
        """iSCSI portals have no wan_port."""
        hits = self._ask('system/net_ips').hits
        shown = [hit for hit in hits if 'wan_port' in hit]
        if not shown:
            return findings.not_seen(
                'the field is missing' if hits
                else 'no addresses: Fibre Channel only')
        portals = [hit for hit in shown if not hit['wan_port']]
        return that(bool(portals), f'{len(portals)} of {len(hits)} addresses')

    @checks('NET-2')
    def target_name(self) -> Finding:
        """system/state has the one target IQN."""
        if not self._ask('system/net_ips').hits:
            return findings.not_seen('no addresses: Fibre Channel only')
        return that(bool(self._state.iscsi_qualified_target_name),
                    'read system/state')

    @checks('NET-3')
    def ports_of_portals(self) -> Finding:
        """The port of a portal is a dataport."""
        for hit in self._ask('system/net_ips').hits:
            port = hit.get('net_port')
            if not hit.get('wan_port') and isinstance(port, dict):
                ref = rest.Ref.parse(str(port.get('ref')))
                answer = self._get(ref.resource, ref.id)
                kind = answer.field('port_type')
                return (findings.not_seen(words.said(answer)) if kind is None
                        else that(kind == 'dataport', 'port_type: '
                                  + words.public(str(kind))))
        return findings.not_seen('no portal on a port of its own')

    @checks('STA-3')
    def statistics(self) -> Finding:
        """Statistics, with the requested fields only."""
        plain = self._ask('stats/system')
        answer = self._get('stats/system', '', ('__fields', 'iops_avg'))
        if not answer.ok:
            return findings.done(answer, plain.form)
        keys = sorted({key for hit in answer.hits for key in hit})
        if not keys:
            return findings.not_seen('no figures')
        return that(keys == ['iops_avg'], f'fields: {words.names(keys)}')

    @checks('ERR-6')
    def not_online(self) -> Finding:
        """While the state is not ONLINE, statistics answer 503."""
        if self._state.state == 'ONLINE':
            return findings.not_seen('the state is ONLINE')
        answer = self._get('stats/system')
        seen = f'the state is not ONLINE: {words.said(answer)}'
        return (that(answer.status == 503, seen)
                if answer.ok or answer.status == 503
                else findings.not_seen(seen))

    @checks('OBJ-10')
    def types(self) -> Finding:
        """Replies have JSON types."""
        one = self._control()
        found = [(one[name], kinds) for name, kinds in (
            ('size', (int, float)), ('read_only', (bool,)))
            if one.get(name) is not None]
        if not found:
            return findings.not_seen('the fields are missing')
        return that(all(type(value) in kinds for value, kinds in found),
                    f'looked at {len(found)} fields')

    def _index(self) -> dict[str, Any]:
        found = self._ask('').value
        if not isinstance(found, dict):
            raise findings.Skip('the index is no object')
        return found


class Events(_Checks):
    """Checks of events; a probe that writes has caused some before."""

    @checks('EVT-3')
    def event_zero(self) -> Finding:
        """There is no event 0."""
        ids = [id for hit in self._ask('events').hits
               if (id := raw.id_of(hit)) is not None]
        if not ids or not self._get('events', max(ids)).ok:
            return findings.not_seen('events are not read by id')
        answer = self._get('events', 0)
        return (that(answer.status == 404, words.said(answer))
                if (answer.status or 500) < 500
                else findings.not_seen(words.said(answer)))

    @checks('EVT-4')
    def newest_event(self) -> Finding:
        """The newest events have the highest ids."""
        found = [(hit.get('id'), hit.get('timestamp'))
                 for hit in self._ask('events').hits]
        pairs = sorted((id, time) for id, time in found if isinstance(
            id, int) and isinstance(time, int | float))
        if len(pairs) < 2:
            return findings.not_seen('fewer than two events')
        return that(all(a[1] <= b[1] for a, b in zip(pairs, pairs[1:])),
                    f'compared the times of {len(pairs)} events')

    @checks('EVT-1')
    def events_of_a_level(self) -> Finding:
        """Events are searched by their level."""
        found = [hit.get('level') for hit in self._ask(
            'events', ('level', 'INFO')).hits]
        if not found:
            return findings.not_seen('no event is found')
        return that(set(found) == {'INFO'}, f'looked at {len(found)} events')

    @checks('EVT-2')
    def kinds_of_events(self) -> Finding:
        """Event 249 is that of a new volume group."""
        found = [hit.get('name') for hit in self._ask(
            'events', ('event_id', '249')).hits
            if str(hit.get('event_id')) == '249']
        if not found:
            return findings.not_seen('no event 249 is found')
        return that(set(found) == {'VG_CREATED'},
                    f'looked at {len(found)} events')
