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

"""Checks the arrays with the driver's own command on the unit.

``k2-admin check`` does what the driver does when it starts, with the same
addresses, certificates and passwords. It reads a temporary configuration file,
which exists only while it runs.
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
# Allows for the start of Python, and for ending requests that hang.
_SECONDS = _LIMIT + 15.0
_USAGE = 2
# k2-admin names options of cinder.conf; these are the charm's equivalents.
_OPTIONS = {'certificate': 'tls-ca or tls-fingerprint',
            'credentials': 'credentials'}
_DEVICE_OPTIONS = {'certificate': 'tls-ca, or tls-fingerprint of the device',
                   'credentials': 'replication-credentials'}


@dataclasses.dataclass(frozen=True)
class Finding:
    """A problem or warning.

    :ivar kind: the kind that k2-admin reports, such as unreachable
    :ivar text: a sentence that says what to do
    """

    kind: str
    text: str


@dataclasses.dataclass(frozen=True)
class BackendReport:
    """The report on one back end.

    :ivar problems: including those of its replication targets
    :ivar capacity: total, free and provisioned in KiB, or None
    :ivar ports: name, address, target and up of each; up is None if the array
        does not report it
    :ivar targets: its replication targets, as k2-admin reports them
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
    """The report on all back ends.

    :ivar failure: why the check could not run, or ''
    :ivar text: the output of k2-admin
    """

    backends: tuple[BackendReport, ...] = ()
    failure: str = ''
    text: str = ''

    @property
    def problems(self) -> list[str]:
        """All problems, each with the name of its back end."""
        found = [f'{one.name}: {finding.text}' for one in self.backends
                 for finding in one.problems]
        return [self.failure, *found] if self.failure else found


def run(machine: machines.Machine, application: str,
        configuration: Mapping[str, sections.Pairs], names: list[str]
        ) -> Report:
    """Check the arrays of all back ends; a failure is part of the report.

    :param configuration: all sections, including secret options
    :param names: the sections that are back ends
    """
    report = _run(machine, application, configuration, names)
    for problem in report.problems:
        _LOG.warning('%s', problem)
    return report


def _run(machine: machines.Machine, application: str,
         configuration: Mapping[str, sections.Pairs], names: list[str]
         ) -> Report:
    file = f'/run/cinder-k2/{application}/check.conf'
    text = sections.render({
        'DEFAULT': [('enabled_backends', ','.join(names))],
        **{name: configuration[name] for name in names}})
    try:
        machine.write(file, text, mode=0o600)
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
        report = json.loads(done.output)
        return Report(tuple(map(_backend, report['backends'])),
                      text=done.output)
    except (ValueError, KeyError, TypeError):
        return Report(failure=f'k2-admin check failed: {done.reason}')


def _backend(report: Mapping[str, Any]) -> BackendReport:
    return BackendReport(
        report['backend'], report['protocol'] or '',
        _findings(report, 'problems'), _findings(report, 'warnings'),
        report['array'], report['capacity'], tuple(report['ports']),
        tuple(report['targets']))


def _findings(report: Mapping[str, Any], key: str) -> tuple[Finding, ...]:
    own = [_finding(one, '', _OPTIONS) for one in report[key]]
    of_targets = [_finding(one, f'replication to {target["backend_id"]}: ',
                           _DEVICE_OPTIONS)
                  for target in report['targets'] for one in target[key]]
    return (*own, *of_targets)


def _finding(entry: Mapping[str, str], prefix: str,
             options: Mapping[str, str]) -> Finding:
    kind = entry['kind']
    option = f' [charm: {options[kind]}]' if kind in options else ''
    return Finding(kind, f'{prefix}{entry["text"]}{option}')
