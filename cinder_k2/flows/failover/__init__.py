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

"""Failover to the other array, and failback.

Both work on many volumes at once: each read and each command is a few calls
for all of them. The states that the arrays show decide, not the replies to
commands, so each function may be called again however the last call ended.
"""

from cinder_k2.flows.failover.failback import fail_back
from cinder_k2.flows.failover.failback import protect_again
from cinder_k2.flows.failover.failback import Reserve
from cinder_k2.flows.failover.failback import Unmap
from cinder_k2.flows.failover.failback_items import Phase
from cinder_k2.flows.failover.failover import fail_over
from cinder_k2.flows.failover.units import DESTINATION
from cinder_k2.flows.failover.units import Ids
from cinder_k2.flows.failover.units import ORIGIN
from cinder_k2.flows.failover.units import Outcome
from cinder_k2.flows.failover.units import ReplicationUnit

__all__ = (
    'DESTINATION', 'Ids', 'ORIGIN', 'Outcome', 'Phase', 'ReplicationUnit',
    'Reserve', 'Unmap', 'fail_back', 'fail_over', 'protect_again')
