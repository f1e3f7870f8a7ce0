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

"""Hosts, host groups and CHAP profiles: sections 5.1, 5.2 and 5.4."""

import re

from k2_sim import errors
from k2_sim.rules import base
from k2_sim.rules.base import Scope
from k2_sim.state import catalogue
from k2_sim.state import schema
from k2_sim.state.schema import Row

_NAME_LIMIT = 32
_PASSWORD = range(12, 17)
_INITIATORS = ('host_iqns', 'host_fc_ports', 'host_nqns')
# Names of the field that attaches a CHAP profile, the older one last.
_ATTACHING = ('map_auth_profiles_names', 'host_auth_profile')


def _host_ref(row: Row) -> str:
    return schema.make_ref('hosts', row['id'])


def _group_ref(row: Row) -> str:
    return schema.make_ref('host_groups', row['id'])


def _mapped(scope: Scope, refs: list[str], resource: str) -> int:
    """The number of mappings to any of these hosts or groups (HST-8).

    resource: volumes, or snapshots for views.
    """
    return sum(schema.split_ref(mapping['volume'])[0] == resource
               for ref in refs
               for mapping in scope.store.find('mappings', 'host', ref))


def _host_and_group(row: Row) -> list[str]:
    group = [row['host_group']] if row['host_group'] else []
    return [_host_ref(row), *group]


def members(scope: Scope, group: str) -> list[Row]:
    """The hosts of a group."""
    return scope.store.find('hosts', 'host_group', group)


class HostRules(base.Rules):
    """HST-1 to HST-8 and CHP-2."""

    computed = {
        'is_part_of_group': lambda scope, row: row['host_group'] is not None,
        'volumes_count': lambda scope, row: _mapped(
            scope, _host_and_group(row), 'volumes'),
        'views_count': lambda scope, row: _mapped(
            scope, _host_and_group(row), 'snapshots'),
    }

    def create(self, scope: Scope, values: Row) -> Row:
        """Create a host, in a group if one is given."""
        self._check_name(scope, values['name'])
        if values['host_group'] is not None:
            _check_types(scope, values['host_group'], values['type'])
        return super().create(scope, {**values, 'auth_profile': None})

    def _check_name(self, scope: Scope, name: str, own_id: int = 0) -> None:
        base.check_name(name, _NAME_LIMIT)
        if not re.fullmatch('[0-9A-Za-z_-]+', name):
            raise errors.refused(f'Host name {name} has a character other'
                                 ' than letters, digits, - and _')
        base.check_unique(scope, self.name, 'name', name, 'Host', own_id)

    def update(self, scope: Scope, row: Row, values: Row) -> Row:
        """Rename a host, change its type, group or CHAP profile."""
        if 'name' in values:
            self._check_name(scope, values['name'], row['id'])
        for name in _ATTACHING:
            if name in values:
                values['auth_profile'] = _profile(scope, values.pop(name))
        new = {**row, **values}
        if new['host_group'] not in (None, row['host_group']):
            _check_unmapped(scope, row)
        if new['host_group'] is not None:
            _check_types(scope, new['host_group'], new['type'], row['id'])
        return super().update(scope, row, values)

    def delete(self, scope: Scope, row: Row) -> None:
        """Remove a host that nothing depends on (HST-2 to HST-4)."""
        _check_unmapped(scope, row)
        if row['host_group'] and not scope.behaviors.delete_host_in_group:
            raise errors.refused(
                f'Host {row["name"]} is a member of a host group')
        initiators = [
            (name, item['id']) for name in _INITIATORS
            for item in scope.store.find(name, 'host', _host_ref(row))]
        if initiators and not scope.behaviors.delete_host_with_initiators:
            raise errors.refused(f'Host {row["name"]} has initiators')
        for name, number in initiators:
            scope.store.remove(name, number)
        super().delete(scope, row)


def _check_unmapped(scope: Scope, row: Row) -> None:
    if scope.store.count('mappings', 'host', _host_ref(row)):
        raise errors.refused(f'Host {row["name"]} has mappings')


def _check_types(scope: Scope, group: str, kind: str,
                 own_id: int = 0) -> None:
    """Refuse members of several types unless the group allows them (HST-7)."""
    if scope.store.at(group)['allow_different_host_types']:
        return
    for host in members(scope, group):
        if host['id'] != own_id and host['type'] != kind:
            raise errors.refused('The hosts of a group must have one type')


def _profile(scope: Scope, name: str | None) -> str | None:
    """The reference to the CHAP profile of that name (CHP-2)."""
    if not name:
        return None
    for row in scope.store.find('host_auth_profiles', 'name', name):
        return schema.make_ref('host_auth_profiles', row['id'])
    raise errors.refused(f'No such profile: {name}')


class HostGroupRules(base.Rules):
    """HGR-1, HGR-2, HST-7."""

    computed = {
        'hosts_count':
            lambda scope, row: len(members(scope, _group_ref(row))),
        'volumes_count': lambda scope, row: _mapped(
            scope, [_group_ref(row)], 'volumes'),
        'views_count': lambda scope, row: _mapped(
            scope, [_group_ref(row)], 'snapshots'),
    }

    def create(self, scope: Scope, values: Row) -> Row:
        """Create an empty group."""
        self._check_name(scope, values['name'])
        return super().create(scope, values)

    def _check_name(self, scope: Scope, name: str, own_id: int = 0) -> None:
        base.check_name(name, _NAME_LIMIT)
        base.check_unique(
            scope, self.name, 'name', name, 'Host group', own_id)

    def update(self, scope: Scope, row: Row, values: Row) -> Row:
        """Rename (HGR-2) or describe a group, or allow different types."""
        if values.get('name', row['name']) != row['name']:
            if not scope.behaviors.host_group_rename:
                raise errors.refused('A host group cannot be renamed')
            self._check_name(scope, values['name'], row['id'])
        row = super().update(scope, row, values)
        for host in members(scope, _group_ref(row)):
            _check_types(scope, _group_ref(row), host['type'])
        return row

    def delete(self, scope: Scope, row: Row) -> None:
        """Remove a group without hosts and mappings (HGR-1)."""
        if members(scope, _group_ref(row)):
            raise errors.refused(f'Host group {row["name"]} is not empty')
        if scope.store.count('mappings', 'host', _group_ref(row)):
            raise errors.refused(f'Host group {row["name"]} has mappings')
        super().delete(scope, row)


def _profile_hosts(scope: Scope, row: Row) -> int:
    ref = schema.make_ref('host_auth_profiles', row['id'])
    return scope.store.count('hosts', 'auth_profile', ref)


class ProfileRules(base.Rules):
    """CHP-1 to CHP-7."""

    computed = {
        'hosts_count': _profile_hosts,
        'host_groups_count': lambda scope, row: 0,
    }

    def create(self, scope: Scope, values: Row) -> Row:
        """Create a profile."""
        base.check_name(values['name'], scope.behaviors.name_limit)
        base.check_unique(
            scope, self.name, 'name', values['name'], 'Profile')
        self._check_login(scope, values['username'], values['password'])
        return super().create(scope, values)

    def _check_login(self, scope: Scope, username: str, password: str,
                     own_id: int = 0) -> None:
        """Check username and password: CHP-4, CHP-5, no control characters."""
        if not username:
            raise errors.refused('A username cannot be empty')
        if not (username + password).isprintable():
            raise errors.refused(
                'Username and password cannot have control characters')
        base.check_unique(
            scope, self.name, 'username', username, 'Username', own_id)
        if len(password) not in _PASSWORD:
            raise errors.refused('Password must have 12 to 16 characters')

    def update(self, scope: Scope, row: Row, values: Row) -> Row:
        """Change username and password (CHP-3)."""
        changes = {name.removeprefix('new_'): value
                   for name, value in values.items()}
        new = {**row, **changes}
        self._check_login(
            scope, new['username'], new['password'], row['id'])
        return super().update(scope, row, changes)

    def delete(self, scope: Scope, row: Row) -> None:
        """Remove a profile that no host has (CHP-4)."""
        if _profile_hosts(scope, row):
            raise errors.refused(f'Profile {row["name"]} is in use')
        super().delete(scope, row)


RULES: tuple[base.Rules, ...] = (
    HostRules(catalogue.HOSTS), HostGroupRules(catalogue.HOST_GROUPS),
    ProfileRules(catalogue.HOST_AUTH_PROFILES))
