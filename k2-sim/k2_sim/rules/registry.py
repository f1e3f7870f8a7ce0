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

"""The rules of every resource, by its name."""

from k2_sim import errors
from k2_sim.rules.base import Rules
from k2_sim.rules.base import Scope
from k2_sim.rules import groups
from k2_sim.rules import hosts
from k2_sim.rules import initiators
from k2_sim.rules import mappings
from k2_sim.rules import network
from k2_sim.rules import peers
from k2_sim.rules import policies
from k2_sim.rules import replicas
from k2_sim.rules import schedulers
from k2_sim.rules import sessions
from k2_sim.rules import snapshots
from k2_sim.rules import statistics
from k2_sim.rules import system
from k2_sim.rules import volumes
from k2_sim.state import catalogue
from k2_sim.state import replication
from k2_sim.state import schema
from k2_sim.state.schema import Row

_WITH_RULES = (*volumes.RULES, *groups.RULES, *snapshots.RULES,
               *mappings.RULES, *hosts.RULES, *initiators.RULES,
               *policies.RULES, *system.RULES, *network.RULES,
               *peers.RULES, *sessions.RULES, *schedulers.RULES,
               *statistics.RULES)
RULES: dict[str, Rules] = {
    **{name: Rules(resource)
       for name, resource in catalogue.RESOURCES.items()},
    **{rules.name: rules for rules in _WITH_RULES}}
_USER_RESOURCES = (
    'volumes', 'volume_groups', 'snapshots', 'mappings', 'hosts',
    'host_groups', 'host_iqns', 'host_fc_ports', 'host_nqns',
    'host_auth_profiles', schedulers.SCHEDULERS, schedulers.SCHEDULES,
    'retention_policies', 'vg_capacity_policies', replicas.PEERS,
    replication.PEER_WAN_PORTS.name, replicas.SESSIONS, replicas.PEER_GROUPS,
    replicas.PAIRS, network.NET_IPS, network.CHANNELS, network.VLANS)


def stored(resource: str) -> list[schema.Field]:
    """The fields that are stored in rows as replies show them."""
    rules = RULES[resource]
    return [field for field in rules.resource.fields
            if field.name not in rules.computed]


def shown(scope: Scope, resource: str, row: Row) -> Row:
    """A row as a reply shows it, with all its fields."""
    return RULES[resource].render(scope, row)


def leftovers(scope: Scope) -> dict[str, list[Row]]:
    """All objects of users as in replies, by resource; views under "views"."""
    found: dict[str, list[Row]] = {}
    for name in _USER_RESOURCES:
        for row in scope.store.rows(name):
            if not _is_factory(name, row):
                kind = 'views' if row.get('is_exposable') else name
                found.setdefault(kind, []).append(
                    RULES[name].render(scope, row))
    return found


def _is_factory(name: str, row: Row) -> bool:
    return (row.get('is_factory', False)
            or name == 'volumes' and row['id'] == volumes.CTRL_ID
            or name == 'retention_policies'
            and row['name'] in policies.BUILT_IN
            or name == 'vg_capacity_policies' and row['is_default'])


def log_in(scope: Scope, resource: str, identifier: str) -> Row:
    """Log an initiator in to the array; returns its new record (INI-1).

    resource: host_iqns or host_fc_ports. Raises ApiError (404) for any other
    resource, and ApiError (400) for an invalid or existing identifier.
    """
    if resource not in ('host_iqns', 'host_fc_ports'):
        raise errors.no_resource()
    rules = RULES[resource]
    field = rules.resource.fields[1].name
    row = rules.create(scope, {field: identifier, 'host': None})
    if resource == 'host_fc_ports':
        initiators.log_in_to_all_ports(scope, rules.ref(row))
    return rules.render(scope, row)
