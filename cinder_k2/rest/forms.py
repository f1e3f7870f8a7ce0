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

"""Requests that an array of any version is known to support.

These are the requests that the in-tree driver sends (section 16 of the API
rules): its exact combinations of searches, reads, deletions and bodies.
Everything else is a capability, which the array may lack
(``cinder_k2.rest.capabilities``).
"""

from collections.abc import Iterable

_Keys = frozenset[str]


def _combinations(*texts: str) -> tuple[_Keys, ...]:
    return tuple(frozenset(text.split()) for text in texts)


#: Keys of the query in each search, by resource; '' is a bare path.
SEARCHES: dict[str, tuple[_Keys, ...]] = {
    'host_fc_ports': _combinations('host.ref', 'host.ref pwwn'),
    'hosts': _combinations('name'),
    'mappings': _combinations('', 'host.ref', 'host.ref volume.ref',
                              'volume.ref', 'volume.ref__m_eq'),
    'replication/peer_k2arrays': _combinations('mgmt_host'),
    'replication/sessions': _combinations('local_volume_group.ref', 'name'),
    'retention_policies': _combinations('name'),
    'snapshots': _combinations('short_name', 'volume_group.ref__m_eq'),
    'system/capacity': _combinations(''),
    'system/fc_ports': _combinations(''),
    'system/net_ips': _combinations(''),
    'system/state': _combinations(''),
    'volsnaps': _combinations('snapshot.ref'),
    'volume_groups': _combinations('name'),
    'volumes': _combinations('', 'name', 'volume_group.ref'),
}

#: Resources whose objects are read by id.
READS: frozenset[str] = frozenset({
    'host_groups', 'hosts', 'replication/sessions', 'volume_groups'})

#: Resources whose objects are deleted by id.
DELETIONS: frozenset[str] = frozenset({
    'hosts', 'mappings', 'replication/sessions', 'snapshots',
    'volume_groups', 'volumes'})

#: Fields of each POST, by resource.
CREATIONS: dict[str, tuple[_Keys, ...]] = {
    'host_fc_ports': _combinations('host pwwn'),
    'host_iqns': _combinations('host iqn'),
    'hosts': _combinations('name type'),
    'mappings': _combinations('host volume'),
    'replication/peer_volumes': _combinations(
        'local_volume name replication_session'),
    'replication/sessions': _combinations(
        'auto_configure_peer_volumes local_volume_group name '
        'remote_replication_session_name replication_peer_k2array '
        'replication_peer_volume_group_name rpo'),
    'snapshots': _combinations(
        'is_application_consistent replication_session',
        'is_auto_deleteable retention_policy short_name source',
        'is_exposable retention_policy short_name source'),
    'volume_groups': _combinations('is_dedup name quota'),
    'volumes': _combinations('name size volume_group'),
}

#: Fields of each PATCH, by resource.
UPDATES: dict[str, tuple[_Keys, ...]] = {
    'replication/sessions': _combinations('state'),
    'volume_groups': _combinations('name'),
    'volumes': _combinations('name', 'size'),
}


def is_known_search(resource: str, keys: Iterable[str]) -> bool:
    """Whether a search with exactly these keys is known."""
    return frozenset(keys) in SEARCHES.get(resource, ())


def is_known_creation(resource: str, fields: Iterable[str]) -> bool:
    """Whether a POST with exactly these fields is known."""
    return frozenset(fields) in CREATIONS.get(resource, ())


def is_known_update(resource: str, fields: Iterable[str]) -> bool:
    """Whether a PATCH with exactly these fields is known."""
    return frozenset(fields) in UPDATES.get(resource, ())
