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

"""Writes doc/source/charm/options.rst: the options of the charm.

The options are read from ``juju-charm/charmcraft.yaml``. With ``--check`` it
only reports whether the page is up to date; the exit status is 1 if it is not.
"""

import argparse
from collections.abc import Iterable
from collections.abc import Mapping
import pathlib
import re
import sys
import textwrap
from typing import Any

import yaml

ROOT = pathlib.Path(__file__).resolve().parents[1]
DATA = ROOT / 'juju-charm' / 'charmcraft.yaml'
PAGE = ROOT / 'doc' / 'source' / 'charm' / 'options.rst'

INTRODUCTION = """\
.. Written by make charm-options from juju-charm/charmcraft.yaml. A change by
   hand makes make test fail.

====================
Options of the charm
====================

Set them with ``juju config cinder-k2 OPTION=VALUE``. An invalid value blocks
the unit; its status names the option and the rule, and the previous
configuration stays in effect. An address or password that is valid but wrong
is not detected: it is passed to the back end, which is down until it is
corrected.

Values are passed to Cinder unchanged: dollar signs, quotes, commas, spaces and
``#`` need no escaping. Line breaks are refused.
"""
COLUMNS = ('Option', 'Type', 'Default', 'Meaning')
WIDTHS = '26 10 10 54'


def render(options: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the page.

    :param options: the value of config, options in charmcraft.yaml
    """
    lines = [INTRODUCTION, '.. list-table::', '   :header-rows: 1',
             f'   :widths: {WIDTHS}', '']
    for row in (COLUMNS, *(_row(*item) for item in options.items())):
        lines += _lines(row)
    return '\n'.join([*lines, ''])


def _row(name: str, option: Mapping[str, Any]) -> tuple[str, ...]:
    return (f'``{name}``', option['type'], _default(option.get('default')),
            _escape(' '.join(option['description'].split())))


def _default(value: object) -> str:
    """Return a default in the form of ``juju config``; '' if empty."""
    if isinstance(value, bool):
        return f'``{str(value).lower()}``'
    return '' if value in (None, '') else f'``{value}``'


def _escape(text: str) -> str:
    return re.sub(r'([*`|_\\])', r'\\\1', text)


def _lines(row: Iterable[str]) -> list[str]:
    lines: list[str] = []
    for number, cell in enumerate(row):
        lines += textwrap.wrap(
            cell, 79, initial_indent='     - ' if number else '   * - ',
            subsequent_indent='       ', break_long_words=False,
            break_on_hyphens=False) or ['     -']
    return lines


def main(arguments: list[str] | None = None) -> int:
    """Write or check the page; return the exit status."""
    parser = argparse.ArgumentParser(
        prog='charm_options',
        description='Write the options of the charm from charmcraft.yaml.')
    parser.add_argument('--check', action='store_true',
                        help='only report whether the page is up to date')
    check = parser.parse_args(arguments).check
    text = render(yaml.safe_load(DATA.read_text())['config']['options'])
    name = PAGE.relative_to(ROOT)
    if not check:
        PAGE.write_text(text)
        print(f'charm options: wrote {name}')
    elif not PAGE.is_file() or PAGE.read_text() != text:
        print(f'charm options: {name} does not match'
              ' charmcraft.yaml. Run: make charm-options')
        return 1
    return 0


if __name__ == '__main__':
    sys.exit(main())
