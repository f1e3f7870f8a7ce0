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

"""What the status of a unit says of the arrays."""

from collections.abc import Iterator
from collections.abc import Sequence

import ops

import array_check

# What can pass without anybody's help; the rest needs somebody.
_PASSING = ('state', 'error')
# Juju shows one line.
_LONGEST = 240
_UNITS = ('KiB', 'MiB', 'GiB', 'TiB', 'PiB')


def blocked(texts: Sequence[str]) -> ops.BlockedStatus:
    """A status with as many texts as it can hold, and how many it cannot."""
    return ops.BlockedStatus(_joined(texts))


def of_report(report: array_check.Report, warnings: Sequence[str]
              ) -> Iterator[ops.StatusBase]:
    """The statuses that a check gives, the worst first.

    :param warnings: what else is to be said of what works
    """
    if report.failure:
        yield ops.BlockedStatus(report.failure)
    found = [(finding.kind in _PASSING, f'{one.name}: {finding.text}')
             for one in report.backends for finding in one.problems]
    bad = [text for passing, text in found if not passing]
    passing = [text for passing, text in found if passing]
    if bad:
        yield blocked(bad + passing)
    elif passing:
        yield ops.WaitingStatus(_joined(passing))
    # Of certificates the warnings of our own options speak.
    theirs = [f'{one.name}: {finding.text}' for one in report.backends
              for finding in one.warnings if finding.kind != 'certificate']
    yield ops.ActiveStatus(_joined(
        [*map(summary, report.backends), *theirs, *warnings]))


def summary(one: array_check.BackendReport) -> str:
    """A back end in a few words: its array, what is free, and its ports."""
    words = []
    if one.array and one.array['version']:
        words.append(f'VisionOS {one.array["version"]}')
    if one.capacity:
        words.append(f'{size(one.capacity["free"])} free')
    # Of iSCSI portals the array does not tell whether they are up.
    kind = 'portal' if one.protocol == 'iSCSI' else 'port'
    up = sum(port['up'] is not False for port in one.ports)
    words.append(f'{up} {kind}' + ('' if up == 1 else 's'))
    return f'{one.name}: {", ".join(words)}'


def capacity(one: array_check.BackendReport) -> str:
    """What there is on the array of a back end, in one line."""
    if not one.capacity:
        return f'{one.name}: not known; see check-array'
    return f'{one.name}: ' + ', '.join(
        f'{size(one.capacity[name])} {name}'
        for name in ('total', 'free', 'provisioned'))


def size(kib: float) -> str:
    """A size for people.

    :param kib: in KiB
    """
    amount = float(kib)
    for unit in _UNITS:
        if amount < 1024 or unit == _UNITS[-1]:
            break
        amount /= 1024
    return f'{amount:.1f} {unit}'


def _joined(texts: Sequence[str]) -> str:
    for number in range(len(texts), 0, -1):
        line = '; '.join(texts[:number])
        left = len(texts) - number
        if len(line) <= _LONGEST or number == 1:
            return f'{line} (and {left} more)' if left else line
    return ''
