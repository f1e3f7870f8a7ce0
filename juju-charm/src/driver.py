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

"""The driver on the unit: its version, and how it gets there."""

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
# The system's Python, which Cinder runs on, and we as well.
_PYTHON = '.'.join(map(str, sys.version_info[:2]))
# Debian's pip puts things below /usr/local by itself, and with --prefix
# /usr/local into /usr/local/local.
_PIP = ('python3', '-m', 'pip', 'install', '--no-index', '--no-deps',
        '--no-input', '--disable-pip-version-check',
        '--break-system-packages', '--root-user-action', 'ignore')
# In place of a wheel, which pip puts back if the new one fails.
_REPLACE = '--force-reinstall'
# Beside what apt has installed, which pip refuses to uninstall; Python finds
# /usr/local first.
_BESIDE = '--ignore-installed'
_PIP_UNINSTALL = ('python3', '-m', 'pip', 'uninstall', '--yes',
                  '--break-system-packages', '--root-user-action', 'ignore',
                  _NAME)
_OF_WHEEL = f'python{_PYTHON}/dist-packages/cinder_k2-*.dist-info'
# What zipfile raises for a file that is cut off, damaged, encrypted, or no
# archive at all; and what of a wheel is not in it.
_UNREADABLE = (zipfile.BadZipFile, zlib.error, EOFError, OSError,
               RuntimeError, KeyError)


class DriverMissing(machines.Failed):
    """There is nothing to install the driver from."""

    def __init__(self) -> None:
        """Say what to do."""
        super().__init__('the driver is missing: attach its wheel with juju '
                         'attach-resource, or set driver-source')


def version(machine: machines.Machine) -> str:
    """The version that Cinder's Python finds; '' if it finds none.

    :raises machine.Failed: it cannot be asked
    """
    return machine.must('python3', '-c', _PRINT_VERSION,
                        seconds=_VERSION_SECONDS).strip()


def needed(settings: options.Settings, wheel: pathlib.Path | None
           ) -> tuple[str, ...]:
    """The packages that a unit of cinder needs."""
    paths = packages.for_paths(settings)
    if wheel:
        return (*paths, *packages.OF_DRIVER, 'python3-pip')
    return (*paths, *((packages.DRIVER,) if settings.driver_source
                      else packages.OF_DRIVER))


def is_offered(settings: options.Settings, wheel: pathlib.Path | None
               ) -> bool:
    """Whether there is something to install the driver from.

    If not, one that somebody else has installed will do.
    """
    return bool(wheel or settings.driver_source)


def origin(settings: options.Settings, wheel: pathlib.Path | None,
           nonce: str) -> str:
    """What the driver is installed from, and for.

    When it changes, the driver must be installed anew.

    :param nonce: what the cinder charm changes with each upgrade of OpenStack
    """
    # A digest, for it is stored, and a source may hold a password.
    source = (wheel.read_bytes() if wheel else
              f'{settings.driver_source}\n{settings.driver_key}'.encode())
    return ' '.join([hashlib.sha256(source).hexdigest(), _PYTHON, nonce])


def mark(installed_from: str) -> str:
    """A short text that changes whenever the driver is another one.

    :param installed_from: its ``origin``
    """
    return hashlib.sha256(installed_from.encode()).hexdigest()[:12]


def install(machine: machines.Machine, settings: options.Settings,
            wheel: pathlib.Path | None, application: str) -> None:
    """Install the driver, over one that is there.

    Where it fails, the one before goes on.

    :param application: who it is that asks apt for it
    :raises DriverMissing: there is neither a wheel nor a source
    :raises machine.Failed: it could not be done; with the reason
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
        # An archive that cannot be used would fail apt-get of everybody.
        remove_archive(machine, application)
        raise


def _install_wheel(machine: machines.Machine, wheel: pathlib.Path) -> None:
    """Install a wheel under the name that is its own.

    Juju calls the file of a resource as the charm does, and pip wants it
    named after what is in it.
    """
    name = wheel_name(wheel)
    how = _REPLACE if _is_wheel_there(machine) else _BESIDE
    _LOG.info('installing %s', name)
    with machine.copy(wheel, name) as path:
        machine.must(*_PIP, how, str(path), seconds=_PIP_SECONDS)


def _remove_wheel(machine: machines.Machine) -> None:
    """Remove what a wheel has installed, which would hide the package."""
    if _is_wheel_there(machine):
        _LOG.info('removing the wheel of the driver, which hides the package')
        machine.must(*_PIP_UNINSTALL, seconds=_PIP_SECONDS)


def _is_wheel_there(machine: machines.Machine) -> bool:
    return any(machine.path('/usr/local/lib').glob(_OF_WHEEL))


def wheel_name(wheel: pathlib.Path) -> str:
    """The file name that a wheel must have, from what is in it.

    :raises machine.Failed: it is no wheel of the driver
    """
    try:
        with zipfile.ZipFile(wheel) as archive:
            names = {pathlib.PurePath(name).name: name
                     for name in archive.namelist()
                     if re.fullmatch(r'[^/]+\.dist-info/[A-Z]+', name)}
            told, tags = (email.parser.BytesParser().parsebytes(
                archive.read(names[name])) for name in ('METADATA', 'WHEEL'))
    except _UNREADABLE:
        raise machines.Failed(_no_wheel('it is no wheel')) from None
    if re.sub('[-_.]+', '-', told['Name'] or '').lower() != _NAME:
        raise machines.Failed(_no_wheel(f'it is one of {told["Name"]}'))
    return f'{_NAME.replace("-", "_")}-{told["Version"]}-{tags["Tag"]}.whl'


def _no_wheel(why: str) -> str:
    return (f'the resource driver cannot be used: {why}; attach the wheel of '
            f'{_NAME} with juju attach-resource')


def is_archive(settings: options.Settings) -> bool:
    """Whether the driver comes from an archive that apt must be told of."""
    return settings.driver_source.startswith('deb ')


def is_archive_known(machine: machines.Machine) -> bool:
    """Whether apt knows an archive of the driver.

    A machine has one driver, and so one archive, whichever application named
    it last: apt takes no second one with another key.
    """
    return machine.read(_LIST_FILE) is not None


def remove_archive(machine: machines.Machine, application: str) -> None:
    """Let apt forget the archive, if this application has named it."""
    if (machine.read(_LIST_FILE) or '').startswith(_owner(application)):
        _LOG.info('removing the archive of the driver: it is not wanted any '
                  'longer, or cannot be used')
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
        # For root alone, as apt is: it may hold a password.
        machine.write(_LIST_FILE, f'{_owner(application)}'
                                  f'deb [signed-by={_KEY_FILE}] '
                                  f'{source.removeprefix("deb ")}\n',
                      mode=0o600)
