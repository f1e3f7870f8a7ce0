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

"""The iSCSI driver."""

from cinder.common import constants
from cinder import interface

from cinder_k2.driver import base
from cinder_k2.driver import chap
from cinder_k2.driver import config
from cinder_k2.driver import side
from cinder_k2.flows import chap as flows_chap
from cinder_k2.transport import iscsi


class ISCSISide(side.Side):
    """An array over iSCSI."""

    def _make_transport(self) -> iscsi.ISCSITransport:
        with config.option_errors('k2_iscsi_cidrs'):
            return iscsi.ISCSITransport(self.configuration.k2_iscsi_cidrs)

    def _make_chap(self) -> flows_chap.Chap:
        return chap.for_iscsi(self.configuration, self._driver.db, self._array)


@interface.volumedriver
class K2ISCSIDriver(base.K2Driver):
    """Kaminario K2 (Silk) volumes over iSCSI.

    Version history:

    * 1.0.0: first version
    """

    protocol = constants.ISCSI
    _default_name = 'KaminarioISCSIDriver'
    _side = ISCSISide
