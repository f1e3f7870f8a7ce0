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

"""The names of capabilities, and what operations do without them.

A name may have a suffix after a colon, such as a resource: "bulk:snapshots".
"""

from collections.abc import Iterator

PAGING = 'paging'
FIELDS = 'fields'
VALUE_LISTS = 'value-lists'
SEQUENCE = 'sequence'
STATISTICS = 'statistics'
WHOLE_HOSTS = 'deletions:hosts:with_initiators'
RESTORE = 'updates:volume_groups:last_restored_from'

#: What each capability is, and how operations work without it. A key is a name
#: or the part of a name before a colon; the longest key of a name applies.
CAPABILITIES: dict[str, tuple[str, str]] = {
    PAGING: (
        'lists read page by page, sorted (__sort, __offset, __limit)',
        'operations that need a list longer than one page fail'),
    FIELDS: (
        'replies with the fields asked for only (__fields)',
        'replies are larger'),
    VALUE_LISTS: (
        'searches for several values at once (__in, .ref__m_eq)',
        'objects are looked up one by one'),
    SEQUENCE: (
        'the header X-K2-Sequence on writes',
        'a write without a reply is looked for by name before it is '
        'repeated, and nothing keeps it from being carried out late'),
    STATISTICS: (
        'figures of IOPS, throughput and latency',
        'the scheduler gets no figures of performance'),
    'reads': (
        'objects read by id',
        'objects are looked up by name or in a list'),
    'lists': (
        'lists of all objects of a kind',
        'k2-admin and lists of manageable objects lack them'),
    'searches': (
        'searches by fields that the in-tree driver does not search by',
        'a wider search is made and its result is filtered here'),
    'searches:host_iqns': (
        'hosts found by their iSCSI initiators',
        'hosts are found by name, and cannot be verified'),
    'searches:host_fc_ports': (
        'hosts found by their Fibre Channel initiators',
        'hosts are found by name, then verified'),
    'creations': (
        'fields of new objects that the in-tree driver does not send',
        'objects are made without them'),
    'creations:snapshots:is_auto_deleteable': (
        'views that the array may not delete on its own (SNP-4)',
        'no view backs a volume: clones are copied by this host'),
    'creations:volumes:is_thin_clone': (
        'thin clones',
        'clones are views of a snapshot, or copied by this host'),
    'creations:replication/sessions': (
        'retention policies of replication sessions (REP-2)',
        'the array chooses them'),
    'creations:host_auth_profiles': (
        'CHAP profiles',
        'attachments fail if use_chap_auth is set'),
    'updates': (
        'changes of fields that the in-tree driver does not change',
        'operations that need them fail'),
    RESTORE: (
        'restoring a volume group to a snapshot in one call',
        'volumes are reverted by copying their data'),
    'updates:volume_groups:description': (
        'notes in descriptions of volume groups',
        'sources of clones that depend on them cannot be deleted first, '
        'and original names of managed volumes are not kept'),
    'updates:volumes:description': (
        'notes in descriptions of volumes',
        'original names of managed volumes are not kept'),
    'updates:volumes:volume_group': (
        'moving volumes between volume groups',
        'volumes cannot join or leave consistency groups'),
    'updates:hosts:map_auth_profiles_names': (
        'CHAP for hosts',
        'attachments fail if use_chap_auth is set'),
    'deletions': (
        'deleting objects that the in-tree driver does not delete',
        'they stay on the array'),
    WHOLE_HOSTS: (
        'deleting a host together with its initiators (HST-3)',
        'initiators are deleted before their host, with one more call'),
    'deletions:host_iqns': (
        'deleting iSCSI initiators',
        'a host is deleted together with its initiators'),
    'deletions:host_fc_ports': (
        'deleting Fibre Channel initiators',
        'a host is deleted together with its initiators'),
    'bulk': (
        'writing several objects in one call (__bulk)',
        'objects are written one by one'),
}


def describe(name: str) -> tuple[str, str]:
    """What a capability is, and how operations work without it."""
    for part in reversed(list(beginnings(name))):
        if part in CAPABILITIES:
            return CAPABILITIES[part]
    return name, 'operations that need it fail'


def beginnings(name: str) -> Iterator[str]:
    """The name up to each of its colons, and the name."""
    parts = name.split(':')
    for end in range(1, len(parts) + 1):
        yield ':'.join(parts[:end])
