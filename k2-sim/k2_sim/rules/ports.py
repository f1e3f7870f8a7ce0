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

"""Ports that lose their link: data ports and FC ports (section 7.4)."""

from typing import Any

from k2_sim import errors
from k2_sim.rules.base import Scope
from k2_sim.state import catalogue
from k2_sim.state import hardware_resources
from k2_sim.state import schema
from k2_sim.state.schema import Row

_NET, _FC = catalogue.NET_PORTS.name, catalogue.FC_PORTS.name
_STATES = hardware_resources.HARDWARE_STATES.name
_UP, _DOWN = 'ok', 'down'


def listed(scope: Scope) -> list[dict[str, Any]]:
    """Every port by its reference, with name and whether it has a link."""
    return [{'port': schema.make_ref(resource, row['id']),
             'name': row['name'], 'up': is_up(scope, resource, row)}
            for resource in (_NET, _FC)
            for row in scope.store.rows(resource)]


def is_up(scope: Scope, resource: str, row: Row) -> bool:
    """Whether a port has a link, as its record shows it."""
    if resource == _FC:
        return bool(row['status'] == _UP)
    return bool(scope.store.at(row['link_state'])['status'] == _UP)


def has_link(scope: Scope, ref: str) -> bool:
    """Whether a port has a link; raises ApiError (400) without such a port."""
    return is_up(scope, schema.split_ref(ref)[0], _port(scope, ref))


def _port(scope: Scope, ref: str) -> Row:
    resource, _ = schema.split_ref(ref)
    if resource not in (_NET, _FC) or not scope.store.exists(ref):
        raise errors.refused(f'No such port: {ref}')
    return scope.store.at(ref)


def set_link(scope: Scope, ref: str, up: bool) -> None:
    """Set or remove the link of a port, inside a transaction.

    A data port shows it in link_state, an FC port in status, and both in
    speed_state. Raises ApiError (400) if there is no such port.
    """
    resource, _ = schema.split_ref(ref)
    number = _port(scope, ref)['id']
    state = _state(scope, _UP if up else _DOWN)
    shown: Row = {'speed_state': state}
    if resource == _NET:
        shown['link_state'] = state
    else:
        shown['status'] = _UP if up else _DOWN
    scope.store.update(resource, number, **shown)


def _state(scope: Scope, status: str) -> str:
    """The reference to the record that all ports of one state share."""
    for row in scope.store.rows(_STATES):
        if (row['name'], row['status']) == ('link', status):
            return schema.make_ref(_STATES, row['id'])
    row = scope.store.insert(_STATES, {
        'name': 'link', 'status': status, 'severity': 'ERROR',
        'status_msg': 'The link is down'})
    return schema.make_ref(_STATES, row['id'])
