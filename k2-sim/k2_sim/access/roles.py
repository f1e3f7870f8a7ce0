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

"""The permissions of roles: a table of resources and methods.

``root`` and ``admin`` may do everything; only ``root`` has no rate limit
(ERR-5). ``mgmt-app`` is the role of management software such as a Cinder
driver: it reads everything and writes the resources of volumes, snapshots,
hosts and replication, but neither creates peers nor changes the system.
``read-only`` only reads.
"""

from k2_sim import errors

NAMES = ('root', 'admin', 'mgmt-app', 'read-only')
_ALL = frozenset(('POST', 'PATCH', 'DELETE'))
# The writes of mgmt-app; other resources are read-only for it.
_MANAGED: dict[str, frozenset[str]] = {
    'volumes': _ALL,
    'volume_groups': _ALL,
    'snapshots': frozenset(('POST', 'DELETE')),
    'mappings': frozenset(('POST', 'DELETE')),
    'hosts': _ALL,
    'host_iqns': _ALL,
    'host_fc_ports': _ALL,
    'host_auth_profiles': _ALL,
    'replication/sessions': _ALL,
    'replication/peer_volumes': frozenset(('POST', 'DELETE')),
}


def may(role: str, method: str, resource: str) -> bool:
    """Whether a role may use a method on a resource, named as in refs."""
    if role in ('root', 'admin') or method == 'GET':
        return True
    return role == 'mgmt-app' and method in _MANAGED.get(
        resource, frozenset())


def check(role: str, method: str, path: str) -> None:
    """Refuse (403) a method that the role does not allow on a path.

    path is below /api/v2. Unsupported methods pass: they are refused with
    405 later, for every role.
    """
    if method not in _ALL:
        return
    path = path.strip('/')
    # An id, or __bulk, can follow the name of the resource.
    if not (may(role, method, path)
            or may(role, method, path.rpartition('/')[0])):
        raise errors.ApiError(
            403, f'The role {role} does not allow {method} here')
