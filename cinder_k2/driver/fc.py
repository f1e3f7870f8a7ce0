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

from cinder.common import constants
from cinder import interface
from cinder.zonemanager import utils as fczm_utils

from cinder_k2.array import Array
from cinder_k2.driver import base
from cinder_k2.driver import chap
from cinder_k2.driver import operations
from cinder_k2.driver.operations import zoning
from cinder_k2.transport import fc


@interface.volumedriver
class K2FCDriver(base.K2Driver):
    """Kaminario K2 (Silk) volumes over Fibre Channel.

    Version history:

    * 1.0.0: first version
    """

    protocol = constants.FC
    _default_name = 'KaminarioFCDriver'

    def _fabric(self, array: Array) -> operations.Fabric:
        chap.warn_without_iscsi(self.configuration)
        network = fc.FCTransport(fczm_utils.create_lookup_service())
        return operations.Fabric(
            network, zoning.FabricZoning(array, network), None)
