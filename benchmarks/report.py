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

"""The results, as a table and as JSON."""

import dataclasses
import json
import statistics
from typing import Any

from benchmarks import life
from benchmarks import replicated

_INTREE = "Cinder's own"
_HEAD = f'{"":22}{"ours":^30} {_INTREE:^22} {"ratio":^13}'
_COLUMNS = (f'{"operation":22}{"calls":>6}{"wall":>8}{"most":>5}{"1 by 1":>11}'
            f' {"calls":>7}{"wall":>9}{"most":>6} {"calls":>6}{"wall":>7}')

_LEGEND = """\
calls: REST calls for each operation. wall: all operations at once. most:
requests in flight. 1 by 1: ours one after the other, and how many times
faster they are at once. Cinder's own driver copies clones and volumes from
snapshots through the host; the time of the copying itself is not included.
"""

_MOVES_HEAD = (f'{"":10}{"ours":^25}{_INTREE:^29}{"ratio":^14}\n'
               f'{"":10}{"calls":>7}{"wall":>9}{"paused":>9}'
               f'{"calls":>9}{"wall":>11}{"paused":>9}'
               f'{"calls":>7}{"wall":>7}')

_MOVES_LEGEND = """\
calls: REST calls to both arrays, for all volumes. wall: seconds for all of
them. paused: how many of these seconds the driver slept.
"""

# Minimum speed-up of concurrent creates, and attaches to different hosts.
GOAL = 8.0
# Minimum speed-up of failover and failback over the in-tree driver.
GOAL_MOVES = 20.0
# The same over the in-tree driver, if the array serves known requests only.
GOAL_KNOWN = 5.0
GOAL_KNOWN_OPERATIONS = ('create volume', 'attach, a host each', 'detach',
                         'delete volume', 'clone volume')
GOAL_OPERATIONS = ('create volume', 'attach, a host each')
# Maximum seconds for volumes of one host, and the minimum speed-up over the
# in-tree driver.
GOAL_SECONDS, GOAL_ONE_HOST = 0.6, 10.0
ONE_HOST = ('attach, one host', 'both, one host', 'detach, one host',
            'attach, two services', 'both, two services',
            'detach, two services')


class Results:
    """Measures by operation and column, over the rounds.

    Columns are "ours", "serial" (ours, one after the other) and "intree".
    """

    def __init__(self, settings: dict[str, Any]) -> None:
        self.settings = settings
        self._measures: dict[str, dict[str, list[life.Measure]]] = {}
        self._moves: dict[str, dict[str, replicated.Move]] = {}

    def add(self, operation: str, column: str, measure: life.Measure
            ) -> None:
        """Add one measure."""
        columns = self._measures.setdefault(operation, {})
        columns.setdefault(column, []).append(measure)

    def add_moves(self, column: str, moves: dict[str, replicated.Move]
                  ) -> None:
        """Add the cost of a driver's failover and failback."""
        for name, move in moves.items():
            self._moves.setdefault(name, {})[column] = move

    def moves(self) -> list[dict[str, Any]]:
        """One row for failover and one for failback, and the ratios.

        An operation that was not measured for both drivers has no row.
        """
        return [_move_row(name, columns['ours'], columns['intree'])
                for name, columns in self._moves.items()
                if columns.keys() == {'ours', 'intree'}]

    def rows(self) -> list[dict[str, Any]]:
        """One row for each operation: medians, and the ratios."""
        return [_row(operation, columns)
                for operation, columns in self._measures.items()]

    def table(self) -> str:
        """The results as text."""
        return '\n'.join([*(self._operations() if self._measures else ()),
                          *(self._replication() if self.moves() else ())])

    def known_table(self) -> str:
        """The rows of an array that serves known requests only."""
        rows = self.rows()
        if not rows:
            return ''
        return '\n'.join([
            'On an array that serves only what the in-tree driver is known '
            'to send', _HEAD, _COLUMNS, *map(_line, rows), '',
            *(_known_verdict(row) for row in rows
              if row['operation'] in GOAL_KNOWN_OPERATIONS), ''])

    def _operations(self) -> list[str]:
        rows = self.rows()
        return [_HEAD, _COLUMNS, *map(_line, rows), '', _LEGEND,
                *(_verdict(row) for row in rows
                  if row['operation'] in GOAL_OPERATIONS),
                *(_one_host_verdict(row) for row in rows
                  if row['operation'] in ONE_HOST), '']

    def _replication(self) -> list[str]:
        rows = self.moves()
        latency = self.settings['replication_latency']
        return [f'{rows[0]["count"]} replicated volumes, {latency:g} ms a '
                'request', _MOVES_HEAD, *map(_move_line, rows), '',
                _MOVES_LEGEND, *filter(None, map(_scaling, rows)),
                *map(_move_verdict, rows)]

    def write(self, path: str, known: list[dict[str, Any]]) -> None:
        """Write the results as JSON.

        :param known: those of an array that serves known requests only
        """
        with open(path, 'w', encoding='utf-8') as stream:
            json.dump({**self.settings, 'rows': self.rows(), 'known': known,
                       'replication': self.moves()}, stream, indent=2)
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


def _one_host_verdict(row: dict[str, Any]) -> str:
    wall, ratio = row['ours']['wall'], row['wall_ratio']
    word = 'yes' if wall <= GOAL_SECONDS and ratio >= GOAL_ONE_HOST else 'NO'
    return (f'{row["operation"]}: {wall:.2f} s, {ratio:.1f} times faster than '
            f'the in-tree driver (goals: {GOAL_SECONDS:g} s, '
            f'{GOAL_ONE_HOST:.0f}): {word}')


def _known_verdict(row: dict[str, Any]) -> str:
    word = 'yes' if row['wall_ratio'] >= GOAL_KNOWN else 'NO'
    return (f'{row["operation"]}: {row["wall_ratio"]:.1f} times faster than '
            f'the in-tree driver (goal: {GOAL_KNOWN:.0f}): {word}')


def _move_row(name: str, ours: replicated.Move, intree: replicated.Move
              ) -> dict[str, Any]:
    """The row of both drivers; the in-tree one scaled to as many volumes."""
    scaled = intree.scaled(ours.count)
    return {
        'operation': name, 'count': ours.count,
        'ours': dataclasses.asdict(ours),
        'intree': dataclasses.asdict(scaled),
        'intree_measured': dataclasses.asdict(intree),
        'calls_ratio': scaled.calls / ours.calls,
        'wall_ratio': scaled.wall / ours.wall,
        'busy_ratio': (scaled.wall - scaled.paused) / ours.wall}


def _move_line(row: dict[str, Any]) -> str:
    ours, intree = row['ours'], row['intree']
    mark = '*' if _is_scaled(row) else ' '
    return (f'{row["operation"]:10}{ours["calls"]:7}{ours["wall"]:8.2f}s'
            f'{ours["paused"]:8.2f}s'
            f'{intree["calls"]:8}{mark}{intree["wall"]:9.2f}s{mark}'
            f'{intree["paused"]:7.0f}s{mark}'
            f'{row["calls_ratio"]:6.0f}x{row["wall_ratio"]:6.0f}x')


def _is_scaled(row: dict[str, Any]) -> bool:
    scaled: bool = row['intree_measured']['count'] != row['count']
    return scaled


def _scaling(row: dict[str, Any]) -> str:
    """A note if the in-tree driver did not move all volumes, or nothing."""
    measured = row['intree_measured']
    return (f'* {_INTREE} driver was measured with {measured["count"]} of the '
            f'volumes: {measured["calls"]} calls\n'
            f'in {measured["wall"]:.2f} s, {measured["paused"]:.2f} s of them '
            'paused. This is scaled linearly to '
            f'{row["count"]}.\n' if _is_scaled(row) else '')


def _move_verdict(row: dict[str, Any]) -> str:
    word = 'yes' if row['wall_ratio'] >= GOAL_MOVES else 'NO'
    busy = (f'; {row["busy_ratio"]:.0f} without its pauses'
            if row['intree']['paused'] else '')
    return (f'{row["operation"]}: {row["wall_ratio"]:.0f} times faster than '
            f"Cinder's own{busy}\n"
            f'    (goal: at least {GOAL_MOVES:.0f} times faster): {word}')
