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

"""The capabilities that an array may lack, in the simulator's terms.

The driver's own list is in ``cinder_k2.rest.capability_names``; this one has
the corresponding requests, in the form of the behavior ``refuse_only``.
"""

from collections.abc import Iterator
import dataclasses
from typing import Any

REFUSALS = ('400', '404', '405', '500', '501', 'drop', 'no_hits', 'ignored')
BOTH = ('iscsi', 'fc')


@dataclasses.dataclass(frozen=True)
class Row:
    """A capability.

    :ivar name: as in the driver's log, or a common prefix
    :ivar features: what the array refuses
    :ivar protocols: the transports on which it matters
    :ivar script: the operations to run, see ``test_matrix``
    :ivar profile: the array that supports everything else
    :ivar more: other behaviors that such an array must have
    """

    name: str
    features: tuple[str, ...]
    protocols: tuple[str, ...] = ('iscsi',)
    script: str = 'volumes'
    profile: str = 'sdp'
    more: tuple[tuple[str, Any], ...] = ()

    def __str__(self) -> str:
        """Return the prefix of the names of its tests."""
        return f'{self.script}_{self.name}'


# If initiators cannot be deleted, it must be possible to delete their hosts.
_WITH_INITIATORS = (('delete_host_with_initiators', True),)

VOLUMES = (
    Row('paging', ('GET * __sort', 'GET * __offset', 'GET * __limit'), BOTH),
    Row('fields', ('GET * __fields',), BOTH),
    Row('value-lists', ('GET * *__in', 'GET * *__m_eq'), BOTH),
    Row('sequence', ('* * x-k2-sequence',), BOTH),
    Row('statistics', ('GET stats/*', 'GET stats/* *')),
    Row('bulk', ('* */__bulk',), BOTH),
    Row('reads:volumes', ('GET volumes/#',)),
    Row('reads:snapshots', ('GET snapshots/#',)),
    Row('lists:volume_groups', ('GET volume_groups',)),
    Row('lists:snapshots', ('GET snapshots',)),
    Row('lists:volsnaps', ('GET volsnaps',)),
    Row('lists:host_iqns', ('GET host_iqns',)),
    Row('lists:host_fc_ports', ('GET host_fc_ports',), ('fc',)),
    # A client that cannot find initiators cannot delete them.
    Row('searches:host_iqns', ('GET host_iqns *',), more=_WITH_INITIATORS),
    Row('searches:host_fc_ports', ('GET host_fc_ports *',), ('fc',)),
    Row('searches:volumes', ('GET volumes *',)),
    Row('searches:snapshots', ('GET snapshots *',)),
    Row('searches:volsnaps', ('GET volsnaps *',)),
    Row('creations:snapshots:is_auto_deleteable', (
        'POST snapshots is_exposable is_auto_deleteable',), profile='k2'),
    Row('creations:volumes:is_thin_clone', ('POST volumes is_thin_clone',)),
    Row('updates:volume_groups:last_restored_from', (
        'PATCH volume_groups/# last_restored_from',)),
    Row('updates:volume_groups:description', (
        'PATCH volume_groups/# description',)),
    Row('updates:volumes:description', ('PATCH volumes/# description',)),
    Row('updates:volumes:volume_group', ('PATCH volumes/# volume_group',)),
    Row('updates:host_iqns:host', ('PATCH host_iqns/# host',)),
    Row('updates:host_fc_ports:host', ('PATCH host_fc_ports/# host',),
        ('fc',)),
    Row('deletions:host_iqns', (
        'DELETE host_iqns/#', 'DELETE host_iqns/__bulk'),
        more=_WITH_INITIATORS),
    Row('deletions:host_fc_ports', (
        'DELETE host_fc_ports/#', 'DELETE host_fc_ports/__bulk'), ('fc',),
        more=_WITH_INITIATORS))

CHAP = (
    Row('lists:host_auth_profiles', ('GET host_auth_profiles',),
        script='chap'),
    Row('searches:host_auth_profiles', ('GET host_auth_profiles *',),
        script='chap'),
    Row('creations:host_auth_profiles', ('POST host_auth_profiles',),
        script='chap'),
    Row('updates:hosts:map_auth_profiles_names', (
        'PATCH hosts/# map_auth_profiles_names',), script='chap'),
    Row('deletions:host_auth_profiles', ('DELETE host_auth_profiles/#',),
        script='chap'))

REPLICATION = (
    Row('paging', ('GET * __sort', 'GET * __offset', 'GET * __limit'),
        script='replication'),
    Row('fields', ('GET * __fields',), script='replication'),
    Row('value-lists', ('GET * *__in', 'GET * *__m_eq'),
        script='replication'),
    Row('sequence', ('* * x-k2-sequence',), script='replication'),
    Row('bulk', ('* */__bulk',), script='replication'),
    Row('lists:replication/sessions', ('GET replication/sessions',),
        script='replication'),
    Row('lists:replication/peer_k2arrays', (
        'GET replication/peer_k2arrays',), script='replication'),
    Row('searches:replication/sessions', ('GET replication/sessions *',),
        script='replication'),
    Row('searches:replication/peer_volumes', (
        'GET replication/peer_volumes', 'GET replication/peer_volumes *',
        'GET replication/peer_volumes/#'), script='replication'),
    Row('creations:replication/sessions', (
        'POST replication/sessions *_retention_policy',),
        script='replication'),
    Row('deletions:replication/peer_volumes', (
        'DELETE replication/peer_volumes/#',), script='replication'))

#: All capabilities.
ROWS = (*VOLUMES, *CHAP, *REPLICATION)


def cases(script: str, protocol: str, profile: str
          ) -> Iterator[tuple[Row, str]]:
    """Yield the rows of a script, each with every kind of refusal."""
    for row in ROWS:
        if (row.script, row.profile) == (script, profile) and (
                protocol in row.protocols):
            yield from ((row, refusal) for refusal in REFUSALS)
