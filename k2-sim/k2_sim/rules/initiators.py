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

"""Initiators of hosts: section 5.3."""

from collections.abc import Callable
import re

from k2_sim import errors
from k2_sim.rules import base
from k2_sim.rules.base import Scope
from k2_sim.state import catalogue
from k2_sim.state import hardware_resources
from k2_sim.state import schema
from k2_sim.state.schema import Row

_LOGINS = hardware_resources.FC_LOGINS.name
_PWWN = re.compile('(?:[0-9a-f]{16}|[0-9a-f]{2}(?::[0-9a-f]{2}){7})')


def read_iqn(text: str) -> str:
    """An iSCSI name, stored as given (INI-5)."""
    if not re.fullmatch(r'(?i)(iqn|eui|naa)\.\S+', text) \
            or not text.isprintable():
        raise errors.refused(f'Not an iSCSI name: {text}')
    return text


def read_pwwn(text: str) -> str:
    """A port name as lower-case pairs with colons (INI-4)."""
    lower = text.lower()
    if not _PWWN.fullmatch(lower):
        raise errors.refused(f'Not a port name: {text}')
    digits = lower.replace(':', '')
    return ':'.join(digits[at:at + 2] for at in range(0, 16, 2))


def read_nqn(text: str) -> str:
    """An NVMe name, stored as given."""
    if not re.fullmatch(r'(?i)nqn\.\S+', text):
        raise errors.refused(f'Not an NVMe name: {text}')
    return text


class InitiatorRules(base.Rules):
    """INI-1 to INI-6.

    identity, a field that no reply shows, is the normalized form for
    comparisons.
    """

    def __init__(self, resource: schema.Resource, field: str,
                 read: Callable[[str], str]) -> None:
        super().__init__(resource)
        self._field = field
        self._read = read

    def create(self, scope: Scope, values: Row) -> Row:
        """Create a record, or adopt the one that has no host (INI-2)."""
        values = self._with_identity(values)
        for row in scope.store.find(
                self.name, 'identity', values['identity']):
            if row['host'] is not None or values['host'] is None:
                raise self._taken(scope, row)
            return super().update(scope, row, {'host': values['host']})
        return super().create(scope, values)

    def _with_identity(self, values: Row) -> Row:
        text = self._read(values[self._field])
        return {**values, self._field: text, 'identity': text.lower()}

    def _taken(self, scope: Scope, row: Row) -> errors.ApiError:
        if row['host'] is None:
            return errors.refused(f'{row[self._field]} already exists')
        owner = scope.store.at(row['host'])
        return errors.refused(
            f'{row[self._field]} belongs to host {owner["name"]}')

    def update(self, scope: Scope, row: Row, values: Row) -> Row:
        """Assign a record to a host, free it, or change its identifier."""
        if self._field in values:
            values = self._with_identity(values)
            for other in scope.store.find(
                    self.name, 'identity', values['identity']):
                if other['id'] != row['id']:
                    raise self._taken(scope, other)
        host = values.get('host')
        if None not in (host, row['host']) and host != row['host']:
            raise self._taken(scope, row)
        return super().update(scope, row, values)


class FcPortRules(InitiatorRules):
    """Ports of hosts; their logins are removed with them."""

    def delete(self, scope: Scope, row: Row) -> None:
        """Remove a port and its logins."""
        for login in scope.store.find(
                _LOGINS, 'host_fc_port', self.ref(row)):
            scope.store.remove(_LOGINS, login['id'])
        super().delete(scope, row)


def log_in_to_all_ports(scope: Scope, port: str) -> None:
    """Log a port of a host in to all ports of the array (section 7.4)."""
    for target in scope.store.rows(catalogue.FC_PORTS.name):
        scope.store.insert(_LOGINS, {
            'host_fc_port': port, 'server': target['server'],
            'server_fc_port': schema.make_ref(
                catalogue.FC_PORTS.name, target['id'])})


RULES: tuple[base.Rules, ...] = (
    InitiatorRules(catalogue.HOST_IQNS, 'iqn', read_iqn),
    FcPortRules(catalogue.HOST_FC_PORTS, 'pwwn', read_pwwn),
    InitiatorRules(hardware_resources.HOST_NQNS, 'nqn', read_nqn))
