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

"""Checks of rules that need objects created by the probe.

They run in the order of ``ALL``: those that remove objects come last.
"""

from cinder_k2.probe.writes.chap import Chap
from cinder_k2.probe.writes.clones import Clones
from cinder_k2.probe.writes.groups import Groups
from cinder_k2.probe.writes.host_groups import HostGroups
from cinder_k2.probe.writes.hosts import Hosts
from cinder_k2.probe.writes.initiators import Initiators
from cinder_k2.probe.writes.policies import Policies
from cinder_k2.probe.writes.removals import Removals
from cinder_k2.probe.writes.snapshots import Snapshots
from cinder_k2.probe.writes.volumes import Volumes

ALL = (Groups, Volumes, Snapshots, Clones, Hosts, Chap, HostGroups,
       Initiators, Policies, Removals)
