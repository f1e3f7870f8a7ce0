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

"""What the array layer raises beside the errors of the REST client.

Nothing here knows Cinder; ``cinder_k2.driver.errors`` translates.
"""


class K2Error(Exception):
    """Base of the errors below. ``str()`` is one line for an operator."""


class ArrayNotSupported(K2Error):
    """The array cannot serve this back end: too old, not ready, no ports."""


class ObjectRenamed(K2Error):
    """What Cinder noted ids of has another name on the array now."""


class ObjectMissing(K2Error):
    """The array has no such volume or snapshot any more."""


class ObjectInUse(K2Error):
    """The array must keep an object: it is mapped or others depend on it.

    :param what: name of the object on the array
    :param why: the reason, with the names of what holds it
    """

    def __init__(self, what: str, why: str) -> None:
        super().__init__(f'{what} {why}')
        self.what = what
        self.why = why


class StillMapped(ObjectInUse):
    """What is to be deleted is mapped to hosts or host groups."""


class StillRead(ObjectInUse):
    """A temporary view of what is to be deleted is there."""


class HostConflict(K2Error):
    """The initiators of one host belong to different hosts on the array."""


class HostUnknown(K2Error):
    """The array does not tell which host has what, so it stays mapped."""


class ChapSecretLost(K2Error):
    """The array has a CHAP profile whose password nobody knows any more."""


class SecretsUnavailable(K2Error):
    """Cinder's database did not read or keep a CHAP password."""


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
    """The array may yet put a volume back to a snapshot, or may not."""


class GroupNotSupported(K2Error):
    """A consistency group, or a volume in it, is not as the array needs."""


class NotManageable(K2Error):
    """What an operator refers to cannot come under Cinder's management."""


class AlreadyManaged(NotManageable):
    """Cinder has it already.

    :param cinder_id: Cinder's id of it
    """

    def __init__(self, cinder_id: str) -> None:
        super().__init__(f'Cinder has it already as {cinder_id}.')
        self.cinder_id = cinder_id


class VolumeTypeMismatch(NotManageable):
    """It is not what its volume type asks for."""


class ArrayNotActive(K2Error):
    """An object is on another array than the one that serves now."""


class LockTimeout(K2Error):
    """Another operation held a lock for too long."""


class ReplicationError(K2Error):
    """The replication of a volume is not as an operation needs it."""


class PeerUnreachable(ReplicationError):
    """An array does not reach the one that it is to replicate to."""


class ReplicationTimeout(ReplicationError):
    """A replication session did not get to a state in time."""


class FailoverOutcomeUnknown(ReplicationError):
    """An array was told to take over, and has not answered since.

    :param keys: of what it was told of
    """

    def __init__(self, text: str, keys: frozenset[str]) -> None:
        super().__init__(text)
        self.keys = keys
