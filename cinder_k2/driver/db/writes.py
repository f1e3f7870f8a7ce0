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

"""Every write to Cinder's rows that is not a model update.

The design page has the reason for each. All are conditional on the values that
were read, so that no concurrent change is lost, unless stated otherwise.
"""

from collections.abc import Mapping
import typing

from cinder_k2.driver.db import statuses

Row = typing.Any
Values = Mapping[str, typing.Any]


def current(row: Row) -> Row:
    """The current state of a row in the database."""
    return type(row).get_by_id(row._context, row.id)


def renew(row: Row) -> Row:
    """Update a row object with the ids that the database has now.

    The rest of it stays as it is, and nothing is written. Cinder uses a new
    volume before it saves its ids: such a row keeps the ones it has.

    :returns: the current row in the database
    """
    now = current(row)
    if now.provider_id not in (None, row.provider_id):
        row.provider_id = now.provider_id
        row.obj_reset_changes(['provider_id'])
    return now


def set_if_unmoved(row: Row, values: Values) -> bool:
    """Change a row that still has the ids that were read.

    :returns: whether it had them
    """
    return bool(row.conditional_update(
        dict(values), {'provider_id': row.provider_id}))


def set_if_at_rest(volume: Row, values: Values, status: Values) -> bool:
    """Change a volume on which no operation started since it was read.

    :param status: its replication_status, as a condition
    :returns: whether it was changed
    """
    return bool(volume.conditional_update(dict(values), {
        **status, 'status': volume.status,
        'provider_id': volume.provider_id}))


def set_replication(row: Row, values: Values) -> None:
    """Save the replication status of a volume or group.

    Unconditionally: the arrays decide.
    """
    row.conditional_update(dict(values), {})


def replace_replication(group: Row, values: Values, before: Values) -> None:
    """Change the replication status of a group, if it is unchanged.

    :param before: the status to replace, as a condition
    """
    group.conditional_update(dict(values), dict(before))


def repair_group(group: Row, values: Values, before: Values) -> None:
    """As ``replace_replication``, if all volumes are replicated by now."""
    group.refresh()
    if all(row.replication_status == statuses.Replication.ENABLED
           for row in group.volumes):
        replace_replication(group, values, before)


def remove_snapshot(snapshot: Row) -> None:
    """Remove the row of a snapshot that the driver requested from Cinder."""
    snapshot.destroy()
