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
"""The command k2-sim: the service, or with "run" an array for a command."""

from collections.abc import Sequence
import sys

from k2_sim.cmd import run
from k2_sim.cmd import serve


def main(argv: Sequence[str] | None = None) -> int:
    """Carry out the command; returns the exit status."""
    arguments = sys.argv[1:] if argv is None else argv
    if arguments[:1] == ['run']:
        return run.main(arguments[1:])
    return serve.main(arguments)


if __name__ == '__main__':
    sys.exit(main())
