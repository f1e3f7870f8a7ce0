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

"""Import all modules of the driver: python -m tools.releases.imports."""

import importlib
import pkgutil
import sys

from cinder import objects

import cinder_k2


def main() -> int:
    """Import them and print how many; return 0."""
    # As each service of Cinder does when it starts.
    objects.register_all()
    names = [found.name for found in pkgutil.walk_packages(
        cinder_k2.__path__, 'cinder_k2.')]
    for name in names:
        importlib.import_module(name)
    print(f'{len(names)} modules on Python {sys.version.split()[0]}')
    return 0


if __name__ == '__main__':
    sys.exit(main())
