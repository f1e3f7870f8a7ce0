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

"""What any machine needs to reach volumes: a unit of cinder or nova."""

import logging

import machine as machines
import options
import packages

_LOG = logging.getLogger(__name__)
_MULTIPATH_FILE = '/etc/multipath/conf.d/cinder-k2.conf'
# skip_kpartx: else partitions inside a volume become devices of the host,
# which hold it when it is to be detached. find_multipaths: with the default
# of Debian, volumes over Fibre Channel get no multipath device.
_MULTIPATH = """\
# Written by Juju. What volumes of the K2 array need on any host.
defaults {
    find_multipaths yes
    skip_kpartx yes
}
"""
# There while multipathd is yet to read the file, also if a hook was killed
# meanwhile. The next boot, which empties the directory, has it read anyway.
_RELOADING = '/run/cinder-k2/multipathd-reload'
_SECONDS = 60.0


def prepare(machine: machines.Machine, settings: options.Settings) -> None:
    """Install and set up what is missing.

    Nothing of it is taken back when the charm goes: volumes that are
    attached then still need it.

    :raises machine.Failed: it could not be done; with the reason
    """
    packages.install(machine, packages.for_paths(settings))
    if settings.multipath and not _is_multipath_set_up(machine):
        _set_up_multipath(machine)


def _is_multipath_set_up(machine: machines.Machine) -> bool:
    return (machine.read(_MULTIPATH_FILE) == _MULTIPATH
            and machine.read(_RELOADING) is None)


def _set_up_multipath(machine: machines.Machine) -> None:
    _LOG.info('writing %s and reloading multipathd', _MULTIPATH_FILE)
    machine.write(_RELOADING, '')
    machine.write(_MULTIPATH_FILE, _MULTIPATH)
    machine.must('systemctl', 'reload-or-restart', 'multipathd',
                 seconds=_SECONDS)
    machine.remove(_RELOADING)
