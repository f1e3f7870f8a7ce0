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

"""k2-admin probe: how an array behaves, see ``cinder_k2.probe``."""

import argparse
import dataclasses
import datetime
import os
import sys
import typing

from cinder_k2.cmd import backends
from cinder_k2.probe import run as probe_run
from cinder_k2.probe import tokens

Report = dict[str, typing.Any]


class Failed(Exception):
    """The probe failed or its result could not be written; says why."""


def run(place: backends.Place, options: argparse.Namespace) -> Report | None:
    """Probe one array, after announcing what will be done.

    :returns: the report; None if the operator does not agree
    :raises Failed: the array cannot be probed, or the result not be written
    :raises rest.RestError: the array does not reply, or refuses the user
    """
    settings = dataclasses.replace(place.remembering, pause=options.pause)
    directory = os.path.join(settings.verdicts, 'probe')
    # With JSON, nothing else is written to stdout.
    print(probe_run.plan(place.array, options.write), file=sys.stderr)
    print(f'Names are saved in {directory}, and the result in '
          f'{os.path.abspath(options.output)}.', file=sys.stderr)
    if not os.access(options.output, os.W_OK | os.X_OK):
        raise Failed(f'cannot write to {options.output}')
    if options.write and not options.yes and not _agrees():
        return None
    try:
        report = probe_run.run(
            probe_run.Target(settings, directory), options.write)
        return {**report, 'files': probe_run.save(
            report, options.output, _name(options.output))}
    except (probe_run.Unfit, tokens.Damaged, tokens.Busy, OSError) as error:
        raise Failed(str(error)) from None
    except KeyboardInterrupt:
        raise Failed('interrupted; if anything was left on the array, the '
                     'next probe removes it') from None


def _name(directory: str) -> str:
    """An unused name for the files that reveals no address."""
    now = datetime.datetime.now(datetime.timezone.utc)
    while True:
        name = f'k2-probe-{now:%Y%m%dT%H%M%SZ}'
        if not os.path.exists(os.path.join(directory, f'{name}.json')):
            return name
        now += datetime.timedelta(seconds=1)


def _agrees() -> bool:
    """Whether the operator confirms with yes.

    :raises Failed: there is no terminal
    """
    print('Go on? Type yes: ', end='', file=sys.stderr, flush=True)
    answer = sys.stdin.readline()
    if not answer:
        print(file=sys.stderr)
        raise Failed('not confirmed; use --yes if there is no '
                     'terminal')
    return answer.strip().lower() == 'yes'


def text(report: Report) -> str:
    """A text summary; the rest is in the files."""
    results = [row['result'] for row in report['rules']]
    lines = [f'{result}: {results.count(result)} rules' for result in (
        'confirmed', 'contradicted', 'not seen')]
    lines += [f'  {row["rule"]}: {row["says"]}: {row["seen"]}'
              for row in report['rules'] if row['result'] == 'contradicted']
    lines += [f'note: {note}' for note in report['notes']]
    return '\n'.join([*lines, 'Review these files, then send them to the '
                      'project:', *report['files']])
