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

"""Fibre Channel in the guest: two fabrics, and ports of four machines.

A fabric is a bridge. Two arrays, the compute node and another host each have
one port in both fabrics. A port is FCoE on a virtual network interface; ports
find each other without a switch (VN2VN). All of them belong to one kernel, so
os-brick and multipathd are told which disks are the compute node's.
"""

import dataclasses
import functools
import os
import pathlib

from tests import iscsi
from tools.guest import node

FABRICS = (0, 1)
#: Machines with disks.
HOSTS = ('compute', 'other')
#: The directory in which os-brick finds only the compute node's ports.
FOLDER = pathlib.Path('/run/fc_host')
MODULE = os.environ.get('K2_FCOE', '')
_MODULES = ('scsi_transport_fc', 'libfc', 'libfcoe', 'target_core_mod',
            'veth', 'bridge')
_MACHINES = (*HOSTS, 'array-a', 'array-b')
_LINK_TRIES, _LOGIN_SECONDS = 5, 45
# The MTU that Fibre Channel frames need.
_MTU = '2500'
_CREATE = pathlib.Path('/sys/module/libfcoe/parameters/create_vn2vn')
_CLASS = pathlib.Path('/sys/class')
# udev makes no by-path links for disks on virtual interfaces. This program
# prints the names of links that os-brick expects for such ports.
_BY_PATH = pathlib.Path('/run/fc-by-path')
_BY_PATH_SCRIPT = f"""\
#!/bin/sh
[ -e {FOLDER}/host${{1%%:*}} ] || exit 1
read -r port <"/sys/class/fc_transport/target${{1%:*}}/port_name" &&
    echo "pci-virtual-fc-$port-lun-${{1##*:}}"
"""
# multipathd ignores disks with this property of udev.
_RULES = pathlib.Path('/etc/udev/rules.d/59-fc.rules')
_RULE = f"""\
ACTION=="remove", GOTO="end"
SUBSYSTEM!="block", GOTO="end"
KERNEL!="sd*[!0-9]", GOTO="end"
KERNELS=="*:*:*:*", PROGRAM=="{_BY_PATH} %b", SYMLINK+="disk/by-path/%c", \
    GOTO="end"
ENV{{UDEV_DISABLE_PERSISTENT_STORAGE_RULES_FLAG}}="1"
LABEL="end"
"""


def _name(machine, number):
    """Return the WWPN of a machine's port, without colons."""
    return f'200002000000{_MACHINES.index(machine):02x}{number:02x}'


def _with_colons(name):
    return ':'.join(name[at:at + 2] for at in range(0, 16, 2))


def names(machine):
    """Return the WWPNs of a machine's ports, with colons as on an array."""
    return [_with_colons(_name(machine, number)) for number in FABRICS]


def hosts(machine):
    """Return the kernel's names of a machine's ports, such as host3."""
    known = {_digits(path): path.parent.name
             for path in _CLASS.glob('fc_host/*/port_name')}
    return [known[_name(machine, number)] for number in FABRICS]


@functools.cache
def start():
    """Create all ports, with the link down.

    libfcoe panics if a frame arrives before a port is complete.
    """
    node.run('modprobe', '-a', *_MODULES)
    node.run('insmod', MODULE)
    node.run('insmod', str(pathlib.Path(MODULE).with_name('tcm_fc.ko')))
    for number in FABRICS:
        node.run('ip', 'link', 'add', f'fabric{number}', 'mtu', _MTU,
                 'type', 'bridge')
        node.run('ip', 'link', 'set', f'fabric{number}', 'up')
        for machine in _MACHINES:
            _add_port(machine, number)
    FOLDER.mkdir()
    for host in hosts('compute'):
        (FOLDER / host).symlink_to(_CLASS / 'fc_host' / host)
    _BY_PATH.write_text(_BY_PATH_SCRIPT)
    _BY_PATH.chmod(0o755)
    _RULES.parent.mkdir(parents=True, exist_ok=True)
    _RULES.write_text(_RULE)


def _add_port(machine, number):
    """Create an interface in a fabric, and a port on it.

    The kernel derives the WWPN of the port from the interface's address.
    """
    port, plug = f'{machine}{number}', f'{machine}{number}-plug'
    node.run('ip', 'link', 'add', port,
             'address', _with_colons(_name(machine, number))[6:],
             'mtu', _MTU, 'type', 'veth', 'peer', 'name', plug, 'mtu', _MTU)
    node.run('ip', 'link', 'set', plug, 'master', f'fabric{number}', 'up')
    _CREATE.write_text(port)


def link(array):
    """Set an array's links up, and wait until hosts have logged in."""
    for number in FABRICS:
        for host in HOSTS:
            set_link(host, number, 'up')
        port = names(array)[number]
        _join(array, number, lambda: all(
            port in targets(host, number) for host in HOSTS))


def unlink(array):
    """Set the links of an array's ports down."""
    for number in FABRICS:
        set_link(array, number, 'down')


def set_link(machine, number, state):
    """Set the link of a machine's port 'up' or 'down'."""
    node.run('ip', 'link', 'set', f'{machine}{number}', state)


def return_link(machine, number, ports):
    """Set a port's link up again, wait for logins to ``ports``, and rescan.

    This waits first until the targets have noticed the loss. Otherwise libfc
    takes the new login for a session that never ended, and the target waits
    indefinitely for the data of earlier writes.
    """
    node.wait_until(lambda: not _is_seen(machine, number),
                    'the end of an FC login')
    _join(machine, number,
          lambda: set(ports) <= set(targets(machine, number)))
    scan(machine)


def _join(machine, number, is_done):
    """Set a port's link up, and wait until its logins are complete.

    This is repeated a few times: a login may get lost if both ports start
    one, and with it all disks if the port was down for long.

    :param is_done: says whether all logins have succeeded
    :raises NodeError: some have not
    """
    for _ in range(_LINK_TRIES):
        set_link(machine, number, 'up')
        try:
            node.wait_until(is_done, 'an FC login', _LOGIN_SECONDS)
            return
        except node.NodeError:
            set_link(machine, number, 'down')
    raise node.NodeError(f'{machine} does not log in on fabric {number}')


def targets(machine, number):
    """Return the SCSI target ids of the array ports logged in to, by WWPN.

    The kernel uses these ids in the addresses of disks.
    """
    host = hosts(machine)[number]
    return {_with_colons(_digits(port / 'port_name')):
            int((port / 'scsi_target_id').read_text())
            for port in _CLASS.glob(f'fc_remote_ports/rport-{host[4:]}:*')
            if 'FCP Target' in (port / 'roles').read_text()
            and 'Online' in (port / 'port_state').read_text()}


def _is_seen(machine, number):
    """Return whether any login to or from a machine's port exists."""
    return any(_digits(port / 'port_name') == _name(machine, number)
               and 'Online' in (port / 'port_state').read_text()
               for port in _CLASS.glob('fc_remote_ports/*'))


def _digits(path):
    """Read a WWPN from sysfs, without its prefix 0x."""
    return path.read_text().strip().removeprefix('0x')


def scan(machine):
    """Rescan all ports of a machine."""
    for host in hosts(machine):
        (_CLASS / 'scsi_host' / host / 'scan').write_text('- - -')


def disks(machine):
    """Return the addresses of a machine's disks, such as 3:0:0:1."""
    wanted = {host[4:] for host in hosts(machine)}
    found = [path.parts[-3] for path in _CLASS.glob(
        'scsi_device/*/device/block')]
    return sorted(address for address in found
                  if address.partition(':')[0] in wanted)


def has_disk(port, lun):
    """Return whether the compute node has the link of a port's LUN."""
    return pathlib.Path(
        f'/dev/disk/by-path/pci-virtual-fc-0x{port}-lun-{lun}').exists()


def target_of(address):
    """Return the WWPN of the array port through which a disk is reached."""
    target = address.rpartition(':')[0]
    return _with_colons(_digits(
        _CLASS / 'fc_transport' / f'target{target}' / 'port_name'))


def forget(address):
    """Remove a disk from the kernel."""
    (_CLASS / 'scsi_device' / address / 'device' / 'delete').write_text('1')


@dataclasses.dataclass(frozen=True)
class Path:
    """A path of the other host to a LUN of an array, in one of the fabrics.

    :ivar array: the name of the array
    :ivar number: the fabric
    :ivar is_mapped: scan until the disk appears, as a port that is busy with
        a login finds nothing
    """

    array: str
    number: int
    lun: int
    is_mapped: bool

    @property
    def _address(self):
        host = hosts('other')[self.number]
        target = targets('other', self.number)[names(self.array)[self.number]]
        return f'{host[4:]}:0:{target}:{self.lun}'

    def command(self):
        """Wait for a mapped disk; return the command line of qemu-io."""
        node.wait_until(lambda: self._is_found() or not self.is_mapped,
                        f'the disk {self._address}')
        return ['qemu-io', '-f', 'raw', '-t', 'none', str(self._device())]

    def _is_found(self):
        host, *address = self._address.split(':')
        (_CLASS / 'scsi_host' / f'host{host}' / 'scan').write_text(
            ' '.join(address))
        return self._device().exists()

    def _device(self):
        """Return the disk's path; one that does not exist if there is none."""
        names = [path.name for path in _CLASS.glob(
            f'scsi_device/{self._address}/device/block/*')]
        return pathlib.Path('/dev', *names or ['nothing'])

    def io(self, *commands):
        """Find the disk, run qemu-io commands on it, and remove the disk.

        A disk that existed before stays.

        :raises CalledProcessError: a command failed
        """
        was_there = self._address in disks('other')
        try:
            return iscsi.run(*self.command(), *(
                word for command in commands for word in ('-c', command)))
        finally:
            if not was_there and self._address in disks('other'):
                forget(self._address)
