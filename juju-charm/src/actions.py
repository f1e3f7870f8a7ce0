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

"""The actions of the charm. None of them changes an array or Cinder."""

from collections.abc import Callable
from collections.abc import Mapping
from typing import Any

import array_check
import diagnostics
import failover_plan
import machine as machines
import paths
import status
import unit_context
import volume_types

#: The results of an action by name.
Results = dict[str, str]
Context = unit_context.UnitContext


class ActionFailed(machines.Failed):
    """An action failed, but still has results."""

    def __init__(self, text: str, results: Results) -> None:
        """Store the message and the results."""
        super().__init__(text)
        self.results = results


def check_array(context: Context, _params: Mapping[str, Any]) -> Results:
    """Check the arrays of all back ends.

    :raises ActionFailed: the check found problems
    """
    report = _report(context)
    results = {'report': report.text, 'cinder': str(context.cinder)}
    if report.problems:
        raise ActionFailed('; '.join(report.problems), results)
    return {**results,
            'result': '\n'.join(map(status.summary, report.backends))}


def list_capacity(context: Context, _params: Mapping[str, Any]) -> Results:
    """Show the capacity of each back end."""
    return {'result': '\n'.join(
        map(status.capacity, _report(context).backends))}


def show_volume_types(context: Context, _params: Mapping[str, Any]) -> Results:
    """Show commands that create volume types."""
    return {'result': volume_types.commands(context.settings.backends)}


def discover_paths(context: Context, params: Mapping[str, Any]) -> Results:
    """Show whether this unit reaches the target ports."""
    portals = params.get('portals', '').replace(',', ' ').split()
    lines = paths.tcp(context.machine, portals) if portals else [
        paths.of_backend(context.machine, one)
        for one in _report(context).backends]
    return {'result': '\n'.join(lines)}


def show_failover_plan(context: Context, _params: Mapping[str, Any]
                       ) -> Results:
    """Show the effects of a failover, and the commands for it."""
    reports = {one.name: one for one in _report(context).backends}
    return {'result': '\n'.join(
        failover_plan.plan(one, reports[one.name], context.host,
                           bool(context.settings.cluster))
        for one in context.settings.backends)}


def collect_diagnostics(context: Context, _params: Mapping[str, Any]
                        ) -> Results:
    """Collect configuration, versions and the report in one archive."""
    try:
        check = _report(context).text
    except unit_context.REPORTED_ERRORS as error:
        # The error belongs in the archive, too.
        check = f'{error}\n'
    reports = {'check.txt': check, 'cinder.txt': _cinder(context)}
    return {'path': diagnostics.collect(
        context.machine, context.application, context.secret_file.name,
        reports, context.passwords())}


#: All actions by name.
ALL: dict[str, Callable[[Context, Mapping[str, Any]], Results]] = {
    'check-array': check_array,
    'list-capacity': list_capacity,
    'show-volume-types': show_volume_types,
    'discover-paths': discover_paths,
    'failover-plan': show_failover_plan,
    'collect-diagnostics': collect_diagnostics,
}


def _cinder(context: Context) -> str:
    """Return the release of Cinder, or the error if it cannot be found."""
    try:
        lines = (str(context.cinder), context.cinder.warning)
    except machines.Failed as error:
        lines = (str(error), '')
    return '\n'.join(filter(None, lines)) + '\n'


def _report(context: Context) -> array_check.Report:
    """Return the report of the check of all arrays.

    :raises machine.Failed: this unit cannot check them
    """
    if not context.relation:
        raise machines.Failed('only units related to cinder can check arrays; '
                              'run the action on one of them')
    if context.report.failure:
        raise machines.Failed(context.report.failure)
    return context.report
