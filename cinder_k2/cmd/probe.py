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

"""k2-admin probe: how an array answers, see ``cinder_k2.probe``."""

import argparse
import dataclasses
import os
import re
import sys
import typing

from cinder_k2.cmd import backends
from cinder_k2.probe import run as probe_run
from cinder_k2.probe import tokens

Report = dict[str, typing.Any]


class Failed(Exception):
    """An array was not probed, or the result not written; says why."""


def run(place: backends.Place, options: argparse.Namespace) -> Report | None:
    """Probe one array, after telling what is going to be done.

    :returns: the report; None if the operator does not agree
    :raises Failed: it cannot be done
    :raises rest.RestError: the array does not answer, or refuses the user
    """
    # Where JSON is wanted, nothing else goes to the output.
    print(probe_run.plan(place.address, options.write), file=sys.stderr)
    if options.write and not options.yes and not _agrees():
        return None
    settings = dataclasses.replace(place.remembering, pause=options.pause)
    try:
        report = probe_run.run(probe_run.Target(settings, os.path.join(
            settings.verdicts, 'probe')), options.write)
        name = re.sub('[^0-9A-Za-z.-]', '_', place.address)
        report['files'] = probe_run.save(
            report, options.output, f'k2-probe-{name}')
    except (probe_run.Unfit, tokens.Damaged, OSError) as error:
        raise Failed(str(error)) from None
    return report


def _agrees() -> bool:
    print('Go on? Write yes: ', end='', file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() == 'yes'


def text(report: Report) -> str:
    """A summary for people; the rest is in the files."""
    results = [row['result'] for row in report['rules']]
    lines = [f'{result}: {results.count(result)} rules' for result in (
        'confirmed', 'contradicted', 'not seen')]
    lines += [f'  {row["rule"]}: {row["says"]}: {row["seen"]}'
              for row in report['rules'] if row['result'] == 'contradicted']
    lines += [f'note: {note}' for note in report['notes']]
    return '\n'.join([*lines, 'Look through these files, then send them to '
                      'the project:', *report['files']])
