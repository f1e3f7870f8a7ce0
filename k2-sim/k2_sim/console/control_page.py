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

"""The data and the actions of the control page."""

from typing import Any

import msgspec

from k2_sim.control import control as control_module
from k2_sim.control import control_api
from k2_sim import errors
from k2_sim.faults import fault_rules
from k2_sim.faults import latency
from k2_sim import profiles
from k2_sim.protocol.messages import Request
from k2_sim.protocol.messages import Response

_API = 'api/'
# Resources of the control API that the page uses.
_OFFERED = ('faults', 'latency', 'ports', 'link', 'behaviors', 'seed',
            'chance', 'reset')


class ControlPage:
    """The control page of one array."""

    def __init__(self, control: control_module.Control) -> None:
        self._control = control

    def answer(self, request: Request, name: str) -> Response | dict[str, Any]:
        """The reply to the page: all data that it shows, or one action.

        Paths below api/ are as below /sim/v1. Raises ApiError.
        """
        if name == 'feed':
            return self._shown()
        if name.removeprefix(_API).partition('/')[0] not in _OFFERED:
            raise errors.no_resource()
        return control_api.answer(self._control, msgspec.structs.replace(
            request, path=f'{control_api.BASE}/{name.removeprefix(_API)}'))

    def _shown(self) -> dict[str, Any]:
        control = self._control
        return {
            'name': control.name, 'faults': control.faults(),
            'latency': control.latency.shown(), 'chance': control.seed,
            'ports': control.ports(), 'cut': control.is_cut,
            'behaviors': control.behaviors(), 'choices': profiles.CHOICES,
            'kinds': fault_rules.KINDS, 'codes': fault_rules.BUSY_CODES,
            'statuses': list(fault_rules.STATUSES),
            'latencies': latency.KINDS}
