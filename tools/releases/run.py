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

"""Run Python in the environment of a release, which is built if needed.

    python -m tools.releases.run RELEASE ARGUMENT ...
"""

import os
import sys

from tools.releases import environments
from tools.releases import table


def main() -> int:
    """Replace this process; return the exit status if that is impossible."""
    if len(sys.argv) < 3:
        print('usage: python -m tools.releases.run RELEASE ARGUMENT ...',
              file=sys.stderr)
        return 2
    try:
        python = environments.of(table.find(sys.argv[1]))
    except (table.UnknownReleaseError, environments.BuildError) as error:
        print(error, file=sys.stderr)
        return 2
    os.execv(python, [str(python), *sys.argv[2:]])  # nosec B606


if __name__ == '__main__':
    sys.exit(main())
