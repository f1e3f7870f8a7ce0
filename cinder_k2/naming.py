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

"""Names of our objects on the array: built here, parsed here, nowhere else.

They are the names that the in-tree driver uses (``cv-<id>`` and so on), so
that a back end can change drivers in either direction. Objects that
replication created on another array have an ``r`` in front (REP-21). Limits:
rulebook section 12 (42 characters, hosts 32).
"""

import hashlib
import re

_INTERNAL = ('cdel-', 'ccs-', 'cview-', 'cnew-')
_WITH_ID = re.compile(r'(?:r?cv|r?cvg|cs)-([0-9a-f]{8}(?:-[0-9a-f]{4}){3}'
                      r'-[0-9a-f]{12})\Z')
_HOST_TEXT = 16
_OURS = re.compile(r'cinder-[0-9A-Za-z_-]{1,%d}-[0-9a-f]{8}\Z'
                   % _HOST_TEXT)


def volume(volume_id: str) -> str:
    """Name of the volume, or of the view that backs it."""
    return f'cv-{volume_id}'


def volume_group(volume_id: str) -> str:
    """Name of the volume group that holds only this volume."""
    return f'cvg-{volume_id}'


def group_of_volume(name: str) -> str:
    """Name of the dedicated volume group of a volume with this name."""
    return re.sub('^(r?)cv-', r'\1cvg-', name)


def consistency_group(group_id: str) -> str:
    """Name of the volume group of a Cinder consistency group."""
    return f'ccg-{group_id}'


def group_snapshot(group_snapshot_id: str) -> str:
    """Short name of a snapshot of all volumes of a consistency group."""
    return f'cgs-{group_snapshot_id}'


def snapshot(snapshot_id: str) -> str:
    """Short name of a Cinder snapshot."""
    return f'cs-{snapshot_id}'


def clone_source(volume_id: str) -> str:
    """Short name of the hidden snapshot that a clone was made from.

    :param volume_id: id of the clone, or of the group of clones, the only
        users of the snapshot
    """
    return f'ccs-{volume_id}'


def clone_source_of(name: str) -> str:
    """As ``clone_source``, for a clone with this name."""
    return re.sub('^r?cv-', 'ccs-', name)


def temporary_view(owner_id: str) -> str:
    """Short name of a view for the duration of an operation.

    :param owner_id: id of the volume that is copied from it, or of the
        snapshot that is attached through it
    """
    return f'cview-{owner_id}'


def unfinished_volume(volume_id: str) -> str:
    """Name of a volume while data is copied to it, before it is Cinder's."""
    return f'cnew-{volume_id}'


def session(owner_id: str) -> str:
    """Name of the replication session on the array where it was made.

    :param owner_id: id of the volume, or of the group of volumes
    """
    return f'ssn-{owner_id}'


def peer(name: str) -> str:
    """Name on the peer of a replicated object with this name.

    The name on the target has an ``r`` in front (REP-21), which is added or
    removed.
    """
    return name[1:] if name.startswith('r') else f'r{name}'


def session_names(owner_id: str) -> tuple[str, str]:
    """Both names of a replication session, whichever array has which."""
    return session(owner_id), peer(session(owner_id))


def is_temporary_view(short_name: str | None) -> bool:
    """Whether a view exists only for an operation."""
    return (short_name or '').startswith('cview-')


def kept_volume(volume: int) -> str:
    """Name of a volume deleted in Cinder that still has clones.

    :param volume: id of the volume on the array
    """
    return f'cdel-{volume}'


def is_hidden_snapshot(short_name: str | None) -> bool:
    """Whether a snapshot was made for a clone and is not Cinder's."""
    return (short_name or '').startswith('ccs-')


def is_volume(name: str | None) -> bool:
    """Whether a volume or a view is one of Cinder's, here or replicated."""
    return (name or '').startswith(('cv-', 'rcv-'))


def is_snapshot(short_name: str | None) -> bool:
    """Whether a snapshot or view was created for an object of Cinder."""
    return (short_name or '').startswith(('cv-', 'cs-', 'cgs-', 'ccs-',
                                          'cview-'))


def is_internal(name: str | None) -> bool:
    """Whether an object cannot be managed by Cinder.

    It is the array's own (VOL-14), or one that the driver keeps or creates
    without Cinder's knowledge.
    """
    return (name or '').startswith(_INTERNAL) or name == 'CTRL'


def is_own_group(name: str) -> bool:
    """Whether a volume group was created for volumes of Cinder."""
    return name.startswith(('cvg-', 'rcvg-', 'ccg-', 'rccg-'))


def is_foreign_group(name: str) -> bool:
    """Whether a volume group is not for a single user's volume.

    It is that of a consistency group, or the array's own (VG-10).
    """
    return name.startswith(('ccg-', 'rccg-')) or 'INDEPENDENT_' in name


def cinder_id(name: str | None) -> str | None:
    """The id in the name of a volume, volume group or snapshot of ours.

    That of a replicated volume is the same on both arrays.
    """
    found = _WITH_ID.match(name or '')
    return found and found.group(1)


def host(connector_host: str, initiators: list[str]) -> str:
    """Name for a host that the driver registers (HST-1).

    Two hosts never share a name, even if their own names agree in the first 32
    characters or completely: the tail is derived from the whole name and the
    initiators, whatever their case (INI-4, INI-5). Hosts are looked up by this
    name only where the array does not search for initiators.
    """
    return _drawn(connector_host, [
        connector_host, *sorted(name.lower() for name in initiators)])


def host_of_iqn(iqn: str) -> str:
    """Name for a host whose host name may not be unique.

    Derived from its IQN, whatever its case (INI-5): a machine has only one,
    even if the services on it use different host names.
    """
    return _of_iqn(iqn)


def in_tree_host(text: str) -> str:
    """Name that the in-tree driver gives to a host.

    :param text: its host name, or its first initiator written backwards,
        depending on ``unique_fqdn_network``
    """
    return re.sub('[^0-9a-zA-Z-_]', '_', text[:32])


def digest(name: str) -> str:
    """Eight characters that identify a name."""
    return hashlib.sha256(name.encode()).hexdigest()[:8]


def is_our_host(name: str) -> bool:
    """Whether this driver named the host, so that it may delete it."""
    return _OURS.match(name) is not None


def may_be_same_host(name: str, other: str) -> bool:
    """Whether two hosts that this driver named may be one and the same.

    Their names differ in the digest only: a host may have been registered
    with other initiators than it connects with.
    """
    return (is_our_host(name) and is_our_host(other)
            and name.rpartition('-')[0] == other.rpartition('-')[0])


def chap_profile(iqn: str) -> str:
    """Name of the CHAP profile of a host, which is also its username.

    Derived from the IQN, whatever its case (INI-5), and not from the name of
    the host: the IQN is all that a host logs in with, and is known without a
    call to the array.
    """
    return _of_iqn(iqn)


def is_our_chap_profile(name: str) -> bool:
    """Whether this driver named the CHAP profile."""
    return _OURS.match(name) is not None


def probe(token: str, part: str) -> str:
    """Name of an object that ``k2-admin probe --write`` creates."""
    return f'k2probe-{token}-{part}'


def probe_iqn(token: str, part: str) -> str:
    """An initiator that ``k2-admin probe --write`` creates."""
    return f'iqn.2010-01.org.k2probe:{probe(token, part)}'


def probe_wwpn(token: str) -> str:
    """A Fibre Channel initiator that ``k2-admin probe --write`` makes.

    It begins with 3: locally assigned, so that no real port has it.
    """
    return f'3b2b2b01{token}'


def is_of_probe(name: str, token: str) -> bool:
    """Whether a probe with this token uses that name."""
    return re.fullmatch('[0-9a-f]{8}', token) is not None and (
        name == probe_wwpn(token)
        or name.startswith((probe(token, ''), probe_iqn(token, ''))))


def _of_iqn(iqn: str) -> str:
    iqn = iqn.lower()
    return _drawn(iqn.rpartition(':')[2], [iqn])


def _drawn(text: str, seeds: list[str]) -> str:
    """A name of 32 characters at most, with a tail derived from the seeds."""
    text = re.sub(r'[^0-9A-Za-z_-]', '_', text)[:_HOST_TEXT]
    tail = hashlib.sha256('\n'.join(seeds).encode()).hexdigest()[:8]
    return f'cinder-{text or "host"}-{tail}'
