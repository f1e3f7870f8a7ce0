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

"""``python -m benchmarks.chart FIGURES``: chart and tables of the benchmark.

Draws the chart from the figures that ``python -m benchmarks --json`` has
written, and prints the rows of the tables.
"""

from collections.abc import Iterator
import json
import math
import pathlib
import sys
from typing import Any

IMAGE = pathlib.Path(__file__).parents[1] / 'doc/source/images/benchmark.svg'

Row = dict[str, Any]

_OURS, _INTREE = '#0969da', '#bf8700'
_WIDTH, _LEFT = 880, 210
# The scale: the minimum in seconds, and the pixels per factor of ten.
_LEAST, _DECADE = 0.03, 166.6
_TOP, _PITCH, _BAR = 84, 46, 17
_LINES = (0.1, 1, 10)


def main() -> int:
    """Draw and print."""
    figures = json.loads(pathlib.Path(sys.argv[1]).read_text('utf-8'))
    IMAGE.write_text(picture(figures), 'utf-8')
    for rows in (figures['rows'], figures['known']):
        print('\n'.join(table(rows)), end='\n\n')
    return 0


def picture(figures: dict[str, Any]) -> str:
    """The picture: a panel for each kind of array."""
    parts: list[str] = []
    top = 0
    for title, rows in (
            ('an array with all capabilities', figures['rows']),
            ('an array that serves known requests only', figures['known'])):
        parts += _panel(title, rows, top)
        top += _height(rows)
    title = f'Time of {figures["parallel"]} operations at once, both drivers'
    head = (f'{figures["parallel"]} operations at once, '
            f'{figures["latency"]:g} ms a request: seconds for all '
            '(shorter is better)')
    return '\n'.join([
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 '
        f'{_WIDTH} {top + _TOP}" width="{_WIDTH}" height="{top + _TOP}" '
        'role="img" aria-labelledby="title desc" font-family="DejaVu Sans, '
        'Verdana, Helvetica, Arial, sans-serif" font-size="13" '
        'fill="#1f2328">',
        f'  <title id="title">{title}</title>',
        '  <desc id="desc">Two bars for each operation, on a logarithmic '
        'scale: this driver and the in-tree driver. The figures are '
        'those of the tables on the same page.</desc>',
        f'  <rect x="1" y="1" width="{_WIDTH - 2}" height="{top + _TOP - 2}"'
        ' rx="12" fill="#ffffff" stroke="#d0d7de" stroke-width="2"/>',
        _text(24, 36, head, 'font-size="16" font-weight="bold"'),
        _bar(_LEFT, 54, 14, 14, _OURS), _text(232, 66, 'this driver'),
        _bar(340, 54, 14, 14, _INTREE),
        _text(362, 66, 'the in-tree driver'),
        *parts, '</svg>', ''])


def _height(rows: list[Row]) -> int:
    return _PITCH * len(rows) + 76


def _panel(title: str, rows: list[Row], top: int) -> Iterator[str]:
    first = top + _TOP + 22
    end = first + _PITCH * len(rows)
    yield f'\n  <!-- {title} -->'
    yield _text(24, first - 8, f'On {title}', 'font-weight="bold"')
    for line in _LINES:
        x = _LEFT + _length(line)
        yield (f'  <line x1="{x:.1f}" y1="{first}" x2="{x:.1f}" y2="{end}" '
               'stroke="#d0d7de"/>')
        yield _text(x, end + 18, f'{line:g}',
                    'text-anchor="middle" fill="#57606a"')
    yield _text(485, end + 38, 'seconds, logarithmic scale',
                'text-anchor="middle" fill="#57606a"')
    for number, row in enumerate(rows):
        y = first + 6 + _PITCH * number
        yield _text(198, y + 23, row['operation'],
                    'text-anchor="end" font-size="14"')
        for column, colour in (('ours', _OURS), ('intree', _INTREE)):
            wall = row[column]['wall']
            yield _bar(_LEFT, y, _length(wall), _BAR, colour)
            yield _text(_LEFT + _length(wall) + 6, y + 13, _seconds(wall))
            y += _BAR + 1


def _length(seconds: float) -> float:
    """Return the length of a bar in pixels."""
    return _DECADE * math.log10(max(seconds, _LEAST) / _LEAST)


def _seconds(wall: float) -> str:
    return f'{wall:.2f} s'


def _bar(x: float, y: float, width: float, height: int, colour: str) -> str:
    return (f'  <rect x="{x:g}" y="{y:g}" width="{width:.1f}" '
            f'height="{height}" fill="{colour}"/>')


def _text(x: float, y: float, text: str, style: str = '') -> str:
    return f'  <text x="{x:.1f}" y="{y:g}" {style}>{text}</text>'.replace(
        ' >', '>')


def table(rows: list[Row]) -> Iterator[str]:
    """Return the rows of a list-table of reStructuredText."""
    for row in rows:
        ours, intree = row['ours'], row['intree']
        cells = [row['operation'].capitalize(), f'{ours["calls"]:g}',
                 _seconds(ours['wall']), str(ours['in_flight']),
                 f'{row["serial"]["wall"]:.1f} s', f'{intree["calls"]:g}',
                 _seconds(intree['wall']), f'{row["wall_ratio"]:.0f}']
        for number, cell in enumerate(cells):
            yield f'{"     -" if number else "   * -"} {cell}'


if __name__ == '__main__':
    sys.exit(main())
