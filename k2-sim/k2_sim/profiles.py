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

"""The profiles of simulated arrays, and their behaviors.

A behavior selects one of the readings of the API where its sources disagree
(section 14 of the rules) or arrays differ. Behaviors can be changed while the
array runs.
"""

import dataclasses
from typing import Any
from typing import get_type_hints

import msgspec

from k2_sim import errors

# Seconds; the start of a session that takes longer is refused (REP-6).
START_LIMIT = 60
# The largest number of any behavior; in seconds, more than 30 years.
_LARGEST = 10 ** 9
#: The values of those behaviors that allow only a few.
CHOICES: dict[str, tuple[Any, ...]] = {
    'failed_over_from': ('any', 'in_sync', 'suspended'),
    'create_reply': ('object', 'empty'),
    'create_status': (200, 201),
    'unknown_filter': ('none', 'ignored'),
    'unknown_fields': ('refused', 'ignored'),
    'refuse_unlisted': ('none', '400', '404', '405', '500', '501', 'drop',
                        'no_hits', 'ignored'),
    'scsi_product': ('KMNRIO K2', 'KMNRIO KDP', 'SILK KDP', 'SILK SDP')}


@dataclasses.dataclass
class Behaviors:
    """The behaviors of one array.

    thin_clones: POST /volumes accepts the fields of a thin clone (CLN-5),
        and snapshots show num_of_clones.
    ignore_clone_fields: without thin_clones, their fields are silently
        ignored instead of refused (CLN-5).
    clones_movable: a thin clone may move to another group (CLN-7).
    delete_host_with_initiators: deleting a host deletes its initiators, too
        (HST-3).
    delete_host_in_group: a member of a host group can be deleted (HST-4).
    snapshot_patch: PATCH /snapshots is offered (SNP-10).
    host_group_rename: PATCH of the name of a host group is offered (HGR-2).
    sequences: X-K2-Sequence is supported; otherwise it is ignored (SEQ-1).
    bulk: resources with /__bulk, or '*' for all of them (BLK-1).
    rest_api_version, state: as system/state shows them (ERR-6); any text.
    degraded: system/state says that functions are degraded.
    statistics: stats/* is offered; otherwise it is not found.
    page_size: the default of __limit.
    single_envelope: GET of one object answers with an envelope (OBJ-2).
    create_status: 201 or 200, the status of the reply to POST (OBJ-4).
    name_limit: longest name of a volume, group or snapshot (section 12).
    unstable_pages: searches without __sort return another order each time.
    linger_reads: a deleted snapshot stays listed with is_deleted for this
        many reads (QRY-10).
    linger_seconds: the same for this many seconds, instead of reads.
    linger_all: deleted objects of all other kinds except volumes stay
        listed, too, without any sign that they are deleted.
    delete_seconds: a deleted volume stays listed with marked_for_deletion
        for this many seconds (VOL-17).
    full: no space is left: requests that need some are refused.
    rate_limit: requests per second, 0 for no limit (ERR-5).
    rate_burst: how many requests may arrive at once under rate_limit.
    copy_seconds: how long the first full copy of a session takes (REP-6).
    round_seconds, snapshot_seconds: how long it takes a round, and a
        replication snapshot, to arrive.
    start_seconds: how long after in_sync is written a session starts;
        beyond START_LIMIT the start is refused (REP-6).
    follow_seconds: how long this array takes to follow a change of state on
        a peer (REP-8).
    failed_over_from: any, in_sync or suspended: the state in which a target
        can be failed over (row 6 of section 10.4).
    session_policies_required: POST of a session needs both retention
        policies (REP-2).
    session_name_required: PATCH of a session needs its name.
    repeat_commands: a command for the state that a session already has
        succeeds and changes nothing (OBJ-14) instead of being refused
        (section 10.4).
    grow_suspended: volumes can be grown while their session is suspended;
        otherwise it must be idle or failed over (VOL-4).
    grow_in_session: volumes can be grown whatever the state of their session.
    grow_copies_at_start: a copy gets the size of its source when the session
        starts; otherwise it is grown like any volume, and sessions start only
        with equal sizes (VOL-4).
    create_reply: object or empty: the body of the reply to POST (OBJ-3).
    unknown_filter: none or ignored: what a condition on a field that the
        resource does not have selects: nothing (QRY-2), or everything.
    plural_session_field: volume groups show replication_sessions instead of
        replication_session.
    host_auth_profile: PATCH of a host also accepts this older name of
        map_auth_profiles_names (CHP-2).
    full_threshold_required: POST of a capacity policy needs it (VCP-1).
    netvlans: system/net_vlans is found at system/netvlans, too.
    dedup_patch: PATCH is_dedup of a volume group is offered (VG-4).
    vmware_support_patch: PATCH vmware_support of a volume is offered
        (VOL-13).
    one_lun_map: a LUN belongs to the same volume on all hosts (MAP-2,
        MAP-9).
    serve_any_state: every request is served whatever the state, as ONLINE
        is the only one whose meaning is known; otherwise, statistics and
        writes are refused in all other states (ERR-6).
    unknown_fields: refused or ignored: what happens to fields of a POST or
        PATCH that the array does not have, or that are read-only (OBJ-12).
    reuse_ids: a new object gets the lowest free id of its resource, not the
        next one (OBJ-7).
    refuse_unlisted: how requests are handled that are not known to work on
        every array (section 16, known/requests.json), except those of the
        role root. "none": they are served. A status: they are answered with
        it. "drop": the connection is reset each time. "no_hits" and
        "ignored": they are served without the parts that are not listed,
        and without any hint to the client: the header X-K2-Sequence,
        control parameters and unlisted fields are ignored, and unlisted
        conditions either select nothing (QRY-2) or are ignored, too, until
        those that remain are listed. Still refused are a POST without any
        listed combination, an unlisted search without conditions (both with
        400), and unlisted paths (404) and methods (405).
    refuse_only: the features to which refuse_unlisted applies; if there are
        none, it applies to all unlisted requests. Each is a text of a
        method, a path with "#" for an id, and names of query parameters, of
        fields of the body or x-k2-sequence, such as
        "POST volumes is_thin_clone" or "GET * __sort". "*" stands for
        anything. Requests that have all of the names are refused, or
        silently served without them. Without names, the request as such is
        meant, and for GET the search without conditions.
    scsi_product: vendor and product of LUNs that are exported from then on
        (VOL-15).
    control_lun: a data plane also exports the volume CTRL to hosts, from
        the next change of its exports on (VOL-14).
    """

    thin_clones: bool = False
    ignore_clone_fields: bool = False
    clones_movable: bool = False
    delete_host_with_initiators: bool = False
    delete_host_in_group: bool = False
    snapshot_patch: bool = True
    host_group_rename: bool = True
    sequences: bool = True
    bulk: tuple[str, ...] = ('*',)
    rest_api_version: str = '2.2.0'
    state: str = 'ONLINE'
    degraded: bool = False
    statistics: bool = True
    page_size: int = 100
    single_envelope: bool = False
    create_status: int = 201
    name_limit: int = 42
    unstable_pages: bool = False
    linger_reads: int = 0
    linger_seconds: float = 0.0
    linger_all: bool = False
    delete_seconds: float = 0.0
    full: bool = False
    rate_limit: float = 0.0
    rate_burst: int = 50
    copy_seconds: float = 0.0
    round_seconds: float = 0.0
    snapshot_seconds: float = 0.0
    start_seconds: float = 0.0
    follow_seconds: float = 0.0
    failed_over_from: str = 'any'
    session_policies_required: bool = False
    session_name_required: bool = False
    repeat_commands: bool = False
    grow_suspended: bool = False
    grow_in_session: bool = False
    grow_copies_at_start: bool = False
    create_reply: str = 'object'
    unknown_filter: str = 'none'
    plural_session_field: bool = False
    host_auth_profile: bool = False
    full_threshold_required: bool = False
    netvlans: bool = False
    dedup_patch: bool = False
    vmware_support_patch: bool = False
    one_lun_map: bool = False
    refuse_unlisted: str = 'none'
    refuse_only: tuple[str, ...] = ()
    reuse_ids: bool = False
    unknown_fields: str = 'refused'
    serve_any_state: bool = False
    scsi_product: str = 'KMNRIO K2'
    control_lun: bool = False

    def __post_init__(self) -> None:
        # How often change() was called, so that caches that depend on the
        # behaviors need not compare all of them.
        self.changes = 0

    @property
    def serves(self) -> bool:
        """Whether statistics and writes are served (ERR-6)."""
        return self.state == 'ONLINE' or self.serve_any_state

    def offers(self, feature: str) -> bool:
        """Whether the array has a feature: whether that behavior is on.

        "!" before the name means: whether it is off. Every array has the
        feature ''.
        """
        if not feature:
            return True
        name = feature.removeprefix('!')
        return bool(getattr(self, name)) == (name == feature)

    def offers_bulk(self, resource: str) -> bool:
        """Whether the resource has /__bulk (BLK-1)."""
        return '*' in self.bulk or resource in self.bulk

    def change(self, values: dict[str, Any]) -> None:
        """Set several behaviors, all of them or none.

        Raises ApiError (400) for an unknown name or a value of the wrong
        type.
        """
        checked = {name: self._checked(name, value)
                   for name, value in values.items()}
        for name, value in checked.items():
            setattr(self, name, value)
        self.changes += 1

    def _checked(self, name: str, value: Any) -> Any:
        if name not in self.__dataclass_fields__:
            raise errors.refused(f'Unknown behavior: {name}')
        kind = type(getattr(self, name))
        if kind is str and type(value) is int and name in CHOICES:
            # A status among the choices may be given as a number.
            value = str(value)
        try:
            value = msgspec.convert(value, _TYPES[name])
        except msgspec.ValidationError as exc:
            raise errors.refused(
                f'Behavior {name} must be ' + (
                    'a list of names' if kind is tuple
                    else f'of type {kind.__name__}')) from exc
        if value not in CHOICES.get(name, (value,)):
            raise errors.refused(f'Behavior {name} must be one of '
                                 + ', '.join(map(str, CHOICES[name])))
        if kind in (int, float) and not 0 <= value <= _LARGEST:
            raise errors.refused(
                f'Behavior {name} must be from 0 to {_LARGEST}')
        if name == 'refuse_only' and any(
                len(text.split()) < 2 for text in value):
            raise errors.refused(
                f'Behavior {name} must have a method and a path in each text')
        return value


_TYPES = get_type_hints(Behaviors)
_PROFILES: dict[str, dict[str, Any]] = {
    'k2': {},
    'sdp': {'thin_clones': True, 'page_size': 1000,
            'scsi_product': 'SILK SDP'},
    # No listed request deletes an initiator: that must come with the host.
    'known': {'refuse_unlisted': '400', 'delete_host_with_initiators': True},
}
NAMES = tuple(_PROFILES)


def behaviors_of(profile: str) -> Behaviors:
    """The behaviors of a profile: k2 (no thin clones), sdp or known.

    Raises ValueError for an unknown name.
    """
    if profile not in _PROFILES:
        raise ValueError(f'profile must be one of {", ".join(NAMES)},'
                         f' not {profile!r}')
    return Behaviors(**_PROFILES[profile])
