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

"""The driver on the unit: its version and its installation."""

import email.parser
import hashlib
import logging
import pathlib
import re
import sys
import zipfile
import zlib

import machine as machines
import options
import packages

_LOG = logging.getLogger(__name__)
_NAME = 'cinder-k2'
_KEY_FILE = '/etc/apt/keyrings/cinder-k2.asc'
_LIST_FILE = '/etc/apt/sources.list.d/cinder-k2.list'
_PRINT_VERSION = (
    'import importlib.metadata as m; '
    f'print(next((d.version for d in m.distributions(name="{_NAME}")), ""))')
_VERSION_SECONDS = 30.0
_PIP_SECONDS = 120.0
_PPA_SECONDS = 120.0
# The system's Python, which runs both Cinder and the charm.
_PYTHON = '.'.join(map(str, sys.version_info[:2]))
# No --prefix: Debian's pip installs below /usr/local by default, and below
# /usr/local/local with --prefix /usr/local.
_PIP = ('python3', '-m', 'pip', 'install', '--no-index', '--no-deps',
        '--no-input', '--disable-pip-version-check',
        '--break-system-packages', '--root-user-action', 'ignore')
# Over an installed wheel, which pip restores if the new one fails.
_REPLACE = '--force-reinstall'
# Over a package from apt, which pip refuses to uninstall; Python searches
# /usr/local first.
_BESIDE = '--ignore-installed'
_PIP_UNINSTALL = ('python3', '-m', 'pip', 'uninstall', '--yes',
                  '--break-system-packages', '--root-user-action', 'ignore',
                  _NAME)
_OF_WHEEL = f'python{_PYTHON}/dist-packages/cinder_k2-*.dist-info'
# What zipfile raises for a file that is truncated, damaged, encrypted or not
# an archive, and KeyError for a file that a wheel must contain.
_UNREADABLE = (zipfile.BadZipFile, zlib.error, EOFError, OSError,
               RuntimeError, KeyError)


class DriverMissing(machines.Failed):
    """There is nothing to install the driver from."""

    def __init__(self) -> None:
        """Create the message, which says what to do."""
        super().__init__('the driver is missing: attach its wheel with juju '
                         'attach-resource, or set driver-source')


def version(machine: machines.Machine) -> str:
    """Return the version that Cinder's Python finds; '' if none.

    :raises machine.Failed: Python cannot be run
    """
    return machine.must('python3', '-c', _PRINT_VERSION,
                        seconds=_VERSION_SECONDS).strip()


def needed(settings: options.Settings, wheel: pathlib.Path | None
           ) -> tuple[str, ...]:
    """Return the packages that a unit of cinder needs."""
    paths = packages.for_paths(settings)
    if wheel:
        return (*paths, *packages.OF_DRIVER, 'python3-pip')
    return (*paths, *((packages.DRIVER,) if settings.driver_source
                      else packages.OF_DRIVER))


def is_offered(settings: options.Settings, wheel: pathlib.Path | None
               ) -> bool:
    """Return whether a wheel or a driver source is configured.

    If not, a driver that is already installed is used.
    """
    return bool(wheel or settings.driver_source)


def origin(settings: options.Settings, wheel: pathlib.Path | None,
           nonce: str) -> str:
    """Return a value that identifies the source and target of the driver.

    The driver must be reinstalled when the value changes. The target is
    Python and OpenStack on the unit.

    :param nonce: a value that the cinder charm changes at each upgrade of
        OpenStack
    """
    # A digest, because it is stored and a source may contain a password.
    source = (wheel.read_bytes() if wheel else
              f'{settings.driver_source}\n{settings.driver_key}'.encode())
    return ' '.join([hashlib.sha256(source).hexdigest(), _PYTHON, nonce])


def revision(installed_from: str) -> str:
    """Return a short text that changes whenever the driver does.

    :param installed_from: the ``origin`` of the driver
    """
    return hashlib.sha256(installed_from.encode()).hexdigest()[:12]


def install(machine: machines.Machine, settings: options.Settings,
            wheel: pathlib.Path | None, application: str) -> None:
    """Install the driver, replacing an installed one.

    If this fails, the installed driver stays.

    :param application: the owner of the package archive
    :raises DriverMissing: neither a wheel nor a source is configured
    :raises machine.Failed: the installation failed; with the reason
    """
    if wheel:
        packages.install(machine, needed(settings, wheel))
        _install_wheel(machine, wheel)
    elif settings.driver_source:
        _install_package(machine, settings, application)
        _remove_wheel(machine)
    else:
        raise DriverMissing


def _install_package(machine: machines.Machine, settings: options.Settings,
                     application: str) -> None:
    _LOG.info('installing %s from %s', packages.DRIVER,
              machines.mask_logins(settings.driver_source))
    _add_source(machine, settings, application)
    try:
        packages.upgrade(machine, packages.DRIVER)
    except machines.Failed:
        # An unusable archive would make every later apt-get update fail.
        remove_archive(machine, application)
        raise


def _install_wheel(machine: machines.Machine, wheel: pathlib.Path) -> None:
    """Install a wheel under its proper file name.

    Juju stores it under the file name of the resource, but pip requires a
    name that matches the content.
    """
    name = wheel_name(wheel)
    how = _REPLACE if _is_wheel_there(machine) else _BESIDE
    _LOG.info('installing %s', name)
    with machine.copy(wheel, name) as path:
        machine.must(*_PIP, how, str(path), seconds=_PIP_SECONDS)


def _remove_wheel(machine: machines.Machine) -> None:
    """Uninstall the wheel, which would shadow the package."""
    if _is_wheel_there(machine):
        _LOG.info('uninstalling the wheel of the driver, which shadows the '
                  'package')
        machine.must(*_PIP_UNINSTALL, seconds=_PIP_SECONDS)


def _is_wheel_there(machine: machines.Machine) -> bool:
    return any(machine.path('/usr/local/lib').glob(_OF_WHEEL))


def wheel_name(wheel: pathlib.Path) -> str:
    """Return the file name of a wheel according to its metadata.

    :raises machine.Failed: it is not a wheel of the driver
    """
    try:
        with zipfile.ZipFile(wheel) as archive:
            names = {pathlib.PurePath(name).name: name
                     for name in archive.namelist()
                     if re.fullmatch(r'[^/]+\.dist-info/[A-Z]+', name)}
            metadata, tags = (email.parser.BytesParser().parsebytes(
                archive.read(names[name])) for name in ('METADATA', 'WHEEL'))
    except _UNREADABLE:
        raise machines.Failed(_no_wheel('it is not a wheel')) from None
    if re.sub('[-_.]+', '-', metadata['Name'] or '').lower() != _NAME:
        raise machines.Failed(
            _no_wheel(f'it is a wheel of {metadata["Name"]}'))
    return f'{_NAME.replace("-", "_")}-{metadata["Version"]}-{tags["Tag"]}.whl'


def _no_wheel(why: str) -> str:
    return (f'the resource driver cannot be used: {why}; attach the wheel of '
            f'{_NAME} with juju attach-resource')


def is_archive(settings: options.Settings) -> bool:
    """Return whether the source is an archive to add to sources.list."""
    return settings.driver_source.startswith('deb ')


def is_archive_known(machine: machines.Machine) -> bool:
    """Return whether an archive of the driver is configured in apt.

    A machine has one driver and so one archive, that of the application that
    was configured last: apt rejects the same archive with another key.
    """
    return machine.read(_LIST_FILE) is not None


def remove_archive(machine: machines.Machine, application: str) -> None:
    """Remove the archive from apt if this application has added it."""
    if (machine.read(_LIST_FILE) or '').startswith(_owner(application)):
        _LOG.info('removing the archive of the driver, which is no longer '
                  'configured or cannot be used')
        for name in (_LIST_FILE, _KEY_FILE):
            machine.remove(name)


def _owner(application: str) -> str:
    return f'# Written by Juju for {application}\n'


def _add_source(machine: machines.Machine, settings: options.Settings,
                application: str) -> None:
    source = settings.driver_source
    if source.startswith('ppa:'):
        packages.install(machine, ('software-properties-common',))
        machine.must('add-apt-repository', '--yes', source,
                     seconds=_PPA_SECONDS)
    elif is_archive(settings):
        machine.write(_KEY_FILE, settings.driver_key)
        # Readable by root only, because it may contain a password.
        machine.write(_LIST_FILE, f'{_owner(application)}'
                                  f'deb [signed-by={_KEY_FILE}] '
                                  f'{source.removeprefix("deb ")}\n',
                      mode=0o600)
