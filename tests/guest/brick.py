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

The process is root already: what os-brick and Cinder do with privileges is
done in it, without privsep's daemon, sudo and rootwrap.
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
# Between one look for disks and the next, as os-brick has it.
_SCAN_SECONDS = 2


@functools.cache
def install():
    """Prepare os-brick, once and for good: the process is in a guest."""
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
            # Each limit costs a start of Python.
            mock.patch.object(processutils, 'ProcessLimits',
                              lambda **_: None)):
        patch.start()


def volume_paths(this, properties, hbas,
                 find=fibre_channel.FibreChannelConnector
                 ._get_possible_volume_paths):
    """The links to a volume, each of them once.

    os-brick names links after the PCI cards of the host's ports. Here both
    ports are on virtual interfaces, whose names are alike, so each link would
    be there twice, and be gone when it is removed for the second time.
    """
    return list(dict.fromkeys(find(this, properties, hbas)))


def execute(*command, process_input=None, check_exit_code=True, attempts=1,
            interval=1, backoff_rate=2, timeout=600, raise_timeout=True,
            shell=False, **others):
    """What os-brick wants of its own function, by vfork.

    That one starts programs by fork, which takes a tenth of a second of a
    process of this size in a guest. What only writes to sysfs needs none, and
    no line needs a shell. Its time-outs are for machines that are not loaded.
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
    """The words of a line that is for a shell, which has nothing but globs."""
    return [word for pattern in shlex.split(line)
            for word in sorted(glob.glob(pattern)) or [pattern]]


@functools.cache
def properties(multipath):
    """What nova tells Cinder of this host, which asks many programs."""
    return connector.get_connector_properties(
        'env', '127.0.0.1', multipath, False, host='compute')


class Disk:
    """An attached volume as the kernel shows it: connect, and disconnect.

    :ivar path: of its device, while it is connected
    """

    def __init__(self, info, multipath):
        self._info = info
        self._is_multipath = multipath
        self._connector = connector.InitiatorConnector.factory(
            info['driver_volume_type'], 'env', use_multipath=multipath,
            device_scan_attempts=5)

    def connect(self):
        """Give itself, when the device can be used."""
        self._device = self._connector.connect_volume(self._info)
        self.path = os.path.realpath(self._device['path'])
        try:
            self._wait_for_all_paths()
        except node.NodeError:
            # The next test shall have no disk of this one.
            self.disconnect()
            raise
        return self

    def _wait_for_all_paths(self):
        """On a slow machine os-brick goes on without some, or without map.

        It does not look again for disks of a portal once it has a map, and
        later removes those alone that udev had named.
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
        """The multipath device of the disk, or None."""
        name = os.path.basename(self.path)
        if name.startswith('dm-'):
            return name
        return next(iter(os.listdir(f'/sys/block/{name}/holders')), None)

    def extend(self):
        """Look at the size again; in bytes."""
        return self._connector.extend_volume(self._info)

    def disconnect(self):
        """Flush it and log out; raises what os-brick does.

        It follows the link of a disk that it has just removed. When udev
        removes the link at that very moment, Python's realpath() raises: then
        it is told again, as a user would.
        """
        try:
            self._connector.disconnect_volume(self._info, self._device)
        except FileNotFoundError:
            node.run('udevadm', 'settle')
            self._connector.disconnect_volume(self._info, self._device)

    def paths(self):
        """The disks that a multipath device is made of, and their states."""
        shown = node.multipathd.ask('show paths format "%m %d %t %o"')
        name = os.path.basename(self.path)
        return {line.split()[1]: line.split()[2:]
                for line in shown.splitlines()[1:]
                if line.split()[0] in (name, self._map_name())}

    def _map_name(self):
        name = os.path.basename(self.path)
        with open(f'/sys/block/{name}/dm/name') as stream:
            return stream.read().strip()
