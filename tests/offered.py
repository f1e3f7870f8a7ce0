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

"""The capabilities of the simulated array, beyond the known requests."""

_WORKS = (
    'paging', 'sequence', 'statistics',
    'bulk:host_fc_ports:create', 'bulk:host_fc_ports:delete',
    'bulk:host_iqns:create', 'bulk:host_iqns:delete',
    'bulk:mappings:delete', 'bulk:replication/sessions:update',
    'bulk:snapshots:create', 'bulk:snapshots:delete',
    'creations:host_auth_profiles:name',
    'creations:replication/sessions:external_retention_policy',
    'creations:snapshots:is_auto_deleteable',
    'deletions:host_auth_profiles', 'deletions:host_fc_ports',
    'deletions:host_iqns', 'deletions:replication/peer_volumes',
    'fields:mappings', 'fields:snapshots', 'fields:volsnaps',
    'fields:volume_groups', 'fields:volumes',
    'lists:host_auth_profiles', 'lists:host_fc_ports', 'lists:host_iqns',
    'lists:replication/peer_k2arrays', 'lists:replication/sessions',
    'lists:snapshots', 'lists:volsnaps', 'lists:volume_groups',
    'reads:volumes', 'reads:snapshots',
    'searches:host_auth_profiles:name', 'searches:host_fc_ports:pwwn',
    'searches:host_iqns:host', 'searches:host_iqns:iqn',
    'searches:replication/peer_volumes:local_volume',
    'searches:replication/peer_volumes:local_volume,name',
    'searches:replication/sessions:id',
    'searches:replication/sessions:name__prefix',
    'searches:volumes:name__prefix', 'searches:volume_groups:name__prefix',
    'searches:snapshots:is_exposable', 'searches:volumes:id',
    'updates:host_fc_ports:host', 'updates:host_iqns:host',
    'updates:hosts:map_auth_profiles_names',
    'updates:volume_groups:description',
    'updates:volume_groups:last_restored_from',
    'updates:volumes:description', 'updates:volumes:volume_group',
    'value-lists:host_fc_ports:host.ref__m_eq',
    'value-lists:host_fc_ports:pwwn__in',
    'value-lists:host_iqns:host.ref__m_eq', 'value-lists:host_iqns:iqn__in',
    'value-lists:mappings:host.ref__m_eq',
    'value-lists:replication/sessions:id__in',
    'value-lists:replication/sessions:local_volume_group.ref__m_eq',
    'value-lists:replication/sessions:name__in',
    'value-lists:snapshots:id__in', 'value-lists:snapshots:short_name__in',
    'value-lists:volsnaps:snapshot.ref__m_eq',
    'value-lists:volume_groups:name__in', 'value-lists:volumes:id__in',
    'value-lists:volumes:name__in',
    'value-lists:volumes:volume_group.ref__m_eq')
#: What a simulated array refuses, unless a behavior allows it (HST-3).
REFUSED = ('deletions:hosts:with_initiators',)
_ON_SDP = ('creations:volumes:is_thin_clone',)


def names(profile: str) -> tuple[str, ...]:
    """Return the capabilities of a simulated array with a profile."""
    if profile == 'known':
        return ()
    return (*_WORKS, *(_ON_SDP if profile == 'sdp' else ()))
