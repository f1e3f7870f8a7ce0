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

"""The back ends of a cinder.conf that use this driver, and their arrays.

Call ``cinder.objects.register_all`` before importing this module: the modules
of Cinder that it imports need that.
"""

from collections.abc import Sequence
import dataclasses
import re
import typing

from cinder.common import config as cinder_config  # noqa: F401  its options
from cinder.common import constants
from cinder import exception
from cinder import version
from cinder.volume import configuration as cinder_configuration
from cinder.volume import manager
from oslo_config import cfg
from oslo_utils import importutils

from cinder_k2 import array as k2_array
from cinder_k2.driver import config
from cinder_k2 import rest

_OURS = 'cinder_k2.driver.'
#: Seconds after which a command gives up on an array that accepts no
#: connection, or whose name is unknown.
OUTAGE = 3.0
#: Arrays that a command asks at once.
MOST_AT_ONCE = 16


class ConfigurationError(Exception):
    """A cinder.conf cannot be used; the text is one line for the user."""


@dataclasses.dataclass(frozen=True)
class Place:
    """The address and settings of an array.

    :ivar label: the section of its back end, and its backend_id if it is a
        replication target
    :ivar backend_id: its backend_id alone, empty for the array of the section
        itself
    """

    label: str
    backend_id: str
    settings: rest.Settings
    retention_policy: str
    replication_policy: str

    @property
    def address(self) -> str:
        """Its management address."""
        return str(self.settings.endpoint)

    @property
    def array(self) -> str:
        """Its address, and its ID behind a cloud manager (CON-3)."""
        return self.settings.array

    @property
    def remembering(self) -> rest.Settings:
        """Settings with the directory of the shared capability verdicts."""
        return dataclasses.replace(
            self.settings, verdicts=config.verdicts_directory())


@dataclasses.dataclass(frozen=True)
class BackEnd:
    """A section of cinder.conf.

    :ivar cidrs: networks of the iSCSI portals to use; None over FC
    """

    name: str
    protocol: str
    cidrs: tuple[str, ...] | None
    own: Place
    targets: tuple[Place, ...]


@dataclasses.dataclass
class Site:
    """An array, and the back ends that use it.

    :ivar backends: their labels
    """

    backends: list[str]
    client: rest.Client
    array: k2_array.Array


def load(files: Sequence[str], directories: Sequence[str]) -> None:
    """Read cinder.conf, by default the one that cinder-volume reads.

    :raises ConfigurationError: there is none, or it cannot be read
    """
    arguments = [*(f'--config-file={name}' for name in files),
                 *(f'--config-dir={name}' for name in directories)]
    try:
        cfg.CONF(arguments, project='cinder', prog='cinder-volume',
                 version=version.version_string(),
                 # If files are given, ignore /etc/cinder/cinder.conf.d: each
                 # replication_device there would be added.
                 default_config_dirs=[] if files else None)
    except cfg.ConfigFileParseError as error:
        raise ConfigurationError(_mistake(error)) from None
    except cfg.ConfigFilesPermissionDeniedError as error:
        raise ConfigurationError(
            f'{", ".join(error.config_files)} cannot be read by this user; '
            'run k2-admin as the user of cinder-volume') from None
    except (cfg.Error, OSError) as error:
        raise ConfigurationError(' '.join(str(error).split())) from None
    if not (cfg.CONF.config_file or cfg.CONF.config_dir):
        raise ConfigurationError(
            'no cinder.conf found that can be read; name it with '
            '--config-file, or run k2-admin as the user of cinder-volume')


def _mistake(error: cfg.ConfigFileParseError) -> str:
    """The position of the error; the line itself may hold a password."""
    line = re.search(r'(?:line |:)(\d+), ', str(error))
    return (f'{error.config_file} cannot be read: there is a mistake in '
            + (f'line {line.group(1)}' if line else 'it'))


def choose(wanted: Sequence[str]) -> list[str]:
    """Sections of enabled back ends that use this driver.

    :param wanted: the sections to choose; all if empty
    :raises ConfigurationError: one of them does not use this driver, or none
        does
    """
    ours = [name for name in dict.fromkeys(cfg.CONF.enabled_backends or ())
            if _configuration(name).volume_driver.startswith(_OURS)]
    if not ours:
        raise ConfigurationError(
            'no enabled back end in cinder.conf has a volume_driver of '
            f'cinder-k2{_not_enabled()}')
    for name in wanted:
        if name not in ours:
            raise ConfigurationError(
                f'{name} is no enabled back end of cinder-k2; those are: '
                f'{", ".join(ours)}')
    return list(dict.fromkeys(wanted)) or ours


def _not_enabled() -> str:
    """What to do about sections that could be meant."""
    names = [name for name in cfg.CONF.list_all_sections()
             if _configuration(name).volume_driver.startswith(_OURS)]
    return (f'; add {", ".join(names)} to enabled_backends in [DEFAULT]'
            if names else '')


def _configuration(name: str) -> typing.Any:
    return cinder_configuration.Configuration(
        manager.volume_backend_opts, config_group=name)


def read(name: str) -> BackEnd:
    """A back end, its array, and those that it is replicated to.

    :raises ConfigurationError: an option of the back end is missing or wrong
    """
    configuration = _configuration(name)
    try:
        # The driver registers its own options, and Cinder's for drivers.
        driver = importutils.import_object(configuration.volume_driver,
                                           configuration=configuration)
        own = config.rest_settings(configuration)
        targets = config.replication_targets(configuration)
    except ImportError as error:
        raise ConfigurationError(
            f'there is no volume_driver {configuration.volume_driver}'
        ) from error
    except exception.InvalidInput as error:
        raise ConfigurationError(str(error)) from None
    except cfg.ConfigFileValueError:
        # replication_device is parsed first; the error quotes passwords.
        raise ConfigurationError(
            'replication_device in cinder.conf cannot be read; write '
            'key:value pairs with commas between them, and a password with '
            'a comma into k2_replication_password') from None
    policies = (configuration.k2_retention_policy,
                configuration.k2_replication_retention_policy)
    return BackEnd(
        name, driver.protocol,
        (tuple(configuration.k2_iscsi_cidrs)
         if driver.protocol == constants.ISCSI else None),
        Place(name, '', own, *policies),
        tuple(Place(f'{name}/{target.backend_id}', target.backend_id,
                    target.settings, *policies) for target in targets))


def open_site(place: Place) -> Site:
    """Connect to an array. One call.

    :raises rest.RestError, exceptions.K2Error: it does not reply, or is not
        usable
    """
    client = rest.Client(place.settings)
    array = k2_array.Array(client, place.retention_policy)
    with client.deadline(place.settings.connect_timeout
                         + place.settings.read_timeout, outage=OUTAGE):
        array.system.check()
    return Site([place.label], client, array)
