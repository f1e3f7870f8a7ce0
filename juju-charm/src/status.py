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

"""Status messages of a unit."""

from collections.abc import Iterator
from collections.abc import Sequence

import ops

import array_check

# Kinds of problems that may resolve themselves; others need an operator.
_TRANSIENT = ('state', 'error')
# Juju shows one line.
_LONGEST = 240
_UNITS = ('KiB', 'MiB', 'GiB', 'TiB', 'PiB')


def blocked(texts: Sequence[str]) -> ops.BlockedStatus:
    """Return a status with as many texts as fit, and the number omitted."""
    return ops.BlockedStatus(_joined(texts))


def of_report(report: array_check.Report, warnings: Sequence[str]
              ) -> Iterator[ops.StatusBase]:
    """Yield the statuses for a report, most severe first.

    :param warnings: further warnings for the active status
    """
    if report.failure:
        yield ops.BlockedStatus(report.failure)
    found = [(finding.kind in _TRANSIENT, f'{one.name}: {finding.text}')
             for one in report.backends for finding in one.problems]
    permanent = [text for is_transient, text in found if not is_transient]
    transient = [text for is_transient, text in found if is_transient]
    if permanent:
        yield blocked(permanent + transient)
    elif transient:
        yield ops.WaitingStatus(_joined(transient))
    # The charm has its own warnings for certificates.
    reported = [f'{one.name}: {finding.text}' for one in report.backends
                for finding in one.warnings if finding.kind != 'certificate']
    yield ops.ActiveStatus(_joined(
        [*map(summary, report.backends), *reported, *warnings]))


def summary(one: array_check.BackendReport) -> str:
    """Return a short summary of a back end: version, free space, ports."""
    words = []
    if one.array and one.array['version']:
        words.append(f'VisionOS {one.array["version"]}')
    if one.capacity:
        words.append(f'{size(one.capacity["free"])} free')
    # The array does not report whether iSCSI portals are up.
    kind = 'portal' if one.protocol == 'iSCSI' else 'port'
    up = sum(port['up'] is not False for port in one.ports)
    words.append(f'{up} {kind}' + ('' if up == 1 else 's'))
    return f'{one.name}: {", ".join(words)}'


def capacity(one: array_check.BackendReport) -> str:
    """Return the capacity of a back end's array, in one line."""
    if not one.capacity:
        return f'{one.name}: unknown; see check-array'
    return f'{one.name}: ' + ', '.join(
        f'{size(one.capacity[name])} {name}'
        for name in ('total', 'free', 'provisioned'))


def size(kib: float) -> str:
    """Format a size with a suitable unit.

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
