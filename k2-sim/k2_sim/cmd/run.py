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
"""k2-sim run: a simulated array for as long as a command runs.

Exit status: that of the command, 128 and its number if a signal ended it;
1 if the array cannot start, 2 for invalid arguments, 127 for a command that
does not exist and 126 for one that cannot be run.
"""

import argparse
from collections.abc import Sequence
import os
import pathlib
import signal
import subprocess  # nosec B404
import sys
from typing import Any

from k2_sim.cmd import arrays
from k2_sim.cmd import serve
from k2_sim.config import reading


def main(argv: Sequence[str]) -> int:
    """Run the command with an array; returns its exit status."""
    own, separator, command = _split(argv)
    parser = _parser()
    options, others = parser.parse_known_args(own)
    if not separator or not command:
        parser.error('give a command after --')
    try:
        with arrays.arrays(others, pair=options.pair,
                           directory=options.directory) as running:
            return _run(command, running)
    except serve.ERRORS as exc:
        print(f'k2-sim: error: {exc}', file=sys.stderr)
        return 1


def _split(argv: Sequence[str]) -> tuple[list[str], bool, list[str]]:
    """The options, whether there is a --, and what follows it."""
    if '--' not in argv:
        return list(argv), False, []
    place = list(argv).index('--')
    return list(argv[:place]), True, list(argv[place + 1:])


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog='k2-sim run', usage='%(prog)s [options] -- COMMAND...',
        allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description='Run a command while a simulated array answers on a free'
        ' port of this machine.',
        epilog='All other options of k2-sim can be given, too, except'
        ' --listen and --state-dir.\n\nThe command gets these variables:'
        ' K2_URL, K2_ADDRESS (HOST:PORT), K2_NAME,\nK2_CA (a file), K2_LOGIN,'
        ' K2_PASSWORD and K2_PASSWORD_FILE of the array, and\n'
        'K2_SIM_PASSWORD for k2-sim-ctl; those of a second array end with'
        ' _2.')
    parser.add_argument(
        '--pair', action='store_true',
        help='start two arrays that replicate to each other')
    parser.add_argument(
        '--directory', type=_path, metavar='DIR',
        help='where to keep the requests of the command (run.har), the objects'
        ' that it left on the array (leftovers.json), and the state (default:'
        ' keep nothing)')
    return parser


def _path(text: str) -> pathlib.Path:
    try:
        return reading.path(text)
    except ValueError as exc:
        raise argparse.ArgumentTypeError(str(exc)) from exc


def _run(command: Sequence[str], running: Sequence[arrays.Running]) -> int:
    """Run the command to its end despite signals; returns its exit status."""
    environment = {**os.environ}
    for one, suffix in zip(running, arrays.SUFFIXES):
        environment.update(one.environment(suffix))
    with _Signals() as signals:
        try:
            process = subprocess.Popen(command, env=environment)  # nosec B603
        except OSError as exc:
            print(f'k2-sim: error: cannot run {command[0]}: {exc.strerror}',
                  file=sys.stderr)
            return 127 if isinstance(exc, FileNotFoundError) else 126
        signals.forward_to(process)
        status = process.wait()
    return status if status >= 0 else 128 - status


class _Signals:
    """Forwards SIGTERM to the command, which gets Ctrl-C from the terminal.

    So the array always ends after the command.
    """

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._before: dict[int, Any] = {}
        self._came_early = False

    def __enter__(self) -> '_Signals':
        for number, handler in ((signal.SIGTERM, self._terminate),
                                (signal.SIGINT, lambda *_: None)):
            self._before[number] = signal.signal(number, handler)
        return self

    def __exit__(self, *exc: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def forward_to(self, process: subprocess.Popen[bytes]) -> None:
        """Forward SIGTERM from now on, and one that came before."""
        self._process = process
        if self._came_early:
            process.send_signal(signal.SIGTERM)

    def _terminate(self, *_: object) -> None:
        if self._process is None:
            self._came_early = True
        else:
            self._process.send_signal(signal.SIGTERM)
