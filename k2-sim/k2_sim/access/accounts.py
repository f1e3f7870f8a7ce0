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

"""The accounts of an array and of its control API."""

from collections.abc import Iterable

from k2_sim.access import users as users_module

BASE = '/api/v2'


class Accounts:
    """The accounts of one array.

    users: for its API. controllers: for its control API, the same as users
    unless a controller was given. flex: access as through the cloud manager.
    """

    def __init__(self, users: Iterable[users_module.User],
                 controller: users_module.User | None,
                 flex: users_module.Flex | None) -> None:
        self.users = users_module.Users(users)
        self.controllers = self.users if controller is None \
            else users_module.Users([controller])
        self._flex = flex

    def admit(self, path: str, header: str
              ) -> tuple[users_module.User, str]:
        """The user of a request, and the base path (CON-1, CON-3).

        header: the request's Authorization. Raises ApiError (401).
        """
        base_path = self.base_path(path)
        users = self.users if self._flex is None or base_path == BASE \
            else self._flex
        return users.authenticate(header), base_path

    def base_path(self, path: str) -> str:
        """The base path of the API that a request is for (CON-1)."""
        if self._flex is not None and path.startswith(self._flex.base):
            return self._flex.base
        return BASE
