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

"""The command k2-sim: what is not installed is said before it is needed."""

from collections.abc import Sequence
import importlib
import sys

_NEEDED = ('cryptography', 'msgspec', 'regex', 'uvicorn', 'yaml', 'zstandard')


def main(argv: Sequence[str] | None = None) -> int:
    """Run the service; gives the exit status (see cmd.sim)."""
    for name in _NEEDED:
        try:
            importlib.import_module(name)
        except ImportError:
            print(f'k2-sim: error: {name} is not installed; install the'
                  ' extra "simulator" of cinder-k2', file=sys.stderr)
            return 1
    from cinder_k2.cmd import sim
    return sim.main(argv)


if __name__ == '__main__':
    sys.exit(main())
