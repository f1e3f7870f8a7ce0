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
"""The state that the components of one array share."""

import dataclasses
import threading

from k2_sim.blocks import contents as contents_module
from k2_sim import clock as clock_module
from k2_sim.data import data_store as data_store_module
from k2_sim.data import null
from k2_sim.data import usage_scanner as usage_scanner_module
from k2_sim.faults import faults as faults_module
from k2_sim import profiles
from k2_sim.protocol import request_context
from k2_sim.recording import journal as journal_module
from k2_sim.recording import performance
from k2_sim.recording import recorder as recorder_module
from k2_sim.rules import base
from k2_sim.state import store as store_module


@dataclasses.dataclass
class Core:
    """The state of one array, its data, its clock, and its monitors.

    lock: held while rows are read or changed, and never while waiting for
    another array. io: counters of data transfers for statistics.
    contents: the files of volumes, if there are any. has_maintenance: a
    background task does what is due, so that requests need not. closed:
    peers cannot reach the array any more.
    """

    profile: str
    clock: clock_module.Clock
    behaviors: profiles.Behaviors
    store: store_module.Store
    faults: faults_module.Faults
    journal: journal_module.Journal
    recorder: recorder_module.Recorder
    io: performance.Performance
    contents: contents_module.Contents | None
    lock: threading.RLock
    data_store: data_store_module.DataStore | null.NullDataStore
    usage_scanner: usage_scanner_module.UsageScanner | null.NullUsageScanner
    has_maintenance: bool = False
    closed: bool = False

    def scope(self, role: str = 'admin') -> base.Scope:
        """The rows as a user with a role sees and changes them."""
        return base.Scope(
            self.store, self.behaviors, self.clock, role,
            context=request_context.RequestContext(self.contents))
