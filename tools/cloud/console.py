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

"""Output on the terminal."""

from collections.abc import Iterator
from collections.abc import Sequence
import contextlib
import time

WIDTH = 66


def say(text: str = '') -> None:
    """Print one line and flush it."""
    print(text, flush=True)


class Step:
    """A progress line: a title, then the time it took."""

    def __init__(self, title: str) -> None:
        """Print the title; the rest of the line is printed at the end."""
        self.title = title
        self.note = ''


@contextlib.contextmanager
def step(title: str) -> Iterator[Step]:
    """Print one line for the block, with its time in seconds.

    The note that the caller sets on the step is printed below it.
    """
    line = Step(title)
    print(f'  {title:<{WIDTH}}', end='', flush=True)
    begin = time.monotonic()
    try:
        yield line
    except BaseException:
        say(f'  failed after {time.monotonic() - begin:.1f} s')
        raise
    say(f'{time.monotonic() - begin:6.2f} s')
    if line.note:
        say(f'      {line.note}')


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Format rows of text in columns, with a line below the head."""
    widths = [max(map(len, column)) for column in zip(head, *rows)]
    lines = ['  '.join(cell.ljust(width) for cell, width
                       in zip(row, widths)).rstrip()
             for row in (head, *rows)]
    lines.insert(1, '  '.join('-' * width for width in widths))
    return lines
