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

"""The Fibre Channel driver."""

import typing

from cinder.common import constants
from cinder import interface
from cinder.zonemanager import utils as fczm_utils

from cinder_k2.driver import attachments
from cinder_k2.driver import base
from cinder_k2.driver import chap
from cinder_k2.driver import side
from cinder_k2.transport import fc


class FCSide(side.Side):
    """An array over Fibre Channel."""

    _transport: fc.FCTransport

    def _make_transport(self) -> fc.FCTransport:
        return fc.FCTransport(fczm_utils.create_lookup_service())

    def _make_chap(self) -> None:
        chap.warn_without_iscsi(self.configuration)

    def _connected(self, connection: dict[str, typing.Any]) -> None:
        fczm_utils.add_fc_zone(connection)

    def _now_idle(self, initiators: list[str]) -> None:
        fczm_utils.remove_fc_zone(self._unzoning(initiators))

    def _unzoning(self, initiators: list[str]) -> dict[str, typing.Any]:
        return self._transport.former_targets(
            self._array, initiators).unzoning()

    def _report(self, done: attachments.Disconnected
                ) -> dict[str, typing.Any]:
        """The zones that were removed."""
        if not done.idle:
            return {'driver_volume_type': 'fibre_channel', 'data': {}}
        return self._unzoning(sorted(done.idle))


@interface.volumedriver
class K2FCDriver(base.K2Driver):
    """Kaminario K2 (Silk) volumes over Fibre Channel.

    Version history:

    * 1.0.0: first version
    """

    protocol = constants.FC
    _default_name = 'KaminarioFCDriver'
    _side = FCSide
