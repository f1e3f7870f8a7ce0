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

"""The releases of Cinder that the driver supports, and the one on the unit.

The release is read from the metadata that Cinder's Python finds, not from
dpkg: that is the code that cinder-volume loads, whichever archive it came
from.
"""

import dataclasses
import re

import machine as machines

#: Major versions of Cinder that the driver was tested with: their releases of
#: OpenStack, oldest first. Older ones are refused. Others that are not listed
#: are used, with a warning.
TESTED = {24: '2024.1', 26: '2025.1', 27: '2025.2', 28: '2026.1',
          29: '2026.2'}
#: The name of the oldest release in the packages map of the cinder charm.
OLDEST_CODENAME = 'caracal'
#: The oldest Python that the driver supports.
OLDEST_PYTHON = (3, 10)
_OLDEST = min(TESTED)
# The version of Python, then those of Cinder in the first place that has it:
# there are several while its package is being replaced.
_FIND = """
import importlib.metadata as metadata
import sys
print('%d.%d' % sys.version_info[:2])
for place in sys.path:
    found = {one.metadata.get('Version') for one in
             metadata.distributions(name='cinder', path=[place])} - {None}
    if found:
        print(*found)
        break
"""
_SECONDS = 30.0


class NotSupported(machines.Failed):
    """The driver does not support the release of Cinder or of Python."""

    def __init__(self, cinder: 'Cinder') -> None:
        """Create the message: what was found, and what is needed."""
        super().__init__(
            f'{cinder} is not supported: the driver needs Cinder {_OLDEST} '
            f'({TESTED[_OLDEST]}) or later, and Python '
            f'{".".join(map(str, OLDEST_PYTHON))} or later; upgrade OpenStack')


@dataclasses.dataclass(frozen=True)
class Cinder:
    """Cinder on the unit.

    :ivar version: its version; '' if it is not installed, or is being
        replaced
    :ivar python: the version of its Python, such as 3.12
    """

    version: str
    python: str

    def __str__(self) -> str:
        """Return the version, the release if known, and the Python."""
        if not self.version:
            return f'no Cinder on Python {self.python}'
        release = TESTED.get(self._major)
        named = f' ({release})' if release else ''
        return f'Cinder {self.version}{named} on Python {self.python}'

    @property
    def warning(self) -> str:
        """A warning if the driver was not tested with it; or ''."""
        if not self.version or self._major in TESTED:
            return ''
        tested = ', '.join(map(str, TESTED))
        return (f'the driver was not tested with Cinder {self.version}, only '
                f'with {tested}')

    @property
    def is_supported(self) -> bool:
        """Whether it is installed, and the driver supports it."""
        python = tuple(map(int, self.python.split('.')))
        return self._major >= _OLDEST and python >= OLDEST_PYTHON

    @property
    def _major(self) -> int:
        found = re.match(r'\d+', self.version)
        return int(found[0]) if found else 0

    def check(self) -> None:
        """Check that the driver supports it, if it is installed.

        :raises NotSupported: it does not
        """
        if self.version and not self.is_supported:
            raise NotSupported(self)


def find(machine: machines.Machine) -> Cinder:
    """Return Cinder as its Python finds it.

    :raises machine.Failed: Python cannot be run
    """
    python, *versions = machine.must('python3', '-c', _FIND,
                                     seconds=_SECONDS).split()
    return Cinder(versions[0] if len(versions) == 1 else '', python)
