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

"""An array with something to show in every view."""

import math

import k2_sim
from tests import base
from tests.browser import browser
from tests import pairs

_GIB = base.GIB
_STEPS = 700


def _talk(array):
    """The helpers of the unit tests, for an array."""
    return pairs.talk(array)


def build():
    """Two arrays, the first of which replicates, after an hour of work."""
    clock = k2_sim.Clock()
    users = [k2_sim.User('cinder', 'pw-of-cinder', 'mgmt-app'),
             k2_sim.User('audit', 'pw-of-audit', 'read-only')]
    here, there = (k2_sim.Array(
        clock=clock, name=name, users=users, capacity=40 * 2 ** 30,
        seed=3, control_user=browser.CONTROL)
        for name in ('k2-east', 'k2-west'))
    k2_sim.connect(here, there, hosts=pairs.HOSTS)
    a = _talk(here)
    groups = _volumes(a)
    _hosts(a)
    _replicate(a, groups[0])
    _work(here, a)
    _requests(here, a)
    return here, there


def _volumes(a):
    groups = []
    for number, name in enumerate(('web', 'database', 'analytics', 'build')):
        group = a.group(f'cinder-{name}')
        groups.append(group)
        volumes = [a.volume(group, f'{name}-{place + 1:02d}',
                            (100 + 150 * place) * _GIB)
                   for place in range(4 + number)]
        a.snapshot(group, 'nightly-monday')
        taken = a.snapshot(group, 'nightly-tuesday')
        a.view(taken, 'verify')
        a.post('volumes', a.clone_body(
            group, taken, volumes[0], f'{name}-test'))
    a.group('volume-1a2b <b>not bold</b>')
    return groups


def _hosts(a):
    cluster = a.post('host_groups', {'name': 'hypervisors',
                                     'description': 'compute'})
    found = []
    for number in range(1, 5):
        grouped = {'host_group': base.ref('host_groups', cluster)} \
            if number < 3 else {}
        host = a.host(f'compute-{number:02d}', **grouped)
        found.append(host)
        a.post('host_iqns', {
            'iqn': f'iqn.2004-10.com.example:compute-{number:02d}',
            'host': base.ref('hosts', host)})
    volumes = a.hits('volumes?name__contains=-0')
    for place, volume in enumerate(volumes):
        if place % 3:
            a.map(found[2 + place % 2], volume)
        else:
            a.map(cluster, volume, host_kind='host_groups')


def _replicate(a, group):
    session = a.post(pairs.SESSIONS, pairs.session_body(
        group, 'web-to-west', rpo=60))
    for volume in a.hits(
            f'volumes?volume_group.ref=/volume_groups/{group["id"]}'):
        a.post(pairs.PAIRS, {
            'name': f'r-{volume["name"]}',
            'local_volume': base.ref('volumes', volume),
            'replication_session': base.ref(pairs.SESSIONS, session)})
    a.patch(f'{pairs.SESSIONS}/{session["id"]}', {'state': 'in_sync'})


def _work(array, a):
    """Fill the volumes and keep them busy for an hour."""
    volumes = a.hits('volumes?name__contains=-0')
    for step in range(_STEPS):
        part = step / _STEPS
        wave = math.sin(9 * part) + 0.4 * math.sin(41 * part)
        array.control.set_performance(
            iops_avg=int(42000 + 14000 * wave + 260 * (step * 7 % 5)),
            throughput_avg=int((610 + 210 * wave + 3 * (step % 4)) * 2 ** 20),
            latency_outer=0.62 + 0.16 * wave + 0.004 * (step % 3),
            latency_inner=0.31 + 0.07 * wave)
        if step % 20 == 0:
            volume = volumes[step // 20 % len(volumes)]
            array.control.set_written(
                volume['id'], int(volume['size'] * (0.35 + 0.5 * part)))
            array.control.write(volume['id'], f'token {step}')
        for _ in range(int(7 + 4 * wave)):
            a.get('system/state')
        array.clock.advance(5)
        array.control.tick()


def _requests(array, a):
    """Requests for the journal: reads, writes, refusals, faults."""
    rule = array.control.add_fault(
        kind='busy', method='POST', path='volumes', times=2)
    group = a.hits('volume_groups?name=cinder-build')[0]
    body = {'name': 'build-99', 'size': 20 * _GIB,
            'volume_group': base.ref('volume_groups', group)}
    for _ in range(3):
        a.call('POST', 'volumes', body)
    array.control.remove_fault(rule.id)
    made = a.hits('volumes?name=build-99')[0]
    a.patch(f'volumes/{made["id"]}', {'size': 40 * _GIB})
    a.call('GET', 'volumes/99999')
    a.call('GET', 'mappings?__limit=50&host.ref=/hosts/7')
    a.delete(f'volumes/{made["id"]}')
