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

"""Run tests as ``python -m subunit.run`` does, and clean up.

python -m tests.browser discover -t . tests/browser

Their processes are ended and their files removed, even when SIGTERM ends the
run.
"""

import signal
import sys

from subunit import run


def main():
    """Run the command line; return the exit status."""
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        run.main()
    except KeyboardInterrupt:
        return 128 + signal.SIGTERM
    return 0


def _interrupt(number, frame):
    """Interrupt the run, and ignore further signals during the cleanup."""
    signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt


if __name__ == '__main__':
    sys.exit(main())
