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

"""``location_info``, by which back ends recognize that they share an array."""


def info(system_id: str, protocol: str) -> str:
    """The location of a back end's data: ``K2:<system id>:<protocol>``."""
    return f'K2:{system_id}:{protocol}'


def system_of(location: object) -> str | None:
    """The system id in the ``location_info`` of any back end.

    :returns: None when it is not one of this driver's
    """
    kind, _, rest_of_it = str(location).partition(':')
    system_id = rest_of_it.rpartition(':')[0]
    return system_id if kind == 'K2' and system_id else None
