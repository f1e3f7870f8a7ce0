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

"""os-brick in the guest, for a compute node and for Cinder's own host.

The process runs as root, so os-brick and Cinder do everything in it that needs
privileges, without the privsep daemon, sudo or rootwrap.
"""

import functools
import glob
import os
import pathlib
import shlex
import subprocess
import time
from unittest import mock

from cinder.image import image_utils
from cinder import privsep
from cinder import utils
import os_brick
from os_brick.initiator import connector
from os_brick.initiator.connectors import fibre_channel
from os_brick.initiator import linuxfc
from os_brick import privileged
from os_brick.privileged import rootwrap
from oslo_concurrency import lockutils
from oslo_concurrency import processutils
from oslo_config import cfg

from tests.functional import disks
from tests.guest import fabric
from tests.guest import transports
from tools.guest import node

_LOCKS = '/run/lock/brick'
# Seconds between two scans for disks, as in os-brick.
_SCAN_SECONDS = 2


@functools.cache
def install():
    """Prepare os-brick in this process; nothing reverts that."""
    os.makedirs(_LOCKS, exist_ok=True)
    lockutils.set_defaults(_LOCKS)
    os_brick.setup(cfg.CONF)
    for context in (privileged.default,
                    privileged.brick_privsep_hide_output,
                    privsep.sys_admin_pctxt):
        context.set_client_mode(False)
    for patch in (
            mock.patch.object(rootwrap, 'custom_execute', execute),
            mock.patch.object(linuxfc.LinuxFibreChannel,
                              'FC_HOST_SYSFS_PATH', str(fabric.FOLDER)),
            mock.patch.object(fibre_channel.FibreChannelConnector,
                              '_get_possible_volume_paths', volume_paths),
            mock.patch.object(utils, 'get_root_helper', lambda: 'env'),
            mock.patch.object(image_utils, 'tpool', disks.Native),
            # Setting limits starts another Python for each command.
            mock.patch.object(processutils, 'ProcessLimits',
                              lambda **_: None)):
        patch.start()


def volume_paths(this, properties, hbas,
                 find=fibre_channel.FibreChannelConnector
                 ._get_possible_volume_paths):
    """Return the paths at which a volume may appear, without duplicates.

    os-brick derives these paths from the PCI devices of the host's ports.
    Here both ports are on virtual interfaces, for which it uses the same
    name: each path would be listed twice, and removing it a second time
    would fail.
    """
    return list(dict.fromkeys(find(this, properties, hbas)))


def execute(*command, process_input=None, check_exit_code=True, attempts=1,
            interval=1, backoff_rate=2, timeout=600, raise_timeout=True,
            shell=False, **others):
    """Run a command as os-brick's ``custom_execute`` does, but with vfork.

    The original forks, which takes a tenth of a second for a process of this
    size in a guest. Writes to sysfs need no program here, and no command
    needs a shell. Timeouts are extended for machines under load.

    :raises ProcessExecutionError: the command failed in all attempts
    """
    if command[0] == 'tee':
        pathlib.Path(command[-1]).write_text(process_input)
        return process_input, ''
    good = [0] if check_exit_code is True else check_exit_code
    good = [good] if type(good) is int else good
    words = _expanded(command[0]) if shell else list(map(str, command))
    for attempt in range(1, attempts + 1):
        done = subprocess.run(words, input=process_input,
                              capture_output=True, text=True,
                              timeout=max(timeout, node.LIMIT))
        if good is False or done.returncode in good:
            return done.stdout, done.stderr
        if attempt < attempts:
            time.sleep(interval * backoff_rate ** attempt)
    raise processutils.ProcessExecutionError(
        done.stdout, done.stderr, done.returncode, ' '.join(command))


def _expanded(line):
    """Split a command line for a shell, and expand its globs."""
    return [word for pattern in shlex.split(line)
            for word in sorted(glob.glob(pattern)) or [pattern]]


@functools.cache
def properties(multipath):
    """Return this host's connector properties; cached, as that is slow."""
    return connector.get_connector_properties(
        'env', '127.0.0.1', multipath, False, host='compute')


class Disk:
    """The disk of an attached volume, which os-brick connects.

    :ivar path: the path of its device, while it is connected
    """

    def __init__(self, info, multipath):
        self._info = info
        self._is_multipath = multipath
        self._connector = connector.InitiatorConnector.factory(
            info['driver_volume_type'], 'env', use_multipath=multipath,
            device_scan_attempts=5)

    def connect(self):
        """Connect, wait until all paths are there, and return this object."""
        self._device = self._connector.connect_volume(self._info)
        self.path = os.path.realpath(self._device['path'])
        try:
            self._wait_for_all_paths()
        except node.NodeError:
            # Leave no disk for the next test.
            self.disconnect()
            raise
        return self

    def _wait_for_all_paths(self):
        """Wait for paths, or the map, that os-brick did not wait for.

        On a slow machine it continues without some of them: it does not scan
        again once it has a map. Later it removes only disks with a link from
        udev.
        """
        node.wait_until(self._finds_all_paths, 'all paths of a disk')
        if self._is_multipath:
            self.path = f'/dev/{self._map()}'

    def _finds_all_paths(self):
        if not self._has_all_paths():
            transports.CURRENT.scan()
            time.sleep(_SCAN_SECONDS)
        return self._has_all_paths()

    def _has_all_paths(self):
        if not self._is_multipath:
            return transports.CURRENT.has_disks(self._info)
        return self._map() and len(os.listdir(
            f'/sys/block/{self._map()}/slaves')) >= len(
                self._info['target_luns'])

    def _map(self):
        """Return the name of the disk's multipath device, or None."""
        name = os.path.basename(self.path)
        if name.startswith('dm-'):
            return name
        return next(iter(os.listdir(f'/sys/block/{name}/holders')), None)

    def extend(self):
        """Rescan the size; return it in bytes."""
        return self._connector.extend_volume(self._info)

    def disconnect(self):
        """Flush the disk, remove it and log out; raises what os-brick raises.

        os-brick resolves the link of a disk that it has just removed. If udev
        removes the link at the same moment, realpath() raises an error; then
        the call is repeated, as a user would do.
        """
        try:
            self._connector.disconnect_volume(self._info, self._device)
        except FileNotFoundError:
            node.run('udevadm', 'settle')
            self._connector.disconnect_volume(self._info, self._device)

    def paths(self):
        """Return the states of the paths of the multipath device, by disk."""
        shown = node.multipathd.ask('show paths format "%m %d %t %o"')
        name = os.path.basename(self.path)
        return {line.split()[1]: line.split()[2:]
                for line in shown.splitlines()[1:]
                if line.split()[0] in (name, self._map_name())}

    def _map_name(self):
        name = os.path.basename(self.path)
        with open(f'/sys/block/{name}/dm/name') as stream:
            return stream.read().strip()
