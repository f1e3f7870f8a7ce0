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

"""Settings for the connection to one array."""

import dataclasses
import re

from cinder_k2.rest import address as rest_address
from cinder_k2.rest import errors
from cinder_k2.rest import tls
from cinder_k2 import version


def _user_agent() -> str:
    return f'cinder-k2/{version.version()}'


@dataclasses.dataclass(frozen=True)
class Settings:
    """Address, credentials and limits of one array; all times in seconds.

    ``address`` and ``port`` are san_ip and san_api_port, ``verify`` and
    ``ca_path`` (a file or a directory) driver_ssl_cert_verify and
    driver_ssl_cert_path. ``fingerprint`` pins the array's certificate by its
    SHA-256, 64 hex digits with optional colons, blanks and dashes; it replaces
    the other two. ``sdp_id`` and ``token`` reach the array through the
    vendor's cloud manager at ``address``, with an application token instead of
    login and password (CON-3). ``deadline`` is for one logical call with all
    its retries, ``max_writes`` the most writes under way at once,
    ``pool_size`` the most requests under way at once. ``verdicts`` is a
    directory for capability verdicts, empty to keep them in memory;
    ``disabled_capabilities`` names those not to be used. ``device`` is the
    backend_id of the replication_device that names the array, for the advice
    in errors; it is empty for the array of the back end's own options.
    ``pause`` is the pause before each request.

    :raises errors.InvalidSettings: a value that cannot be used
    """

    address: str
    login: str = ''
    password: str = dataclasses.field(default='', repr=False)
    sdp_id: str | None = None
    token: str | None = dataclasses.field(default=None, repr=False)
    port: int | None = None
    verify: bool = False
    ca_path: str | None = None
    fingerprint: str | None = None
    connect_timeout: float = 10.0
    read_timeout: float = 60.0
    deadline: float = 180.0
    max_writes: int = 32
    pool_size: int = 64
    verdicts: str = ''
    disabled_capabilities: tuple[str, ...] = ()
    device: str = ''
    pause: float = 0.0
    user_agent: str = dataclasses.field(default_factory=_user_agent)

    def __post_init__(self) -> None:
        self._check_credentials()
        self._check_numbers()
        if self.verify and self.ca_path:
            tls.check_authority(self.ca_path)
        # Read once for the errors that they raise.
        _ = (self.endpoint, self.pin)

    @property
    def endpoint(self) -> rest_address.Address:
        """Host and port of the REST service."""
        return rest_address.parse(self.address, self.port)

    @property
    def array(self) -> str:
        """Identifier of the array, unique also behind a cloud manager."""
        address = str(self.endpoint)
        return f'{address}/{self.sdp_id}' if self.sdp_id else address

    @property
    def pin(self) -> str | None:
        """The fingerprint as 64 lower-case digits, None without one."""
        return tls.normal_fingerprint(self.fingerprint)

    @property
    def base_path(self) -> str:
        """The common prefix of all paths of the API (CON-1, CON-3)."""
        return f'/rest/sdps/{self.sdp_id}/api/v2' if self.sdp_id else '/api/v2'

    def _check_credentials(self) -> None:
        if self.sdp_id or self.token:
            if not (self.token and re.fullmatch(r'[\w.-]+',
                                                self.sdp_id or '')):
                raise errors.InvalidSettings(
                    'k2_sdp_id, an id without slashes, and k2_app_token go '
                    'together: set both, or none')
        elif not self.login or ':' in self.login or not self.password:
            # RFC 7617: a colon would end the user name.
            raise errors.InvalidSettings(
                'san_login and san_password must be set, san_login without '
                'a colon')

    def _check_numbers(self) -> None:
        for name in ('connect_timeout', 'read_timeout', 'deadline',
                     'max_writes', 'pool_size'):
            if getattr(self, name) <= 0:
                raise errors.InvalidSettings(f'{name} must be above 0')
