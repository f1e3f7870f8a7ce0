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

"""A simulated array that answers the K2 REST API, version 2.

An independent reading of the API: nothing here imports the driver's
packages, and they import nothing from this one.
"""

from k2_sim.access.users import Flex
from k2_sim.access.users import User
from k2_sim.adapters.asgi import asgi_app
from k2_sim.adapters.requests_adapter import RequestsAdapter
from k2_sim.adapters.server import Server
from k2_sim.array import Array
from k2_sim.blocks.contents import Contents
from k2_sim.clock import Clock
from k2_sim.clock import FakeClock
from k2_sim.connecting import connect
from k2_sim.data_planes.base import DataPlane
from k2_sim.data_planes.base import DataPlaneError
from k2_sim.data_planes.lio import lio_data_plane
from k2_sim.data_planes.tgt import tgt_data_plane
from k2_sim.errors import ApiError
from k2_sim.errors import StateError
from k2_sim.faults.fault_rules import FaultRule
from k2_sim.profiles import Behaviors
from k2_sim.protocol.messages import Exchange
from k2_sim.protocol.messages import Response
from k2_sim.protocol.request_context import Address

__all__ = (
    'Address', 'ApiError', 'Array', 'Behaviors', 'Clock', 'Contents',
    'DataPlane', 'DataPlaneError', 'Exchange', 'FakeClock', 'FaultRule',
    'Flex', 'RequestsAdapter', 'Response', 'Server', 'StateError', 'User',
    'asgi_app', 'connect', 'lio_data_plane', 'tgt_data_plane')
