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

"""What was measured, as a table and as JSON."""

import json
import statistics
from typing import Any

from benchmarks import life

_INTREE = "Cinder's own"
_HEAD = f'{"":22}{"ours":^30} {_INTREE:^22} {"ratio":^13}'
_COLUMNS = (f'{"operation":22}{"calls":>6}{"wall":>8}{"most":>5}{"1 by 1":>11}'
            f' {"calls":>7}{"wall":>9}{"most":>6} {"calls":>6}{"wall":>7}')

_LEGEND = """\
calls: REST calls for each operation. wall: all operations at once. most:
requests in flight. 1 by 1: ours one after the other, and how many times
faster they are at once. Cinder's own driver copies clones and volumes from
snapshots through the host; what the copying itself takes is left out.
"""

# Creates, and attaches to different hosts, at least.
GOAL = 8.0
GOAL_OPERATIONS = ('create volume', 'attach, a host each')


class Results:
    """Measures by operation and column, over the rounds.

    Columns are "ours", "serial" (ours, one after the other) and "intree".
    """

    def __init__(self, settings: dict[str, Any]) -> None:
        self.settings = settings
        self._measures: dict[str, dict[str, list[life.Measure]]] = {}

    def add(self, operation: str, column: str, measure: life.Measure
            ) -> None:
        """Take one measure."""
        columns = self._measures.setdefault(operation, {})
        columns.setdefault(column, []).append(measure)

    def rows(self) -> list[dict[str, Any]]:
        """One row for each operation: medians, and the ratios."""
        return [_row(operation, columns)
                for operation, columns in self._measures.items()]

    def table(self) -> str:
        """The rows for people."""
        rows = self.rows()
        lines = [_HEAD, _COLUMNS, *map(_line, rows), '', _LEGEND]
        lines += [_verdict(row) for row in rows
                  if row['operation'] in GOAL_OPERATIONS]
        return '\n'.join(lines)

    def write(self, path: str) -> None:
        """The rows for machines."""
        with open(path, 'w', encoding='utf-8') as stream:
            json.dump({**self.settings, 'rows': self.rows()}, stream,
                      indent=2)
            stream.write('\n')


def _row(operation: str, columns: dict[str, list[life.Measure]]
         ) -> dict[str, Any]:
    row: dict[str, Any] = {'operation': operation}
    for column, measures in columns.items():
        row[column] = {
            'calls': statistics.median(m.calls for m in measures),
            'wall': statistics.median(m.wall for m in measures),
            'in_flight': max(m.in_flight for m in measures)}
    row['speed_up'] = row['serial']['wall'] / row['ours']['wall']
    row['calls_ratio'] = row['intree']['calls'] / row['ours']['calls']
    row['wall_ratio'] = row['intree']['wall'] / row['ours']['wall']
    return row


def _line(row: dict[str, Any]) -> str:
    ours, intree = row['ours'], row['intree']
    return (f'{row["operation"]:22}{ours["calls"]:6.1f}'
            f'{ours["wall"]:7.2f}s{ours["in_flight"]:5}'
            f'{row["serial"]["wall"]:6.2f}s {row["speed_up"]:3.0f}x'
            f' {intree["calls"]:6.1f}{intree["wall"]:9.2f}s'
            f'{intree["in_flight"]:5}'
            f' {row["calls_ratio"]:5.1f}x{row["wall_ratio"]:6.1f}x')


def _verdict(row: dict[str, Any]) -> str:
    word = 'yes' if row['speed_up'] >= GOAL else 'NO'
    return (f'{row["operation"]}: {row["speed_up"]:.1f} times faster than '
            f'one after the other (goal: {GOAL:.0f}): {word}')
