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

"""Run a command as root in a Linux guest that is booted for it.

    python -m tools.guest [--seconds N] [--memory SIZE] [--tap NAME]
        [--out DIR] -- COMMAND

The exit status is that of the command; 124 if it took too long, 134 if the
guest's kernel panicked, 70 if the guest ended without a result, and 1 if no
guest can boot here. The guest and everything in it is removed afterwards,
except what was written to /out, which is DIR.
"""

import argparse
import pathlib
import sys

from tools.guest import machine
from tools import signals


def main() -> int:
    """Run the command of the command line; return the exit status."""
    options = _parser().parse_args()
    reason = machine.unavailable()
    if reason:
        print(f'guest: {reason}', file=sys.stderr)
        return 1
    try:
        return machine.run(
            options.command, options.out, seconds=options.seconds,
            memory=options.memory, tap=options.tap, echo=sys.stdout.buffer)
    except machine.GuestError as exc:
        print(f'guest: {exc}', file=sys.stderr)
        return exc.status


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog='python -m tools.guest',
        description=(__doc__ or '').partition('\n')[0])
    parser.add_argument(
        '--seconds', type=float, default=machine.SECONDS, metavar='N',
        help='time limit of the guest (default: %(default).0f)')
    parser.add_argument(
        '--memory', default=machine.MEMORY, metavar='SIZE',
        help='memory of the guest, for programs and all files they write'
        ' (default: %(default)s)')
    parser.add_argument(
        '--tap', default='', metavar='NAME',
        help="the network device of this machine that ends the guest's vec0"
        ' (default: the guest has no network)')
    parser.add_argument(
        '--out', type=pathlib.Path, metavar='DIR',
        help='where to keep its logs; /out in the guest')
    parser.add_argument('command', nargs='+', metavar='COMMAND')
    return parser


if __name__ == '__main__':
    sys.exit(signals.run(main))
