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
packages, and they import nothing of this one.
"""

from typing import TYPE_CHECKING

from cinder_k2.simulator.access.users import Flex
from cinder_k2.simulator.access.users import User
from cinder_k2.simulator.adapters.asgi import asgi_app
from cinder_k2.simulator.adapters.threaded import ThreadedServer
from cinder_k2.simulator.array import Array
from cinder_k2.simulator.blocks.contents import Contents
from cinder_k2.simulator.clock import Clock
from cinder_k2.simulator.clock import FakeClock
from cinder_k2.simulator.errors import ApiError
from cinder_k2.simulator.errors import StateError
from cinder_k2.simulator.faults.fault_rules import FaultRule
from cinder_k2.simulator.peers.connecting import connect
from cinder_k2.simulator.planes.base import Plane
from cinder_k2.simulator.planes.base import PlaneError
from cinder_k2.simulator.planes.lio import lio_plane
from cinder_k2.simulator.planes.tgt import tgt_plane
from cinder_k2.simulator.profiles import Switches
from cinder_k2.simulator.protocol.conversation import Address
from cinder_k2.simulator.protocol.messages import Exchange
from cinder_k2.simulator.protocol.messages import Response

__all__ = (
    'Address', 'ApiError', 'Array', 'Clock', 'Contents', 'Exchange',
    'FakeClock', 'FaultRule', 'Flex', 'Plane', 'PlaneError',
    'RequestsAdapter', 'Response', 'StateError', 'Switches',
    'ThreadedServer', 'User', 'asgi_app', 'connect', 'lio_plane',
    'tgt_plane')

if TYPE_CHECKING:
    from cinder_k2.simulator.adapters.requests_adapter import RequestsAdapter


def __getattr__(name: str) -> object:
    """RequestsAdapter, for whom has requests: k2-sim starts without it."""
    if name != 'RequestsAdapter':
        raise AttributeError(f'module {__name__!r} has no {name!r}')
    from cinder_k2.simulator.adapters import requests_adapter
    return requests_adapter.RequestsAdapter
