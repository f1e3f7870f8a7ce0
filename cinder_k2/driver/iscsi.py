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

from cinder_k2.array import Array
from cinder_k2.driver import base
from cinder_k2.driver import chap
from cinder_k2.driver import config
from cinder_k2.driver import operations
from cinder_k2.driver.operations import zoning
from cinder_k2.transport import iscsi


@interface.volumedriver
class K2ISCSIDriver(base.K2Driver):
    """Kaminario K2 (Silk) volumes over iSCSI.

    Version history:

    * 1.0.0: first version
    """

    protocol = constants.ISCSI
    _default_name = 'KaminarioISCSIDriver'

    def _fabric(self, array: Array) -> operations.Fabric:
        with config.option_errors('k2_iscsi_cidrs'):
            network = iscsi.ISCSITransport(self.configuration.k2_iscsi_cidrs)
        return operations.Fabric(network, zoning.NoZoning(), chap.for_iscsi(
            self.configuration, self.db, array))
