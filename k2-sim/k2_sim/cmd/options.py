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

"""The command line of k2-sim, and the settings that result from it."""

import argparse
from collections.abc import Callable
from collections.abc import Sequence
import contextlib
import dataclasses
import json
import pathlib
from typing import Any
from typing import TypeVar

from k2_sim.config import reading
from k2_sim.config.settings import Account
from k2_sim.config.settings import DATA_PLANES
from k2_sim.config.settings import Peers
from k2_sim.config.settings import Seed
from k2_sim.config.settings import seed_of
from k2_sim.config.settings import Settings
from k2_sim.config import settings_file
from k2_sim import equipment
from k2_sim import errors
from k2_sim import profiles
from k2_sim import version

_T = TypeVar('_T')
_Part = TypeVar('_Part', Account, Peers)


def parse(argv: Sequence[str] | None = None
          ) -> tuple[Settings, pathlib.Path]:
    """The settings, and the state directory.

    Options override the file of --config. Raises SettingsError for an
    invalid file, and SystemExit for invalid options.
    """
    parser = _parser()
    options = vars(parser.parse_args(argv))
    settings = Settings()
    if 'config' in options:
        settings = settings_file.load(options.pop('config'))
    try:
        settings = _overridden(settings, options)
    except ValueError as exc:
        parser.error(str(exc))
    address = equipment.repeated((*settings.equipment.iscsi, *settings.wan))
    if address:
        parser.error(f'address {address} is given twice; of all portals'
                     ' (--portal, iscsi) and addresses for replication (wan)'
                     ' each can only be in one place')
    if settings.state_dir is None:
        parser.error('give a state directory with --state-dir, or as'
                     ' state_dir in the file of --config')
    return settings, settings.state_dir


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog='k2-sim', argument_default=argparse.SUPPRESS,
        description='A simulated Kaminario K2 array that'
        ' answers the REST API, version 2, at /api/v2, and a control API'
        ' for faults and latency at /sim/v1.',
        epilog='The first start generates a certificate authority, a'
        ' certificate and missing passwords in the state directory; new'
        ' passwords are printed once. Give clients its ca.crt. The state'
        ' survives restarts. SIGTERM or Ctrl-C stops'
        ' the service.')
    parser.add_argument('--version', action='version',
                        version=f'%(prog)s {version.version()}')
    parser.add_argument(
        '--config', type=_argument(reading.path), metavar='FILE',
        help='YAML file that describes the array; options override it')
    parser.add_argument(
        '--listen', type=_argument(reading.endpoint),
        metavar='HOST:PORT', help='address to listen on, [HOST]:PORT for IPv6;'
        ' port 0 selects a free one (default: 127.0.0.1:8443)')
    parser.add_argument(
        '--state-dir', type=_argument(reading.path), metavar='DIR',
        help='directory of state and certificates, created if missing')
    parser.add_argument(
        '--profile', choices=profiles.NAMES,
        help='k2: no thin clones; sdp: thin clones and larger pages;'
        ' known: refuses requests that are not known to work on every'
        ' array (default: sdp); a state keeps its profile')
    parser.add_argument(
        '--no-tls', dest='tls', action='store_false', help='plain HTTP')
    parser.add_argument(
        '--tls-name', dest='tls_names', action='append',
        type=_argument(reading.tls_name), metavar='NAME',
        help='further host name or address in the certificate; can be'
        ' repeated')
    _add_accounts(parser)
    _add_data_plane(parser)
    _add_behaviors(parser)
    _add_replication(parser)
    return parser


def _argument(read: Callable[[object], _T]) -> Callable[[str], _T]:
    """A function of config.reading as a type for argparse."""
    def convert(text: str) -> _T:
        try:
            return read(text)
        except ValueError as exc:
            raise argparse.ArgumentTypeError(
                f'must be {exc}, not {text!r}') from None

    return convert


def _add_accounts(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group(
        'accounts', 'A password is the first line of a file. Without a file'
        ' it is generated, printed once, and kept in LOGIN.password in the'
        ' state directory.')
    group.add_argument(
        '--login', type=_argument(reading.login), metavar='NAME',
        help='account of the array (default: admin)')
    group.add_argument(
        '--password-file', type=_argument(reading.path), metavar='FILE',
        help='file with the password')
    group.add_argument(
        '--control-login', type=_argument(reading.login), metavar='NAME',
        help='account of the control API (default: control)')
    group.add_argument(
        '--control-password-file', type=_argument(reading.path),
        metavar='FILE',
        help='file with the password')


def _add_data_plane(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        '--data-plane', choices=DATA_PLANES,
        help='serve volumes and views to iSCSI initiators; tgt: with tgtd,'
        ' lio: with the target of the kernel; if it cannot run, log that'
        ' and serve only the API (default: none)')
    parser.add_argument(
        '--require-data-plane', dest='data_plane_required',
        action='store_true', help='do not start if it cannot run')


def _add_behaviors(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        '--latency', type=_argument(reading.seconds), metavar='SECONDS',
        help='latency of every reply (default: 0)')
    parser.add_argument(
        '--rate-limit', type=_argument(reading.seconds), metavar='N',
        help='answer 429 beyond this number of requests per second'
        ' (default: 0, no limit)')
    parser.add_argument(
        '--behavior', '--switch', action='append', type=_argument(_behavior),
        metavar='NAME=VALUE', help='a behavior that differs from the'
        ' profile, such as clones_movable=true; can be repeated; --switch is'
        ' deprecated')
    parser.add_argument(
        '--random-seed', type=_argument(reading.natural), metavar='N',
        help='seed of all random numbers, so that a run can be repeated'
        ' (default: a new one)')
    parser.add_argument(
        '--restore', type=_argument(reading.path), metavar='FILE',
        help='start with a saved state (from GET /sim/v1/save) instead of'
        ' the current one')
    new = parser.add_argument_group(
        'a new state', 'These apply to the first start only.')
    new.add_argument('--name', type=_argument(reading.name),
                     help='name of the array (default: sim-k2-a)')
    new.add_argument(
        '--size', type=_argument(reading.size), metavar='SIZE',
        help='capacity, such as 512GiB (default: 100TiB)')
    new.add_argument(
        '--portal', dest='iscsi', action='append',
        type=_argument(reading.plain_address), metavar='ADDRESS',
        help='address of an iSCSI portal; can be'
        f' repeated (default: {", ".join(equipment.PORTALS)}; with a data'
        f' plane {", ".join(equipment.LOCAL_PORTALS)})')
    new.add_argument(
        '--fc-port', dest='fc_ports', action='append',
        type=_argument(reading.wwpn), metavar='WWPN',
        help='name of a Fibre Channel port of the array; can be repeated'
        ' (default: two generated for each node)')
    new.add_argument(
        '--seed', action='append', type=_argument(reading.counted),
        metavar='KIND=NUMBER', help='create this number of volumes,'
        ' hosts or snapshots; can be repeated')


def _add_replication(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group(
        'replication', 'Two services that replicate name each other as'
        ' peers, and have different names (--name).')
    group.add_argument(
        '--peer', dest='peer_addresses', action='append',
        type=_argument(_peer),
        metavar='NAME=HOST:PORT', help='an array to replicate with, which'
        ' may be this one; can be repeated')
    group.add_argument(
        '--peer-login', type=_argument(reading.login), metavar='NAME',
        help='account on the peers (default: admin)')
    group.add_argument(
        '--peer-password-file', type=_argument(reading.path),
        metavar='FILE',
        help='file whose first line is the password on the peers (default:'
        ' the password of the same login here)')
    group.add_argument(
        '--peer-ca', type=_argument(reading.path), metavar='FILE',
        help='certificates to verify the peers with, such as their ca.crt;'
        ' it can be added after the start. An array without TLS'
        ' contacts its peers without TLS, too')


def _behavior(text: object) -> tuple[str, Any]:
    """NAME=VALUE; the value is JSON, or else taken as text."""
    name, _, value = str(text).partition('=')
    found: Any = value
    with contextlib.suppress(ValueError):
        found = json.loads(value)
    try:
        profiles.Behaviors().change({name: found})
    except errors.ApiError as exc:
        raise ValueError(f'NAME=VALUE of a behavior ({exc})') from exc
    if name == 'rate_limit':
        raise ValueError('another behavior; there is --rate-limit')
    return name, found


def _peer(text: object) -> tuple[str, str]:
    name, _, address = str(text).partition('=')
    return reading.name(name), reading.shown(*reading.endpoint(address))


def _overridden(settings: Settings, options: dict[str, Any]) -> Settings:
    """The settings, overridden by the command line.

    Raises ValueError for conflicting values.
    """
    for name, convert in (('iscsi', equipment.alternate), ('tls_names', tuple),
                          ('fc_ports', _distinct_ports)):
        if name in options:
            options[name] = convert(options[name])
    for name, option in (('peer_addresses', '--peer'), ('seed', '--seed'),
                         ('behavior', '--behavior')):
        if name in options:
            options[name] = _by_name(option, options[name])
    first, *others = settings.users
    return dataclasses.replace(
        settings,
        users=(_part(first, options, ''), *others),
        control=_part(settings.control, options, 'control_'),
        peers=_part(settings.peers, options, 'peer_'),
        seed=_seed(settings.seed, options.pop('seed', {})),
        behaviors={**settings.behaviors, **options.pop('behavior', {})},
        **options)


def _distinct_ports(names: Sequence[str]) -> tuple[str, ...]:
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f'argument --fc-port: {name} is given twice')
    return tuple(names)


def _by_name(option: str, pairs: Sequence[tuple[str, _T]]) -> dict[str, _T]:
    """The values of an option that is given for several names."""
    found = dict(pairs)
    for name in found:
        if sum(name == other for other, _ in pairs) > 1:
            raise ValueError(f'argument {option}: {name} is given twice')
    return found


def _seed(seed: Seed, counts: dict[str, int]) -> Seed:
    try:
        return seed_of({**dataclasses.asdict(seed), **counts})
    except ValueError as exc:
        raise ValueError(f'argument --seed: must be {exc}') from exc


def _part(part: _Part, options: dict[str, Any], prefix: str) -> _Part:
    """A part of the settings, with its options removed from options."""
    found = {field.name: options.pop(prefix + field.name)
             for field in dataclasses.fields(part)
             if prefix + field.name in options}
    return dataclasses.replace(part, **found)
