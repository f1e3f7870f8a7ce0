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

"""Attach and detach."""

from collections.abc import Callable
from collections.abc import Hashable
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Set
import contextlib
import dataclasses
import typing

from oslo_log import log as logging
from oslo_utils import excutils

from cinder_k2.array import Array
from cinder_k2.array import ArrayVolume
from cinder_k2.array import hosts as array_hosts
from cinder_k2.driver import chap
from cinder_k2.driver.db import attachments
from cinder_k2.driver.db import provider_id
from cinder_k2.driver.db import writes
from cinder_k2.driver import locks
from cinder_k2.driver.operations import host_holds
from cinder_k2.driver.operations import kept
from cinder_k2.driver.operations import resolver
from cinder_k2.driver.operations import zoning as zones
from cinder_k2 import exceptions
from cinder_k2.flows import chap as chap_flows
from cinder_k2.flows import hosts
from cinder_k2 import naming
from cinder_k2 import rest
from cinder_k2 import transport

LOG = logging.getLogger(__name__)

#: In connectors that Cinder itself uses, to copy data: no row tells of them.
INTERNAL = 'k2_internal'


@dataclasses.dataclass(frozen=True)
class Disconnected:
    """What a detach did.

    :ivar shared: another attachment may need the mapping; it stays
    :ivar idle: initiators of hosts that have no volumes now
    :ivar unsettled: ids of hosts that seem to have none; whether they have is
        to be seen when nobody else maps to them
    """

    shared: bool = False
    idle: Set[str] = frozenset()
    unsettled: Set[int] = frozenset()


class Connections:
    """Connections between volumes and hosts.

    Each host is locked by its initiators while it is looked up and changed,
    so hosts never wait for each other. Volumes of one host are mapped and
    unmapped at once, see ``host_holds``.

    :param configuration: the options of the back end
    :param zoning: what the fabric is told
    :param protection: CHAP of hosts, None over Fibre Channel
    :param store: what is kept for other attachments
    """

    def __init__(self, array: Array, known: resolver.Resolver,
                 configuration: typing.Any, initiators: transport.Transport,
                 zoning: zones.Zoning, protection: chap_flows.Chap | None,
                 store: kept.Kept) -> None:
        self._array = array
        self._resolver = known
        self._configuration = configuration
        self._transport = initiators
        self._zoning = zoning
        self._chap = protection
        self._kept = store
        self._users = attachments.Attachments(initiators)
        self._holds = host_holds.HostHolds()

    def initialize_connection(self, volume: typing.Any,
                              connector: transport.Connector,
                              **kwargs: typing.Any) -> dict[str, typing.Any]:
        """Map a volume to a host; where and under which LUN to find it.

        A view is held until it is mapped: flattening begins before that, and
        the host is refused, or after it, and sees the attachment.

        :raises ObjectInUse: it is being flattened, or failed back
        """
        with self._resolver.held(volume, locks.ATTACH_LOCK_TIMEOUT):
            self.check_free(volume)
            return self.connect_backing(
                volume, self._resolver.find(volume), connector)

    def terminate_connection(self, volume: typing.Any,
                             connector: transport.Connector | None,
                             **kwargs: typing.Any
                             ) -> dict[str, typing.Any] | bool:
        """Unmap a volume from a host, from all hosts without a connector.

        :returns: True if another attachment still needs the connection,
            else what the transport reports
        """
        # Cinder also ends connections that were refused, and this host may
        # be the one that copies the view.
        with self._resolver.held(volume):
            done = self._disconnect(volume, connector)
        return done.shared or self.report(done)

    def report(self, done: Disconnected) -> dict[str, typing.Any] | bool:
        """What Cinder is told of a detach, beside that it is done."""
        return self._zoning.report(done.idle)

    def check_free(self, volume: typing.Any) -> None:
        """See that a volume is not being handed over to another array.

        :raises ObjectInUse: it is; what is written now would be lost
        """
        known = self._resolver.known(volume)
        if known is not None and known.failback_in_progress:
            raise exceptions.ObjectInUse(
                f'Volume {volume.id}', 'is being failed back. If a failback '
                "was interrupted, run 'cinder failover-host --backend_id "
                "default' again.")

    def _verify(self, volume: typing.Any, backing: ArrayVolume) -> None:
        """Check that what is to be mapped is still the volume's (OBJ-7).

        :param volume: None for what Cinder has no row of: a view that has
            just been made
        :raises ObjectMissing, ObjectRenamed: it is not
        """
        if volume is None:
            return
        now = self._resolver.confirm(volume, backing)
        if now.mappable != backing.mappable:
            raise exceptions.ObjectRenamed(
                f'Volume {volume.id} has another object on the array than '
                'when its attachment began; try again.')

    def _check_still_free(self, volume: typing.Any) -> None:
        """The same, after a host has got it; a failback looks after that.

        :raises ObjectInUse: it is, or was handed over meanwhile
        """
        if not self._resolver.peers or volume is None:
            return
        now = writes.current(volume)
        if now.provider_id is None:
            # Cinder fills a new volume before it saves the ids.
            return
        self.check_free(now)
        if (provider_id.system_of(now.provider_id)
                != provider_id.system_of(volume.provider_id)):
            raise exceptions.ObjectInUse(
                f'Volume {volume.id}', 'has just moved to another array; try '
                'again.')

    def _sought(self, connector: transport.Connector) -> array_hosts.Sought:
        """The host of a connector, by initiators and by names.

        The in-tree driver names hosts as ``unique_fqdn_network`` says.
        """
        initiators = self._transport.initiators(connector)
        first = connector.get('initiator') or (
            connector.get('wwnns') or [''])[0]
        other = (connector.get('host', first)
                 if self._configuration.unique_fqdn_network else first[::-1])
        return array_hosts.Sought(tuple(initiators), tuple(filter(None, (
            naming.host(connector.get('host', ''), initiators),
            naming.in_tree_host(other)))))

    @contextlib.contextmanager
    def _host_held(self, initiators: list[str], what: Hashable = None,
                   timeout: float | None = None
                   ) -> Iterator[host_holds.Hold]:
        """Hold a host; the time for the array begins when it is held.

        :param what, timeout: as for ``HostHolds.hold``
        """
        with self._holds.hold(
                self._array.system.id, initiators, what, timeout
        ) as hold, self._array.deadline(fresh=True):
            yield hold

    def connect_backing(self, volume: typing.Any, backing: ArrayVolume,
                        connector: transport.Connector
                        ) -> dict[str, typing.Any]:
        """Map a volume to a host; what os-brick needs to reach it.

        Two calls; three more if the array does not know the host, and two
        more with CHAP. If anything fails the mapping is taken back, unless
        another attachment may have it.

        :param volume: Cinder's volume; None for what Cinder has no row of
        """
        sought = self._sought(connector)
        targets = self._transport.targets(self._array,
                                          list(sought.initiators))
        try:
            return self._connect_held(volume, backing, sought, targets,
                                      _subject(volume, backing))
        except hosts.MustBeAlone:
            return self._connect_held(volume, backing, sought, targets)

    def _connect_held(self, volume: typing.Any, backing: ArrayVolume,
                      sought: array_hosts.Sought, targets: transport.Targets,
                      what: Hashable = None) -> dict[str, typing.Any]:
        initiators = list(sought.initiators)
        with contextlib.ExitStack() as afterwards, \
                self._host_held(initiators, what) as hold:
            shared = (volume is not None
                      and self._users.at(volume, initiators) > 0)
            try:
                attached = hosts.attach(
                    self._array, self._transport.hosts(self._array), backing,
                    sought=sought, look_first=shared, hold=hold,
                    verify_volume=lambda: self._verify(volume, backing),
                    guard=None if self._chap is None
                    else self._chap.guard(initiators))
                self._check_still_free(volume)
                connection = targets.properties(attached.lun)
                connection['data'].update(
                    chap.properties(attached.login),
                    discard=self._configuration.k2_discard)
                self._zoning.connected(connection)
            except hosts.MustBeAlone:
                raise
            except Exception:
                with excutils.save_and_reraise_exception():
                    if not shared:
                        afterwards.callback(self._settle_quietly, sought,
                                            self._take_back(
                                                volume, backing, sought,
                                                hold))
        return connection

    def _take_back(self, volume: typing.Any, backing: ArrayVolume,
                   sought: array_hosts.Sought, hold: host_holds.Hold
                   ) -> Disconnected:
        try:
            if self._is_another_coming(volume):
                self._keep(volume, backing, sought)
                return Disconnected(shared=True)
            with self._array.cleanup_deadline():
                return self._disconnect_host(volume, backing, sought, hold)
        except Exception as error:
            LOG.warning('A mapping of %(what)s may be left on the array: '
                        '%(error)s', {'what': backing.mappable,
                                      'error': error})
            return Disconnected()

    def _is_another_coming(self, volume: typing.Any) -> bool:
        """Whether others may have mapped it, besides the one that fails."""
        return (volume is not None and volume.multiattach
                and self._users.coming(volume) > 1)

    def _keep(self, volume: typing.Any, backing: ArrayVolume | None,
              sought: array_hosts.Sought) -> None:
        """Leave a mapping to those who may need it, and to reconciliation."""
        if backing is not None:
            self._kept.add(kept.Mapping(volume.id, backing.mappable, sought))

    def _settle_quietly(self, sought: array_hosts.Sought, done: Disconnected
                        ) -> None:
        try:
            with self._array.cleanup_deadline():
                self._idle_when_alone(sought, done)
        except Exception as error:
            LOG.warning('A host without volumes may be left on the array: '
                        '%(error)s', {'error': error})

    def _disconnect(self, volume: typing.Any,
                    connector: transport.Connector | None) -> Disconnected:
        """Unmap a volume from a host, from all hosts without a connector.

        Four calls; three more if the host, left without volumes, is removed.
        """
        if not connector:
            return self._disconnect_everywhere(volume)
        sought = self._sought(connector)
        initiators = list(sought.initiators)
        with self._host_held(initiators, _subject(volume)) as hold:
            backing, owners = self._array.concurrently(
                lambda: self._mapped_backing(volume),
                lambda: self._transport.hosts(self._array).owners(sought))
            # Cinder removes the row of the one that leaves afterwards.
            leaving = 0 if connector.get(INTERNAL) else 1
            if self._users.using(volume, initiators) > leaving:
                self._keep(volume, backing, sought)
                return Disconnected(shared=True)
            hold.share()
            done = self._disconnect_owners(volume, backing, sought, owners,
                                           hold)
        return self._idle_when_alone(sought, done)

    def disconnect_kept(self, mapping: kept.Mapping,
                        find: Callable[[], typing.Any],
                        timeout: float | None = None) -> bool:
        """Unmap what was kept, as a detach does, if nothing needs it.

        :param find: what gives, while the host is held, the row of the
            volume; None if something may need the mapping
        :param timeout: seconds to wait for the host
        :returns: whether nothing of the host needs the mapping
        :raises LockTimeout: the host was not to be had
        """
        with self._host_held(mapping.initiators, None, timeout) as hold:
            volume = find()
            if volume is None:
                return False
            backing = self._mapped_backing(volume)
            # After a migration the row has other data.
            if backing is None or backing.mappable == mapping.mappable:
                self._disconnect_host(volume, backing, mapping.host, hold)
        # Members of a host group that still use it detach after this one.
        self._kept.drop(mapping)
        return True

    def release(self, volume: typing.Any) -> None:
        """Unmap what was kept of a detached volume. No call for others."""
        known = self._resolver.known(volume)
        for mapping in self._kept.of(known.mappable) if known else ():
            self.disconnect_kept(mapping, lambda: volume)

    def _mapped_backing(self, volume: typing.Any) -> ArrayVolume | None:
        """What backs a volume that is to be unmapped, None if it is gone."""
        try:
            return self._resolver.find(volume)
        except exceptions.ObjectMissing as error:
            LOG.warning('Nothing to unmap for volume %(id)s: %(error)s',
                        {'id': volume.id, 'error': error})
            return None

    def _disconnect_everywhere(self, volume: typing.Any) -> Disconnected:
        """Unmap a volume from all hosts, which are looked up meanwhile."""
        stored = self._resolver.known(volume)
        if stored is None or stored.regrouping:
            return self.disconnect_all(self._mapped_backing(volume))
        backing, found = self._array.concurrently(
            lambda: self._mapped_backing(volume),
            lambda: self._array.mappings.of_volumes(stored.mappable))
        if backing != stored:
            return self.disconnect_all(backing)
        return self._disconnect_from(self._array.mappings.by_host(found))

    def disconnect_backing(self, backing: ArrayVolume,
                           connector: transport.Connector) -> Disconnected:
        """Unmap what Cinder has no row of."""
        sought = self._sought(connector)
        with self._host_held(list(sought.initiators),
                             _subject(None, backing)) as hold:
            hold.share()
            done = self._disconnect_host(None, backing, sought, hold)
        return self._idle_when_alone(sought, done)

    def _disconnect_host(self, volume: typing.Any, backing: ArrayVolume | None,
                         sought: array_hosts.Sought, hold: host_holds.Hold
                         ) -> Disconnected:
        """Unmap from a host, which is held."""
        return self._disconnect_owners(
            volume, backing, sought,
            self._transport.hosts(self._array).owners(sought), hold)

    def _disconnect_owners(self, volume: typing.Any,
                           backing: ArrayVolume | None,
                           sought: array_hosts.Sought,
                           owners: Mapping[int, Mapping[str, int]],
                           hold: host_holds.Hold) -> Disconnected:
        """Unmap from the records that the array has of a host."""
        initiators = list(sought.initiators)
        busy = {host for host in owners if self._revoke(
            volume, backing, host, sought, not hold.is_alone)}
        idle = owners.keys() - busy
        if idle and not hold.is_alone:
            return Disconnected(unsettled=idle)
        for host in idle:
            self._remove_idle(host, owners[host], sought.initiators)
        if busy:
            return Disconnected()
        self._zoning.now_idle(initiators)
        return Disconnected(idle=set(initiators))

    def _idle_when_alone(self, sought: array_hosts.Sought,
                         done: Disconnected) -> Disconnected:
        """What a detach did, when it is clear which hosts have no volumes.

        Three more calls where that was not clear before, and for hosts that
        go.
        """
        if not done.unsettled:
            return done
        with self._host_held(list(sought.initiators)):
            owners = self._transport.hosts(self._array).owners(sought)
            idle = {host for host in owners
                    if not self._array.mappings.is_mapped(host)}
            for host in idle & done.unsettled:
                self._remove_idle(host, owners[host], sought.initiators)
            if idle != owners.keys():
                return Disconnected()
            self._zoning.now_idle(list(sought.initiators))
        return Disconnected(idle=set(sought.initiators))

    def _revoke(self, volume: typing.Any, backing: ArrayVolume | None,
                host: int, sought: array_hosts.Sought, shared: bool) -> bool:
        """Unmap from a host; whether it must stay.

        :param shared: others unmap from it at the same time
        """
        done = self._array.mappings.unmap(backing, host, shared=shared)
        if not done.found:
            group = self._array.mappings.group_of(host)
            if group is not None:
                self._revoke_group(volume, backing, group, sought)
                return True
        return done.busy

    def _revoke_group(self, volume: typing.Any, backing: ArrayVolume | None,
                      group: rest.Ref, sought: array_hosts.Sought) -> None:
        """Unmap from a host group, unless another member uses the volume."""
        registry = self._transport.hosts(self._array)
        if volume is None:
            if backing is not None:
                self._array.mappings.unmap_from_group(backing, group)
            return
        with locks.host_groups(volume.id):
            for others in self._users.elsewhere(volume,
                                                list(sought.initiators)):
                if any(self._array.mappings.group_of(host) == group
                       for host in registry.owners(
                           array_hosts.Sought(tuple(others)))):
                    self._keep(volume, backing, sought)
                    return
            if backing is not None:
                self._array.mappings.unmap_from_group(backing, group)

    def disconnect_all(self, backing: ArrayVolume | None) -> Disconnected:
        """Unmap a volume from every host and host group."""
        if backing is None:
            return Disconnected()
        return self._disconnect_from(self._array.mappings.by_host(
            self._array.mappings.of_volumes(backing.mappable)))

    def disconnect_volumes(self, volumes: Iterable[int]) -> None:
        """Unmap volumes of the array from every host and host group.

        :param volumes: the array's ids of them
        """
        self._disconnect_from(self._array.mappings.by_host(
            self._array.mappings.of_volumes(
                *(rest.Ref('volumes', volume) for volume in volumes))))

    def disconnect_ours(self, backing: ArrayVolume) -> None:
        """Unmap a volume from the hosts that this driver made.

        And from those, and their groups, that a detach left it to. For
        volumes that Cinder says are detached: any other such mapping is what
        a killed service left behind.
        """
        for kept_one in self._kept.of(backing.mappable):
            with self._host_held(kept_one.initiators) as hold:
                self._disconnect_host(None, backing, kept_one.host, hold)
            self._kept.drop(kept_one)
        registry = self._transport.hosts(self._array)
        self._disconnect_from({
            host: mappings for host, mappings
            in self._array.mappings.by_host(self._array.mappings.of_volumes(
                backing.mappable), groups_too=False).items()
            if registry.ours(host) is not None})

    def _disconnect_from(self, mapped: Mapping[int, Iterable[rest.Mapping]]
                         ) -> Disconnected:
        """Remove mappings from hosts, and hosts that are idle then.

        Each is held while it is changed, and only then. Two calls and one
        for each mapping, four more for each host that goes.

        :param mapped: by id of the host: its mappings that go
        """
        known = self._transport.hosts(self._array).initiators_of(mapped)
        for host, mappings in mapped.items():
            with self._host_held(list(known.get(host, ()))):
                self._array.mappings.delete(mappings)
        idle: set[str] = set()
        for host in mapped.keys() - self._array.mappings.hosts_in_use(mapped):
            initiators = list(known.get(host, ()))
            with self._host_held(initiators):
                # It may have got another volume before it was held.
                if not self._array.mappings.is_mapped(host):
                    self._remove_idle(host)
                    self._zoning.now_idle(initiators)
                    idle.update(initiators)
        return Disconnected(idle=idle)

    def _remove_idle(self, host: int,
                     initiators: Mapping[str, int] | None = None,
                     connected: Iterable[str] = ()) -> None:
        """Remove a host without volumes, if the driver once made it.

        :param initiators: as for ``hosts.remove``
        :param connected: as for ``hosts.remove``
        """
        registry = self._transport.hosts(self._array)
        try:
            if initiators is None:
                ours, initiators = self._array.concurrently(
                    lambda: registry.ours(host),
                    lambda: registry.initiators(host))
            else:
                ours = registry.ours(host)
            if ours is not None:
                hosts.remove(self._array, registry, ours, initiators,
                             self._chap, connected=connected)
        except rest.RestError as error:
            # The volume is unmapped, which is what Cinder asked for.
            LOG.warning('Host %(host)s has no volumes left but stays on the '
                        'array: %(error)s', {'host': host, 'error': error})


def _subject(volume: typing.Any,
             backing: ArrayVolume | None = None) -> Hashable:
    """What an attach or detach is about: two of the same exclude each other.

    Attachments of one volume to one host share a mapping.
    """
    if volume is not None:
        return str(volume.id)
    return None if backing is None else str(backing.mappable)
