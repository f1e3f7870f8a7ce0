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

"""Reading cinder.conf into the settings of the layers below."""

from collections.abc import Iterator
from collections.abc import Mapping
import contextlib
import dataclasses
import os
import re
import typing

from cinder import exception
from cinder.i18n import _
from cinder.volume.drivers.san import san
from oslo_config import cfg
from oslo_log import log as logging
from oslo_utils import importutils

from cinder_k2 import options
from cinder_k2 import rest
from cinder_k2.rest import address as rest_address
from cinder_k2.rest import errors as rest_errors
from cinder_k2 import volume_types

LOG = logging.getLogger(__name__)

_REQUIRED = ('san_ip', 'k2_retention_policy', 'k2_clone_strategies',
             'k2_iscsi_cidrs', 'k2_replication_retention_policy')
_CREDENTIALS = ('san_login', 'san_password')
_SECRETS = ('san_password', 'k2_app_token', 'k2_replication_password',
            'replication_device')
_DEVICE_KEYS = ('backend_id', 'san_ip', 'port', 'login', 'password', 'rpo',
                'tls_fingerprint')
#: Cinder's name for the array of the back end's own options: VolumeManager's
#: FAILBACK_SENTINEL.
PRIMARY_ID = 'default'
_RPO = 300
_READ_FROM_CINDER = ('san_ip', 'san_login', 'san_password', 'san_api_port',
                     'driver_ssl_cert_verify', 'driver_ssl_cert_path',
                     'volume_backend_name', 'use_chap_auth',
                     'reserved_percentage',
                     'max_over_subscription_ratio',
                     'use_multipath_for_image_xfer',
                     'enforce_multipath_for_image_xfer',
                     'volume_dd_blocksize', 'replication_device',
                     'unique_fqdn_network')


@dataclasses.dataclass(frozen=True)
class Target:
    """An array that volumes can be replicated to.

    :ivar rpo: seconds between two copies, if a volume type does not specify it
    :ivar address: its management address, with a port other than 443
    """

    backend_id: str
    rpo: int
    address: str
    settings: rest.Settings


def register(configuration: typing.Any) -> None:
    """Register the driver's options with a back end's configuration."""
    # The in-tree driver registers options of the same names when it
    # is imported, and fails if ours are there first. Both may serve back
    # ends of one cinder-volume while an operator changes over.
    importutils.try_import(
        'cinder.volume.drivers.kaminario.kaminario_common')
    configuration.append_config_values(san.san_opts)
    configuration.append_config_values(options.shared_opts)
    configuration.append_config_values(options.k2_opts)


def verdicts_directory() -> str:
    """The directory for capability verdicts, in Cinder's state_path."""
    return os.path.join(cfg.CONF.state_path, 'cinder-k2')


def driver_options(cinder_options: typing.Any) -> list[typing.Any]:
    """Every option the driver reads, for get_driver_options.

    :param cinder_options: Cinder's look-up of its own options by name
    """
    return [*options.k2_opts, *options.shared_opts,
            *cinder_options(*_READ_FROM_CINDER)]


@contextlib.contextmanager
def option_errors(option: str) -> Iterator[None]:
    """Name the option in errors raised in the context.

    :raises InvalidInput: instead of ValueError, or an error of oslo.config
    """
    try:
        yield
    except (ValueError, cfg.Error) as error:
        if option in _SECRETS:
            # The error quotes a part of the secret.
            raise exception.InvalidInput(
                reason=_('%s in cinder.conf cannot be read; write $$ for '
                         'each dollar sign in it') % option) from None
        raise exception.InvalidInput(
            reason=_('%(option)s in cinder.conf: %(error)s') % {
                'option': option, 'error': error}) from error


def rest_settings(configuration: typing.Any) -> rest.Settings:
    """Settings of the REST client.

    :raises InvalidInput: an option is missing, wrong, or contradicts
        another; the text names it and says what to do
    """
    _check_values(configuration)
    _check_required(configuration)
    _warn_of_unverified_tls(configuration, configuration.san_ip,
                            'k2_tls_fingerprint',
                            configuration.k2_tls_fingerprint)
    try:
        return _settings(
            configuration,
            address=configuration.san_ip,
            port=configuration.san_api_port,
            login=configuration.san_login,
            password=configuration.san_password,
            sdp_id=configuration.k2_sdp_id,
            token=configuration.k2_app_token,
            fingerprint=configuration.k2_tls_fingerprint)
    except ValueError as error:
        raise exception.InvalidInput(reason=str(error)) from error


def replication_targets(configuration: typing.Any) -> tuple[Target, ...]:
    """The arrays of ``replication_device``, in order.

    :param configuration: one that ``rest_settings`` has accepted
    :raises InvalidInput: one of them cannot be used; the text names it and
        says what to do
    """
    targets: list[Target] = []
    for number, device in enumerate(configuration.replication_device or (),
                                    start=1):
        try:
            target = _target(configuration, device)
            _check_distinct(configuration, target, targets)
        except ValueError as error:
            raise exception.InvalidInput(reason=_(
                'replication_device %(label)s in section [%(section)s] of '
                'cinder.conf: %(error)s.') % {
                    'label': device.get('backend_id') or f'number {number}',
                    'section': configuration.config_group,
                    'error': error}) from None
        targets.append(target)
    return tuple(targets)


def _target(configuration: typing.Any, device: Mapping[str, str]) -> Target:
    """Read one replication_device.

    :raises ValueError: it cannot be used
    """
    _check_keys(device)
    backend_id, rpo = device['backend_id'], device.get('rpo') or str(_RPO)
    if not volume_types.is_rpo(rpo):
        raise ValueError(_('rpo is "%(rpo)s"; use %(rule)s') % {
            'rpo': rpo, 'rule': volume_types.RPO_RULE})
    login, password = _credentials(configuration, device)
    port = _port(device)
    try:
        settings = _settings(
            configuration, address=device.get('san_ip') or backend_id,
            port=port, login=login, password=password, device=backend_id,
            fingerprint=device.get('tls_fingerprint') or None)
    except ValueError as error:
        raise ValueError(rest_errors.in_words_of_device(str(error))) from None
    _warn_of_unverified_tls(configuration, settings.address,
                            'tls_fingerprint in replication_device',
                            settings.fingerprint)
    return Target(backend_id, int(rpo), str(settings.endpoint), settings)


def _check_distinct(configuration: typing.Any, target: Target,
                    others: list[Target]) -> None:
    """Check that each array and backend_id is configured only once.

    :raises ValueError: one is configured twice
    """
    if target.backend_id in [other.backend_id for other in others]:
        raise ValueError(_('another one has the same backend_id; each needs '
                           'one of its own'))
    own = rest_address.parse(configuration.san_ip,
                             configuration.san_api_port)
    names = {own: _('that of san_ip')} | {
        other.settings.endpoint: other.backend_id for other in others}
    if target.settings.endpoint in names:
        raise ValueError(_(
            'the array at %(address)s is %(other)s already; set san_ip in it '
            'to the management address of another one') % {
                'address': target.address,
                'other': names[target.settings.endpoint]})


def _credentials(configuration: typing.Any, device: Mapping[str, str]
                 ) -> tuple[str, str]:
    login = device.get('login') or configuration.san_login
    if not login:
        raise ValueError(_('it has no login, nor is there a san_login; add '
                           'one'))
    # Not san_password: it may be for the other array only.
    password = (device.get('password')
                or configuration.k2_replication_password)
    if not password:
        raise ValueError(_('it has no password; add one, or set '
                           'k2_replication_password'))
    return login, password


def _check_keys(device: Mapping[str, str]) -> None:
    unknown = sorted(set(device) - set(_DEVICE_KEYS))
    if unknown:
        # oslo.config splits a password at a comma, and takes the rest for a
        # key.
        raise ValueError(_('%(what)s; known keys are %(known)s, and a '
                           'password with a comma goes into '
                           'k2_replication_password') % {
            'what': (_('it has an unknown key') if 'password' in device else
                     _('unknown: %s') % ', '.join(unknown)),
            'known': ', '.join(_DEVICE_KEYS)})
    backend_id = device.get('backend_id')
    if not backend_id:
        raise ValueError(_('it has no backend_id; add one, as the name of '
                           'that array in Cinder'))
    if backend_id.lower() == PRIMARY_ID:
        raise ValueError(_('"%s" is what Cinder calls the array of san_ip; '
                           'choose another backend_id') % backend_id)


def _port(device: Mapping[str, str]) -> int | None:
    port = device.get('port')
    if not port:
        return None
    if not re.fullmatch('[0-9]{1,9}', port):
        raise ValueError(_('port is "%s"; use 1 to 65535') % port)
    return int(port)


def _settings(configuration: typing.Any, **own: typing.Any
              ) -> rest.Settings:
    """Settings of one array; all but ``own`` are the back end's options."""
    return rest.Settings(
        verify=configuration.driver_ssl_cert_verify,
        ca_path=configuration.driver_ssl_cert_path,
        connect_timeout=configuration.k2_connect_timeout,
        read_timeout=configuration.k2_read_timeout,
        deadline=configuration.k2_retry_timeout,
        max_writes=configuration.k2_max_concurrent_writes,
        disabled_capabilities=tuple(configuration.k2_disabled_capabilities),
        **own)


def _check_values(configuration: typing.Any) -> None:
    """Read every option now: oslo.config reports wrong values on reading."""
    ours = [option.name for option in options.k2_opts + options.shared_opts]
    for name in [*ours, *_READ_FROM_CINDER]:
        with option_errors(name):
            getattr(configuration, name)
    ratio = configuration.max_over_subscription_ratio
    if ratio != 'auto' and float(ratio) < 1:
        # Otherwise Cinder's scheduler would refuse every volume.
        raise exception.InvalidInput(
            reason=_('max_over_subscription_ratio in cinder.conf: it must '
                     'be at least 1, or auto; it is %s') % ratio)


def _check_required(configuration: typing.Any) -> None:
    # The cloud manager uses a token instead (CON-3).
    credentials = () if configuration.k2_sdp_id else _CREDENTIALS
    missing = [name for name in (*_REQUIRED, *credentials)
               if not configuration.safe_get(name)]
    if missing:
        raise exception.InvalidInput(reason=_(
            'Set %(options)s in section [%(section)s] of cinder.conf.') % {
                'options': ', '.join(missing),
                'section': configuration.config_group})


def _warn_of_unverified_tls(configuration: typing.Any, address: str,
                            option: str, fingerprint: str | None) -> None:
    if configuration.driver_ssl_cert_verify or fingerprint:
        return
    LOG.warning('The certificate of the array at %(address)s is not '
                'verified, so its password can be intercepted. Set '
                'driver_ssl_cert_verify = True (with driver_ssl_cert_path '
                'for an authority of your own) or %(option)s in section '
                '[%(section)s].',
                {'address': address, 'option': option,
                 'section': configuration.config_group})
