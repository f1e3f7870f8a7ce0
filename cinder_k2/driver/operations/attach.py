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

"""Attach volumes to hosts."""

from collections.abc import Callable
import contextlib
import functools
import typing

from oslo_log import log as logging
from oslo_utils import excutils

from cinder_k2.array import Array
from cinder_k2.array import ArrayVolume
from cinder_k2.array import host_identity
from cinder_k2.array import NamedVolume
from cinder_k2.driver import chap
from cinder_k2.driver.db import attachments
from cinder_k2.driver.db import provider_id
from cinder_k2.driver.db import writes
from cinder_k2.driver import locks
from cinder_k2.driver.operations import detach
from cinder_k2.driver.operations import host_access
from cinder_k2.driver.operations import host_holds
from cinder_k2.driver.operations import resolver
from cinder_k2 import exceptions
from cinder_k2.flows import hosts as host_flows
from cinder_k2 import transport

LOG = logging.getLogger(__name__)


class Attach:
    """Maps volumes to hosts, which it creates if the array lacks them.

    :param configuration: the options of the back end
    :param hosts: finds and holds hosts
    :param detaching: undoes failed attaches
    """

    def __init__(self, array: Array, known: resolver.Resolver,
                 configuration: typing.Any, fabric: host_access.Fabric,
                 hosts: host_access.HostAccess, detaching: detach.Detach
                 ) -> None:
        self._array = array
        self._resolver = known
        self._configuration = configuration
        self._transport = fabric.transport
        self._hosts = hosts
        self._detach = detaching
        self._zoning = fabric.zoning
        self._chap = fabric.protection
        self._users = attachments.Attachments(fabric.transport)

    def initialize_connection(self, volume: typing.Any,
                              connector: transport.Connector,
                              **kwargs: typing.Any) -> dict[str, typing.Any]:
        """Map a volume to a host.

        A view stays locked until it is mapped. If flattening began earlier,
        the attach is refused; if it begins later, it sees the attachment.

        :returns: the connection properties for os-brick
        :raises ObjectInUse: it is being flattened, or failed back
        """
        with self._resolver.held(volume, locks.ATTACH_LOCK_TIMEOUT):
            self._resolver.check_free(volume)
            return self._connect(
                volume, functools.partial(self._resolver.find, volume),
                connector, host_access.subject(volume))

    def connect_backing(self, named: NamedVolume,
                        connector: transport.Connector
                        ) -> dict[str, typing.Any]:
        """Map a volume or view without a row in Cinder to a host.

        :returns: the connection properties for os-brick
        :raises ObjectMissing: it is gone by the time the host is held
        """
        return self._connect(
            None, functools.partial(self._confirmed, named), connector,
            host_access.subject(None, named.backing))

    def _confirmed(self, named: NamedVolume) -> ArrayVolume:
        if not self._array.identity.is_current(named):
            raise exceptions.ObjectMissing(
                f'The array at {self._array.address} no longer has '
                f'{named.names[0]} with the id {named.backing.mappable.id}; '
                'try again.')
        return named.backing

    def _connect(self, volume: typing.Any, find: Callable[[], ArrayVolume],
                 connector: transport.Connector,
                 what: host_holds.Subject | None) -> dict[str, typing.Any]:
        """Map a volume of the array to a host.

        Three calls; three more if the array does not know the host, and two
        more with CHAP. If anything fails the mapping is removed again,
        unless another attachment may need it.

        :param find: finds the array volume once the host is held, as its id
            may be another object's by then (OBJ-7)
        :param what: as for ``HostHolds.hold``
        :returns: what os-brick needs to reach the volume
        """
        sought = self._hosts.sought(connector)
        targets = self._transport.targets(self._array,
                                          list(sought.initiators))
        for alone in (False, True):
            try:
                return self._connect_held(volume, find, sought, targets, what,
                                          alone)
            except host_flows.MustBeAlone:
                LOG.debug('The host of %s has to be changed.', sought.name)
        return self._connect_held(volume, find, sought, targets)

    def _connect_held(self, volume: typing.Any,
                      find: Callable[[], ArrayVolume],
                      sought: host_identity.Sought, targets: transport.Targets,
                      what: host_holds.Subject | None = None,
                      alone: bool = False) -> dict[str, typing.Any]:
        initiators = list(sought.initiators)
        with contextlib.ExitStack() as afterwards, \
                self._hosts.held(initiators, what, alone=alone) as hold:
            if not hold.is_alone:
                # Another service uses the host, so this one must not change
                # it, and its threads that wait can share it at once.
                hold.share()
            backing = find()
            shared = (volume is not None
                      and self._users.at(volume, initiators) > 0)
            try:
                attached = host_flows.attach(
                    self._array, self._hosts.registry, backing,
                    sought=sought, look_first=shared, hold=hold,
                    # Not for a multiattach volume: if its attach fails, the
                    # mapping may be kept for other attachments, and nothing
                    # would check whether the host has volumes.
                    share_early=not shared and (
                        volume is None or not volume.multiattach),
                    verify_volume=lambda: _verify(find, backing),
                    guard=None if self._chap is None
                    else self._chap.guard(initiators))
                self._check_still_free(volume)
                connection = targets.properties(attached.lun)
                connection['data'].update(
                    chap.properties(attached.login),
                    discard=self._configuration.k2_discard)
                self._zoning.connected(connection)
            except host_flows.MustBeAlone:
                raise
            except Exception:
                with excutils.save_and_reraise_exception():
                    if not shared:
                        afterwards.callback(self._settle_quietly, sought,
                                            self._take_back(
                                                volume, backing, sought,
                                                hold))
        return connection

    def _check_still_free(self, volume: typing.Any) -> None:
        """Check again, once the volume is mapped, that it is free.

        A failback reserves the row before it unmaps the volume, so one of the
        two sees the other.

        :raises ObjectInUse: it is being failed back, or has moved meanwhile
        """
        if not self._resolver.peers or volume is None:
            return
        now = writes.current(volume)
        if now.provider_id is None:
            # Cinder copies data to a new volume before it saves the ids.
            return
        self._resolver.check_free(now)
        if (provider_id.system_of(now.provider_id)
                != provider_id.system_of(volume.provider_id)):
            raise exceptions.ObjectInUse(
                f'Volume {volume.id}', 'has just moved to another array; try '
                'again.')

    def _take_back(self, volume: typing.Any, backing: ArrayVolume,
                   sought: host_identity.Sought, hold: host_holds.Hold
                   ) -> detach.Disconnected:
        try:
            if self._is_another_coming(volume):
                self._detach.keep(volume, backing, sought)
                return detach.Disconnected(shared=True)
            with self._array.cleanup_deadline():
                return self._detach.disconnect_held(
                    volume, backing, sought, hold)
        except Exception as error:
            LOG.warning('A mapping of %(what)s may be left on the array: '
                        '%(error)s', {'what': backing.mappable,
                                      'error': error})
            return detach.Disconnected()

    def _is_another_coming(self, volume: typing.Any) -> bool:
        """Whether other attaches may have mapped the volume as well."""
        return (volume is not None and volume.multiattach
                and self._users.coming(volume) > 1)

    def _settle_quietly(self, sought: host_identity.Sought,
                        done: detach.Disconnected) -> None:
        try:
            with self._array.cleanup_deadline():
                self._detach.idle_when_alone(sought, done)
        except Exception as error:
            LOG.warning('A host without volumes may be left on the array: '
                        '%(error)s', {'error': error})


def _verify(find: Callable[[], ArrayVolume], backing: ArrayVolume) -> None:
    """Check that what is to be mapped is still the volume's (OBJ-7).

    :param find: finds the volume
    :raises ObjectMissing, ObjectRenamed: it is not
    """
    if find().mappable != backing.mappable:
        raise exceptions.ObjectRenamed(
            f'The volume to be attached is no longer {backing.mappable} on '
            'the array, as it was when the attach began; try again.')
