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
"""Simulated arrays for as long as a command or a test needs them."""

from collections.abc import Iterator
from collections.abc import Sequence
import contextlib
import dataclasses
import json
import pathlib
import tempfile

import k2_sim
from k2_sim.cmd import options
from k2_sim.cmd import service
from k2_sim.config.passwords import Passwords
from k2_sim.config.settings import Account
from k2_sim.config.settings import Peers
from k2_sim.config.settings import Settings
from k2_sim.config.settings import SettingsError
from k2_sim import equipment
from k2_sim.recording import har

_LISTEN = ('127.0.0.1', 0)
#: Suffixes of the variables and files of the first array, and of the second.
SUFFIXES = ('', '_2')


@dataclasses.dataclass(frozen=True)
class Running:
    """One array that answers requests.

    address is HOST:PORT, ca a file with the certificates that clients check
    the array with, password that of login, control_password that of
    k2-sim-ctl. array is the array itself, for tests in the same process.
    """

    name: str
    url: str
    address: str
    ca: pathlib.Path
    login: str
    password: str
    password_file: pathlib.Path
    control_password: str
    array: k2_sim.Array

    def environment(self, suffix: str = '') -> dict[str, str]:
        """A command's variables, such as K2_URL or, with "_2", K2_URL_2."""
        values = {
            'K2_NAME': self.name, 'K2_URL': self.url,
            'K2_ADDRESS': self.address, 'K2_CA': str(self.ca),
            'K2_LOGIN': self.login, 'K2_PASSWORD': self.password,
            'K2_PASSWORD_FILE': str(self.password_file),
            'K2_SIM_PASSWORD': self.control_password}
        return {f'{name}{suffix}': text for name, text in values.items()}


@contextlib.contextmanager
def arrays(arguments: Sequence[str], *, pair: bool = False,
           directory: pathlib.Path | None = None
           ) -> Iterator[list[Running]]:
    """One array, or two that replicate to each other, on free ports.

    arguments: options of k2-sim; a second array has them, too, with a name,
    addresses and Fibre Channel ports of its own. directory: where state,
    recording (run.har) and the objects left behind (leftovers.json) are kept;
    nothing is kept by default. Raises the errors in serve.ERRORS.
    """
    with contextlib.ExitStack() as stack:
        place = directory.absolute() if directory else pathlib.Path(
            stack.enter_context(tempfile.TemporaryDirectory(
                prefix='k2-sim-')))
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        first = _with_passwords(_settings(arguments), place)
        made = [service.prepare(settings, place / f'array{number}', stack)
                for number, settings in enumerate(
                    [first, _second(first)] if pair else [first], 1)]
        ca = place / 'ca.crt'
        ca.write_text(''.join(
            one.certificate.authority_path.read_text()
            for one in made if one.certificate))
        if pair:
            _connect(made, ca)
        for one in made:
            one.array.control.recorder.start()
            stack.enter_context(one.server)
        yield [_running(one, ca) for one in made]
        if directory:
            for one, suffix in zip(made, SUFFIXES):
                _keep(one.array, place, suffix)


def _settings(arguments: Sequence[str]) -> Settings:
    """The settings of the options.

    Raises SettingsError for --listen and --state-dir, which are chosen here.
    """
    settings, _ = options.parse(
        ['--listen', '127.0.0.1:0', '--state-dir', '.', *arguments])
    if settings.listen != _LISTEN or settings.state_dir != pathlib.Path('.'):
        raise SettingsError('--listen and --state-dir are not for k2-sim run:'
                            ' arrays take a free port and a directory of'
                            ' their own, see --directory')
    return settings


def _with_passwords(settings: Settings, place: pathlib.Path) -> Settings:
    """The settings with a password file for each account, made if missing."""
    # Generated here, they are not printed by service.prepare().
    Passwords(settings, place)

    def filed(account: Account) -> Account:
        return dataclasses.replace(
            account, password_file=account.password_file
            or place / f'{account.login}.password')

    return dataclasses.replace(
        settings, users=tuple(map(filed, settings.users)),
        control=filed(settings.control))


def _second(first: Settings) -> Settings:
    """The settings of the second array, with a name and addresses of its own.

    The names of its Fibre Channel ports are derived from its name.
    """
    made = first.equipment
    iscsi, wan = equipment.following(made.iscsi, made.wan)
    return dataclasses.replace(
        first, name=f'{first.name.removesuffix("-a")}-b', restore=None,
        iscsi=iscsi, wan=wan, fc_ports=len(made.fc_ports_of(1)))


def _connect(pair: Sequence[service.Service], ca: pathlib.Path) -> None:
    for one, other in zip(pair, reversed(pair)):
        one.link(Peers({other.array.name: other.address},
                       one.settings.users[0].login, ca=ca))


def _running(made: service.Service, ca: pathlib.Path) -> Running:
    user = made.passwords.users()[0]
    file = made.settings.users[0].password_file
    # _with_passwords() has set it.
    assert file is not None  # nosec B101
    return Running(
        made.array.name, made.server.url, made.address, ca, user.login,
        user.password, file, made.passwords.controller().password,
        made.array)


def _keep(array: k2_sim.Array, place: pathlib.Path, suffix: str) -> None:
    """Write the recording, and the objects left behind."""
    suffix = suffix.replace('_', '-')
    for name, value in (
            (f'run{suffix}.har', har.archive(
                array.control.recorder.records())),
            (f'leftovers{suffix}.json', array.control.leftovers())):
        (place / name).write_text(json.dumps(value, indent=1) + '\n')
