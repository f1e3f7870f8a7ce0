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

"""The files that make up the console, cached after the first read."""

import functools
from importlib import resources

from k2_sim.protocol.messages import Response

_KINDS = {'html': 'text/html; charset=utf-8',
          'css': 'text/css; charset=utf-8',
          'js': 'text/javascript; charset=utf-8',
          'svg': 'image/svg+xml'}
# The paths of the pages below /console/; the same frame serves them all.
_PAGES = ('', 'control/')
_FRAME = 'shell.html'


def find(path: str) -> Response | None:
    """The file at a path below /console/, or None."""
    if path in _PAGES:
        return _all()[_FRAME]
    name = path.removeprefix('static/')
    return _all().get(name) if path != name else None


@functools.cache
def _all() -> dict[str, Response]:
    """Every file by its name; what is not among them cannot be read."""
    place = resources.files(__package__) / 'static'
    return {file.name: Response(
        200, {'Content-Type': _KINDS[file.name.rpartition('.')[2]]},
        file.read_bytes()) for file in place.iterdir()}
