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

"""The array's errors, translated to Cinder's at the driver's boundary."""

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
    """Convert all exceptions in the context to Cinder's.

    :raises InvalidConnectorException: the connector lacks initiators
    :raises InvalidVolumeType: an extra spec has an unknown value
    :raises InvalidGroup: a consistency group cannot be as requested
    :raises VolumeBackendAPIException: all other errors of the array or the
        layers below; the text is one line for the operator
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
    """Run one of Cinder's operations on an array in the context.

    It has k2_retry_timeout for all its calls together, and raises Cinder's
    exceptions only, see ``translated``.
    """
    with translated(), array.deadline():
        yield


def reported_at_start(method: Callable[P, R]) -> Callable[P, R]:
    """Report the failure of a startup step in one line of the log.

    The line precedes the traceback that Cinder logs, which omits the internals
    of the HTTP library.

    :raises InvalidInput: an option is missing or wrong
    :raises VolumeBackendAPIException: the array is not usable
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
    """Convert the reasons against managing an object to Cinder's exceptions.

    :param what: the row that is to represent the object, for the log
    :param reference: the operator's reference
    :raises ManageExistingAlreadyManaged: Cinder has it already
    :raises ManageExistingVolumeTypeMismatch: it does not match its volume type
    :raises ManageExistingInvalidReference: everything else; the text has every
        reason
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
    """The exception of delete_volume when the array must keep the volume."""
    return exception.VolumeIsBusy(
        _('Volume %(name)s cannot be deleted yet: %(why)s')
        % {'name': name, 'why': error})


def busy_snapshot(error: exceptions.ObjectInUse,
                  name: str) -> exception.SnapshotIsBusy:
    """The exception of delete_snapshot when the array must keep it."""
    return exception.SnapshotIsBusy(
        _('Snapshot %(name)s cannot be deleted yet: %(why)s')
        % {'name': name, 'why': error})
