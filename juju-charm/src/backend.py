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

"""One back end: charm options translated to options of cinder.conf."""

from collections.abc import Callable
from collections.abc import Mapping
import dataclasses

import replication
import validation

ISCSI = 'iSCSI'
FC = 'FC'
_MULTIPATH = 'use_multipath_for_image_xfer'


@dataclasses.dataclass(frozen=True)
class Backend:
    """One section of cinder.conf.

    :ivar protocol: ISCSI or FC
    :ivar values: options of the section that are not secret, by their names
        in cinder.conf, not yet escaped
    :ivar tls_ca: certificates in PEM format, or ''
    :ivar credentials: the id of a secret, or '' for san_user and san_password
    :ivar replication_credentials: the id of a secret, or ''
    """

    name: str
    protocol: str
    values: Mapping[str, str]
    tls_ca: str = ''
    credentials: str = ''
    replication_credentials: str = ''
    devices: tuple[replication.Device, ...] = ()

    @property
    def multipath(self) -> bool:
        """Whether Cinder uses all paths to a volume."""
        return self.values.get(_MULTIPATH) == 'True'


@dataclasses.dataclass(frozen=True)
class _Field:
    """A charm option that maps to one option of the section."""

    option: str
    key: str
    read: Callable[[str], str] = validation.text
    iscsi_only: bool = False


_FIELDS = (
    _Field('san_ip', 'san_ip', validation.address),
    _Field('san-api-port', 'san_api_port', validation.port),
    _Field('volume-backend-name', 'volume_backend_name', validation.pool),
    _Field('backend-availability-zone', 'backend_availability_zone'),
    _Field('tls-verify', 'driver_ssl_cert_verify', validation.boolean),
    _Field('tls-fingerprint', 'k2_tls_fingerprint', validation.fingerprint),
    _Field('is_multipath_enabled', _MULTIPATH, validation.boolean),
    _Field('iscsi-cidrs', 'k2_iscsi_cidrs', validation.cidrs, iscsi_only=True),
    _Field('use-chap-auth', 'use_chap_auth', validation.boolean,
           iscsi_only=True),
    _Field('max-over-subscription-ratio', 'max_over_subscription_ratio',
           validation.ratio),
    _Field('reserved-percentage', 'reserved_percentage',
           validation.percentage),
    _Field('filter-function', 'filter_function'),
    _Field('goodness-function', 'goodness_function'),
    _Field('image-volume-cache-enabled', 'image_volume_cache_enabled',
           validation.boolean),
    _Field('image-volume-cache-max-size-gb',
           'image_volume_cache_max_size_gb', validation.integer),
    _Field('image-volume-cache-max-count', 'image_volume_cache_max_count',
           validation.integer),
    _Field('clone-strategies', 'k2_clone_strategies', validation.strategies),
    _Field('retention-policy', 'k2_retention_policy'),
    _Field('replication-retention-policy', 'k2_replication_retention_policy'),
)
#: Options that can be set per back end.
OPTIONS = (*(field.option for field in _FIELDS), 'protocol', 'tls-ca',
           'credentials', 'replication-credentials', 'replication-devices')


def read(validator: validation.Validator, name: str,
         given: validation.GivenOptions) -> Backend:
    """Read one back end; errors and warnings go to ``validator``."""
    validator.check_names(given, OPTIONS)
    protocol = validator.read(given, 'protocol', validation.protocol) or ISCSI
    backend = Backend(
        name, protocol, _values(validator, name, given, protocol),
        tls_ca=validator.read(given, 'tls-ca', validation.certificates),
        credentials=validator.read(given, 'credentials', validation.secret_id),
        replication_credentials=validator.read(
            given, 'replication-credentials', validation.secret_id),
        devices=replication.read(validator, given))
    _check(validator, given, backend)
    _warn(validator, given, backend)
    return backend


def _values(validator: validation.Validator, name: str,
            given: validation.GivenOptions, protocol: str
            ) -> dict[str, str]:
    """Return the options of the section that are set."""
    values = {'volume_backend_name': name, 'driver_ssl_cert_verify': 'True'}
    for field in _FIELDS:
        text = validator.read(given, field.option, field.read)
        if text and not (field.iscsi_only and protocol == FC):
            values[field.key] = text
    return values


def _check(validator: validation.Validator, given: validation.GivenOptions,
           backend: Backend) -> None:
    if not given.get('san_ip'):
        validator.error(f'{given.prefix}san_ip is not set; give the '
                        'management address of the array')
    if not given.get('credentials') and not (
            given.get('san_user') and given.get('san_password')):
        validator.error(f'{given.prefix}credentials is not set; give a secret '
                        'with the keys username and password')
    replication.check(validator, given.prefix, backend.devices,
                      (backend.values.get('san_ip', ''),
                       backend.values.get('san_api_port', '')),
                      given.get('replication-credentials'))


def _warn(validator: validation.Validator, given: validation.GivenOptions,
          backend: Backend) -> None:
    if given.get('san_password'):
        validator.warn('san_password can be read in the model; use a secret '
                       'in credentials instead, then reset it')
    if (backend.values.get('driver_ssl_cert_verify') == 'False'
            and 'k2_tls_fingerprint' not in backend.values):
        validator.warn(f'{backend.name}: the certificate is not verified; set '
                       'tls-ca or tls-fingerprint, then tls-verify=true')
