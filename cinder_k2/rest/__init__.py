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

"""Client of the K2 REST API: one array over HTTPS, nothing of Cinder."""

from cinder_k2.rest import capabilities
from cinder_k2.rest import capability_names
from cinder_k2.rest.client import Client
from cinder_k2.rest.collection import Collection
from cinder_k2.rest import errors
from cinder_k2.rest.errors import AuthenticationFailed
from cinder_k2.rest.errors import BadReply
from cinder_k2.rest.errors import Busy
from cinder_k2.rest.errors import CertificateError
from cinder_k2.rest.errors import Forbidden
from cinder_k2.rest.errors import Incomplete
from cinder_k2.rest.errors import InvalidSettings
from cinder_k2.rest.errors import MethodNotAllowed
from cinder_k2.rest.errors import NotFound
from cinder_k2.rest.errors import NotOffered
from cinder_k2.rest.errors import OtherObject
from cinder_k2.rest.errors import Refused
from cinder_k2.rest.errors import RestError
from cinder_k2.rest.errors import ServerError
from cinder_k2.rest.errors import Unproven
from cinder_k2.rest.errors import Unreachable
from cinder_k2.rest import query
from cinder_k2.rest.records import Capacity
from cinder_k2.rest.records import FcPort
from cinder_k2.rest.records import Host
from cinder_k2.rest.records import HostAuthProfile
from cinder_k2.rest.records import HostFcPort
from cinder_k2.rest.records import HostGroup
from cinder_k2.rest.records import HostIqn
from cinder_k2.rest.records import Mapping
from cinder_k2.rest.records import NetIp
from cinder_k2.rest.records import PeerArray
from cinder_k2.rest.records import PeerVolume
from cinder_k2.rest.records import Performance
from cinder_k2.rest.records import Record
from cinder_k2.rest.records import Ref
from cinder_k2.rest.records import ReplicationSession
from cinder_k2.rest.records import RetentionPolicy
from cinder_k2.rest.records import Snapshot
from cinder_k2.rest.records import SystemState
from cinder_k2.rest.records import Volsnap
from cinder_k2.rest.records import Volume
from cinder_k2.rest.records import VolumeGroup
from cinder_k2.rest.session import OutcomeCheck
from cinder_k2.rest.settings import Settings
from cinder_k2.rest import verdicts

__all__ = (
    'AuthenticationFailed', 'BadReply', 'Busy', 'Capacity', 'CertificateError',
    'Client', 'Collection', 'OutcomeCheck', 'FcPort', 'Forbidden', 'Host',
    'HostAuthProfile', 'HostFcPort', 'HostGroup', 'HostIqn', 'Incomplete',
    'InvalidSettings', 'Mapping', 'MethodNotAllowed', 'NetIp', 'NotFound',
    'NotOffered', 'OtherObject', 'PeerArray', 'PeerVolume', 'Performance',
    'Record', 'Ref', 'Refused', 'ReplicationSession', 'RestError',
    'RetentionPolicy', 'ServerError', 'Settings', 'Snapshot', 'SystemState',
    'Unproven', 'Unreachable', 'Volsnap', 'Volume', 'VolumeGroup',
    'capabilities', 'capability_names', 'errors', 'query', 'verdicts')
