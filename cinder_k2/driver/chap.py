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

"""CHAP of a back end, and its connection properties for os-brick."""

import typing

from oslo_log import log as logging

from cinder_k2.array import Array
from cinder_k2.array import chap
from cinder_k2.driver.db import chap_secrets
from cinder_k2.flows import chap as flows

LOG = logging.getLogger(__name__)


def properties(login: chap.Login | None) -> dict[str, str]:
    """The additional connection properties; none without CHAP.

    They contain no login for discovery: connections list all portals, so hosts
    do no discovery.
    """
    if login is None:
        return {}
    return {'auth_method': 'CHAP', 'auth_username': login.name,
            'auth_password': login.password}


def for_iscsi(configuration: typing.Any, database: typing.Any,
              array: Array) -> flows.Chap:
    """CHAP of an iSCSI back end, on or off as ``use_chap_auth`` says."""
    return flows.Chap(
        array, array.iscsi_hosts, chap_secrets.Secrets(database, array),
        required=configuration.use_chap_auth)


def warn_without_iscsi(configuration: typing.Any) -> None:
    """Warn if CHAP is configured for a transport without it."""
    if configuration.use_chap_auth:
        LOG.warning('use_chap_auth in section [%s] has no effect: CHAP is '
                    'for iSCSI, and this back end uses Fibre Channel.',
                    configuration.config_group)
