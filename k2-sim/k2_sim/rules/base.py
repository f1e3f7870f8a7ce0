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

"""The common base of the rules of resources."""

from collections.abc import Callable
from collections.abc import Mapping
from typing import Any

import msgspec

from k2_sim import clock
from k2_sim import errors
from k2_sim import profiles
from k2_sim.protocol import request_context
from k2_sim.state import catalogue
from k2_sim.state import schema
from k2_sim.state.schema import Row
from k2_sim.state import store as store_module


class Scope(msgspec.Struct, frozen=True):
    """The state that the rules of one request read and change.

    deleted: removed records that are still listed for a while (QRY-10,
    VOL-17), as (resource, reply). context calls the peers. login is '' for
    actions of the array itself.
    """

    store: store_module.Store
    behaviors: profiles.Behaviors
    clock: clock.Clock
    role: str = 'admin'
    login: str = ''
    deleted: list[tuple[str, Row]] = []
    context: request_context.RequestContext = msgspec.field(
        default_factory=request_context.RequestContext)

    @property
    def now(self) -> float:
        """Seconds since the epoch."""
        self.store.note()
        return self.clock.time()


Computed = Mapping[str, Callable[[Scope, Row], Any]]


class Rules:
    """The rules of one resource; the base class only stores values.

    computed: fields that are not stored. As renderings are cached, they may
    depend only on the row, on methods of Store, on the behaviors, or on
    Scope.now.
    """

    resource: schema.Resource
    computed: Computed = {}

    def __init__(self, resource: schema.Resource) -> None:
        self.resource = resource
        self._shown = [
            (field.name, self.computed.get(field.name), field.kind == 'ref',
             field.feature)
            for field in resource.fields if not field.write_only]

    @property
    def name(self) -> str:
        """The resource's name."""
        return self.resource.name

    def ref(self, row: Row) -> str:
        """The reference to a row of this resource."""
        return schema.make_ref(self.name, row['id'])

    def offers(self, scope: Scope, method: str) -> bool:
        """Whether the resource has this method now (405 otherwise)."""
        return method in self.resource.methods

    def create(self, scope: Scope, values: Row) -> Row:
        """Carry out a POST; returns the new row."""
        return scope.store.insert(self.name, values)

    def update(self, scope: Scope, row: Row, values: Row) -> Row:
        """Carry out a PATCH; returns the changed row."""
        return scope.store.update(self.name, row['id'], **values)

    def delete(self, scope: Scope, row: Row) -> None:
        """Carry out a DELETE."""
        if scope.behaviors.linger_all:
            scope.deleted.append((self.name, self.render(scope, row)))
        scope.store.remove(self.name, row['id'])

    def value(self, scope: Scope, row: Row, field: str) -> Any:
        """The value of a field, references as text."""
        compute = self.computed.get(field)
        return compute(scope, row) if compute else row.get(field)

    def render(self, scope: Scope, row: Row,
               wanted: frozenset[str] = frozenset()) -> Row:
        """The row as a reply shows it; wanted empty: every field."""
        reply: Row = {}
        for name, compute, is_ref, feature in self._shown:
            if wanted and name not in wanted:
                continue
            if feature and not scope.behaviors.offers(feature):
                continue
            value = compute(scope, row) if compute else row.get(name)
            if is_ref and value is not None:
                value = {'ref': value}
            reply[name] = value
        return reply


def check_name(value: str, longest: int) -> None:
    """Refuse an empty name, and one beyond the limit (section 12)."""
    if not value:
        raise errors.refused('A name cannot be empty')
    if len(value) > longest:
        raise errors.refused(f'Name {value} is longer than {longest}')


def check_unique(scope: Scope, resource: str, field: str, value: object,
                 what: str, own_id: int = 0) -> None:
    """Refuse a value that another row already has (ERR-8)."""
    for row in scope.store.find(resource, field, value):
        if row['id'] != own_id:
            raise errors.refused(f'{what} {value} already exists')


def converted_name(scope: Scope, row: Row) -> str:
    """The name in a form fit for an IQN."""
    return str(row['name']).replace('_', '.')


def next_scsi(scope: Scope) -> Row:
    """scsi_suffix from the shared counter, and scsi_sn (VOL-15, VOL-16)."""
    return scsi(scope, scope.store.next_number('scsi_suffix'))


def scsi(scope: Scope, suffix: int) -> Row:
    """A scsi_suffix, and the scsi_sn derived from it (VOL-15)."""
    system = scope.store.at('/system/state/1')
    return {'scsi_suffix': suffix,
            'scsi_sn': f'{system["system_id"]}{suffix:04x}'}


def is_mapped(scope: Scope, ref: str) -> bool:
    """Whether a volume or view is mapped to anything."""
    return scope.store.count('mappings', 'volume', ref) > 0


HOSTS = catalogue.HOSTS.name
HOST_GROUPS = catalogue.HOST_GROUPS.name
