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

"""Rows of the back end itself, and those of all its volumes."""

from collections.abc import Mapping
import typing

from cinder import context
from cinder import objects
from cinder.objects import fields

_BINARY = 'cinder-volume'


class BackendRows:
    """Cinder's rows of one back end. Read-only.

    :param driver: Cinder's, which knows its host and cluster
    """

    def __init__(self, driver: typing.Any) -> None:
        self._driver = driver

    def is_failing_over(self) -> bool:
        """Whether the back end is failing over or back.

        Both of these suspend sessions, too.
        """
        driver, admin = self._driver, context.get_admin_context()
        row = (objects.Cluster.get_by_id(admin, None, name=driver.cluster_name,
                                         binary=_BINARY)
               if driver.cluster_name else
               objects.Service.get_by_args(admin, driver.host, _BINARY))
        return bool(row.replication_status
                    == fields.ReplicationStatus.FAILING_OVER)

    def is_moving(self, volume: typing.Any) -> bool:
        """Whether a failover or failback of a volume is running."""
        group = volume.group_id and volume.group
        return self.is_failing_over() or bool(
            group and group.replication_status
            == fields.ReplicationStatus.FAILING_OVER)

    def volumes(self, filters: Mapping[str, typing.Any]) -> list[typing.Any]:
        """The volume rows of this back end that match the filters."""
        driver = self._driver
        mine = ({'cluster_name': driver.cluster_name} if driver.cluster_name
                else {'host': driver.host})
        return list(objects.VolumeList.get_all(
            context.get_admin_context(), filters={**mine, **filters}))
