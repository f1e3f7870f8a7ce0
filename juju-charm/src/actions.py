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

"""The actions of the charm: each finds out something and changes nothing."""

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

#: What an action shows, by the names of its results.
Results = dict[str, str]
Context = unit_context.UnitContext


class ActionFailed(machines.Failed):
    """An action that fails, and shows something all the same."""

    def __init__(self, text: str, results: Results) -> None:
        """Keep why it fails, and what to show."""
        super().__init__(text)
        self.results = results


def check_array(context: Context, _params: Mapping[str, Any]) -> Results:
    """Ask the arrays whether everything is as it must be.

    :raises ActionFailed: it is not
    """
    report = _answers(context)
    results = {'report': report.text}
    if report.problems:
        raise ActionFailed('; '.join(report.problems), results)
    return {**results,
            'result': '\n'.join(map(status.summary, report.backends))}


def list_capacity(context: Context, _params: Mapping[str, Any]) -> Results:
    """Show what there is on the arrays."""
    return {'result': '\n'.join(
        map(status.capacity, _answers(context).backends))}


def show_volume_types(context: Context, _params: Mapping[str, Any]) -> Results:
    """Show commands that make volume types."""
    return {'result': volume_types.commands(context.settings.backends)}


def discover_paths(context: Context, params: Mapping[str, Any]) -> Results:
    """Show whether this unit reaches the target ports."""
    portals = params.get('portals', '').replace(',', ' ').split()
    lines = paths.tcp(context.machine, portals) if portals else [
        paths.of_backend(context.machine, one)
        for one in _answers(context).backends]
    return {'result': '\n'.join(lines)}


def show_failover_plan(context: Context, _params: Mapping[str, Any]
                       ) -> Results:
    """Show what a failover would do, and how it is done."""
    reports = {one.name: one for one in _answers(context).backends}
    return {'result': '\n'.join(
        failover_plan.plan(one, reports[one.name], context.host,
                           bool(context.settings.cluster))
        for one in context.settings.backends)}


def collect_diagnostics(context: Context, _params: Mapping[str, Any]
                        ) -> Results:
    """Put what may help into one archive."""
    try:
        check = _answers(context).text
    except unit_context.REPORTED_ERRORS as error:
        # What is wrong is what somebody wants to know.
        check = f'{error}\n'
    return {'path': diagnostics.collect(
        context.machine, context.application, context.secret_file.name,
        {'check.txt': check}, context.passwords())}


#: By their names.
ALL: dict[str, Callable[[Context, Mapping[str, Any]], Results]] = {
    'check-array': check_array,
    'list-capacity': list_capacity,
    'show-volume-types': show_volume_types,
    'discover-paths': discover_paths,
    'failover-plan': show_failover_plan,
    'collect-diagnostics': collect_diagnostics,
}


def _answers(context: Context) -> array_check.Report:
    """What the arrays answer.

    :raises machine.Failed: this unit cannot ask them
    """
    if not context.relation:
        raise machines.Failed('this unit is not beside cinder, and only those '
                              'ask the arrays; run the action on one that is')
    if context.report.failure:
        raise machines.Failed(context.report.failure)
    return context.report
