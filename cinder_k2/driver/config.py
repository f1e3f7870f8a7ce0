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

"""From cinder.conf to the settings of the layers below."""

from collections.abc import Iterator
import contextlib
import typing

from cinder import exception
from cinder.i18n import _
from cinder.volume.drivers.san import san
from oslo_config import cfg
from oslo_log import log as logging
from oslo_utils import importutils

from cinder_k2 import options
from cinder_k2 import rest

LOG = logging.getLogger(__name__)

_REQUIRED = ('san_ip', 'k2_retention_policy', 'k2_clone_strategies',
             'k2_iscsi_cidrs')
_CREDENTIALS = ('san_login', 'san_password')
_SECRETS = ('san_password', 'k2_app_token')
_READ_FROM_CINDER = ('san_ip', 'san_login', 'san_password', 'san_api_port',
                     'driver_ssl_cert_verify', 'driver_ssl_cert_path',
                     'volume_backend_name', 'use_chap_auth',
                     'reserved_percentage',
                     'max_over_subscription_ratio',
                     'use_multipath_for_image_xfer',
                     'enforce_multipath_for_image_xfer',
                     'volume_dd_blocksize')


def register(configuration: typing.Any) -> None:
    """Make the driver's options known to a back end's configuration."""
    # The driver inside Cinder registers options of the same names when it
    # is imported, and fails if ours are there first. Both may serve back
    # ends of one cinder-volume while an operator changes over.
    importutils.try_import(
        'cinder.volume.drivers.kaminario.kaminario_common')
    configuration.append_config_values(san.san_opts)
    configuration.append_config_values(options.shared_opts)
    configuration.append_config_values(options.k2_opts)


def driver_options(cinder_options: typing.Any) -> list[typing.Any]:
    """Every option the driver reads, for get_driver_options.

    :param cinder_options: Cinder's look-up of its own options by name
    """
    return [*options.k2_opts, *options.shared_opts,
            *cinder_options(*_READ_FROM_CINDER)]


@contextlib.contextmanager
def option_errors(option: str) -> Iterator[None]:
    """Say which option an error in the block comes from.

    :raises InvalidInput: in place of what oslo.config or others raise
    """
    try:
        yield
    except (ValueError, cfg.Error) as error:
        if option in _SECRETS:
            # The error quotes a part of it.
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
    _warn_of_unverified_tls(configuration)
    try:
        return rest.Settings(
            address=configuration.san_ip,
            port=configuration.san_api_port,
            login=configuration.san_login,
            password=configuration.san_password,
            sdp_id=configuration.k2_sdp_id,
            token=configuration.k2_app_token,
            verify=configuration.driver_ssl_cert_verify,
            ca_path=configuration.driver_ssl_cert_path,
            fingerprint=configuration.k2_tls_fingerprint,
            connect_timeout=configuration.k2_connect_timeout,
            read_timeout=configuration.k2_read_timeout,
            deadline=configuration.k2_retry_timeout,
            max_writes=configuration.k2_max_concurrent_writes)
    except ValueError as error:
        raise exception.InvalidInput(reason=str(error)) from error


def _check_values(configuration: typing.Any) -> None:
    """Read every option now: a wrong value shows when it is first read."""
    ours = [option.name for option in options.k2_opts + options.shared_opts]
    for name in [*ours, *_READ_FROM_CINDER]:
        with option_errors(name):
            getattr(configuration, name)
    ratio = configuration.max_over_subscription_ratio
    if ratio != 'auto' and float(ratio) < 1:
        # Cinder's scheduler would refuse every volume.
        raise exception.InvalidInput(
            reason=_('max_over_subscription_ratio in cinder.conf: it must '
                     'be at least 1, or auto; it is %s') % ratio)


def _check_required(configuration: typing.Any) -> None:
    # The cloud manager takes a token in their place (CON-3).
    credentials = () if configuration.k2_sdp_id else _CREDENTIALS
    missing = [name for name in (*_REQUIRED, *credentials)
               if not configuration.safe_get(name)]
    if missing:
        raise exception.InvalidInput(reason=_(
            'Set %(options)s in section [%(section)s] of cinder.conf.') % {
                'options': ', '.join(missing),
                'section': configuration.config_group})


def _warn_of_unverified_tls(configuration: typing.Any) -> None:
    if (configuration.driver_ssl_cert_verify
            or configuration.k2_tls_fingerprint):
        return
    LOG.warning('The certificate of the array at %(address)s is not '
                'verified, so anybody on the way can read its password. Set '
                'driver_ssl_cert_verify = True (with driver_ssl_cert_path '
                'for an authority of your own) or k2_tls_fingerprint in '
                'section [%(section)s].',
                {'address': configuration.san_ip,
                 'section': configuration.config_group})
