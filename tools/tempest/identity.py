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
"""The content of keystone: users and endpoints of the services."""

from keystoneauth1.identity import v3
from keystoneauth1 import session as keystone_session
from keystoneclient.v3 import client

from tools.tempest import layout

#: Services that have users of their own.
USERS = ('cinder', 'glance')
# Timeout in seconds, for a busy machine.
REQUEST = 60.0
_ENDPOINTS = {'image': layout.url(layout.GLANCE),
              'block-storage': layout.url(layout.CINDER, '/v3'),
              'volumev3': layout.url(layout.CINDER, '/v3'),
              'network': layout.url(layout.NEUTRON)}


def session(run: layout.Layout) -> keystone_session.Session:
    """Return a session of the administrator, in its project."""
    return keystone_session.Session(v3.Password(
        auth_url=layout.url(layout.KEYSTONE, '/v3'), username=layout.ADMIN,
        password=run.secret, project_name=layout.ADMIN,
        user_domain_id='default', project_domain_id='default'),
        timeout=REQUEST)


def set_up(run: layout.Layout) -> None:
    """Create all users and endpoints; keystone is only bootstrapped."""
    keystone = client.Client(session=session(run))
    roles = {role.name: role for role in keystone.roles.list()}
    project = keystone.projects.create('service', 'default')
    for name in USERS:
        user = keystone.users.create(name, 'default', password=run.secret)
        for role in ('admin', 'service'):
            keystone.roles.grant(roles[role], user=user, project=project)
    for kind, url in _ENDPOINTS.items():
        service = keystone.services.create(kind, kind)
        for interface in ('public', 'internal', 'admin'):
            keystone.endpoints.create(service, url, interface, layout.REGION)
