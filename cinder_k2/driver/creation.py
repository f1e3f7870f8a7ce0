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
"""Making what Cinder asks for, replicated if its type says so."""

from collections.abc import Callable
import typing

from oslo_log import log as logging
from oslo_utils import excutils

from cinder_k2.array import Backing
from cinder_k2.driver import deletion
from cinder_k2.driver import lookup
from cinder_k2.driver import membership
from cinder_k2.driver import replication
from cinder_k2 import exceptions
from cinder_k2.flows import replication as flows
from cinder_k2 import rest

LOG = logging.getLogger(__name__)


class CreationMixin(membership.MembershipMixin, deletion.DeletionMixin):
    """A new volume is there with all that its type asks for, or not at all."""

    def _create(self, volume: typing.Any,
                make: Callable[[int | None], Backing]) -> lookup.ModelUpdate:
        """Make a volume where it belongs; the update of its row.

        :param make: as for ``_into_group``
        """
        link = self._link_for(volume)
        made = self._into_group(volume, make)
        if link is None:
            return {**self._ids(made, volume.name_id), **replication.DISABLED}
        try:
            with self.deadline(fresh=True):
                started = self._start(volume, made, link)
        except Exception:
            with excutils.save_and_reraise_exception():
                self._unmake(volume, made)
        return {**self._ids(started, volume.name_id), **replication.ENABLED}

    def _link_for(self, volume: typing.Any) -> flows.Link | None:
        """Where a new volume is to be replicated to; None for nowhere.

        Those of a consistency group are when the group is.
        """
        spec = self._type_spec(volume)
        if not spec.replicated or (volume.group_id and
                                   membership.is_consistent(volume.group)):
            return None
        return self._link(spec)

    def _unmake(self, volume: typing.Any, made: Backing) -> None:
        try:
            with self.deadline(fresh=True):
                self._delete_backing(made, self._names_of(volume, made))
        except (rest.RestError, exceptions.K2Error) as error:
            LOG.warning('What was made stays on the array until the volume '
                        'is deleted: %s', error)
