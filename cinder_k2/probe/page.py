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

"""Files with the result of a probe, to be sent to the project."""

from collections.abc import Iterator
import json
import os
from typing import Any

Report = dict[str, Any]


def forms(report: Report) -> Iterator[tuple[str, str]]:
    """Yield suffix and content of each file of a report: JSON and text."""
    yield 'json', json.dumps(report, indent=1) + '\n'
    yield 'txt', text(report) + '\n'


def write(path: str, text_: str) -> str:
    """Write a file that only its owner can read; returns its path."""
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600),
              'w', encoding='utf-8') as file:
        file.write(text_)
    return path


def text(report: Report) -> str:
    """The report as text."""
    lines = ['What an array was seen to do (k2-admin probe)', '']
    lines += [f'  {name:<18}{value}' for name, value
              in report['array'].items()]
    lines += [f'  objects made      {"yes" if report["write"] else "no"}']
    lines += [f'  note: {note}' for note in report['notes']]
    lines += [f'  STILL ON THE ARRAY: {name}'
              for name in report['left_on_the_array']]
    for result in ('contradicted', 'confirmed', 'not seen'):
        rows = [row for row in report['rules'] if row['result'] == result]
        lines += ['', f'{result.capitalize()}: {len(rows)} rules']
        for row in rows:
            lines += [f'  {row["rule"]}: {row["says"]}',
                      f'    {row["seen"]}']
    lines += ['', 'Capabilities'] + [
        f'  {name}: {state}' for name, state
        in report['capabilities'].items()] + [
        f'  {name}: not seen: {why}' for name, why
        in report['capabilities_not_seen'].items()]
    return '\n'.join(lines)
