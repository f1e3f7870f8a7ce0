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

"""Reads settings from a YAML file, and checks each key."""

from collections.abc import Callable
from collections.abc import Mapping
import dataclasses
import pathlib
import reprlib
from typing import Any

import yaml

from k2_sim.access import roles
from k2_sim.config import reading
from k2_sim.config.settings import Account
from k2_sim.config.settings import DATA_PLANES
from k2_sim.config.settings import Flex
from k2_sim.config.settings import MOST_FC_PORTS
from k2_sim.config.settings import MOST_OBJECTS
from k2_sim.config.settings import Peers
from k2_sim.config.settings import Seed
from k2_sim.config.settings import seed_of
from k2_sim.config.settings import Settings
from k2_sim.config.settings import SettingsError
from k2_sim import equipment
from k2_sim import errors
from k2_sim.faults import fault_rules
from k2_sim import profiles

Reader = Callable[[Any], Any]
_BEHAVIORS_ELSEWHERE = ('rate_limit',)
# Short enough for a line, whatever is shown.
_SHOWN = reprlib.Repr()
_SHOWN.maxstring = _SHOWN.maxother = 60


class _KeyError(ValueError):
    """A key is wrong, or its value; key: its path, such as users.1.role."""

    def __init__(self, key: str, problem: str) -> None:
        super().__init__(problem)
        self.key = key


class _TwiceError(yaml.YAMLError):
    """A key is given twice; YAML itself would take the last one."""


class _Loader(yaml.SafeLoader):
    """Loads YAML; raises _TwiceError for a key that a mapping has twice."""

    def compose_mapping_node(self, anchor: Any) -> Any:
        """A mapping as it is written, before << is merged."""
        node = super().compose_mapping_node(anchor)
        lines: dict[tuple[str, str], int] = {}
        for key in (key for key, _ in node.value
                    if isinstance(key, yaml.ScalarNode)):
            name, line = (key.tag, key.value), key.start_mark.line + 1
            if name in lines:
                raise _TwiceError(f'line {line}: key {key.value} is given'
                                  f' twice, first in line {lines[name]}')
            lines[name] = line
        return node

    def construct_object(self, node: Any, deep: bool = False) -> Any:
        """A value; an error in a number or date includes the line."""
        try:
            return super().construct_object(node, deep)
        except ValueError as exc:
            raise yaml.constructor.ConstructorError(
                None, None, str(exc), node.start_mark) from exc


def load(path: pathlib.Path) -> Settings:
    """The settings that a file describes, defaults for the rest.

    Raises SettingsError, naming the key that is wrong and what is allowed,
    or saying why the file cannot be read. Relative paths in the file start
    where the file is.
    """
    try:
        content = yaml.load(  # nosec B506
            path.read_text(encoding='utf-8'), _Loader)
    except OSError as exc:
        raise SettingsError(f'cannot read {path}: {exc.strerror}') from exc
    except _TwiceError as exc:
        raise SettingsError(f'{path}: {_line(exc)}') from exc
    except (UnicodeDecodeError, yaml.YAMLError, RecursionError) as exc:
        raise SettingsError(f'{path} is not valid YAML: {_line(exc)}'
                            ) from exc
    if content is None:
        # Empty, or all of it a comment.
        content = {}
    if not isinstance(content, dict):
        raise SettingsError(f'{path} is not a mapping of keys to values')
    try:
        return _read(content, _Readers(path.parent))
    except _KeyError as exc:
        problem = f'{_line(exc.key)}: {_line(exc)}'
        raise SettingsError(f'{path}: {problem}') from exc
    except ValueError as exc:
        # A number that is too long to be shown.
        raise SettingsError(f'{path}: {_line(exc)}') from exc


def _line(text: object) -> str:
    """A text in one line, whatever the file contains."""
    return ' '.join(str(text).split())


class _Readers:
    """The readers of all keys. folder: where relative paths start."""

    def __init__(self, folder: pathlib.Path) -> None:
        self._folder = folder
        self.top: Mapping[str, Reader] = {
            'state_dir': self._path,
            'listen': reading.endpoint,
            'tls': self._fields(enabled=reading.flag,
                                names=_list_of(reading.tls_name)),
            'profile': reading.one_of(*profiles.NAMES),
            'name': reading.name,
            'size': reading.size,
            'iscsi': _list_of(_interface),
            'wan': _list_of(_interface),
            'fc_ports': _fc_ports,
            'users': self._users,
            'control': self._control,
            'flex': self._flex,
            'latency': reading.seconds,
            'rate_limit': reading.seconds,
            'random_seed': reading.natural,
            'behaviors': _behaviors,
            'switches': _behaviors,
            'faults': _list_of(_fault),
            'seed': _seed,
            'replication': self._peers,
            'data_plane': reading.one_of(*DATA_PLANES),
            'data_plane_required': reading.flag,
        }

    def _path(self, value: Any) -> pathlib.Path:
        return self._folder / reading.path(value)

    @staticmethod
    def _fields(**readers: Reader) -> Reader:
        return lambda value: _mapping(value, readers)

    def _users(self, value: Any) -> tuple[Account, ...]:
        readers = {'login': reading.login,
                   'role': reading.one_of(*roles.NAMES),
                   'password_file': self._path}
        users: tuple[Account, ...] = _list_of(lambda item: Account(**_mapping(
            item, readers, ('login',))))(value)
        if not users:
            raise ValueError('a list of at least one user')
        logins = [user.login for user in users]
        if len(set(logins)) < len(logins):
            raise ValueError('users with different logins')
        return users

    def _control(self, value: Any) -> Account:
        return Account(**_mapping(value, {
            'login': reading.login, 'password_file': self._path},
            ('login',)))

    def _flex(self, value: Any) -> Flex:
        return Flex(**_mapping(value, {
            'sdp': reading.login, 'role': reading.one_of(*roles.NAMES),
            'token_file': self._path}, ('sdp',)))

    def _peers(self, value: Any) -> Peers:
        found = _mapping(value, {
            'peers': _addresses, 'login': reading.login,
            'password_file': self._path, 'ca': self._path})
        return Peers(found.pop('peers', {}), **found)


def _read(content: Any, readers: _Readers) -> Settings:
    found = _mapping(content, readers.top)
    tls = found.pop('tls', {})
    if 'replication' in found:
        found['peers'] = found.pop('replication')
    if 'switches' in found:
        found['behaviors'] = _renamed(found, 'switches', 'behaviors')
    _check_addresses(found)
    return Settings(**found, **{
        name: tls[key] for key, name in (
            ('enabled', 'tls'), ('names', 'tls_names')) if key in tls})


def _renamed(found: dict[str, Any], old: str, new: str) -> Any:
    """Remove and return the value of a deprecated key."""
    if new in found:
        raise _KeyError(old, f'deprecated name of {new}; remove one of them')
    return found.pop(old)


def _check_addresses(found: Mapping[str, Any]) -> None:
    """Refuse an address that is given twice."""
    interfaces: list[equipment.Interface] = []
    for key in ('iscsi', 'wan'):
        interfaces += found.get(key, ())
        address = equipment.repeated(interfaces)
        if address:
            raise _KeyError(key, f'address {address} is given twice;'
                            ' each can only be in one place')


def _mapping(value: Any, readers: Mapping[str, Reader],
             required: tuple[str, ...] = ()) -> dict[str, Any]:
    """A mapping of known keys, each read by its reader."""
    allowed = ', '.join(readers)
    if not isinstance(value, dict):
        raise ValueError(f'a mapping of {allowed}')
    for key in value:
        if key not in readers:
            raise _KeyError(str(key), f'unknown; allowed are {allowed}')
    for key in required:
        if key not in value:
            raise _KeyError(key, 'is missing and must be given')
    return {key: _at(key, readers[key], item)
            for key, item in value.items()}


def _at(key: str, reader: Reader, value: Any) -> Any:
    """A value by its reader, whose refusal then names the key."""
    try:
        return reader(value)
    except _KeyError as exc:
        raise _KeyError(f'{key}.{exc.key}', str(exc)) from exc
    except ValueError as exc:
        raise _KeyError(
            key, f'must be {exc}, not {_SHOWN.repr(value)}') from exc


def _list_of(reader: Reader) -> Reader:
    def read(value: Any) -> tuple[Any, ...]:
        if not isinstance(value, list):
            raise ValueError('a list')
        return tuple(_at(str(number), reader, item)
                     for number, item in enumerate(value))

    return read


def _interface(value: Any) -> equipment.Interface:
    return equipment.Interface(**_mapping(value, {
        'node': reading.whole(1, equipment.NODES),
        'addresses': _list_of(reading.address),
        'lag': reading.flag,
        'mtu': reading.whole(576, 9216),
        'vlans': _vlans}, ('node',)))


def _fc_ports(value: Any) -> int | tuple[str, ...]:
    """The number of ports of each node, or the names of all."""
    if not isinstance(value, list):
        return reading.whole(0, MOST_FC_PORTS)(value)
    names: tuple[str, ...] = _list_of(reading.wwpn)(value)
    if len(set(names)) < len(names):
        raise ValueError('ports with different names')
    return names


def _vlans(value: Any) -> tuple[equipment.Vlan, ...]:
    vlans: tuple[equipment.Vlan, ...] = _list_of(
        lambda item: equipment.Vlan(**_mapping(item, {
            'tag': reading.whole(1, 4094),
            'addresses': _list_of(reading.address)}, ('tag',))))(value)
    if len({vlan.tag for vlan in vlans}) < len(vlans):
        raise ValueError('VLANs with different tags')
    return vlans


def _behaviors(value: Any) -> dict[str, Any]:
    names = [field.name for field in dataclasses.fields(profiles.Behaviors)
             if field.name not in _BEHAVIORS_ELSEWHERE]
    found = _mapping(value, {name: lambda item: item for name in names})
    for name, item in found.items():
        try:
            profiles.Behaviors().change({name: item})
        except errors.ApiError as exc:
            raise _KeyError(name, str(exc)) from exc
    return found


def _fault(value: Any) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise ValueError('a fault rule, as a mapping of its fields')
    try:
        fault_rules.read(value)
    except errors.ApiError as exc:
        raise _KeyError('rule', str(exc)) from exc
    return value


def _seed(value: Any) -> Seed:
    return seed_of(_mapping(value, {
        field.name: reading.whole(0, MOST_OBJECTS)
        for field in dataclasses.fields(Seed)}))


def _addresses(value: Any) -> dict[str, str]:
    if not isinstance(value, dict):
        raise ValueError('a mapping of names to HOST:PORT')
    return {_at('name', reading.name, key): reading.shown(
        *_at(str(key), reading.endpoint, item))
        for key, item in value.items()}
