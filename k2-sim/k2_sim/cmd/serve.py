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
"""k2-sim: a simulated K2 array as an HTTPS service.

Exit status: 0 after a clean stop, 1 when something cannot be used (port,
state, directory, file) or the state cannot be written any more, 2 for invalid
arguments.
"""

from collections.abc import Sequence
import contextlib
import gc
import pathlib
import signal
import sys

import k2_sim
from k2_sim.cmd import options
from k2_sim.cmd import service
from k2_sim.config.settings import Settings
from k2_sim.config.settings import SettingsError

_INTERRUPTED = 128 + signal.SIGINT
#: Errors that keep a service from starting or running, with a text for the
#: user.
ERRORS = (service.StartError, SettingsError, k2_sim.StateError, OSError)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the service until SIGTERM or SIGINT; returns the exit status."""
    try:
        settings, directory = options.parse(argv)
        _run(settings, directory)
    except ERRORS as exc:
        print(f'k2-sim: error: {exc}', file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        # Only before the service runs: later, SIGINT is a clean stop.
        return _INTERRUPTED
    return 0


def _run(settings: Settings, directory: pathlib.Path) -> None:
    with contextlib.ExitStack() as stack:
        made = service.prepare(settings, directory, stack)
        # uvicorn raises the signal again after its clean stop.
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda number, frame: None)
        # What was loaded is never garbage. Looking through all of it again
        # and again would delay requests.
        gc.freeze()
        # The same applies to what long reads add to the cache of replies.
        gc.set_threshold(10000, 20, 100)
        ready = made.ready_lines()
        made.server.run(lambda: service.say(ready))
        if made.array.store.failure is not None:
            raise service.StartError(str(made.array.store.failure))


if __name__ == '__main__':
    sys.exit(main())
