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

"""The rules of the API with mark A or R, and how a probe tests them.

Those of mark D that are known to have two readings are here, too.
"""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Rule:
    """A rule, in a line, and how it is tested.

    :ivar how: what is looked at, or why nothing is, if is_unseen
    :ivar write: it needs objects of the probe's
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
        'Certificates are self-signed; clients can do without checking '
        'them',
        'k2-admin check looks at certificates',
        is_unseen=True),
    'CON-6': Rule(
        'The content type of a reply is application/json and nothing more',
        'The content type of a reply'),
    'CON-7': Rule(
        'Paths may end with a slash',
        'A path that ends with a slash'),
    'DIS-1': Rule(
        'The index maps each resource to its url, which references begin '
        'with',
        'The index names each resource with its url'),
    'DIS-2': Rule(
        'Whatever a reference can name is in the index',
        'What references name is in the index'),
    'DIS-3': Rule(
        'The index has no other key than resources; others are passed '
        'over',
        'The index has one key'),
    'DIS-4': Rule(
        'The index, too, needs credentials',
        'A login that fails may raise an alarm',
        is_unseen=True),
    'OBJ-2': Rule(
        'One object comes bare, without an envelope',
        'One object comes without an envelope'),
    'OBJ-3': Rule(
        'POST and PATCH give the whole object back',
        'POST and PATCH give the whole object back',
        write=True),
    'OBJ-4': Rule(
        '201 to POST and 200 to PATCH; any 2xx is success',
        'POST answers 201, PATCH 200',
        write=True),
    'OBJ-5': Rule(
        '204 without a body to DELETE',
        'DELETE answers 204 without a body',
        write=True),
    'OBJ-6': Rule(
        'A new object can show late; a reply without id is looked up by '
        'name',
        'A new object may show late',
        write=True),
    'OBJ-7': Rule(
        'Ids are positive, counted in each resource; one may come back',
        'Ids do not come back',
        write=True),
    'OBJ-9': Rule(
        'null, {} and "" clear a reference; the driver writes null',
        'null, {} and "" clear a reference',
        write=True),
    'OBJ-10': Rule(
        'Numbers and booleans are taken as strings, and given as JSON '
        'types',
        'Replies have JSON types; a number is taken as a string'),
    'OBJ-11': Rule(
        "PATCH takes the object's own id",
        "PATCH takes the object's own id",
        write=True),
    'OBJ-12': Rule(
        'Unknown and read-only fields: 400; null in POST is no value',
        'An unknown field is refused',
        write=True),
    'OBJ-13': Rule(
        'Required field left out, wrong type, reference to nothing: 400',
        'A required field that is left out is refused',
        write=True),
    'OBJ-14': Rule(
        'The same PATCH again changes nothing; a session refuses its '
        'command',
        'The same PATCH again changes nothing',
        write=True),
    'QRY-1': Rule(
        'Lists of values are as long as a URL: 64 KiB; beyond: 414 in '
        'JSON',
        'A list of many values'),
    'QRY-2': Rule(
        'A condition on a field the resource lacks matches nothing',
        'A condition on a field that the resource lacks'),
    'QRY-3': Rule(
        'A condition without a value is left out, before QRY-2',
        'A condition without a value is left out'),
    'QRY-4': Rule(
        'null cannot be searched for; clients filter',
        'There is no request for it',
        is_unseen=True),
    'QRY-5': Rule(
        'Strings are compared with case; clients compare names again',
        'Strings are compared with case'),
    'QRY-6': Rule(
        'Booleans are compared without case',
        'Booleans are compared without case'),
    'QRY-7': Rule(
        'Values may be percent-encoded, and + is a space',
        'Values may be percent-encoded'),
    'QRY-8': Rule(
        'A pair of double quotes around a value is taken off',
        'A pair of double quotes is taken off'),
    'QRY-9': Rule(
        'Find objects by exact names, never by a part of the name',
        'It binds clients, not the array',
        is_unseen=True),
    'QRY-10': Rule(
        'Deleted snapshots may stay listed as is_deleted; they are passed '
        'over',
        'Deleted snapshots may stay listed',
        write=True),
    'BLK-1': Rule(
        '__bulk takes a JSON array of objects with POST, PATCH and DELETE',
        'Snapshots of several groups are made and deleted in one call',
        write=True),
    'BLK-2': Rule(
        'Bulk POST and PATCH give hits and total in the order asked; '
        'DELETE nothing',
        'Snapshots of several groups are made and deleted in one call',
        write=True),
    'BLK-3': Rule(
        'One bulk call makes or deletes snapshots of several volume '
        'groups',
        'Snapshots of several groups are made and deleted in one call',
        write=True),
    'BLK-4': Rule(
        "A bulk call is done wholly or not at all; the first bad item's "
        'error counts',
        'A bulk call with a bad item makes nothing',
        write=True),
    'BLK-5': Rule(
        'Snapshots of one bulk call need not be of one instant',
        'It binds clients, not the array',
        is_unseen=True),
    'BLK-6': Rule(
        '__meta is not served: 404',
        '__meta is not for clients'),
    'SEQ-1': Rule(
        'A number that does not rise in X-K2-Sequence: 409, and nothing '
        'is done',
        'A number that does not rise is answered with 409',
        write=True),
    'SEQ-2': Rule(
        'The first number of an id is free; a refused request uses up '
        'none',
        'Numbers need not be consecutive',
        write=True),
    'ERR-1': Rule(
        'error_msg of a busy reply is the bare code; clients look for it '
        'inside',
        'Replies with a busy code are looked at; it asks slowly'),
    'ERR-2': Rule(
        'A busy request is repeated a few times with growing waits',
        'It binds clients, not the array',
        is_unseen=True),
    'ERR-3': Rule(
        "Repeats end within limits of the client's own",
        'It binds clients, not the array',
        is_unseen=True),
    'ERR-4': Rule(
        'Few writes at a time on one array, fewer when it is busy',
        'It binds clients, not the array',
        is_unseen=True),
    'ERR-5': Rule(
        'One bucket for all users; beyond it 429 with error_msg, but not '
        'to root',
        'Replies that say busy are counted; it asks slowly'),
    'ERR-6': Rule(
        'While not ONLINE, statistics and writes get 503',
        'While the state is not ONLINE, statistics answer 503'),
    'ERR-7': Rule(
        'No other error text than that of REP-4 is relied on',
        'It binds clients, not the array',
        is_unseen=True),
    'ERR-8': Rule(
        'A name in use and a missing required field are 400',
        'A name that is in use is refused',
        write=True),
    'VOL-1': Rule(
        'Names of volumes are unique on the array',
        'Names of volumes are unique',
        write=True),
    'VOL-2': Rule(
        'Volumes do not shrink',
        'Volumes do not shrink',
        write=True),
    'VOL-3': Rule(
        'Volumes grow while mapped, and beside snapshots, views and '
        'clones',
        'Volumes grow beside snapshots and while mapped',
        write=True),
    'VOL-4': Rule(
        "Volumes grow only while the group's session is idle or failed "
        'over',
        'Replication changes a second array',
        is_unseen=True),
    'VOL-5': Rule(
        'A size is a positive number of KiB; the driver sends whole GiB',
        'A size is positive',
        write=True),
    'VOL-6': Rule(
        'A mapped volume is not deleted',
        'A mapped volume is not deleted',
        write=True),
    'VOL-7': Rule(
        'A volume goes after its volsnaps and thin clones',
        'A volume goes after its snapshots',
        write=True),
    'VOL-8': Rule(
        'A group stays when its last volume goes',
        'A group stays when its last volume goes',
        write=True),
    'VOL-9': Rule(
        'PATCH of volume_group moves a volume',
        'A volume without snapshots moves to another group',
        write=True),
    'VOL-10': Rule(
        'What a move is refused for: snapshots, clones, sessions, dedup, '
        'room',
        'A volume with snapshots does not move',
        write=True),
    'VOL-11': Rule(
        'A volume beyond the quota of its group: 400',
        'A volume beyond the quota of its group is refused',
        write=True),
    'VOL-12': Rule(
        'read_only can always be changed',
        'read_only can be changed',
        write=True),
    'VOL-13': Rule(
        'vmware_support is fixed when the volume is made',
        'vmware_support is fixed when the volume is made',
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
        'Serial numbers of all volumes would have to be read',
        is_unseen=True),
    'VOL-17': Rule(
        'marked_for_deletion covers the time from DELETE to removal',
        'marked_for_deletion covers the time until a volume is gone',
        write=True),
    'CLN-1': Rule(
        "A thin clone has its source's size and vmware_support; the rest "
        'is by PATCH',
        'A thin clone has the size of its source',
        write=True),
    'CLN-2': Rule(
        'A thin clone is made in the group of its source',
        'A thin clone is made in the group of its source',
        write=True),
    'CLN-3': Rule(
        'A thin clone is mapped, grown and deleted as any volume',
        'A thin clone is deleted as any volume',
        write=True),
    'CLN-4': Rule(
        'A snapshot stays while it has thin clones',
        'A snapshot stays while it has thin clones',
        write=True),
    'CLN-5': Rule(
        'Arrays without thin clones refuse the fields; the driver checks '
        'the size',
        'An array without thin clones refuses their fields',
        write=True),
    'CLN-6': Rule(
        "Views, other groups' or deleted snapshots are no source; a clone "
        'is',
        'A view is no source of a thin clone',
        write=True),
    'CLN-7': Rule(
        'A thin clone does not leave its group',
        'A thin clone does not leave its group',
        write=True),
    'VG-1': Rule(
        'Names of groups are unique',
        'A name that is in use is refused',
        write=True),
    'VG-2': Rule(
        'quota 0 is none and is shown as null',
        'A quota of 0 reads null',
        write=True),
    'VG-3': Rule(
        'A quota is not set below what is provisioned',
        'A quota below what is provisioned is refused',
        write=True),
    'VG-4': Rule(
        'is_dedup is fixed when the group is made',
        'is_dedup is fixed when the group is made',
        write=True),
    'VG-5': Rule(
        'A group with volumes is not deleted',
        'A group with volumes is not deleted',
        write=True),
    'VG-6': Rule(
        'Nor is one with snapshots, views or a session',
        'No group has snapshots without volumes',
        is_unseen=True),
    'VG-7': Rule(
        'A group holds 32 volumes',
        'Needs 33 volumes',
        is_unseen=True),
    'VG-8': Rule(
        'What the counts of a group count',
        'Counts of volumes and snapshots',
        write=True),
    'VG-9': Rule(
        'Groups are renamed at any time; names of their snapshots follow',
        'Names of snapshots follow that of their group',
        write=True),
    'VG-10': Rule(
        'Groups with INDEPENDENT_ in the name are not for users',
        'Such groups are not made by users',
        is_unseen=True),
    'VG-11': Rule(
        'capacity_state goes by the thresholds of the policy',
        'Needs data that hosts write',
        is_unseen=True),
    'RST-2': Rule(
        "Restored is a live snapshot of just the group's volumes as they "
        'are',
        'A group is not restored to a view',
        write=True),
    'RST-3': Rule(
        'No restore while mapped, or with a session that is not idle',
        'No restore while mapped',
        write=True),
    'RST-4': Rule(
        'A restore leaves later snapshots, and sets what was restored and '
        'when',
        'A restore leaves a later snapshot, and sets last_restored_from',
        write=True),
    'SNP-1': Rule(
        "A name is the group's, a colon and short_name, for views as well",
        'A snapshot is named after its group',
        write=True),
    'SNP-2': Rule(
        'short_name is unique in its group, and may be used in others',
        'A short name is taken in another group, and not twice in one',
        write=True),
    'SNP-3': Rule(
        'retention_policy is required, except for replication snapshots',
        'retention_policy is required',
        write=True),
    'SNP-4': Rule(
        'Only is_auto_deleteable false keeps the array from deleting a '
        'snapshot',
        'is_auto_deleteable false is kept, on views too',
        write=True),
    'SNP-5': Rule(
        'Snapshots are read-only, views are writable',
        'Needs data that hosts write',
        is_unseen=True),
    'SNP-6': Rule(
        'A view is not made of a group',
        'A view is not made of a group',
        write=True),
    'SNP-7': Rule(
        'A view is not made of a view',
        'A view is not made of a view',
        write=True),
    'SNP-8': Rule(
        'Views are mapped, snapshots are not',
        'A plain snapshot is not mapped',
        write=True),
    'SNP-9': Rule(
        'Deletion begins at the leaves: mappings, clones, children',
        'A snapshot with a view is not deleted',
        write=True),
    'SNP-10': Rule(
        'PATCH of snapshots may be missing',
        'PATCH of a snapshot is offered',
        write=True),
    'SNP-11': Rule(
        'Each snapshot and view has one volsnap for each volume',
        'A snapshot has one volsnap for each volume',
        write=True),
    'SNP-12': Rule(
        'A group without volumes has no snapshots',
        'A group without volumes is not snapshotted',
        write=True),
    'SNP-13': Rule(
        'A replicated group has snapshots on the source, only views on '
        'the target',
        'Replication changes a second array',
        is_unseen=True),
    'SNP-14': Rule(
        'Arrived copies show Replication_API; the source then says so, '
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
        'A mapped view has one entry without LUN, and one for each '
        'volsnap',
        'A mapped view has entries for its volsnaps',
        write=True),
    'MAP-4': Rule(
        "The view's entry takes the others along; they cannot go alone",
        'The entry of a view takes the others along',
        write=True),
    'MAP-5': Rule(
        'A host group has one entry with one LUN for all members',
        'A mapping of a host group is one entry with a LUN',
        write=True),
    'MAP-6': Rule(
        'A member of a host group is not mapped alone',
        'A member of a host group is not mapped alone',
        write=True),
    'MAP-7': Rule(
        'A volume or view may be mapped to many hosts and groups',
        'A volume may be mapped to several hosts',
        write=True),
    'MAP-8': Rule(
        'One host and one volume are mapped once',
        'One host and one volume are mapped once',
        write=True),
    'MAP-9': Rule(
        'PATCH of lun changes it, to a free one in range',
        'PATCH changes a LUN, but not to one in use on the host',
        write=True),
    'MAP-10': Rule(
        'POST does not take lun',
        'POST does not take a LUN',
        write=True),
    'MAP-12': Rule(
        'A host needs no initiator to be mapped',
        'A host needs no initiator to be mapped',
        write=True),
    'MAP-13': Rule(
        'CTRL, snapshots and deleted objects are not mapped',
        'A plain snapshot is not mapped',
        write=True),
    'HST-1': Rule(
        'Host names: 32 letters, digits, dashes, underscores; unique',
        'Names of hosts are unique',
        write=True),
    'HST-2': Rule(
        'A mapped host is not deleted',
        'A mapped host is not deleted',
        write=True),
    'HST-3': Rule(
        'Nor is a host with initiators',
        'A host with initiators is not deleted',
        write=True),
    'HST-4': Rule(
        'Nor is a member of a host group',
        'A member of a host group is not deleted',
        write=True),
    'HST-5': Rule(
        'A host joins a group only without mappings',
        'A host with mappings does not join a group',
        write=True),
    'HST-6': Rule(
        "A host that leaves a group loses the group's LUNs",
        'A host leaves a group that is mapped',
        write=True),
    'HST-8': Rule(
        'A host counts its mapped volumes and views, those of its group '
        'as well',
        'A host counts its mapped volumes',
        write=True),
    'HGR-1': Rule(
        'A host group with hosts or mappings is not deleted',
        'A host group that has hosts, or mappings, is not deleted',
        write=True),
    'HGR-2': Rule(
        'Host groups can be renamed; the driver does not',
        'Host groups can be renamed',
        write=True),
    'INI-1': Rule(
        'An initiator may have no host, as after a login',
        'Whether an initiator has no host'),
    'INI-2': Rule(
        'POST with a host adopts an initiator without one',
        'An initiator without a host may stay behind',
        is_unseen=True),
    'INI-3': Rule(
        'An initiator of another host is refused',
        'An initiator of another host is refused',
        write=True),
    'INI-4': Rule(
        'Colons of a pwwn may be left out; it is shown in pairs, in lower '
        'case',
        'How the names of Fibre Channel initiators are shown'),
    'INI-5': Rule(
        'IQNs begin with iqn., eui. or naa., and are the same in any case',
        'An initiator in another case is the same',
        write=True),
    'INI-6': Rule(
        'The last initiator of a mapped host may go',
        'The last initiator of a mapped host may go',
        write=True),
    'CHP-2': Rule(
        'PATCH of map_auth_profiles_names gives a host its one profile',
        'CHAP profiles are given by map_auth_profiles_names alone',
        write=True),
    'CHP-4': Rule(
        'A profile in use is not deleted; names and usernames are unique',
        'Names of profiles are unique; one in use is not deleted',
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
        'host_groups_count of a profile is there',
        'How a host group gets a profile is unknown',
        is_unseen=True),
    'RET-1': Rule(
        'Policies that every array has, Best_Effort_Retention above all',
        'Policies that every array has'),
    'RET-2': Rule(
        'Auto-deletable snapshots beyond number or age go; number 0 is no '
        'limit',
        'Needs hours',
        is_unseen=True),
    'RET-3': Rule(
        'A policy in use is not deleted',
        'A policy in use is not deleted',
        write=True),
    'RET-4': Rule(
        'Users make policies of their own',
        'Users make retention policies',
        write=True),
    'VCP-1': Rule(
        'full_threshold is 100; snapshot overhead is 1 to 97; there is a '
        'default',
        'There is a default, with full_threshold 100; full_threshold may '
        'be left out; overhead beyond 97 is refused'),
    'VCP-2': Rule(
        'Thresholds rise; a policy in use and the default are not deleted',
        'Thresholds that fall are refused; a policy in use is not deleted',
        write=True),
    'CAP-1': Rule(
        'free, total and provisioned_volumes are for the scheduler',
        'The figures that the scheduler needs'),
    'CAP-2': Rule(
        'Reduction is allocated by physical; provisioned by physical with '
        'thin',
        'The figures of data reduction'),
    'CAP-3': Rule(
        'free is total without allocated and reserved; provisioned is a '
        'sum',
        'Free is total without allocated and reserved'),
    'CAP-4': Rule(
        'logical is what hosts wrote, physical what that takes',
        'Needs data that hosts write',
        is_unseen=True),
    'NET-1': Rule(
        'Portals are the addresses without wan_port, port 3260',
        'iSCSI portals have no wan_port'),
    'NET-2': Rule(
        'All portals have the one target IQN of system/state',
        'system/state has the one target IQN'),
    'NET-3': Rule(
        "A portal's net_port is a record of port_type dataport",
        'The port of a portal is a dataport'),
    'NET-4': Rule(
        "How many iSCSI sessions to a portal is for the host's files to "
        'say',
        'It binds clients, not the array',
        is_unseen=True),
    'STA-3': Rule(
        'Idle volumes may be left out; __fields works',
        'Statistics, with the fields asked for only'),
    'STA-5': Rule(
        'Throughput is in bytes per second, latency in milliseconds',
        'Needs load of a known size',
        is_unseen=True),
    'EVT-1': Rule(
        'Events are searched like everything else',
        'Events are searched by their level'),
    'EVT-2': Rule(
        '249 is a group made, 28 a volume deleted',
        'Event 249 is that of a new volume group'),
    'EVT-3': Rule(
        'Event 0 is 404',
        'There is no event 0'),
    'EVT-4': Rule(
        'The newest event has the highest id',
        'The newest events have the highest ids'),
    'REP-1': Rule(
        'A session makes group and session on the peer; volumes by hand '
        'or itself',
        'Replication changes a second array',
        is_unseen=True),
    'REP-2': Rule(
        'Retention policies of a session may be left out',
        'Replication changes a second array',
        is_unseen=True),
    'REP-3': Rule(
        'Names on the peer when none is given',
        'Replication changes a second array',
        is_unseen=True),
    'REP-4': Rule(
        'rpo is 60 or a multiple of 300; the text of the refusal is known',
        'Replication changes a second array',
        is_unseen=True),
    'REP-5': Rule(
        'One session for a group; all volumes paired; members change '
        'while idle',
        'Replication changes a second array',
        is_unseen=True),
    'REP-6': Rule(
        'A start is in_sync at once, copies, and may end in '
        'MC_ERR_START_TIMEOUT',
        'Replication changes a second array',
        is_unseen=True),
    'REP-7': Rule(
        'Names of sessions are limited',
        'Replication changes a second array',
        is_unseen=True),
    'REP-8': Rule(
        'The other side follows after a moment',
        'Replication changes a second array',
        is_unseen=True),
    'REP-9': Rule(
        'Failover needs no help from the source',
        'Replication changes a second array',
        is_unseen=True),
    'REP-10': Rule(
        'A failover takes restored_snapshot, or the latest complete one',
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
        'When a replication snapshot has arrived, and how the session '
        'tells',
        'Replication changes a second array',
        is_unseen=True),
    'REP-15': Rule(
        'Tear-down goes by suspended, idle and DELETE, and leaves the '
        'copies',
        'Replication changes a second array',
        is_unseen=True),
    'REP-16': Rule(
        'Until failover, volumes of a target are read-only, and mapped '
        'only if exposed',
        'Replication changes a second array',
        is_unseen=True),
    'REP-18': Rule(
        'Sessions come and go while mapped; a group in a session stays',
        'Replication changes a second array',
        is_unseen=True),
    'REP-19': Rule(
        'With the peer lost a source is suspended, and no session is made',
        'Replication changes a second array',
        is_unseen=True),
    'REP-20': Rule(
        'stopped is true after a stop; three fields only inform',
        'Replication changes a second array',
        is_unseen=True),
    'REP-21': Rule(
        'An array can be its own peer; both sides then share the names',
        'Replication changes a second array',
        is_unseen=True),
    'section 2.5': Rule(
        '__limit=0 gives no hits and the total',
        'Lists are cut by __limit'),
    'section 2.5: order': Rule(
        'Without __sort lists come in any order',
        'Without __sort lists come in any order',
        write=True),
    'section 12': Rule(
        'Names of volumes have 42 characters at most',
        'Names have 42 characters at most',
        write=True),
    'section 14: net_vlans': Rule(
        'system/net_vlans is not system/netvlans, too',
        'system/net_vlans is not found at system/netvlans, too'),
    'section 14: replication_session': Rule(
        'A group shows replication_session, in the singular',
        'A group shows replication_session, in the singular',
        write=True),
}
