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

"""Exports for data planes in tests."""

import dataclasses
import pathlib

from hypothesis import strategies

from k2_sim.data_planes import base as data_planes

IQN = 'iqn.2026-01.org.example:'
SECRET = 'secretsecret'


def lun(number, serial='ab', size=2 ** 20, **fields):
    """A LUN whose file exists."""
    return data_planes.Lun(number, pathlib.Path('/dev/null'), size, serial,
                           **fields)


def host(*luns, name='a', **fields):
    """A host with one initiator."""
    return data_planes.Access((IQN + name,), luns, **fields)


def exports(*hosts, **fields):
    """What an array exports to hosts."""
    return data_planes.Exports(**{
        'target': f'{IQN}target', 'portals': ('192.0.2.1', '::1'),
        'vendor': 'SILK', 'product': 'SDP', 'hosts': hosts, **fields})


ACCOUNTS = strategies.none() | strategies.builds(
    data_planes.Account, strategies.sampled_from('abcd'),
    strategies.sampled_from(('one', 'two')))
LUNS = strategies.builds(
    lambda number, size, is_read_only: lun(
        number, f'{number:02x}', size, is_read_only=is_read_only),
    strategies.integers(1, 5), strategies.integers(1, 2),
    strategies.booleans())


def _without_clash(host_list):
    """Give hosts with one username one account: it is unique (CHP-4)."""
    passwords = {}
    return [dataclasses.replace(host, account=host.account and passwords
                                .setdefault(host.account.username,
                                            host.account))
            for host in host_list]


HOSTS = strategies.lists(strategies.builds(
    data_planes.Access,
    strategies.lists(strategies.sampled_from(
        [IQN + name for name in 'abCD']), min_size=1).map(tuple),
    strategies.lists(LUNS, min_size=1, unique_by=lambda item: item.number
                     ).map(tuple),
    ACCOUNTS), max_size=4).map(_without_clash)
