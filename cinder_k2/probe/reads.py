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

from typing import Any

from cinder_k2.probe import asking
from cinder_k2.probe import findings
from cinder_k2.probe.findings import checks
from cinder_k2.probe.findings import Finding
from cinder_k2.probe.findings import that
from cinder_k2 import rest

_MANY = 300
_NOBODY = 'k2probe-nobody'


class Reads:
    """Each check reads what every array has, such as the volume CTRL."""

    def __init__(self, asker: asking.Asker, state: rest.SystemState) -> None:
        self._asker = asker
        self._get = asker.get
        self._state = state

    @checks('CON-6')
    def content_type(self) -> Finding:
        """The content type of a reply."""
        found = self._ask('system/state').content_type
        return that(found == 'application/json', f'Content-Type: {found}')

    @checks('CON-7')
    def trailing_slash(self) -> Finding:
        """A path that ends with a slash."""
        return findings.done(self._get('system/state', '/'))

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
        """What references name is in the index."""
        urls = self._index().get('resources')
        missing = [name for name in (
            'stats/volumes', 'replication/stats/volumes',
            'replication/rpo_history', 'system/servers', 'system/vlans',
            'system/wan_ports') if not isinstance(urls, dict)
            or name not in urls]
        return that(not missing, f'missing: {", ".join(missing) or "none"}')

    @checks('DIS-3')
    def index_keys(self) -> Finding:
        """The index has one key."""
        keys = sorted(self._index())
        return that(keys == ['resources'], f'keys: {", ".join(keys)}')

    @checks('OBJ-2')
    def bare_object(self) -> Finding:
        """One object comes without an envelope."""
        answer = self._get('volumes', 1)
        if not answer.ok:
            return findings.not_seen(answer.words)
        return (that(answer.id == 1, 'bare') if answer.id
                else findings.contradicted('with an envelope'))

    @checks('VOL-14')
    def control_volume(self) -> Finding:
        """Volume 1 is CTRL."""
        found = self._ask('volumes', ('name', 'CTRL')).hits
        ids = [hit.get('id') for hit in found if hit.get('name') == 'CTRL']
        return that(ids == [1], f'CTRL has id {ids or "none"}')

    @checks('QRY-1')
    def long_list(self) -> Finding:
        """A list of many values."""
        names = ','.join(['CTRL', *(f'{_NOBODY}-{n}' for n in range(_MANY))])
        answer = self._get('volumes', '', ('name__in', names))
        return findings.done(answer) if not answer.ok else that(
            answer.total == 1, f'{answer.total} of 1 volume found')

    @checks('QRY-2')
    def unknown_field(self) -> Finding:
        """A condition on a field that the resource lacks."""
        answer = self._get('volumes', '', ('k2probe_field', '1'))
        if not answer.ok:
            return findings.contradicted(answer.words) if (
                answer.status or 500) < 500 else findings.not_seen(
                    answer.words)
        return that(not answer.total, 'nothing was found' if not answer.total
                    else 'the condition was ignored')

    @checks('QRY-3')
    def empty_value(self) -> Finding:
        """A condition without a value is left out."""
        answer = self._get('volumes', '', ('name', ''))
        if not answer.ok:
            return findings.done(answer)
        return that(answer.total > 0, 'all volumes' if answer.total
                    else 'nothing was found')

    @checks('QRY-5')
    def case(self) -> Finding:
        """Strings are compared with case."""
        found = self._ask('volumes', ('name', 'ctrl')).hits
        return that(not any(hit.get('name') == 'CTRL' for hit in found),
                    f'ctrl finds CTRL: {bool(found)}')

    @checks('QRY-6')
    def case_of_booleans(self) -> Finding:
        """Booleans are compared without case."""
        low, high = (self._ask('volumes', ('read_only', text)).total
                     for text in ('false', 'False'))
        return that(low == high and low > 0, f'false and False are '
                    f'{"the same" if low == high else "not the same"}')

    @checks('QRY-7')
    def percent(self) -> Finding:
        """Values may be percent-encoded."""
        return self._finds_control('%43TRL')

    @checks('QRY-8')
    def quotes(self) -> Finding:
        """A pair of double quotes is taken off."""
        return self._finds_control('%22CTRL%22')

    def _finds_control(self, text: str) -> Finding:
        found = self._ask('volumes', ('name', text)).hits
        return that(any(hit.get('name') == 'CTRL' for hit in found),
                    f'finds CTRL: {bool(found)}')

    @checks('section 2.5')
    def paging(self) -> Finding:
        """Lists are sorted and cut by __sort, __limit and __offset."""
        answer = self._ask('volumes', ('__sort', 'id'), ('__limit', '0'))
        return that(not answer.hits and answer.total > 0,
                    f'__limit=0: {len(answer.hits)} hits')

    @checks('BLK-6')
    def meta(self) -> Finding:
        """__meta is not for clients."""
        answer = self._get('volumes', '__meta')
        return that(answer.status == 404, answer.words)

    @checks('section 14: net_vlans')
    def other_name_of_vlans(self) -> Finding:
        """system/net_vlans is not found at system/netvlans, too."""
        answer = self._get('system/netvlans')
        return that(not answer.ok, answer.words)

    @checks('EVT-3')
    def event_zero(self) -> Finding:
        """There is no event 0."""
        answer = self._get('events', 0)
        return that(answer.status == 404, answer.words)

    @checks('EVT-4')
    def newest_event(self) -> Finding:
        """The newest events have the highest ids."""
        hits = self._ask('events', ('__sort', 'id'), (
            '__sort_order', 'desc'), ('__limit', '3')).hits
        times = [hit.get('timestamp') for hit in hits]
        if len(times) < 2 or not all(isinstance(each, int | float)
                                     for each in times):
            return findings.not_seen('fewer than two events')
        return that(times == sorted(times, reverse=True),
                    'compared the times of three events')

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
        hits = self._ask('vg_capacity_policies', (
            'name', 'default_vg_capacity_policy')).hits
        full = [hit.get('full_threshold') for hit in hits]
        return that(full == [100], f'full_threshold: {full or "no default"}')

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
        return that(all(isinstance(one.get(name), int | float) for name in (
            'allocated', 'physical', 'provisioned')), 'compared three fields')

    @checks('CAP-3')
    def sum_of_capacities(self) -> Finding:
        """Free is total without allocated and reserved."""
        one = self._capacity()
        total, free, allocated, reserved = (
            one.get(name) for name in ('total', 'free', 'allocated',
                                       'reserved'))
        if not (isinstance(total, int | float)
                and isinstance(free, int | float)
                and isinstance(allocated, int | float)
                and isinstance(reserved, int | float)):
            return findings.not_seen('a figure is missing')
        return that(abs(total - allocated - reserved - free) < 1 + total / 1e3,
                    f'free is {"0" if not free else "above 0"}')

    def _capacity(self) -> dict[str, Any]:
        hits = self._ask('system/capacity').hits
        if not hits:
            raise findings.Skip('no capacity in the reply')
        return dict(hits[0])

    @checks('NET-1')
    def portals(self) -> Finding:
        """iSCSI portals have no wan_port."""
        hits = self._ask('system/net_ips').hits
        portals = [hit for hit in hits if 'wan_port' in hit
                   and not hit['wan_port']]
        if not hits:
            return findings.not_seen('no addresses: Fibre Channel only')
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
                kind = self._get(ref.resource, ref.id).field('port_type')
                return that(kind == 'dataport', f'port_type: {kind}')
        return findings.not_seen('no portal on a port of its own')

    @checks('STA-3')
    def statistics(self) -> Finding:
        """Statistics, with the fields asked for only."""
        answer = self._get('stats/system', '', ('__fields', 'iops_avg'))
        if not answer.ok:
            return findings.done(answer)
        keys = sorted({key for hit in answer.hits for key in hit})
        return that(keys in (['iops_avg'], []), f'fields: {", ".join(keys)}')

    @checks('ERR-6')
    def not_online(self) -> Finding:
        """While the state is not ONLINE, statistics answer 5xx."""
        if self._state.state == 'ONLINE':
            return findings.not_seen('the state is ONLINE')
        answer = self._get('stats/system')
        return that((answer.status or 0) >= 500,
                    f'state {self._state.state}: {answer.words}')

    @checks('OBJ-10')
    def types(self) -> Finding:
        """Replies have JSON types."""
        one = self._ask('volumes', ('name', 'CTRL')).hits
        if not one:
            return findings.not_seen('no volume CTRL')
        return that(isinstance(one[0].get('size'), int | float)
                    and isinstance(one[0].get('read_only'), bool),
                    'looked at size and read_only')

    def _index(self) -> dict[str, Any]:
        found = self._ask('').value
        if not isinstance(found, dict):
            raise findings.Skip('the index is no object')
        return found

    def _ask(self, resource: str, *query: tuple[str, str]) -> Any:
        """A reply to go by.

        :raises findings.Skip: it is none
        """
        answer = self._get(resource, '', *query)
        if not answer.ok:
            raise findings.Skip(answer.words)
        return answer
