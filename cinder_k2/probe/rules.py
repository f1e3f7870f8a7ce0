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

"""The API rules of grade A or R, and how a probe tests them.

Rules of grade D that are known to have two readings are included.
"""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Rule:
    """A rule in one line, and how it is tested.

    :ivar how: what is checked, or why nothing is, if is_unseen
    :ivar write: the check needs objects that the probe creates
    """

    says: str
    how: str
    write: bool = False
    is_unseen: bool = False


RULES: dict[str, Rule] = {
    'CON-3': Rule(
        'Behind the cloud manager: /rest/sdps/<id>/api/v2 and a bearer '
        'token',
        'Only behind the cloud manager',
        is_unseen=True),
    'CON-4': Rule(
        'Certificates are self-signed; clients may skip verifying them',
        'k2-admin check verifies certificates',
        is_unseen=True),
    'CON-6': Rule(
        'The content type of a reply is application/json, without a charset',
        'The content type of a reply'),
    'CON-7': Rule(
        'Paths may end with a slash',
        'A path that ends with a slash'),
    'DIS-1': Rule(
        'The index maps each resource to the URL that its references begin '
        'with',
        'The index gives the URL of each resource'),
    'DIS-2': Rule(
        'The index lists every resource that a reference can point to',
        'The resources that references point to are in the index'),
    'DIS-3': Rule(
        'The only key of the index is resources; any other is ignored',
        'The index has one key'),
    'DIS-4': Rule(
        'The index, too, requires credentials',
        'A failed login may raise an alarm',
        is_unseen=True),
    'OBJ-2': Rule(
        'A single object is returned bare, without an envelope',
        'A single object is returned without an envelope'),
    'OBJ-3': Rule(
        'POST and PATCH return the whole object',
        'POST and PATCH return the whole object',
        write=True),
    'OBJ-4': Rule(
        'POST is answered with 201, PATCH with 200; any 2xx is success',
        'POST is answered with 201, PATCH with 200',
        write=True),
    'OBJ-5': Rule(
        'DELETE is answered with 204 and no body',
        'DELETE is answered with 204 and no body',
        write=True),
    'OBJ-6': Rule(
        'A new object may appear late; without an id in the reply, look up '
        'its name',
        'A new object may appear late',
        write=True),
    'OBJ-7': Rule(
        'Ids are positive and assigned per resource; an id may be reused',
        'Ids are not reused',
        write=True),
    'OBJ-9': Rule(
        'null, {} and "" clear a reference; the driver writes null',
        'null, {} and "" clear a reference',
        write=True),
    'OBJ-10': Rule(
        'Numbers and booleans are accepted as strings, and returned as JSON '
        'types',
        'Replies have JSON types; a number is accepted as a string'),
    'OBJ-11': Rule(
        "PATCH accepts the object's own id",
        "PATCH accepts the object's own id",
        write=True),
    'OBJ-12': Rule(
        'Unknown and read-only fields: 400; null in POST is no value',
        'An unknown field is refused',
        write=True),
    'OBJ-13': Rule(
        'Missing required field, wrong type, dangling reference: 400',
        'A missing required field is refused',
        write=True),
    'OBJ-14': Rule(
        'Repeating a PATCH changes nothing; a session refuses a repeated '
        'command',
        'Repeating a PATCH changes nothing',
        write=True),
    'QRY-1': Rule(
        'Lists of values are limited by the URL: 64 KiB; beyond that 414 in '
        'JSON',
        'A list of many values'),
    'QRY-2': Rule(
        'A condition on a field the resource lacks matches nothing',
        'A condition on a field that the resource lacks'),
    'QRY-3': Rule(
        'A condition without a value is ignored; this precedes QRY-2',
        'A condition without a value is ignored'),
    'QRY-4': Rule(
        'null cannot be searched for; clients filter',
        'No request could show it',
        is_unseen=True),
    'QRY-5': Rule(
        'String comparison is case-sensitive; clients compare names again',
        'String comparison is case-sensitive'),
    'QRY-6': Rule(
        'Booleans are compared without regard to case',
        'Booleans are compared without regard to case'),
    'QRY-7': Rule(
        'Values may be percent-encoded, and + is a space',
        'Values may be percent-encoded'),
    'QRY-8': Rule(
        'A pair of double quotes around a value is removed',
        'A pair of double quotes is removed'),
    'QRY-9': Rule(
        'Clients find objects by exact name, never by a part of it',
        'It binds clients, not the array',
        is_unseen=True),
    'QRY-10': Rule(
        'Deleted snapshots may stay listed as is_deleted; clients ignore them',
        'Deleted snapshots may stay listed',
        write=True),
    'BLK-1': Rule(
        '__bulk takes a JSON array of objects with POST, PATCH and DELETE',
        'Snapshots of several groups are created and deleted in one call',
        write=True),
    'BLK-2': Rule(
        'Bulk POST and PATCH return hits and total in request order, DELETE '
        'nothing',
        'Snapshots of several groups are created and deleted in one call',
        write=True),
    'BLK-3': Rule(
        'One bulk call creates or deletes snapshots of several volume groups',
        'Snapshots of several groups are created and deleted in one call',
        write=True),
    'BLK-4': Rule(
        'A bulk call is atomic; its error is that of the first invalid item',
        'A bulk call with an invalid item creates nothing',
        write=True),
    'BLK-5': Rule(
        'Snapshots of one bulk call may be of different points in time',
        'It binds clients, not the array',
        is_unseen=True),
    'BLK-6': Rule(
        '__meta is not served: 404',
        '__meta is not for clients'),
    'SEQ-1': Rule(
        'An X-K2-Sequence number that does not increase: 409, and nothing is '
        'done',
        'A number that does not increase is answered with 409',
        write=True),
    'SEQ-2': Rule(
        'The first number of an id is arbitrary; a refused request consumes '
        'none',
        'Numbers need not be consecutive',
        write=True),
    'ERR-1': Rule(
        'error_msg of a busy reply is just the code; clients search the text '
        'for it',
        'Replies with a busy code are examined; the probe sends requests '
        'slowly'),
    'ERR-2': Rule(
        'A busy request is retried a few times, with increasing delays',
        'It binds clients, not the array',
        is_unseen=True),
    'ERR-3': Rule(
        'Clients have their own limits on retries',
        'It binds clients, not the array',
        is_unseen=True),
    'ERR-4': Rule(
        'Clients send few concurrent writes to an array, fewer when it is '
        'busy',
        'It binds clients, not the array',
        is_unseen=True),
    'ERR-5': Rule(
        'One rate limit for all users; beyond it 429 with error_msg; root is '
        'exempt',
        'Busy replies are counted; the probe sends requests slowly'),
    'ERR-6': Rule(
        'While the array is not ONLINE, statistics and writes are answered '
        'with 503',
        'While the state is not ONLINE, statistics are answered with 503'),
    'ERR-7': Rule(
        'Clients rely on no error text other than that of REP-4',
        'It binds clients, not the array',
        is_unseen=True),
    'ERR-8': Rule(
        'A name in use and a missing required field are answered with 400',
        'A name that is in use is refused',
        write=True),
    'VOL-1': Rule(
        'Names of volumes are unique on the array',
        'Names of volumes are unique',
        write=True),
    'VOL-2': Rule(
        'Volumes cannot shrink',
        'Volumes cannot shrink',
        write=True),
    'VOL-3': Rule(
        'Volumes can grow while mapped, and with snapshots, views and clones',
        'Volumes can grow with snapshots and while mapped',
        write=True),
    'VOL-4': Rule(
        "Volumes can grow only while the group's session is idle or failed "
        'over',
        'Replication changes a second array',
        is_unseen=True),
    'VOL-5': Rule(
        'A size is a positive number of KiB; the driver sends whole GiB',
        'A size is positive',
        write=True),
    'VOL-6': Rule(
        'A mapped volume cannot be deleted',
        'A mapped volume cannot be deleted',
        write=True),
    'VOL-7': Rule(
        'A volume can be deleted only after its volsnaps and thin clones',
        'A volume can be deleted only after its snapshots',
        write=True),
    'VOL-8': Rule(
        'A group remains when its last volume is deleted',
        'A group remains when its last volume is deleted',
        write=True),
    'VOL-9': Rule(
        'PATCH of volume_group moves a volume',
        'A volume without snapshots can be moved to another group',
        write=True),
    'VOL-10': Rule(
        'A move is refused for: snapshots, clones, sessions, dedup, lack of '
        'room',
        'A volume with snapshots cannot be moved',
        write=True),
    'VOL-11': Rule(
        'A volume that exceeds the quota of its group: 400',
        'A volume that exceeds the quota of its group is refused',
        write=True),
    'VOL-12': Rule(
        'read_only can always be changed',
        'read_only can be changed',
        write=True),
    'VOL-13': Rule(
        'vmware_support is fixed when the volume is created',
        'vmware_support is fixed when the volume is created',
        write=True),
    'VOL-14': Rule(
        "Volume 1 is CTRL, the array's own; hosts leave its LUN alone",
        'Volume 1 is CTRL'),
    'VOL-15': Rule(
        'WWID: 2, 0024f400, scsi_sn, which is system id and suffix in hex',
        'scsi_sn is the system id and scsi_suffix, in hex',
        write=True),
    'VOL-16': Rule(
        'Volumes and volsnaps take scsi_suffix from one counter',
        'The serial numbers of all volumes would have to be read',
        is_unseen=True),
    'VOL-17': Rule(
        'marked_for_deletion is set from DELETE until the volume is removed',
        'marked_for_deletion is set until a volume is removed',
        write=True),
    'CLN-1': Rule(
        "A thin clone has its source's size and vmware_support; PATCH sets "
        'the rest',
        'A thin clone has the size of its source',
        write=True),
    'CLN-2': Rule(
        'A thin clone is created in the group of its source',
        'A thin clone is created in the group of its source',
        write=True),
    'CLN-3': Rule(
        'A thin clone is mapped, extended and deleted like any volume',
        'A thin clone is deleted like any volume',
        write=True),
    'CLN-4': Rule(
        'A snapshot cannot be deleted while it has thin clones',
        'A snapshot cannot be deleted while it has thin clones',
        write=True),
    'CLN-5': Rule(
        'Arrays without thin clones refuse the fields; the driver checks '
        'the size',
        'An array without thin clones refuses their fields',
        write=True),
    'CLN-6': Rule(
        'Not a source: views, snapshots that are deleted or of other groups; '
        'a clone is',
        'A view cannot be the source of a thin clone',
        write=True),
    'CLN-7': Rule(
        'A thin clone cannot leave its group',
        'A thin clone cannot leave its group',
        write=True),
    'VG-1': Rule(
        'Names of groups are unique',
        'A name that is in use is refused',
        write=True),
    'VG-2': Rule(
        'A quota of 0 means none and is shown as null',
        'A quota of 0 is shown as null',
        write=True),
    'VG-3': Rule(
        'A quota cannot be below the provisioned capacity',
        'A quota below the provisioned capacity is refused',
        write=True),
    'VG-4': Rule(
        'is_dedup is fixed when the group is created',
        'is_dedup is fixed when the group is created',
        write=True),
    'VG-5': Rule(
        'A group with volumes cannot be deleted',
        'A group with volumes cannot be deleted',
        write=True),
    'VG-6': Rule(
        'A group with snapshots, views or a session cannot be deleted',
        'No group has snapshots without volumes',
        is_unseen=True),
    'VG-7': Rule(
        'A group holds at most 32 volumes',
        'Needs 33 volumes',
        is_unseen=True),
    'VG-8': Rule(
        'What each counter of a group counts',
        'Counts of volumes and snapshots',
        write=True),
    'VG-9': Rule(
        'Groups can be renamed at any time; names of their snapshots follow',
        'Names of snapshots follow that of their group',
        write=True),
    'VG-10': Rule(
        'Groups with INDEPENDENT_ in the name are not for users',
        'Users do not create such groups',
        is_unseen=True),
    'VG-11': Rule(
        'capacity_state follows the thresholds of the policy',
        'Needs data written by hosts',
        is_unseen=True),
    'RST-2': Rule(
        "A restore needs a live snapshot with exactly the group's current "
        'volumes',
        'A group cannot be restored to a view',
        write=True),
    'RST-3': Rule(
        'No restore while mapped, or with a session that is not idle',
        'No restore while mapped',
        write=True),
    'RST-4': Rule(
        'A restore keeps later snapshots, and records what was restored and '
        'when',
        'A restore keeps a later snapshot, and sets last_restored_from',
        write=True),
    'SNP-1': Rule(
        'The name of a snapshot or view is that of its group, a colon and '
        'short_name',
        'A snapshot is named after its group',
        write=True),
    'SNP-2': Rule(
        'short_name is unique in its group; other groups may use it, too',
        'A short name can be used in another group, but not twice in one',
        write=True),
    'SNP-3': Rule(
        'retention_policy is required, except for replication snapshots',
        'retention_policy is required',
        write=True),
    'SNP-4': Rule(
        'Only is_auto_deleteable false keeps the array from deleting a '
        'snapshot',
        'is_auto_deleteable false is kept, also for views',
        write=True),
    'SNP-5': Rule(
        'Snapshots are read-only, views are writable',
        'Needs data written by hosts',
        is_unseen=True),
    'SNP-6': Rule(
        'A view cannot be created from a group',
        'A view cannot be created from a group',
        write=True),
    'SNP-7': Rule(
        'A view cannot be created from a view',
        'A view cannot be created from a view',
        write=True),
    'SNP-8': Rule(
        'Views can be mapped, snapshots cannot',
        'A plain snapshot is not mapped',
        write=True),
    'SNP-9': Rule(
        'Deletion starts at the leaves: mappings, clones, children',
        'A snapshot with a view is not deleted',
        write=True),
    'SNP-10': Rule(
        'PATCH of snapshots may not be supported',
        'PATCH of a snapshot is offered',
        write=True),
    'SNP-11': Rule(
        'Each snapshot and view has one volsnap for each volume',
        'A snapshot has one volsnap for each volume',
        write=True),
    'SNP-12': Rule(
        'A group without volumes has no snapshots',
        'A snapshot of a group without volumes is refused',
        write=True),
    'SNP-13': Rule(
        'A replicated group has snapshots on the source, only views on '
        'the target',
        'Replication changes a second array',
        is_unseen=True),
    'SNP-14': Rule(
        'Completed copies show Replication_API; then the source reports them, '
        'too',
        'Replication changes a second array',
        is_unseen=True),
    'SNP-15': Rule(
        'Mapping a view sets last_exposed_time',
        'Mapping a view sets last_exposed_time',
        write=True),
    'VSN-2': Rule(
        'snapshot.ref finds the volsnaps of a view',
        'A snapshot has one volsnap for each volume',
        write=True),
    'VSN-3': Rule(
        "The source of a view's volsnap is the volume",
        "The source of a view's volsnap is the volume",
        write=True),
    'VSN-4': Rule(
        'A view keeps the size of its snapshot',
        'The API has no request for it',
        is_unseen=True),
    'MAP-2': Rule(
        'LUNs are 1 to 254, the lowest free one of the host first',
        'The lowest LUN that is free on the host is given first',
        write=True),
    'MAP-3': Rule(
        'A mapped view has one entry without a LUN, and one for each volsnap',
        'A mapped view has entries for its volsnaps',
        write=True),
    'MAP-4': Rule(
        "Deleting the view's entry deletes the others; they cannot be deleted "
        'alone',
        'Deleting the entry of a view deletes the others',
        write=True),
    'MAP-5': Rule(
        'A mapping of a host group is one entry with one LUN for all members',
        'A mapping of a host group is one entry with a LUN',
        write=True),
    'MAP-6': Rule(
        'A member of a host group cannot be mapped individually',
        'A member of a host group cannot be mapped individually',
        write=True),
    'MAP-7': Rule(
        'A volume or view may be mapped to many hosts and groups',
        'A volume may be mapped to several hosts',
        write=True),
    'MAP-8': Rule(
        'A volume can be mapped to a host only once',
        'A volume can be mapped to a host only once',
        write=True),
    'MAP-9': Rule(
        'PATCH of lun changes it to a free LUN in range',
        'PATCH changes a LUN, but not to one in use on the host',
        write=True),
    'MAP-10': Rule(
        'POST does not accept lun',
        'POST does not accept a LUN',
        write=True),
    'MAP-12': Rule(
        'A host can be mapped without initiators',
        'A host can be mapped without initiators',
        write=True),
    'MAP-13': Rule(
        'CTRL, snapshots and deleted objects cannot be mapped',
        'A snapshot that is not a view cannot be mapped',
        write=True),
    'HST-1': Rule(
        'Host names: 32 letters, digits, dashes, underscores; unique',
        'Names of hosts are unique',
        write=True),
    'HST-2': Rule(
        'A mapped host cannot be deleted',
        'A mapped host cannot be deleted',
        write=True),
    'HST-3': Rule(
        'A host with initiators cannot be deleted',
        'A host with initiators cannot be deleted',
        write=True),
    'HST-4': Rule(
        'A member of a host group cannot be deleted',
        'A member of a host group cannot be deleted',
        write=True),
    'HST-5': Rule(
        'A host can join a group only if it has no mappings',
        'A host with mappings cannot join a group',
        write=True),
    'HST-6': Rule(
        "A host that leaves a group loses the group's LUNs",
        'A host can leave a group that is mapped',
        write=True),
    'HST-8': Rule(
        'A host counts its mapped volumes and views, including those of its '
        'group',
        'A host counts its mapped volumes',
        write=True),
    'HGR-1': Rule(
        'A host group with hosts or mappings cannot be deleted',
        'A host group with hosts or mappings cannot be deleted',
        write=True),
    'HGR-2': Rule(
        'Host groups can be renamed; the driver does not',
        'Host groups can be renamed',
        write=True),
    'INI-1': Rule(
        'An initiator may have no host, for example after a login',
        'Whether an initiator has no host'),
    'INI-2': Rule(
        'POST with a host adopts an initiator without one',
        'An initiator without a host might be left behind',
        is_unseen=True),
    'INI-3': Rule(
        'An initiator of another host is refused',
        'An initiator of another host is refused',
        write=True),
    'INI-4': Rule(
        'Colons in a pwwn are optional; it is shown in pairs, in lower case',
        'How the names of Fibre Channel initiators are shown'),
    'INI-5': Rule(
        'IQNs begin with iqn., eui. or naa., and are case-insensitive',
        'An initiator in different case is the same',
        write=True),
    'INI-6': Rule(
        'The last initiator of a mapped host can be deleted',
        'The last initiator of a mapped host can be deleted',
        write=True),
    'CHP-2': Rule(
        'PATCH of map_auth_profiles_names assigns the one profile of a host',
        'CHAP profiles are assigned by map_auth_profiles_names alone',
        write=True),
    'CHP-4': Rule(
        'A profile in use cannot be deleted; names and usernames are unique',
        'Names of profiles are unique; one in use cannot be deleted',
        write=True),
    'CHP-5': Rule(
        'A password has 12 to 16 characters',
        'A password of 11 characters is refused',
        write=True),
    'CHP-6': Rule(
        'No field of a host shows its profile',
        'No field of a host shows its profile',
        write=True),
    'CHP-7': Rule(
        'A profile has the field host_groups_count',
        'How a host group gets a profile is unknown',
        is_unseen=True),
    'RET-1': Rule(
        'Every array has policies such as Best_Effort_Retention',
        'Policies that every array has'),
    'RET-2': Rule(
        'Auto-deletable snapshots above number or age are deleted; number 0: '
        'no limit',
        'Needs hours',
        is_unseen=True),
    'RET-3': Rule(
        'A policy in use cannot be deleted',
        'A policy in use cannot be deleted',
        write=True),
    'RET-4': Rule(
        'Users can create policies',
        'Users can create retention policies',
        write=True),
    'VCP-1': Rule(
        'full_threshold is 100; snapshot overhead is 1 to 97; a default '
        'exists',
        'There is a default, with full_threshold 100; full_threshold is '
        'optional; overhead beyond 97 is refused'),
    'VCP-2': Rule(
        'Thresholds must rise; a policy in use and the default cannot be '
        'deleted',
        'Thresholds that fall are refused; a policy in use cannot be deleted',
        write=True),
    'CAP-1': Rule(
        'The scheduler uses free, total and provisioned_volumes',
        'The figures that the scheduler needs'),
    'CAP-2': Rule(
        'Reduction is allocated / physical; with thin it is provisioned / '
        'physical',
        'The figures of data reduction'),
    'CAP-3': Rule(
        'free is total minus allocated and reserved; provisioned is a sum',
        'Free is total without allocated and reserved'),
    'CAP-4': Rule(
        'logical is the data that hosts wrote, physical the space that it '
        'takes',
        'Needs data written by hosts',
        is_unseen=True),
    'NET-1': Rule(
        'Portals are the addresses without wan_port, on port 3260',
        'iSCSI portals have no wan_port'),
    'NET-2': Rule(
        'All portals have the same target IQN, that of system/state',
        'system/state has the one target IQN'),
    'NET-3': Rule(
        "A portal's net_port is a record of port_type dataport",
        'The port of a portal is a dataport'),
    'NET-4': Rule(
        'Settings of the host define the number of iSCSI sessions per portal',
        'It binds clients, not the array',
        is_unseen=True),
    'STA-3': Rule(
        'Idle volumes may be left out; __fields works',
        'Statistics, with the requested fields only'),
    'STA-5': Rule(
        'Throughput is in bytes per second, latency in milliseconds',
        'Needs a known load',
        is_unseen=True),
    'EVT-1': Rule(
        'Events are searched like any other resource',
        'Events are searched by their level'),
    'EVT-2': Rule(
        'Event 249 is the creation of a group, 28 the deletion of a volume',
        'Event 249 is that of a new volume group'),
    'EVT-3': Rule(
        'There is no event 0: 404',
        'There is no event 0'),
    'EVT-4': Rule(
        'The newest event has the highest id',
        'The newest events have the highest ids'),
    'REP-1': Rule(
        'A session creates group and session on the peer; volumes by hand or '
        'itself',
        'Replication changes a second array',
        is_unseen=True),
    'REP-2': Rule(
        'Retention policies of a session may be left out',
        'Replication changes a second array',
        is_unseen=True),
    'REP-3': Rule(
        'Default names on the peer',
        'Replication changes a second array',
        is_unseen=True),
    'REP-4': Rule(
        'rpo is 60 or a multiple of 300; the text of the refusal is known',
        'Replication changes a second array',
        is_unseen=True),
    'REP-5': Rule(
        'One session per group; all volumes are paired; members change while '
        'idle',
        'Replication changes a second array',
        is_unseen=True),
    'REP-6': Rule(
        'A start is in_sync at once, copies, and may fail with '
        'MC_ERR_START_TIMEOUT',
        'Replication changes a second array',
        is_unseen=True),
    'REP-7': Rule(
        'Names of sessions are limited',
        'Replication changes a second array',
        is_unseen=True),
    'REP-8': Rule(
        'The state on the other side follows after a delay',
        'Replication changes a second array',
        is_unseen=True),
    'REP-9': Rule(
        'Failover works without the source',
        'Replication changes a second array',
        is_unseen=True),
    'REP-10': Rule(
        'A failover uses restored_snapshot, or else the latest complete one',
        'Replication changes a second array',
        is_unseen=True),
    'REP-11': Rule(
        'Reverse: unmap at the old source, then in_sync on the other side',
        'Replication changes a second array',
        is_unseen=True),
    'REP-12': Rule(
        'Failback: two replication snapshots, failed_over, in_sync',
        'Replication changes a second array',
        is_unseen=True),
    'REP-13': Rule(
        'A replication snapshot has a generation_number',
        'Replication changes a second array',
        is_unseen=True),
    'REP-14': Rule(
        'When a replication snapshot has arrived, and how the session shows '
        'it',
        'Replication changes a second array',
        is_unseen=True),
    'REP-15': Rule(
        'Removing a session: suspended, idle, then DELETE; the copies remain',
        'Replication changes a second array',
        is_unseen=True),
    'REP-16': Rule(
        'Until failover, volumes of a target are read-only, and mapped '
        'only if exposed',
        'Replication changes a second array',
        is_unseen=True),
    'REP-18': Rule(
        'Sessions can start and end while mapped; their groups cannot be '
        'deleted',
        'Replication changes a second array',
        is_unseen=True),
    'REP-19': Rule(
        'If the peer is lost, a source is suspended, and no session can be '
        'created',
        'Replication changes a second array',
        is_unseen=True),
    'REP-20': Rule(
        'stopped is true after a stop; three fields are informational',
        'Replication changes a second array',
        is_unseen=True),
    'REP-21': Rule(
        'An array can be its own peer; both sides then share the names',
        'Replication changes a second array',
        is_unseen=True),
    'section 2.5': Rule(
        '__limit=0 returns no hits, and the total',
        'Lists are truncated by __limit'),
    'section 2.5: order': Rule(
        'Without __sort, lists are in no particular order',
        'Without __sort, lists are in no particular order',
        write=True),
    'section 12': Rule(
        'Names of volumes have at most 42 characters',
        'Names have at most 42 characters',
        write=True),
    'section 14: net_vlans': Rule(
        'system/net_vlans is not also available as system/netvlans',
        'system/net_vlans is not also found at system/netvlans'),
    'section 14: replication_session': Rule(
        'A group shows replication_session, in the singular',
        'A group shows replication_session, in the singular',
        write=True),
}
