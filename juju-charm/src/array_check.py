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

"""What the arrays answer, through the driver's own command on the unit.

``k2-admin check`` does what the driver does at its start, with its addresses,
certificates and passwords. It gets a configuration file of its own, which is
there only while it runs.
"""

from collections.abc import Mapping
import dataclasses
import json
import logging
from typing import Any

import machine as machines
import sections

_LOG = logging.getLogger(__name__)
_LIMIT = 20
# For Python to start, and to end what hangs.
_SECONDS = _LIMIT + 15.0
_USAGE = 2
# k2-admin names options of cinder.conf; these are the charm's for them.
_OPTIONS = {'certificate': 'tls-ca or tls-fingerprint',
            'credentials': 'credentials'}
_OF_DEVICES = {'certificate': 'tls-ca, or tls-fingerprint of the device',
               'credentials': 'replication-credentials'}


@dataclasses.dataclass(frozen=True)
class Finding:
    """Something that is not as it must be.

    :ivar kind: a word of k2-admin for it, such as unreachable
    :ivar text: a sentence that says what to do
    """

    kind: str
    text: str


@dataclasses.dataclass(frozen=True)
class BackendReport:
    """What was found of one back end.

    :ivar problems: those of the arrays that it replicates to are among them
    :ivar capacity: total, free and provisioned in KiB, or None
    :ivar ports: name, address, target and up of each; up is None where the
        array does not tell
    :ivar targets: the arrays that it replicates to, as k2-admin tells them
    """

    name: str
    protocol: str = ''
    problems: tuple[Finding, ...] = ()
    warnings: tuple[Finding, ...] = ()
    array: Mapping[str, Any] | None = None
    capacity: Mapping[str, int] | None = None
    ports: tuple[Mapping[str, Any], ...] = ()
    targets: tuple[Mapping[str, Any], ...] = ()


@dataclasses.dataclass(frozen=True)
class Report:
    """What was found of all back ends.

    :ivar failure: why nothing was found, or ''
    :ivar text: what k2-admin printed
    """

    backends: tuple[BackendReport, ...] = ()
    failure: str = ''
    text: str = ''

    @property
    def problems(self) -> list[str]:
        """Everything that is wrong, each with the name of its back end."""
        found = [f'{one.name}: {finding.text}' for one in self.backends
                 for finding in one.problems]
        return [self.failure, *found] if self.failure else found


def run(machine: machines.Machine, application: str,
        configuration: Mapping[str, sections.Pairs], names: list[str]
        ) -> Report:
    """Ask the arrays of all back ends; a failure is told in the report.

    :param configuration: all sections, the secret ones too
    :param names: those that are back ends
    """
    report = _run(machine, application, configuration, names)
    for problem in report.problems:
        _LOG.warning('%s', problem)
    return report


def _run(machine: machines.Machine, application: str,
         configuration: Mapping[str, sections.Pairs], names: list[str]
         ) -> Report:
    file = f'/run/cinder-k2/{application}/check.conf'
    whole = {'DEFAULT': [('enabled_backends', ','.join(names))],
             **{name: configuration[name] for name in names}}
    try:
        machine.write(file, sections.render(whole), mode=0o600)
        done = machine.run(
            'k2-admin', 'check', '--json', '--timeout', str(_LIMIT),
            '--config-file', str(machine.path(file)), seconds=_SECONDS)
    except machines.Failed as error:
        return Report(failure=f'the arrays could not be checked: {error}')
    finally:
        machine.remove(file)
    return _read(done)


def _read(done: machines.Result) -> Report:
    if done.status == _USAGE:
        return Report(failure='the driver is too old to check its arrays; '
                              'install a newer one')
    try:
        told = json.loads(done.output)
        return Report(tuple(map(_backend, told['backends'])),
                      text=done.output)
    except (ValueError, KeyError, TypeError):
        return Report(failure=f'k2-admin check failed: {done.reason}')


def _backend(told: Mapping[str, Any]) -> BackendReport:
    return BackendReport(
        told['backend'], told['protocol'] or '',
        _findings(told, 'problems'), _findings(told, 'warnings'),
        told['array'], told['capacity'], tuple(told['ports']),
        tuple(told['targets']))


def _findings(told: Mapping[str, Any], key: str) -> tuple[Finding, ...]:
    own = [_finding(one, '', _OPTIONS) for one in told[key]]
    theirs = [_finding(one, f'replication to {target["backend_id"]}: ',
                       _OF_DEVICES)
              for target in told['targets'] for one in target[key]]
    return (*own, *theirs)


def _finding(told: Mapping[str, str], before: str, names: Mapping[str, str]
             ) -> Finding:
    kind = told['kind']
    option = f' [charm: {names[kind]}]' if kind in names else ''
    return Finding(kind, f'{before}{told["text"]}{option}')
