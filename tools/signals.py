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


"""Handling of signals that end a command and its child processes."""

from collections.abc import Callable
import signal
import types

# A shell's exit status is this plus the number of the signal.
_ENDED = 128


def interrupt_on(*numbers: signal.Signals) -> None:
    """Handle these signals like Ctrl-C.

    Open resources are then closed, and started processes ended.
    """
    for number in numbers:
        signal.signal(number, _interrupt)


def _interrupt(number: int, frame: types.FrameType | None) -> None:
    """Interrupt the command, and ignore this signal during its cleanup."""
    signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt(number)


def run(main: Callable[[], int]) -> int:
    """Run a command that Ctrl-C and SIGTERM end; return its exit status.

    As in a shell, this is 130 after Ctrl-C and 143 after SIGTERM.
    """
    interrupt_on(signal.SIGTERM)
    try:
        return main()
    except KeyboardInterrupt as exc:
        number, = exc.args or (signal.SIGINT,)
        return _ENDED + int(number)
