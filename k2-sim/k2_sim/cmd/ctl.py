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

"""k2-sim-ctl: controls a simulated array over its control API.

Exit status: 0 on success, 1 if the array refused the command, cannot be
reached or gave different replies to a replay, or if its state is damaged, 2
for invalid arguments.
"""

import argparse
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Sequence
import json
import os
import pathlib
import signal
import sys
from typing import Any
from typing import NamedTuple

import requests

from k2_sim.cmd import ctl_client
from k2_sim.cmd.ctl_client import Client
from k2_sim.cmd.ctl_client import CommandError
from k2_sim.cmd import ctl_data
from k2_sim.cmd import ctl_verify
from k2_sim.cmd import replay
from k2_sim import version

_URL = 'https://127.0.0.1:8443'
_VERIFY = 'verify'


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit status."""
    options = _parser().parse_args(argv)
    try:
        if options.noun == _VERIFY:
            ctl_verify.verify(options.directory)
            return 0
        with ctl_client.open_session(
                options.login, options.password_file, options.ca) as session:
            value = options.action(Client(session, options.url), options)
        return _print_result(value)
    except CommandError as exc:
        print(f'k2-sim-ctl: error: {exc}', file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    except BrokenPipeError:
        # The reader has closed the pipe; do not flush to it on exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + signal.SIGPIPE


def _print_result(value: object) -> int:
    """Print the result of an action; returns the exit status."""
    if isinstance(value, bool):
        return 0 if value else 1
    if value is not None:
        print(json.dumps(value, indent=2), flush=True)
    return 0


Action = Callable[[Client, argparse.Namespace], object]
# An argument name, and its parameters for argparse.
Argument = tuple[str, dict[str, Any]]


class Verb(NamedTuple):
    """One command: its help, its action and its arguments."""

    help_text: str
    action: Action
    arguments: Sequence[Argument] = ()


def _fields(items: Iterable[str]) -> dict[str, Any]:
    """FIELD=VALUE pairs; a dot separates nested fields."""
    found: dict[str, Any] = {}
    for item in items:
        name, equals, text = item.partition('=')
        *outer, last = name.split('.')
        if not equals or not all((*outer, last)):
            raise CommandError(f'not FIELD=VALUE: {item}')
        place = found
        for part in outer:
            place = place.setdefault(part, {})
            if not isinstance(place, dict):
                raise CommandError(f'{part} has fields and a value: {item}')
        place[last] = text if outer[:1] == ['where'] else _value(text)
    return found


def _value(text: str) -> Any:
    """The text parsed as JSON, or else the text itself."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def _call(method: str, name: str, body: object = None) -> Action:
    """An action without arguments."""
    return lambda client, options: client.call(method, name, body)


def _add_fault(client: Client, options: argparse.Namespace) -> object:
    return client.call('POST', 'faults', {
        **_fields(options.fields), 'kind': options.kind})


def _change_fault(client: Client, options: argparse.Namespace) -> object:
    return client.call(
        'PATCH', f'faults/{options.id}', _fields(options.fields))


def _remove_faults(client: Client, options: argparse.Namespace) -> None:
    for number in options.ids:
        client.call('DELETE', f'faults/{number}')


def _set(name: str) -> Action:
    return lambda client, options: client.call(
        'POST', name, _fields(options.fields))


def _set_seed(client: Client, options: argparse.Namespace) -> object:
    return client.call('POST', 'chance', {'seed': options.seed})


def _advance(client: Client, options: argparse.Namespace) -> object:
    return client.call('POST', 'clock', {'advance': options.seconds})


def _turn_port(up: bool) -> Action:
    return lambda client, options: client.call(
        'POST', 'ports', {'port': options.port, 'up': up})


def _start(client: Client, options: argparse.Namespace) -> object:
    body = {'running': True}
    if options.kib is not None:
        body['kib'] = options.kib
    return client.call('POST', 'recorder', body)


def _export(client: Client, options: argparse.Namespace) -> object:
    archive = client.call('GET', 'recorder/har')
    if options.output is None:
        return archive
    try:
        options.output.write_text(json.dumps(archive, indent=1) + '\n')
    except OSError as exc:
        raise CommandError(f'cannot write {options.output}:'
                           f' {exc.strerror}') from exc
    return None


def _replay(client: Client, options: argparse.Namespace) -> bool:
    """Whether all replies were as recorded."""
    try:
        recording = replay.entries(json.loads(options.file.read_text()))
    except (OSError, ValueError, replay.RecordingError) as exc:
        raise CommandError(f'cannot use {options.file}: {exc}') from exc
    run = replay.Replay(client.session, client.url,
                        (*replay.VOLATILE, *options.ignore))
    differing = set()
    try:
        for found in run.run(recording):
            differing.add(found.number)
            print(f'{found.number}: {found.request}: {found.field} was'
                  f' {json.dumps(found.recorded)}, is'
                  f' {json.dumps(found.replayed)}')
    except requests.RequestException as exc:
        raise ctl_client.unreachable(client.url, exc) from exc
    print(f'{run.sent} requests sent, {run.compared} replies compared,'
          f' {len(differing)} differ, {run.skipped} refusals not sent')
    return not differing


def _write(client: Client, options: argparse.Namespace) -> object:
    return client.call('POST', 'contents', {
        'volume': options.volume, 'token': options.token})


def _natural(text: str) -> int:
    if not text.isdecimal() or not text.isascii():
        raise argparse.ArgumentTypeError(
            f'must be a whole number from 0, not {text!r}')
    return int(text)


def _save(client: Client, options: argparse.Namespace) -> None:
    """Save the state to a file that only its owner can read.

    It has the passwords of CHAP profiles and peers.
    """
    saved = client.call('GET', 'save')
    try:
        number = os.open(options.file,
                         os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(number, 'w', encoding='utf-8') as file:
            json.dump(saved, file)
    except OSError as exc:
        raise CommandError(f'cannot write {options.file}:'
                           f' {exc.strerror}') from exc


def _restore(client: Client, options: argparse.Namespace) -> object:
    try:
        saved = json.loads(options.file.read_text(encoding='utf-8'))
    except (OSError, ValueError, RecursionError) as exc:
        raise CommandError(f'cannot use {options.file}: {exc}') from exc
    return client.call('POST', 'restore', saved)


_SOME: Argument = ('fields', {'metavar': 'FIELD=VALUE', 'nargs': '+'})
_ANY: Argument = ('fields', {'metavar': 'FIELD=VALUE', 'nargs': '*'})
_RULE: Argument = ('id', {'type': int, 'metavar': 'ID'})
_PORT: Argument = ('port', {
    'metavar': 'PORT',
    'help': 'such as /system/net_ports/1 or /system/fc_ports/1'})
_FILE: Argument = ('file', {'type': pathlib.Path, 'metavar': 'FILE'})
_OUTPUT: Argument = ('--output', {
    'type': pathlib.Path, 'metavar': 'FILE', 'help': 'write to a file'})
_IGNORE: Argument = ('--ignore', {
    'action': 'append', 'default': [], 'metavar': 'GLOB',
    'help': 'fields not to compare; can be repeated'})
_PLACE: Argument = ('place', {
    'metavar': 'PLACE', 'help': 'such as volumes/31 or volsnaps/7'})
_DATA: Argument = ('file', {
    'metavar': 'FILE', 'help': '- for standard input or output'})
_OFFSET: Argument = ('--offset', {
    'type': _natural, 'default': 0, 'metavar': 'BYTES',
    'help': '(default: 0)'})
_LENGTH: Argument = ('--length', {
    'type': _natural, 'metavar': 'BYTES', 'help': '(default: to the end)'})
_KIB: Argument = ('--kib', {
    'type': int, 'metavar': 'N',
    'help': 'keep the latest N KiB (default: 65536)'})

#: Each noun, its help, and its verbs.
COMMANDS: dict[str, tuple[str, dict[str, Verb]]] = {
    'faults': ('fault rules', {
        'list': Verb('list all rules with their counts',
                     _call('GET', 'faults')),
        'add': Verb('add a rule, such as: add status status=502 commit=after'
                    " 'where.name=cv-*'", _add_fault,
                    (('kind', {'metavar': 'KIND'}), _ANY)),
        'change': Verb('change fields of a rule', _change_fault,
                       (_RULE, _SOME)),
        'remove': Verb('remove rules', _remove_faults, ((
            'ids', {**_RULE[1], 'nargs': '+'}),)),
        'clear': Verb('remove all rules', _call('DELETE', 'faults'))}),
    'latency': ('latency of replies', {
        'show': Verb('show the latency', _call('GET', 'latency')),
        'set': Verb('such as: set ms=5, set kind=lognormal median=2 sigma=1',
                    _set('latency'), (_SOME,))}),
    'chance': ('the seed of all random numbers', {
        'show': Verb('show the seed', _call('GET', 'chance')),
        'set': Verb('set the seed, and restart all counts', _set_seed,
                    (('seed', {'type': int, 'metavar': 'N'}),))}),
    'behaviors': ('behavior where arrays differ', {
        'show': Verb('show all behaviors', _call('GET', 'behaviors')),
        'set': Verb('such as: set full=true state=OFFLINE', _set('behaviors'),
                    (_SOME,))}),
    'clock': ("the array's clock", {
        'advance': Verb('advance the clock', _advance, ((
            'seconds', {'type': float, 'metavar': 'SECONDS'}),))}),
    'ports': ('data and FC ports', {
        'list': Verb('list all ports', _call('GET', 'ports')),
        'down': Verb('take the link down', _turn_port(False), (_PORT,)),
        'up': Verb('bring the link up', _turn_port(True), (_PORT,))}),
    'link': ('links to the peers', {
        'show': Verb('show whether they are cut', _call('GET', 'link')),
        'cut': Verb('cut them', _call('POST', 'link', {'cut': True})),
        'restore': Verb('restore them',
                        _call('POST', 'link', {'cut': False}))}),
    'journal': ('recent requests', {
        'show': Verb('show them', _call('GET', 'journal')),
        'clear': Verb('remove them, and restart the counts',
                      _call('DELETE', 'journal'))}),
    'recorder': ('requests and replies with their bodies', {
        'show': Verb('show its state and its size',
                     _call('GET', 'recorder')),
        'start': Verb('start a new recording', _start, (_KIB,)),
        'stop': Verb('stop recording',
                     _call('POST', 'recorder', {'running': False})),
        'clear': Verb('stop, and discard the recording',
                      _call('DELETE', 'recorder')),
        'export': Verb('export the recording as HTTP Archive (HAR 1.2)',
                       _export, (_OUTPUT,)),
        'replay': Verb('send a recording to the array, and show which'
                       ' replies differ', _replay, (_FILE, _IGNORE))}),
    'data': ('data of volumes, and of their images in snapshots', {
        'read': Verb('copy it to a file', ctl_data.read,
                     (_PLACE, _DATA, _OFFSET, _LENGTH)),
        'write': Verb('write a file, as a host does', ctl_data.write,
                      (_PLACE, _DATA, _OFFSET)),
        'discard': Verb('discard it, as UNMAP does', ctl_data.discard,
                        (_PLACE, _OFFSET, _LENGTH))}),
    'contents': ('the texts at the start of volumes', {
        'show': Verb('show the texts by volume', _call('GET', 'contents')),
        'write': Verb('write a text, as a host does', _write, (
            ('volume', {'type': int, 'metavar': 'ID'}),
            ('token', {'metavar': 'TOKEN'})))}),
    'state': ('the whole state', {
        'show': Verb('show all objects, without secrets',
                     _call('GET', 'state')),
        'leftovers': Verb('list the objects of users',
                          _call('GET', 'leftovers')),
        'seed': Verb('create more objects, such as: seed volumes=100 hosts=10',
                     _set('seed'), (_SOME,)),
        'save': Verb('save it to a file, including secrets', _save,
                     (_FILE,)),
        'restore': Verb('replace it with a saved one', _restore,
                        (_FILE,)),
        'reset': Verb('reset to factory state', _call('POST', 'reset'))}),
}
# Former names of nouns, and of verbs by noun.
_DEPRECATED: dict[str, tuple[str, ...]] = {'behaviors': ('switches',)}
_DEPRECATED_VERBS: dict[tuple[str, str], tuple[str, ...]] = {
    ('link', 'restore'): ('mend',)}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog='k2-sim-ctl', description='Controls a simulated K2 array'
        ' (k2-sim): faults, latency, behaviors, recordings.',
        epilog='The password comes from --password-file or'
        f' {ctl_client.PASSWORD}. Values are parsed as JSON, or else taken'
        ' as text.')
    parser.add_argument('--version', action='version',
                        version=f'%(prog)s {version.version()}')
    parser.add_argument('--url', default=_URL, help=f'(default: {_URL})')
    parser.add_argument(
        '--ca', type=pathlib.Path, metavar='FILE',
        help='ca.crt of the state directory of the array')
    parser.add_argument('--login', default='control', metavar='NAME',
                        help='(default: control)')
    parser.add_argument(
        '--password-file', type=pathlib.Path, metavar='FILE',
        help='file whose first line is the password')
    nouns = parser.add_subparsers(dest='noun', required=True,
                                  metavar='WHAT')
    for noun, (about, verbs) in COMMANDS.items():
        _add_verbs(nouns.add_parser(noun, help=about, description=about,
                                    aliases=_DEPRECATED.get(noun, ())),
                   noun, verbs)
    about = 'check the state of an array that is not running'
    verify = nouns.add_parser(_VERIFY, help=about, description=about)
    verify.add_argument('directory', type=pathlib.Path, metavar='DIR',
                        help='its state directory')
    return parser


def _add_verbs(parser: argparse.ArgumentParser, noun: str,
               verbs: dict[str, Verb]) -> None:
    commands = parser.add_subparsers(dest='verb', required=True,
                                     metavar='COMMAND')
    for name, verb in verbs.items():
        command = commands.add_parser(
            name, help=verb.help_text, description=verb.help_text,
            aliases=_DEPRECATED_VERBS.get((noun, name), ()))
        command.set_defaults(action=verb.action)
        for argument, settings in verb.arguments:
            command.add_argument(argument, **settings)


if __name__ == '__main__':
    sys.exit(main())
