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

"""Regular expressions of callers, limited in size and in time.

The array serves no other request during a search.
"""

import math
import re

import regex

#: Limit of processor time for one search.
SECONDS = 0.5
_LONGEST = 1000
# A repeat count multiplies the time and the memory that the expression
# takes, and nested counts multiply each other.
_MOST = 100_000
_COUNTS = re.compile(r'\{([0-9]*),?([0-9]*)\}')


def compiled(text: str) -> regex.Pattern[str]:
    """Compile an expression; raises ValueError if invalid or too large."""
    if len(text) > _LONGEST:
        raise ValueError(f'it has more than {_LONGEST} characters')
    counts = [max(int(number[:9] or 1) for number in found)
              for found in _COUNTS.findall(text)]
    if math.prod(counts) > _MOST:
        raise ValueError(f'it repeats something more than {_MOST} times')
    try:
        return regex.compile(text)
    except (regex.error, OverflowError, RecursionError) as exc:
        raise ValueError(str(exc)) from exc
