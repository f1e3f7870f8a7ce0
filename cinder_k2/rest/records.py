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

"""The array's objects as typed records (sections 4, 5 and 7).

A record has the fields that the driver asks for, named as on the wire; other
fields of a reply are ignored. Sizes and capacities are KiB.

Replies are read leniently (section 1, OBJ-10): a field that is missing, null
or of another type reads as absent, except for the ``NEEDED`` fields of a
record. A name that is absent is ''. An absent field does not prove that an
object is not the one searched for, see :func:`is_undecided`.
"""

from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Mapping as AbstractMapping
import dataclasses
import math
import re
import typing
from typing import Annotated
from typing import Any
from typing import ClassVar
from typing import TypeVar


R = TypeVar('R', bound='Record')
_Reader = Callable[[Any], Any]

#: Sizes and capacities; a fraction is cut off.
Kib = Annotated[int, 'KiB']
#: A reference for which it only matters whether it is set: if it cannot be
#: parsed, it stays as it is.
AnyRef = Annotated[object, 'ref']

_NUMBER = re.compile(r'\s*[+-]?\d+(\.\d*)?(e[+-]?\d+)?\s*',
                     re.ASCII | re.IGNORECASE)


@dataclasses.dataclass(frozen=True)
class Ref:
    """A reference to an object (OBJ-8): ``/volumes/31`` as a string."""

    resource: str
    id: int

    def __str__(self) -> str:
        return f'/{self.resource}/{self.id}'

    @classmethod
    def parse(cls, text: str) -> 'Ref':
        """Read ``/volumes/31``.

        :raises ValueError: it has another form
        """
        resource, _, number = text.removeprefix('/').rpartition('/')
        if not (text[:1] == '/' and resource and number.isdecimal()):
            raise ValueError(f'{text!r} is no reference')
        return cls(resource, int(number))

    def to_json(self) -> dict[str, str]:
        """``{"ref": "/volumes/31"}``."""
        return {'ref': str(self)}


def _as_ref(value: Any) -> Ref | None:
    # An empty reference is null, {} or "" (OBJ-9).
    if isinstance(value, dict):
        # An object with other keys than ref is invalid, not empty.
        value = value.get('ref', value) if value else ''
    if value is None or value == '':
        return None
    return Ref.parse(_as_str(value))


def _as_any_ref(value: Any) -> Any:
    try:
        return _as_ref(value or None)
    except ValueError:
        return value


def _as_bool(value: Any) -> bool:
    if isinstance(value, str):
        text = value.strip().lower()
        if text in ('true', 'false'):
            return text == 'true'
    elif isinstance(value, bool):
        return value
    return {0.0: False, 1.0: True}[_as_float(value)]


def _as_str(value: Any) -> str:
    # A number would lose leading zeros, which a name or serial number may
    # have.
    if not isinstance(value, str):
        raise ValueError
    return value


def _as_number(value: Any) -> int | float:
    # The array mixes integers and floats (section 1), also as strings.
    if isinstance(value, str):
        if not _NUMBER.fullmatch(value):
            raise ValueError
        text = value.strip()
        return int(text) if text.lstrip('+-').isdecimal() else float(text)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError
    return value


def _as_int(value: Any) -> int:
    number = _as_number(value)
    if number != int(number):
        raise ValueError
    return int(number)


def _as_kib(value: Any) -> int:
    return int(_as_number(value))


def _as_float(value: Any) -> float:
    number = float(_as_number(value))
    if not math.isfinite(number):
        raise ValueError
    return number


_READERS: dict[Any, _Reader] = {
    int: _as_int, Kib: _as_kib, float: _as_float, str: _as_str,
    bool: _as_bool, Ref: _as_ref, AnyRef: _as_any_ref,
    object: lambda value: value}


def _reader(hint: Any) -> _Reader:
    """The reader of ``int`` and of ``int | None``."""
    return _READERS[hint if hint in _READERS else typing.get_args(hint)[0]]


def _overlook_nothing(name: str, value: Any) -> None:
    pass


@dataclasses.dataclass(frozen=True)
class Record:
    """Common parts of records."""

    RESOURCE: ClassVar[str]
    #: The fields that identify an object in its resource.
    KEY: ClassVar[tuple[str, ...]] = ()
    #: The fields whose new value may show long after the array accepted it.
    COMMANDS: ClassVar[frozenset[str]] = frozenset()
    #: The fields that must have the right type. Those without a default are
    #: also required.
    NEEDED: ClassVar[frozenset[str]] = frozenset({'id'})
    #: The references that are never empty; null does not prove that they are.
    ALWAYS_SET: ClassVar[frozenset[str]] = frozenset()
    #: The fields that are null when empty, besides references; a missing one
    #: may have a value that the reply does not show.
    EMPTY_AS_NULL: ClassVar[frozenset[str]] = frozenset()
    #: Whether values may contain secrets, which must not be logged.
    SECRET: ClassVar[bool] = False
    #: How to read each field, in order.
    READERS: ClassVar[AbstractMapping[str, _Reader]]

    id: int
    #: The fields that the reply did not show: of another type, or, if they are
    #: references or ``EMPTY_AS_NULL``, missing. A null reference means that
    #: there is no object, unless it is never empty.
    unread: frozenset[str] = dataclasses.field(
        default=frozenset(), kw_only=True, compare=False, repr=False)

    def __init_subclass__(cls) -> None:
        hints = typing.get_type_hints(cls, include_extras=True)
        cls.READERS = {name: _reader(hint) for name, hint in hints.items()
                       if name != 'unread'
                       and typing.get_origin(hint) is not ClassVar}

    @property
    def ref(self) -> Ref:
        """A reference to this object."""
        return Ref(self.RESOURCE, self.id)

    @classmethod
    def field_names(cls) -> tuple[str, ...]:
        """The fields to ask the array for."""
        return tuple(cls.READERS)

    @classmethod
    def from_json(cls: type[R], data: Any,
                  overlook: Callable[[str, Any], None] = _overlook_nothing
                  ) -> R:
        """Create a record from an object in a reply.

        An absent field or null gives the default of the field, and so does
        a value of another type.

        :param overlook: called with name and value of each field of another
            type
        :raises ValueError: a needed field is absent or of another type
        """
        if not isinstance(data, dict):
            raise ValueError('an object was expected')
        given = {name: data[name] for name in cls.READERS
                 if data.get(name) is not None}
        values, unread = cls._read(given, overlook)
        unread |= {name for name, reader in cls.READERS.items()
                   if (reader is _as_ref or name in cls.EMPTY_AS_NULL)
                   and name not in data}
        unread |= {name for name in cls.ALWAYS_SET
                   if values.get(name) is None}
        try:
            return cls(**values, unread=frozenset(unread))
        except TypeError:
            missing = [name for name in cls.field_names()
                       if name not in values]
            raise ValueError(f'no {missing[0]} in it') from None

    @classmethod
    def _read(cls, given: dict[str, Any],
              overlook: Callable[[str, Any], None]
              ) -> tuple[dict[str, Any], set[str]]:
        """The values that can be read, and the names of the others."""
        values: dict[str, Any] = {}
        for name, value in given.items():
            try:
                values[name] = _read(name, value, cls.READERS[name])
            except ValueError:
                if name in cls.NEEDED:
                    raise
                overlook(name, value)
        return values, given.keys() - values.keys()

    def tells(self, name: str) -> bool:
        """Whether the reply showed this field, so that it can be compared."""
        if name in self.unread:
            return False
        return getattr(self, name) not in (None, '') or (
            self.READERS[name] is _as_ref or name in self.EMPTY_AS_NULL)


@dataclasses.dataclass(frozen=True)
class Volume(Record):
    """Section 4.1. ``size`` in KiB."""

    RESOURCE = 'volumes'
    KEY = ('name',)
    ALWAYS_SET = frozenset({'volume_group'})
    EMPTY_AS_NULL = frozenset({'description'})

    name: str = ''
    size: Kib | None = None
    volume_group: Ref | None = None
    description: str | None = None
    is_dedup: bool | None = None
    scsi_sn: str | None = None
    read_only: bool = False
    marked_for_deletion: bool = False


@dataclasses.dataclass(frozen=True)
class VolumeGroup(Record):
    """Section 4.2. ``quota`` in KiB, None without one (VG-2).

    ``replication_sessions`` is what newer arrays have instead of
    ``replication_session`` (section 14); its form is not known. For both it
    only matters whether they are empty.
    """

    RESOURCE = 'volume_groups'
    KEY = ('name',)
    EMPTY_AS_NULL = frozenset({
        'description', 'replication_session', 'replication_sessions'})

    name: str = ''
    quota: Kib | None = None
    description: str | None = None
    is_dedup: bool | None = None
    volumes_count: int | None = None
    snapshots_count: int | None = None
    views_count: int | None = None
    mapped_hosts_count: int | None = None
    last_restored_from: Ref | None = None
    last_restored_time: float | None = None
    replication_session: AnyRef | None = None
    replication_sessions: object | None = None

    @property
    def tells_replication(self) -> bool:
        """Whether the reply has one of the two fields of replication."""
        return not {'replication_session',
                    'replication_sessions'} <= self.unread


@dataclasses.dataclass(frozen=True)
class Snapshot(Record):
    """Section 4.3: a snapshot, or a view when ``is_exposable``.

    ``name`` is ``<group name>:<short_name>`` (SNP-1), ``creation_time``
    in seconds since the epoch.
    """

    RESOURCE = 'snapshots'
    KEY = ('short_name', 'source')
    ALWAYS_SET = frozenset({'volume_group'})

    name: str | None = None
    short_name: str | None = None
    source: Ref | None = None
    volume_group: Ref | None = None
    is_exposable: bool = False
    is_deleted: bool = False
    is_auto_deleteable: bool | None = None
    num_of_clones: int | None = None
    triggered_by: str | None = None
    creation_time: float | None = None
    volsnaps_provisioned_capacity: Kib | None = None
    replication_session: AnyRef | None = None
    generation_number: int | None = None
    is_locked_by_replication: bool | None = None


@dataclasses.dataclass(frozen=True)
class Volsnap(Record):
    """Section 4.4: one volume's image in a snapshot or view."""

    RESOURCE = 'volsnaps'

    name: str | None = None
    short_name: str | None = None
    snapshot: Ref | None = None
    source: Ref | None = None
    is_deleted: bool = False
    scsi_sn: str | None = None


@dataclasses.dataclass(frozen=True)
class Mapping(Record):
    """Section 4.5. ``host`` is a host or a host group (MAP-5).

    ``volume`` is a volume, a view or a volsnap (MAP-3); the entry of a
    view may have no ``lun``.
    """

    RESOURCE = 'mappings'
    KEY = ('host', 'volume')

    host: Ref | None = None
    volume: Ref | None = None
    lun: int | None = None


@dataclasses.dataclass(frozen=True)
class Host(Record):
    """Section 5.1."""

    RESOURCE = 'hosts'
    KEY = ('name',)

    name: str = ''
    type: str | None = None
    host_group: Ref | None = None


@dataclasses.dataclass(frozen=True)
class HostGroup(Record):
    """Section 5.2."""

    RESOURCE = 'host_groups'
    KEY = ('name',)

    name: str = ''


# If it read as absent, the initiator would count as one without a host
# (INI-1), which the driver assigns to another host.
_INITIATOR_NEEDS = frozenset({'id', 'host'})


@dataclasses.dataclass(frozen=True)
class HostIqn(Record):
    """Section 5.3: an iSCSI initiator, possibly without a host (INI-1)."""

    RESOURCE = 'host_iqns'
    KEY = ('iqn',)
    NEEDED = _INITIATOR_NEEDS

    iqn: str = ''
    host: Ref | None = None


@dataclasses.dataclass(frozen=True)
class HostFcPort(Record):
    """Section 5.3: an FC initiator; lower-case with colons (INI-4)."""

    RESOURCE = 'host_fc_ports'
    KEY = ('pwwn',)
    NEEDED = _INITIATOR_NEEDS

    pwwn: str = ''
    host: Ref | None = None


@dataclasses.dataclass(frozen=True)
class HostAuthProfile(Record):
    """Section 5.4: a CHAP profile; its password is never returned."""

    RESOURCE = 'host_auth_profiles'
    KEY = ('name',)
    SECRET = True

    name: str = ''
    hosts_count: int | None = None
    host_groups_count: int | None = None

    @property
    def in_use(self) -> bool:
        """Whether a host or host group uses it (CHP-4), or may use it.

        It may if the array does not show how many hosts do.
        """
        return bool(self.hosts_count or self.host_groups_count
                    or not self.tells('hosts_count')
                    or 'host_groups_count' in self.unread)


@dataclasses.dataclass(frozen=True)
class RetentionPolicy(Record):
    """Section 6.1."""

    RESOURCE = 'retention_policies'
    KEY = ('name',)

    name: str = ''


@dataclasses.dataclass(frozen=True)
class PeerArray(Record):
    """Section 10.1: an array that this one can replicate to.

    ``mgmt_connectivity_state`` is "ok" while it can be reached; no other state
    is documented (REP-19).
    """

    RESOURCE = 'replication/peer_k2arrays'
    KEY = ('name',)

    name: str = ''
    mgmt_host: str | None = None
    system_id: str | None = None
    mgmt_connectivity_state: str | None = None

    @property
    def is_connected(self) -> bool:
        """Whether the array reports that it reaches the peer, or no state."""
        return _is_ok(self.mgmt_connectivity_state)


@dataclasses.dataclass(frozen=True)
class PeerVolume(Record):
    """Section 10.1: the volume on the peer that a volume is copied to."""

    RESOURCE = 'replication/peer_volumes'
    KEY = ('name', 'local_volume')

    name: str = ''
    local_volume: Ref | None = None
    remote_volume_id: int | None = None


@dataclasses.dataclass(frozen=True)
class ReplicationSession(Record):
    """Section 10.2: one side of the replication of a volume group.

    ``rpo`` in seconds; ``generation_number`` is what has arrived (REP-14).
    For ``current_snapshot`` and ``current_snapshot_id`` it only matters
    whether they are set.
    """

    RESOURCE = 'replication/sessions'
    KEY = ('name',)
    COMMANDS = frozenset({'state'})  # REP-8
    EMPTY_AS_NULL = frozenset({'current_snapshot', 'current_snapshot_id'})

    name: str = ''
    replication_peer_k2array: Ref | None = None
    local_volume_group: Ref | None = None
    rpo: int | None = None
    state: str | None = None
    current_role: str | None = None
    suspend_reason: str | None = None
    current_snapshot: AnyRef | None = None
    current_snapshot_id: AnyRef | None = None
    current_snapshot_progress: int | None = None
    generation_number: int | None = None
    remote_replication_session_id: int | None = None

    @property
    def may_be_copying(self) -> bool:
        """Whether a snapshot is being copied (REP-14), or may be.

        ``current_snapshot_id`` shows it. ``current_snapshot`` may be the last
        one that was copied, so it only matters if the array does not show the
        id. If the array shows neither, a snapshot may be being copied.
        """
        if 'current_snapshot_id' not in self.unread:
            return bool(self.current_snapshot_id)
        return bool(self.current_snapshot
                    or 'current_snapshot' in self.unread)


@dataclasses.dataclass(frozen=True)
class NetIp(Record):
    """Section 7.4: an iSCSI portal unless ``wan_port`` is set (NET-1).

    For ``wan_port`` and ``nvme_port`` it only matters whether they are set.
    """

    RESOURCE = 'system/net_ips'

    ip_address: str = ''
    wan_port: AnyRef | None = None
    net_port: Ref | None = None
    nvme_port: AnyRef | None = None


@dataclasses.dataclass(frozen=True)
class FcPort(Record):
    """Section 7.4: a target port; ``pwwn`` lower-case with colons."""

    RESOURCE = 'system/fc_ports'

    pwwn: str = ''
    name: str | None = None
    status: str | None = None

    @property
    def is_healthy(self) -> bool:
        """Whether the array reports the port as "ok", or no status.

        No other status is documented.
        """
        return _is_ok(self.status)


@dataclasses.dataclass(frozen=True)
class SystemState(Record):
    """Section 7.1: the array's properties and state."""

    RESOURCE = 'system/state'

    state: str | None = None
    rest_api_version: str | None = None
    system_version: str | None = None
    system_id: str | None = None
    system_name: str | None = None
    iscsi_qualified_target_name: str | None = None
    current_user_role: str | None = None
    is_system_functionality_degraded: bool | None = None


@dataclasses.dataclass(frozen=True)
class Capacity(Record):
    """Section 7.2, in KiB."""

    RESOURCE = 'system/capacity'
    NEEDED = frozenset({'id', 'total', 'free'})

    total: Kib
    free: Kib
    state: str | None = None
    reserved: Kib | None = None
    allocated: Kib | None = None
    provisioned: Kib | None = None
    provisioned_volumes: Kib | None = None
    logical: Kib | None = None
    physical: Kib | None = None


@dataclasses.dataclass(frozen=True)
class Performance(Record):
    """Section 8: one row of the statistics of the whole system.

    ``iops_*`` in I/O per second, ``throughput_*`` in bytes per second,
    ``latency_*`` in milliseconds (STA-5).
    """

    RESOURCE = 'stats/system'
    NEEDED = frozenset()

    id: int = 0  # Rows have none (STA-1).
    iops_avg: float | None = None
    iops_max: float | None = None
    throughput_avg: float | None = None
    throughput_max: float | None = None
    latency_inner: float | None = None
    latency_outer: float | None = None

    @classmethod
    def field_names(cls) -> tuple[str, ...]:
        """The fields to ask the array for."""
        return tuple(name for name in cls.READERS if name != 'id')


def _is_ok(word: str | None) -> bool:
    return (word or 'ok').strip().lower() == 'ok'


def _read(name: str, value: Any, reader: _Reader) -> Any:
    try:
        return reader(value)
    except (KeyError, TypeError, ValueError, OverflowError):
        raise ValueError(f'its {name} is {value!r:.60}') from None


def is_going(record: Record) -> bool:
    """Whether a record belongs to a deleted object (QRY-10, VOL-17)."""
    return bool(getattr(record, 'is_deleted', False)
                or getattr(record, 'marked_for_deletion', False))


def matches(record: Record, wanted: AbstractMapping[str, Any]) -> bool:
    """Whether the fields of ``record`` have the values ``wanted``.

    A field that the record does not have matches any value.
    """
    return all(normal(name, getattr(record, name)) == normal(name, value)
               for name, value in wanted.items() if hasattr(record, name))


def is_undecided(record: Record, wanted: AbstractMapping[str, Any],
                 others: Iterable[str] = ()) -> bool:
    """Whether it is unknown if ``record`` is one that was searched for.

    That is the case if no field differs, but the reply did not show all that
    were asked for: then the object is neither found nor known to be gone.

    :param others: names of fields with a condition that is not compared
    """
    asked = [name for name in (*wanted, *others) if name in record.READERS]
    told = {name: value for name, value in wanted.items()
            if name in asked and record.tells(name)}
    return matches(record, told) and not all(map(record.tells, asked))


def normal(name: str, value: Any) -> Any:
    """The value of a field in a normal form for comparisons."""
    # Initiators are compared without regard to their form (INI-4, INI-5).
    if name == 'iqn':
        return str(value).lower()
    if name == 'pwwn':
        return str(value).lower().replace(':', '')
    if name in ('quota', 'description'):
        return value or None  # VG-2; an empty text is none
    return value
