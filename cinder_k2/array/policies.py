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

"""Retention policies, configured by name (RET-1)."""

from cinder_k2 import exceptions
from cinder_k2 import rest


def find(client: rest.Client, name: str, option: str) -> int:
    """Id of the retention policy with a name. One call.

    :param option: the option in cinder.conf that has the name, for the error
    :raises ArrayNotSupported: the array has no policy of that name
    """
    policy = client.retention_policies.find(name=name)
    if policy is None:
        raise exceptions.ArrayNotSupported(
            f'The array at {client.address} has no retention policy '
            f'"{name}"; correct {option} or make the policy on the array.')
    return policy.id
