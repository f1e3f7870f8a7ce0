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

"""Errors of the array layer, in addition to those of the REST client.

They are independent of Cinder; ``cinder_k2.driver.errors`` translates them to
Cinder's.
"""


class K2Error(Exception):
    """Base of the errors below. ``str()`` is one line for an operator."""


class ArrayNotSupported(K2Error):
    """This back end cannot use the array: too old, not ready, no ports."""


class ObjectRenamed(K2Error):
    """An object whose ids Cinder stored has another name on the array now."""


class ObjectMissing(K2Error):
    """The array has no such volume or snapshot any more."""


class ObjectInUse(K2Error):
    """The array must keep an object: it is mapped or others depend on it.

    :param what: name of the object on the array
    :param why: the reason, with the names of the objects that hold it
    """

    def __init__(self, what: str, why: str) -> None:
        super().__init__(f'{what} {why}')
        self.what = what
        self.why = why


class StillMapped(ObjectInUse):
    """An object to be deleted is mapped to hosts or host groups."""


class StillRead(ObjectInUse):
    """An object to be deleted has a temporary view."""


class HostConflict(K2Error):
    """The initiators of one host belong to different hosts on the array."""


class HostUnknown(K2Error):
    """The array does not show its mappings; the volume stays mapped."""


class ChapSecretLost(K2Error):
    """The array has a CHAP profile whose password is lost."""


class SecretsUnavailable(K2Error):
    """Cinder's database did not read or store a CHAP password."""


class CloneNotSupported(K2Error):
    """No allowed strategy can make this clone on this array."""


class StrategyRefused(K2Error):
    """One clone strategy does not suit this clone; the next may."""


class StrategyUnknown(StrategyRefused):
    """The array itself refused the strategy, whatever the clone."""


class ConcurrentUpdate(K2Error):
    """Another operation kept changing the row of a volume or snapshot."""


class CopyTimeout(K2Error):
    """Too many volumes were being copied for too long."""


class RestoreUnsettled(K2Error):
    """It is unknown whether the array will still restore a volume."""


class GroupNotSupported(K2Error):
    """A consistency group, or a volume in it, violates the array's rules."""


class NotManageable(K2Error):
    """An object that an operator refers to cannot be managed by Cinder."""


class AlreadyManaged(NotManageable):
    """Cinder manages the object already.

    :param cinder_id: id of the volume or snapshot in Cinder
    """

    def __init__(self, cinder_id: str) -> None:
        super().__init__(f'Cinder has it already as {cinder_id}.')
        self.cinder_id = cinder_id


class VolumeTypeMismatch(NotManageable):
    """An object does not match its volume type."""


class ArrayNotActive(K2Error):
    """An object is not on the active array."""


class LockTimeout(K2Error):
    """Another operation held a lock for too long."""


class ReplicationError(K2Error):
    """The replication of a volume does not allow an operation."""


class PeerUnreachable(ReplicationError):
    """An array does not reach its replication peer."""


class ReplicationTimeout(ReplicationError):
    """A replication session did not get to a state in time."""


class FailoverOutcomeUnknown(ReplicationError):
    """An array was commanded to take over, and has not replied since.

    :param keys: keys of the replication units in the command
    """

    def __init__(self, text: str, keys: frozenset[str]) -> None:
        super().__init__(text)
        self.keys = keys
