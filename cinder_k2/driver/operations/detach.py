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

"""Detach volumes from hosts."""

from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
from collections.abc import Set
import dataclasses
import functools
import typing

from oslo_log import log as logging

from cinder_k2.array import Array
from cinder_k2.array import ArrayVolume
from cinder_k2.array import host_identity
from cinder_k2.array import mappings
from cinder_k2.driver.db import attachments
from cinder_k2.driver import locks
from cinder_k2.driver.operations import host_access
from cinder_k2.driver.operations import host_holds
from cinder_k2.driver.operations import kept
from cinder_k2.driver.operations import resolver
from cinder_k2.driver.operations import settling
from cinder_k2.driver.operations import volume_holders
from cinder_k2 import exceptions
from cinder_k2.flows import hosts as host_flows
from cinder_k2 import rest
from cinder_k2 import transport

LOG = logging.getLogger(__name__)
_Ours: typing.TypeAlias = rest.Host | rest.RestError | None


@dataclasses.dataclass(frozen=True)
class Disconnected:
    """What a detach did.

    :ivar shared: another attachment may need the mapping; it stays
    :ivar idle: initiators of hosts that have no volumes now
    :ivar unsettled: ids of hosts that seem to have none; to be checked again
        when no other operation maps to them
    :ivar busy: another host of these initiators has volumes
    :ivar left: a host without volumes could not be removed now
    """

    shared: bool = False
    idle: Set[str] = frozenset()
    unsettled: Set[int] = frozenset()
    busy: bool = False
    left: bool = False


class Detach:
    """Unmaps volumes from hosts, and removes hosts left without any.

    :param hosts: finds and holds hosts
    :ivar kept: mappings that stay for other attachments
    """

    def __init__(self, array: Array, known: resolver.Resolver,
                 fabric: host_access.Fabric, hosts: host_access.HostAccess
                 ) -> None:
        self.kept = kept.Kept()
        self._array = array
        self._resolver = known
        self._hosts = hosts
        self._zoning = fabric.zoning
        self._chap = fabric.protection
        self._holders = volume_holders.VolumeHolders(array, hosts.registry)
        self._users = attachments.Attachments(fabric.transport)
        self._settling = settling.Settling[Disconnected](hosts)

    def terminate_connection(self, volume: typing.Any,
                             connector: transport.Connector | None,
                             **kwargs: typing.Any
                             ) -> dict[str, typing.Any] | bool:
        """Unmap a volume from a host; without a connector, from all hosts.

        :returns: True if another attachment still needs the connection,
            else what the transport reports
        """
        # Cinder also terminates connections that were refused, and the host
        # may be this one, which has the view mapped for flattening.
        with self._resolver.held(volume):
            done = self._disconnect(volume, connector)
        return done.shared or self.report(done)

    def report(self, done: Disconnected) -> dict[str, typing.Any] | bool:
        """The result of a detach that is returned to Cinder."""
        return self._zoning.report(done.idle)

    def _disconnect(self, volume: typing.Any,
                    connector: transport.Connector | None) -> Disconnected:
        """Unmap a volume from a host; without a connector, from all hosts.

        Four calls; three more if the host, left without volumes, is removed.
        """
        if not connector:
            return self._disconnect_everywhere(volume)
        sought = self._hosts.sought(connector)
        initiators = list(sought.initiators)
        with self._hosts.held(initiators, host_access.subject(volume)) as hold:
            backing, owners = self._array.concurrently(
                lambda: self._mapped_backing(volume),
                lambda: self._hosts.registry.owners(sought))
            # Cinder removes the row of the attachment that ends afterwards;
            # its own connections have none.
            leaving = 0 if connector.get(host_access.INTERNAL) else 1
            if self._users.using(volume, initiators) > leaving:
                self.keep(volume, backing, sought)
                return Disconnected(shared=True)
            hold.share()
            done = self._disconnect_owners(volume, backing, sought, owners,
                                           hold)
        return self.idle_when_alone(sought, done)

    def disconnect_backing(self, backing: ArrayVolume | None,
                           connector: transport.Connector) -> Disconnected:
        """Unmap an object without a row in Cinder.

        :param backing: None if it no longer exists: the host may still have
            to be removed
        """
        sought = self._hosts.sought(connector)
        with self._hosts.held(sought.initiators,
                              host_access.subject(None, backing)) as hold:
            hold.share()
            done = self.disconnect_held(None, backing, sought, hold)
        return self.idle_when_alone(sought, done)

    def disconnect_kept(self, mapping: kept.Mapping,
                        find: Callable[[], typing.Any],
                        timeout: float | None = None) -> bool:
        """Remove a mapping that was kept, unless it is still needed.

        :param find: called while the host is held; returns the row of the
            volume, or None if the mapping may still be needed
        :param timeout: as for ``HostAccess.held``
        :returns: whether the mapping is gone, and an idle host with it
        :raises LockTimeout: others held the host too long
        """
        with self._hosts.held(mapping.initiators, None, timeout) as hold:
            volume = find()
            if volume is None:
                return False
            backing = self._mapped_backing(volume)
            # After a migration the row has other data.
            if (backing is None or backing.mappable == mapping.mappable) \
                    and self.disconnect_held(volume, backing, mapping.host,
                                             hold).left:
                return False
        # If members of a host group still use the mapping, the last of them
        # removes it when it detaches.
        self.kept.drop(mapping)
        return True

    def release(self, volume: typing.Any) -> None:
        """Remove the kept mappings of a detached volume."""
        known = self._resolver.known(volume)
        for mapping in self.kept.of(known.mappable) if known else ():
            try:
                self.disconnect_kept(mapping, lambda: volume)
            except exceptions.HostUnknown as error:
                _warn_kept(mapping.mappable, error)

    def disconnect_all(self, backing: ArrayVolume | None) -> Disconnected:
        """Unmap a volume from every host and host group."""
        if backing is None:
            return Disconnected()
        return self._disconnect_from(self._array.mappings.by_host(
            self._array.mappings.of_volumes(backing.mappable)))

    def disconnect_volumes(self, volumes: Iterable[int]) -> None:
        """Unmap volumes of the array from every host and host group.

        :param volumes: their ids on the array
        """
        self._disconnect_from(self._array.mappings.by_host(
            self._array.mappings.of_volumes(
                *(rest.Ref('volumes', volume) for volume in volumes))))

    def disconnect_ours(self, backing: ArrayVolume) -> None:
        """Unmap a volume from the hosts that this driver created.

        Mappings that an earlier detach kept are removed, too. Only for
        volumes that are detached in Cinder: a remaining mapping was then left
        behind by a service that was killed.
        """
        for kept_one in self.kept.of(backing.mappable):
            try:
                with self._hosts.held(kept_one.initiators) as hold:
                    self.disconnect_held(None, backing, kept_one.host, hold)
            except exceptions.HostUnknown as error:
                _warn_kept(backing.mappable, error)
                continue
            self.kept.drop(kept_one)
        registry = self._hosts.registry
        self._disconnect_from({
            host: of_host for host, of_host
            in self._array.mappings.by_host(self._array.mappings.of_volumes(
                backing.mappable), groups_too=False).items()
            if registry.ours(host) is not None})

    def keep(self, volume: typing.Any, backing: ArrayVolume | None,
             sought: host_identity.Sought) -> None:
        """Record a mapping that stays; reconciliation removes it later."""
        if backing is not None:
            self.kept.add(kept.Mapping(volume.id, backing.mappable, sought))

    def _mapped_backing(self, volume: typing.Any) -> ArrayVolume | None:
        """The object of a volume to be unmapped; None if it does not exist."""
        try:
            return self._resolver.find(volume)
        except exceptions.ObjectMissing as error:
            LOG.warning('Nothing to unmap for volume %(id)s: %(error)s',
                        {'id': volume.id, 'error': error})
            return None

    def _disconnect_everywhere(self, volume: typing.Any) -> Disconnected:
        """Unmap a volume from all hosts, which are looked up concurrently."""
        stored = self._resolver.known(volume)
        if stored is None or stored.regrouping:
            return self.disconnect_all(self._mapped_backing(volume))
        backing, found = self._array.concurrently(
            lambda: self._mapped_backing(volume),
            lambda: self._array.mappings.of_volumes(stored.mappable))
        if backing != stored:
            return self.disconnect_all(backing)
        return self._disconnect_from(self._array.mappings.by_host(found))

    def disconnect_held(self, volume: typing.Any, backing: ArrayVolume | None,
                        sought: host_identity.Sought, hold: host_holds.Hold
                        ) -> Disconnected:
        """Unmap from a host that the caller holds."""
        return self._disconnect_owners(
            volume, backing, sought, self._hosts.registry.owners(sought), hold)

    def _disconnect_owners(self, volume: typing.Any,
                           backing: ArrayVolume | None,
                           sought: host_identity.Sought,
                           owners: Mapping[int, Mapping[str, int]] | None,
                           hold: host_holds.Hold) -> Disconnected:
        """Unmap from the records that the array has of a host.

        :raises HostUnknown: the volume may be mapped to the host, and the
            array does not show which record is that of the host
        """
        initiators = list(sought.initiators)
        done = self._unmap_each(volume, backing, owners or (), sought, hold)
        known, others = dict(owners or {}), set[int]()
        if not (_are_certain(owners)
                or any(each.found for each in done.values())):
            holding = self._holders.owners(
                backing, sought, self._elsewhere(volume, sought))
            done |= self._unmap_each(volume, backing, holding, sought, hold)
            known |= holding
            if not holding:
                others = self._hosts.registry.similar(sought)
        busy = {host for host, each in done.items() if each.busy} | others
        idle = known.keys() - busy
        if idle and not hold.is_alone:
            return Disconnected(unsettled=idle, busy=bool(busy))
        left = False
        for host in idle:
            left |= not self._remove_idle(host, self._ours(host), known[host],
                                          sought.initiators)
        if busy:
            return Disconnected(left=left)
        self._zoning.now_idle(initiators)
        return Disconnected(idle=set(initiators), left=left)

    def idle_when_alone(self, sought: host_identity.Sought,
                        done: Disconnected) -> Disconnected:
        """Return what a detach did, once it is certain which hosts are idle.

        If it was not certain, that takes three more calls, and those to remove
        idle hosts. All detaches that wait for the result share these calls.
        """
        if not done.unsettled:
            return done
        is_idle = self._settling.settle(
            sought, done, functools.partial(self._settle, sought))
        if done.busy or not is_idle:
            return Disconnected()
        return Disconnected(idle=set(sought.initiators))

    def _settle(self, sought: host_identity.Sought,
                waiting: Sequence[Disconnected]) -> bool:
        """Remove hosts that detaches left without volumes.

        The caller holds the host of ``sought``.

        :param waiting: what these detaches did
        :returns: whether no host of these initiators has volumes
        """
        unsettled = frozenset[int]().union(
            *(each.unsettled for each in waiting))
        # None: a host that was found by its name is gone.
        owners, idle = self._array.concurrently(
            lambda: self._hosts.registry.owners(sought, unsettled) or {},
            lambda: self._idle(unsettled))
        is_idle = all(
            host in idle or host not in unsettled
            and not self._array.mappings.is_mapped(host) for host in owners)
        for host in idle.keys() & owners.keys():
            self._remove_idle(host, idle[host], owners[host],
                              sought.initiators)
        if is_idle and not all(each.busy for each in waiting):
            self._zoning.now_idle(list(sought.initiators))
        return is_idle

    def _idle(self, hosts: Iterable[int]) -> dict[int, _Ours]:
        """Hosts without volumes, by id, as ``_ours`` returns them."""
        idle = {}
        for host in hosts:
            try:
                is_mapped, ours = self._array.concurrently(
                    functools.partial(self._array.mappings.is_mapped, host),
                    functools.partial(self._ours, host))
            except (rest.Refused, rest.NotFound) as error:
                # The host may be gone; then no initiators show it.
                _warn_stays(host, error)
                continue
            if not is_mapped:
                idle[host] = ours
        return idle

    def _unmap_each(self, volume: typing.Any, backing: ArrayVolume | None,
                    hosts: Iterable[int], sought: host_identity.Sought,
                    hold: host_holds.Hold) -> dict[int, mappings.Unmapped]:
        """Unmap from the array's records of a host; the result for each."""
        return {host: self._unmap(volume, backing, host, sought, hold)
                for host in hosts}

    def _unmap(self, volume: typing.Any, backing: ArrayVolume | None,
               host: int, sought: host_identity.Sought, hold: host_holds.Hold
               ) -> mappings.Unmapped:
        """Unmap from a host, or from the host group that it is in."""
        done = self._array.mappings.unmap(backing, host,
                                          shared=not hold.is_alone)
        if not done.found:
            group = self._holders.group_of(host, backing)
            if group is not None:
                self._unmap_from_group(volume, backing, group, sought,
                                       hold.timeout)
                return mappings.Unmapped(found=True, busy=True)
        return done

    def _unmap_from_group(self, volume: typing.Any,
                          backing: ArrayVolume | None,
                          group: rest.Ref, sought: host_identity.Sought,
                          timeout: float | None) -> None:
        """Unmap from a host group, unless another member uses the volume.

        An attachment whose host the array does not show may be to a member.

        :param timeout: as for ``locks.host_groups``
        """
        if volume is None:
            if backing is not None:
                self._array.mappings.unmap_from_group(backing, group)
            return
        with locks.host_groups(volume.id, timeout):
            for other in self._elsewhere(volume, sought):
                hosts = self._hosts.registry.candidates(other)
                if hosts is None or any(
                        self._array.mappings.group_of(host) == group
                        for host in hosts):
                    self.keep(volume, backing, sought)
                    return
            if backing is not None:
                self._array.mappings.unmap_from_group(backing, group)

    def _elsewhere(self, volume: typing.Any, sought: host_identity.Sought
                   ) -> list[host_identity.Sought]:
        """The hosts of the volume's attachments to other hosts."""
        if volume is None:
            return []
        return [self._hosts.sought(other) for other
                in self._users.elsewhere(volume, list(sought.initiators))]

    def _disconnect_from(self, mapped: Mapping[int, Iterable[rest.Mapping]]
                         ) -> Disconnected:
        """Remove mappings from hosts, and hosts that are idle then.

        Each is held while it is changed, and only then. Two calls and one
        for each mapping, four more for each host that is removed.

        :param mapped: by id of the host: its mappings that are removed
        """
        known = self._hosts.registry.initiators_of(mapped)
        for host, of_host in mapped.items():
            with self._hosts.held(list(known.get(host, ()))):
                self._array.mappings.delete(of_host)
        idle: set[str] = set()
        for host in mapped.keys() - self._array.mappings.hosts_in_use(mapped):
            initiators = list(known.get(host, ()))
            with self._hosts.held(initiators):
                # It may have got another volume before it was held.
                if not self._array.mappings.is_mapped(host):
                    self._remove_unknown(host)
                    self._zoning.now_idle(initiators)
                    idle.update(initiators)
        return Disconnected(idle=idle)

    def _remove_unknown(self, host: int) -> None:
        """Remove a host without volumes whose initiators are not known."""
        try:
            ours, has = self._array.concurrently(
                lambda: self._ours(host),
                lambda: self._hosts.registry.initiators(host))
        except rest.RestError as error:
            _warn_stays(host, error)
            return
        self._remove_idle(host, ours, has)

    def _ours(self, host: int) -> _Ours:
        """The host if this driver created it; None if not, or if it is gone.

        If that cannot be read, the error, which matters only if the host has
        no volumes.
        """
        try:
            return self._hosts.registry.ours(host)
        except rest.NotFound:
            return None
        except rest.RestError as error:
            return error

    def _remove_idle(self, host: int, ours: _Ours, has: Mapping[str, int],
                     connected: Iterable[str] = ()) -> bool:
        """Remove a host without volumes, if this driver created it.

        :param ours: the host, as ``_ours`` returns it
        :param has: as ``initiators`` of ``hosts.remove``
        :param connected: as for ``hosts.remove``
        :returns: whether it is gone, or has to stay; if not, a later attempt
            may remove it
        """
        if ours is None:
            return True
        try:
            if isinstance(ours, rest.RestError):
                raise ours
            host_flows.remove(self._array, self._hosts.registry, ours, has,
                              self._chap, connected=connected)
        except rest.RestError as error:
            _warn_stays(host, error)
            return isinstance(error, rest.Refused)
        return True


def _are_certain(owners: Mapping[int, Mapping[str, int]] | None) -> bool:
    """Whether the array showed which hosts, if any, have the initiators.

    A host that was found only by its name may be what a killed service left of
    an attach, while another host has the volume.
    """
    return owners is not None and (not owners or any(owners.values()))


def _warn_stays(host: int, error: rest.RestError) -> None:
    """Warn of a host; the volume is unmapped, as Cinder requested."""
    LOG.warning('Host %(host)s has no volumes left but stays on the '
                'array: %(error)s', {'host': host, 'error': error})


def _warn_kept(mappable: rest.Ref, error: exceptions.HostUnknown) -> None:
    """Warn of a kept mapping that may be left, or may be another's."""
    LOG.warning('A mapping of %(what)s that a detach kept may be left on the '
                'array: %(error)s', {'what': mappable, 'error': error})
