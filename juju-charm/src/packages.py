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

"""Debian packages: which are needed, and how to install them."""

from collections.abc import Iterable
import logging

import backend as backends
import machine as machines
import options

#: The driver, from a package archive.
DRIVER = 'python3-cinder-k2'
#: Dependencies of the driver, when it is installed from a wheel.
OF_DRIVER = ('python3-pbr', 'python3-cachetools', 'python3-oslo.concurrency',
             'python3-oslo.config', 'python3-oslo.log', 'python3-oslo.utils',
             'python3-requests', 'python3-taskflow', 'python3-tooz',
             'python3-urllib3')
_OF_PROTOCOL = {backends.ISCSI: ('open-iscsi',),
                # os-brick calls systool, and sg_scan and sg_turs.
                backends.FC: ('sysfsutils', 'sg3-utils')}
_MULTIPATH = ('multipath-tools',)
_LOG = logging.getLogger(__name__)
_LOCK_SECONDS = 120
_LOCK_PAUSE = 5
_QUERY_SECONDS = 30.0
_UPDATE_SECONDS = 300.0
_INSTALL_SECONDS = 900.0
_APT = ('apt-get', '--yes', '-o', f'DPkg::Lock::Timeout={_LOCK_SECONDS}')
_INSTALL = (*_APT, '--no-install-recommends',
            '-o', 'Dpkg::Options::=--force-confold', 'install')
_REPAIR = ('dpkg', '--force-confold', '--configure', '-a')
# Messages of apt while another process has locked the package lists, and
# after dpkg was killed.
_LOCKED = 'Could not get lock'
_INTERRUPTED = 'dpkg was interrupted'
# Ask no questions, keep modified configuration files, and print messages in
# English.
_QUIET = {'LC_ALL': 'C.UTF-8', 'DEBIAN_FRONTEND': 'noninteractive',
          'UCF_FORCE_CONFFOLD': '1', 'NEEDRESTART_MODE': 'l'}


def for_paths(settings: options.Settings) -> tuple[str, ...]:
    """Return the packages that a machine needs to reach volumes."""
    protocols = {one.protocol: None for one in settings.backends}
    return (*(name for protocol in protocols
              for name in _OF_PROTOCOL[protocol]),
            *(_MULTIPATH if settings.multipath else ()))


def install(machine: machines.Machine, names: tuple[str, ...]) -> None:
    """Install the packages that are missing.

    The package lists are updated only if the installation fails without that.

    :raises machine.Failed: apt failed; with its last line
    """
    missing = [name for name in names if not _is_installed(machine, name)]
    if missing:
        _LOG.info('installing missing packages: %s', ' '.join(missing))
        if _install(machine, missing).status:
            upgrade(machine, *missing)


def upgrade(machine: machines.Machine, *names: str) -> None:
    """Install the newest available versions of packages.

    :raises machine.Failed: apt failed; with its last line
    """
    _check(_update(machine))
    _check(_install(machine, names))


def _update(machine: machines.Machine) -> machines.Result:
    """Update the package lists, waiting for their lock.

    apt itself waits for the lock of dpkg only. The package lists are often
    locked while a unit boots.
    """
    done = _apt(machine, *_APT, 'update', seconds=_UPDATE_SECONDS)
    for _ in range(_LOCK_SECONDS // _LOCK_PAUSE):
        if not done.status or _LOCKED not in done.errors:
            break
        _LOG.info('waiting for the lock of the package lists')
        machine.sleep(_LOCK_PAUSE)
        done = _apt(machine, *_APT, 'update', seconds=_UPDATE_SECONDS)
    return done


def _install(machine: machines.Machine, names: Iterable[str]
             ) -> machines.Result:
    """Install packages; repair an interrupted dpkg if necessary."""
    done = _apt(machine, *_INSTALL, *names, seconds=_INSTALL_SECONDS)
    if done.status and _INTERRUPTED in done.errors:
        _LOG.info('repairing an interrupted dpkg')
        machine.must(*_REPAIR, seconds=_INSTALL_SECONDS, **_QUIET)
        done = _apt(machine, *_INSTALL, *names, seconds=_INSTALL_SECONDS)
    return done


def _apt(machine: machines.Machine, *command: str, seconds: float
         ) -> machines.Result:
    return machine.run(*command, seconds=seconds, **_QUIET)


def _check(done: machines.Result) -> None:
    if done.status:
        raise machines.failure(_APT[0], done)


def _is_installed(machine: machines.Machine, name: str) -> bool:
    """Return whether a package is installed, not merely known to dpkg."""
    done = machine.run('dpkg-query', '--show', '--showformat',
                       '${db:Status-Status}', name, seconds=_QUERY_SECONDS)
    return done.output == 'installed'
