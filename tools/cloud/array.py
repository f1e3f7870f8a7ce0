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

"""The state of the array, read over its REST API without the driver."""

import dataclasses
import pathlib
from typing import Any

import requests

from tools.cloud import errors
from tools.cloud import settings

REQUEST_SECONDS = 30
RESOURCES = ('volumes', 'volume_groups', 'snapshots', 'mappings', 'hosts',
             'host_iqns', 'host_fc_ports')
# More than the workflow creates; the array does not limit the page size.
PAGE = 9999

Objects = list[dict[str, Any]]


@dataclasses.dataclass(frozen=True)
class Array:
    """A reader of one array. The password stays out of its repr.

    :ivar control_file: with the password of the control API, which the
        array creates at its first start
    """

    url: str
    ca_file: str
    password: str = dataclasses.field(repr=False)
    control_file: pathlib.Path

    def _account(self, path: str) -> tuple[str, str]:
        """Return login and password of the API that a path belongs to."""
        if path.startswith('/sim/'):
            return (settings.CONTROL_LOGIN,
                    self.control_file.read_text().rstrip('\n'))
        return settings.LOGIN, self.password

    def _ask(self, method: str, path: str, **options: Any
             ) -> requests.Response:
        """Return the array's reply to one request.

        :raises CloudError: the array refuses it
        """
        reply = requests.request(
            method, self.url + path, auth=self._account(path),
            verify=self.ca_file, timeout=REQUEST_SECONDS, **options)
        if not reply.ok:
            raise errors.CloudError(f'the array answers {reply.status_code} '
                                    f'to {method} {path}: {reply.text[:200]}')
        return reply

    def get(self, path: str) -> Any:
        """Return the JSON body of the reply to a GET.

        :raises CloudError: the array refuses it
        """
        return self._ask('GET', path).json()

    def post(self, path: str, **fields: Any) -> None:
        """Send a request to the array's control API.

        :raises CloudError: the array refuses it
        """
        self._ask('POST', path, json=fields)

    def write(self, volume: int, offset: int, data: bytes) -> None:
        """Write data to a volume, as a host does.

        :raises CloudError: the array refuses it
        """
        self._ask('PUT', f'/sim/v1/data/volumes/{volume}', data=data, headers={
            'Content-Range': f'bytes {offset}-{offset + len(data) - 1}/*'})

    def read(self, volume: int, offset: int, length: int) -> bytes:
        """Return data of a volume.

        :raises CloudError: the array refuses it
        """
        return self._ask('GET', f'/sim/v1/data/volumes/{volume}', headers={
            'Range': f'bytes={offset}-{offset + length - 1}'}).content

    def answers(self) -> bool:
        """Return whether the array serves requests, with verified TLS.

        :raises CloudError: the array refuses the request, such as the login
        """
        try:
            self.get('/api/v2/system/state')
        except requests.ConnectionError:
            return False
        return True

    def objects(self) -> dict[str, Objects]:
        """Return all objects that Cinder can leave behind, by resource."""
        return {name: self.get(f'/api/v2/{name}?__limit={PAGE}')['hits']
                for name in RESOURCES}

    def leftovers(self) -> dict[str, Objects]:
        """Return all users' objects by resource; empty if nothing is left."""
        found: dict[str, Objects] = self.get('/sim/v1/leftovers')
        return {name: objects for name, objects in found.items() if objects}
