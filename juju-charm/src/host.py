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

"""Packages and settings that a unit of cinder or nova needs for volumes."""

import logging
import pathlib
import re

import machine as machines
import options
import packages

_LOG = logging.getLogger(__name__)
# The settings of the driver's package; the charm ships a copy.
_FILES = pathlib.Path(__file__).parent / 'host_files'
_CONF_D = '/etc/multipath/conf.d'
_DEVICES = f'{_CONF_D}/cinder-k2.conf'
_DEFAULTS = f'{_CONF_D}/cinder-k2-defaults.conf'
_SITE_FILE = '/etc/multipath.conf'
_RULES = '/etc/udev/rules.d/98-cinder-k2.rules'
_ISCSID = '/etc/iscsi/iscsid.conf'
_FIND = re.compile(r'^\s*find_multipaths\b', re.MULTILINE)
_SESSIONS = re.compile(r'^[ \t]*node\.session\.nr_sessions[ \t]*=.*$',
                       re.MULTILINE)
_RETRY = 'no_path_retry "fail"'
# With Debian's default, Fibre Channel volumes get no multipath device.
# multipath-tools has no find_multipaths for a single vendor.
_FIND_ALL = """\
# Written by Juju, as no other file sets find_multipaths. It holds for all
# devices of this machine. To set it otherwise, do so in /etc/multipath.conf.
defaults {
    find_multipaths yes
}
"""
# Exists until multipathd has reloaded its files, so that the reload is retried
# if the hook is killed. A boot clears /run, and starts multipathd anyway.
_RELOADING = '/run/cinder-k2/multipathd-reload'
_SECONDS = 60.0


def prepare(machine: machines.Machine, settings: options.Settings) -> None:
    """Install packages and write settings where they are missing.

    Nothing is undone when the charm is removed, because attached volumes
    still need it.

    :raises machine.Failed: a step failed; with the reason
    """
    packages.install(machine, packages.for_paths(settings))
    _set_up_udev(machine)
    if settings.iscsi_sessions:
        _set_sessions(machine, settings.iscsi_sessions)
    if settings.multipath:
        _set_up_multipath(machine, _multipath_files(machine, settings))


def _multipath_files(machine: machines.Machine, settings: options.Settings
                     ) -> dict[str, str | None]:
    """Return file contents by name; None for a file that must not exist."""
    devices = (_FILES / 'multipath.conf').read_text('utf-8').replace(
        _RETRY, f'no_path_retry "{settings.no_path_retry}"')
    return {_DEVICES: devices,
            _DEFAULTS: None if _site_finds(machine) else _FIND_ALL}


def _site_finds(machine: machines.Machine) -> bool:
    """Return whether a file of the site sets find_multipaths."""
    names = [_SITE_FILE, *(
        f'{_CONF_D}/{path.name}'
        for path in machine.path(_CONF_D).glob('*.conf')
        if path.name != pathlib.PurePath(_DEFAULTS).name)]
    return any(_FIND.search(machine.read(name) or '') for name in names)


def _set_up_multipath(machine: machines.Machine,
                      files: dict[str, str | None]) -> None:
    stale = [name for name, text in files.items()
             if machine.read(name) != text]
    if not stale and machine.read(_RELOADING) is None:
        return
    _LOG.info('writing %s and reloading multipathd',
              ' and '.join(stale or files))
    machine.write(_RELOADING, '')
    for name in stale:
        _put(machine, name, files[name])
    machine.must('systemctl', 'reload-or-restart', 'multipathd',
                 seconds=_SECONDS)
    machine.remove(_RELOADING)


def _put(machine: machines.Machine, name: str, text: str | None) -> None:
    if text is None:
        machine.remove(name)
    else:
        machine.write(name, text)


def _set_up_udev(machine: machines.Machine) -> None:
    """Write the rule, which udev reads at its next event."""
    rules = (_FILES / '98-cinder-k2.rules').read_text('utf-8')
    if machine.read(_RULES) != rules:
        _LOG.info('writing %s', _RULES)
        machine.write(_RULES, rules)
        # For attached volumes. Fails in a container, which has no udev.
        machine.run('udevadm', 'trigger', '--subsystem-match=block',
                    seconds=_SECONDS)


def _set_sessions(machine: machines.Machine, number: str) -> None:
    """Set the sessions per portal (NET-4) of nodes created from now on."""
    text = machine.read(_ISCSID) or ''
    line = f'node.session.nr_sessions = {number}'
    wanted = (_SESSIONS.sub(line, text) if _SESSIONS.search(text)
              else f'{text}{line}\n')
    if wanted != text:
        _LOG.info('writing %s', _ISCSID)
        machine.write(_ISCSID, wanted, mode=0o600)
