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

"""k2-admin capabilities: what is known about arrays, only from the files.

Reports are plain values, as ``--json`` prints them. No array is called.
"""

from collections.abc import Iterator
from collections.abc import Sequence
import datetime
import os
import typing

from cinder_k2.cmd import backends
from cinder_k2 import rest

Report = dict[str, typing.Any]


def read(places: Sequence[backends.Place]) -> Report:
    """The verdicts on one array.

    :param places: all places that refer to it
    """
    settings = places[0].remembering
    client = rest.Client(settings)
    file = rest.verdicts.File(settings.verdicts, settings.array)
    is_there = os.path.exists(file.path)
    version, stored = file.load() if is_there else ('', {})
    return {'address': settings.array,
            'backends': [place.label for place in places],
            'file': str(file.path) if is_there else None,
            'version': version or None,
            'capabilities': [
                _row(name, verdict, stored.get(name, verdict))
                for name, verdict in sorted(
                    _all(client.capabilities), key=lambda each: each[0])]}


def _all(known: rest.capabilities.Capabilities
         ) -> Iterator[tuple[str, rest.verdicts.Verdict]]:
    """Verdicts by name, including kinds that have none yet."""
    found = known.all()
    yield from found.items()
    for name in rest.capability_names.CAPABILITIES:
        if not any(f'{other}:'.startswith(f'{name}:') for other in found):
            yield name, known.verdict(name)


def _row(name: str, verdict: rest.verdicts.Verdict,
         stored: rest.verdicts.Verdict) -> Report:
    """The row of a capability.

    :param stored: the value in the file; an old refusal counts as unknown, and
        the capability is tried again when it is needed
    """
    what, without = rest.capability_names.describe(name)
    is_old = (verdict.state, stored.state) == (
        rest.verdicts.UNKNOWN, rest.verdicts.REFUSED)
    shown = stored if is_old else verdict
    return {'name': name, 'what': what, 'verdict': verdict.state,
            'since': _time(shown.time), 'words': shown.words or None,
            'asked_again': is_old, 'without': without}


def _time(seconds: float) -> str | None:
    if not seconds:
        return None
    return datetime.datetime.fromtimestamp(
        seconds, datetime.timezone.utc).isoformat(timespec='seconds')


def _verdict(row: Report) -> str:
    if row['asked_again']:
        return (f'{row["verdict"]}: refused on {row["since"]}, the array is '
                'asked again when it is needed')
    since = f' since {row["since"]}' if row['since'] else ''
    return f'{row["verdict"]}{since}'


def text(report: Report) -> str:
    """A text report."""
    lines = [f'Array {report["address"]}, back ends: '
             + ', '.join(report['backends'])]
    if report['file'] is None:
        lines.append('  no verdicts on this array on this machine yet')
    width = max(len(row['name']) for row in report['capabilities'])
    for row in report['capabilities']:
        lines.append(f'  {row["name"]:<{width}}  {_verdict(row)}')
        if row['words']:
            lines.append(f'    the array: {row["words"]}')
        if row['verdict'] in (rest.verdicts.REFUSED, rest.verdicts.DISABLED):
            lines.append(f'    without {row["what"]}: {row["without"]}')
    return '\n'.join(lines)
