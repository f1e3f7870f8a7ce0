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

"""Run tests as ``python -m subunit.run`` does, and clean up after them.

Processes that the tests started are ended and files that they made are
removed, also when SIGTERM ends the run.
"""

import sys

from subunit import run

from tools import signals


def main() -> int:
    """Run the tests named on the command line; return the exit status."""
    run.main()
    return 0


if __name__ == '__main__':
    sys.exit(signals.run(main))
