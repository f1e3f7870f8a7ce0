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

"""Starting, changing and ending the replication of a volume group.

``source_array`` is the array on which Cinder has the volumes, and
``target_array`` the one that they are copied to; after a failover,
``source_array`` is the array that was failed over to. Volumes on
``source_array`` are never deleted; copies on ``target_array`` may be, unless
they are mapped. Data is never copied to ``source_array``: a session is started
or resumed only while that array is its source.

Each function may be called again after an interruption. Names may be passed
with or without the mark of a copy, the ``r`` in front (``naming.peer``):
copies have it if the session was created on ``source_array``, but not if it
was created on ``target_array``.
"""

from cinder_k2.flows.replication.extend import extend
from cinder_k2.flows.replication.start import may_be_begun
from cinder_k2.flows.replication.start import protect
from cinder_k2.flows.replication.start import SessionRequest
from cinder_k2.flows.replication.start import sweep
from cinder_k2.flows.replication.stop import has_ended
from cinder_k2.flows.replication.stop import unprotect
from cinder_k2.flows.replication.target import Confirm
from cinder_k2.flows.replication.target import Link
from cinder_k2.flows.replication.target import Member
from cinder_k2.flows.replication.target import Release

__all__ = (
    'Confirm', 'Link', 'Member', 'SessionRequest', 'Release', 'extend',
    'has_ended',
    'may_be_begun', 'protect', 'sweep', 'unprotect')
