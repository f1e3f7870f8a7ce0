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

"""Reads and validates the options of the charm.

Uses neither Juju nor an array. All errors are reported at once.
"""

from collections.abc import Mapping
import dataclasses
from typing import Any

import backend
import oslo
import validation


class InvalidOptions(Exception):
    """Options are missing, invalid or contradictory.

    :ivar texts: a sentence for each, with the option and the rule, and the
        value unless it is secret
    """

    def __init__(self, texts: list[str]) -> None:
        """Store the texts in the order in which errors were found."""
        super().__init__('; '.join(texts))
        self.texts = texts


@dataclasses.dataclass(frozen=True)
class Settings:
    """The values of all options.

    :ivar multipath: whether any back end uses all paths to a volume
    :ivar no_path_retry: what multipath does when the last path is lost
    :ivar iscsi_sessions: sessions per portal, or '' to leave them unchanged
    :ivar allow_removal: whether published back ends may be removed
    :ivar stateless: whether all units of cinder share one host name
    :ivar driver_source: source of the driver's package, or ''
    :ivar warnings: settings that work but should be changed
    """

    backends: tuple[backend.Backend, ...]
    multipath: bool = False
    no_path_retry: str = 'fail'
    iscsi_sessions: str = ''
    allow_removal: bool = False
    stateless: bool = False
    cluster: str = ''
    coordination_url: str = dataclasses.field(default='', repr=False)
    san_user: str = ''
    san_password: str = dataclasses.field(default='', repr=False)
    driver_source: str = ''
    driver_key: str = ''
    warnings: tuple[str, ...] = ()


def read(config: Mapping[str, Any], application: str) -> Settings:
    """Read the options of the charm.

    :param config: from Juju; missing options are not set
    :param application: its name, the default name of the back end
    :raises InvalidOptions: with all errors
    """
    validator = validation.Validator()
    settings = _settings(validator, _given(config), application)
    _refuse(validator)
    return settings


def read_driver(config: Mapping[str, Any]) -> Settings:
    """Read only the options for the source of the driver.

    :param config: from Juju; missing options are not set
    :raises InvalidOptions: with the errors of these options
    """
    validator = validation.Validator()
    settings = _driver(validator, _given(config), Settings(()))
    _refuse(validator)
    return settings


def _given(config: Mapping[str, Any]) -> validation.GivenOptions:
    return validation.GivenOptions(
        {option: str(value) for option, value in config.items()})


def _refuse(validator: validation.Validator) -> None:
    if validator.errors:
        raise InvalidOptions(validator.errors)


def _settings(validator: validation.Validator, given: validation.GivenOptions,
              application: str) -> Settings:
    backends = _backends(validator, given, application)
    settings = _driver(validator, given, Settings(
        backends,
        multipath=any(one.multipath for one in backends),
        no_path_retry=validator.read(given, 'no-path-retry',
                                     validation.no_path_retry) or 'fail',
        iscsi_sessions=validator.read(given, 'iscsi-sessions',
                                      validation.sessions),
        allow_removal=_flag(validator, given, 'allow-removal'),
        stateless=_flag(validator, given, 'stateless'),
        cluster=validator.read(given, 'cluster', validation.plain_name),
        coordination_url=validator.read(given, 'coordination-url',
                                        validation.lock_server),
        san_user=validator.read(given, 'san_user', validation.text),
        san_password=validator.read(given, 'san_password', validation.text)))
    _check(validator, settings)
    return dataclasses.replace(settings, warnings=tuple(validator.warnings))


def _driver(validator: validation.Validator, given: validation.GivenOptions,
            settings: Settings) -> Settings:
    """Return the settings with the source of the driver added."""
    source = validator.read(given, 'driver-source', validation.apt_source)
    key = validator.read(given, 'driver-key', validation.public_key)
    if source.startswith('deb ') and not key:
        validator.error('driver-source needs driver-key, the public key that '
                        'signs the archive')
    return dataclasses.replace(settings, driver_source=source, driver_key=key)


def _flag(validator: validation.Validator, given: validation.GivenOptions,
          option: str) -> bool:
    return validator.read(given, option, validation.boolean) == 'True'


def _backends(validator: validation.Validator, given: validation.GivenOptions,
              application: str) -> tuple[backend.Backend, ...]:
    """Read the back ends of backend_name, then the others of backends."""
    names = [name.strip() for name in given.get('backend_name').split(',')
             if name.strip()]
    own = _own_options(validator, given)
    if not names and not own:
        names = [application]
    sections = {**dict.fromkeys(names, {}), **own}
    _check_names(validator, list(sections))
    return tuple(backend.read(validator, name,
                              _given_to(validator, name, options, given))
                 for name, options in sections.items())


def _own_options(validator: validation.Validator,
                 given: validation.GivenOptions) -> dict[str, Any]:
    options = validator.yaml('backends', given.get('backends'))
    if isinstance(options, dict):
        return options
    if options:
        validator.error('backends: begin each back end with its name and a '
                        'colon, and write its options below, indented')
    return {}


def _given_to(validator: validation.Validator, name: str, options: Any,
              given: validation.GivenOptions) -> validation.GivenOptions:
    """Return the options of one back end, with the shared ones as defaults."""
    where = f'backends: {name}: ' if options else ''
    if not isinstance(options, dict):
        # A name without options has shared options only.
        if options:
            validator.error(f'{where}write its options below it, indented, as '
                            '"option: value"')
        options = {}
    return validation.GivenOptions(options, where, given.own)


def _check_names(validator: validation.Validator, names: list[str]) -> None:
    seen: set[str] = set()
    for name in names:
        with validator.collecting(f'back end "{name[:40]}"', ''):
            oslo.section(name)
        # oslo.config does not distinguish upper and lower case here.
        if name.lower() in seen:
            validator.error(f'back end "{name}": another one has this name in '
                            'different case; rename one')
        seen.add(name.lower())


def _check(validator: validation.Validator, settings: Settings) -> None:
    """Check options that apply to Cinder as a whole for contradictions."""
    if settings.cluster and not settings.coordination_url:
        validator.error('cluster needs coordination-url, the lock server that '
                        'its units share')
    if settings.cluster and settings.stateless:
        validator.error('cluster and stateless exclude each other; set one')
    if settings.allow_removal:
        validator.warn('allow-removal is true; set it back to false after '
                       'the change')
    if settings.stateless and any(one.devices for one in settings.backends):
        validator.warn('stateless: a failover reaches only one unit of '
                       'cinder; use cluster for several')
