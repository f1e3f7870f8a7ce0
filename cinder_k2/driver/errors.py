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

"""Errors of the array, translated to Cinder's at the driver's edge."""

from collections.abc import Callable
from collections.abc import Iterator
import contextlib
import functools
import typing

from cinder import exception
from cinder.i18n import _
from oslo_log import log as logging

from cinder_k2.array import Array
from cinder_k2 import exceptions
from cinder_k2 import polling
from cinder_k2 import rest
from cinder_k2 import transport
from cinder_k2 import volume_types

LOG = logging.getLogger(__name__)

P = typing.ParamSpec('P')
R = typing.TypeVar('R')


@contextlib.contextmanager
def translated() -> Iterator[None]:
    """Let what is inside raise Cinder's exceptions only.

    :raises InvalidConnectorException: the connector lacks initiators
    :raises InvalidVolumeType: an extra spec has an unknown value
    :raises InvalidGroup: a consistency group cannot be as asked for
    :raises VolumeBackendAPIException: everything else the array or the
        layers below say; the text is one line for the operator
    """
    try:
        yield
    except transport.NoInitiators as error:
        raise exception.InvalidConnectorException(
            missing=error.missing) from error
    except volume_types.InvalidExtraSpec as error:
        raise exception.InvalidVolumeType(reason=str(error)) from error
    except exceptions.GroupNotSupported as error:
        raise exception.InvalidGroup(reason=str(error)) from error
    except (rest.RestError, exceptions.K2Error,
            polling.WaitTimeout) as error:
        raise exception.VolumeBackendAPIException(data=str(error)) from error


@contextlib.contextmanager
def operation(array: Array) -> Iterator[None]:
    """Let what is inside be one operation of Cinder's on an array.

    It has k2_retry_timeout for all its calls together, and raises Cinder's
    exceptions only, as ``translated`` says.
    """
    with translated(), array.deadline():
        yield


def reported_at_start(method: Callable[P, R]) -> Callable[P, R]:
    """Let a step at the start of the service fail with one plain line.

    Cinder logs a traceback; the line stands before it, and the traceback
    is without the innards of an HTTP library.

    :raises InvalidInput: an option is missing or wrong
    :raises VolumeBackendAPIException: the array cannot serve
    """
    @functools.wraps(method)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return method(*args, **kwargs)
        except exception.InvalidInput as error:
            reason: exception.CinderException = error
        except (rest.RestError, exceptions.K2Error,
                polling.WaitTimeout) as error:
            reason = exception.VolumeBackendAPIException(data=str(error))
        LOG.error('The back end cannot start. %s', reason)
        raise reason
    return call


@contextlib.contextmanager
def managing(what: str, reference: object) -> Iterator[None]:
    """Say in Cinder's words why something cannot be managed.

    :param what: the row that is to stand for it
    :param reference: what the operator gave
    :raises ManageExistingAlreadyManaged: Cinder has it already
    :raises ManageExistingVolumeTypeMismatch: it is not of the type
    :raises ManageExistingInvalidReference: everything else; the text has
        every reason
    """
    try:
        yield
    except exceptions.NotManageable as error:
        LOG.error('%(what)s cannot be managed, reference %(reference)s: '
                  '%(error)s', {'what': what, 'reference': reference,
                                'error': error})
        raise _not_managed(error, reference) from error


def _not_managed(error: exceptions.NotManageable, reference: object
                 ) -> exception.CinderException:
    if isinstance(error, exceptions.AlreadyManaged):
        return exception.ManageExistingAlreadyManaged(
            volume_ref=error.cinder_id)
    if isinstance(error, exceptions.VolumeTypeMismatch):
        return exception.ManageExistingVolumeTypeMismatch(reason=str(error))
    return exception.ManageExistingInvalidReference(
        existing_ref=reference, reason=str(error))


def busy_volume(error: exceptions.ObjectInUse,
                name: str) -> exception.VolumeIsBusy:
    """What delete_volume raises when the array must keep the volume."""
    return exception.VolumeIsBusy(
        _('Volume %(name)s cannot be deleted yet: %(why)s')
        % {'name': name, 'why': error})


def busy_snapshot(error: exceptions.ObjectInUse,
                  name: str) -> exception.SnapshotIsBusy:
    """What delete_snapshot raises when the array must keep it."""
    return exception.SnapshotIsBusy(
        _('Snapshot %(name)s cannot be deleted yet: %(why)s')
        % {'name': name, 'why': error})
