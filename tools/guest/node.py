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

"""The guest as a host: kernel modules, udevd, iscsid, multipathd.

Their logs are in /out, which stays when the guest hangs or panics.
"""

from collections.abc import Callable
from collections.abc import Iterator
import contextlib
import functools
import os
import pathlib
import shutil
import socket
import struct
import subprocess  # nosec B404
import time
from typing import Any

from tools.guest import machine

OUT = pathlib.Path(machine.OUT)
IQN = 'iqn.1993-08.org.debian:01:guest'
# Timeout in seconds; everything takes far less unless something hangs.
LIMIT = 240
# The abstract socket that iscsid listens on.
_ISCSID_SOCKET = '@ISCSIADM_ABSTRACT_NAMESPACE'
_MULTIPATHD_SOCKET = '\0/org/kernel/linux/storage/multipathd'
# Each message to and from multipathd is preceded by its size, a size_t.
_LENGTH = struct.Struct('@N')
_CONNECTIONS = pathlib.Path('/sys/class/iscsi_connection')
_MODULES = ('iscsi_tcp', 'sd_mod', 'sg', 'dm-multipath', 'dm-round-robin',
            'dm-service-time', 'dm-queue-length')
# Only the rules that disks need, because starting programs is slow here.
_RULES = ('50-udev-default', '55-dm', '56-dm-mpath', '60-multipath',
          '60-persistent-storage', '60-persistent-storage-dm',
          '95-dm-notify')
_RULES_FOLDER = pathlib.Path('/usr/lib/udev/rules.d')
# With several paths, multipathd makes one fail soon; a single path gets more
# time, because the machine may be slow.
_ISCSID = """\
node.startup = manual
node.session.timeo.replacement_timeout = 120
node.conn[0].timeo.login_timeout = 30
node.conn[0].timeo.logout_timeout = 30
node.conn[0].timeo.noop_out_interval = 5
node.conn[0].timeo.noop_out_timeout = 5
node.session.initial_login_retry_max = 4
node.session.scan = manual
node.session.xmit_thread_priority = 0
"""
# Host settings of the product, and where they are installed.
_HOST_FILES = pathlib.Path(__file__).parents[2] / 'cinder_k2/host_files'
_MULTIPATH = pathlib.Path('/etc/multipath.conf')
_DEVICES = pathlib.Path('/etc/multipath/conf.d/cinder-k2.conf')
_SCHEDULER_RULES = '98-cinder-k2.rules'
# Settings of the site. Disks of other hosts are identified by a property, and
# the array's own LUN (VOL-14) by its serial number.
_SITE = """\
blacklist {
    property "UDEV_DISABLE_PERSISTENT_STORAGE_RULES_FLAG"
    wwid "20024f400[0-9a-f]{4}0000"
}
defaults {
    find_multipaths yes
    user_friendly_names no
    polling_interval 2
    max_polling_interval 4
}
"""
# An overloaded machine may lose all paths for some seconds.
_PATIENT = """\
overrides {
    no_path_retry 60
}
"""
# A real array shows an EUI-64 (VOL-15), but no target can be configured to do
# so. With a serial number set, udev does not query the disk; multipathd also
# needs the property that the rules of sg3-utils set.
_WWID = pathlib.Path('/run/eui-64')
_WWID_SCRIPT = """\
#!/bin/sh
read -r wwid <"/sys$1/device/wwid"
echo "0024f400${wwid#"${wwid%????????}"}"
"""
# Called by os-brick after a volume was extended.
_SCSI_ID = pathlib.Path('/usr/lib/udev/scsi_id')
_SCSI_ID_SCRIPT = """\
#!/bin/sh
/run/scsi_id "$@" |
    sed -E 's/^360024f40*([0-9a-f]{8})$/20024f400\\1/'
"""
_SCSI_ID_BESIDE = pathlib.Path('/run/scsi_id-eui-64')
_WWID_RULES = pathlib.Path('/etc/udev/rules.d/59-eui-64.rules')
_WWID_RULE = f"""\
ACTION!="remove", SUBSYSTEM=="block", KERNEL=="sd*[!0-9]", \
    ATTRS{{vendor}}=="KMNRIO*|SILK*", PROGRAM="{_WWID} %p", \
    ENV{{ID_SERIAL}}="2%c", ENV{{ID_BUS}}="scsi", \
    ENV{{SCSI_IDENT_LUN_EUI64}}="%c"
"""


class NodeError(Exception):
    """A program of the host failed, or did not start in time."""


def is_guest() -> bool:
    """Return whether this is a guest, where daemons can be started."""
    return 'User Mode Linux' in pathlib.Path('/proc/cpuinfo').read_text()


def run(*command: str, **options: Any) -> str:
    """Return the output of a command; raises NodeError with its stderr."""
    done = subprocess.run(command, **{  # nosec B603
        'capture_output': True, 'text': True, 'timeout': LIMIT, **options})
    if done.returncode:
        raise NodeError(f'{" ".join(command)}: {done.stderr}')
    return str(done.stdout)


@functools.cache
def start() -> None:
    """Start everything, once per guest.

    :raises NodeError: this is no guest, or something does not start
    """
    if not is_guest():
        raise NodeError('daemons are only started in a guest')
    run('modprobe', '-a', *_MODULES)
    _start_udevd()
    _start_iscsid()
    _DEVICES.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(_HOST_FILES / 'multipath.conf', _DEVICES)
    _MULTIPATH.write_text(_SITE + _PATIENT)
    multipathd.start()


def daemon(name: str, *command: str) -> subprocess.Popen[bytes]:
    """Start a program that logs to /out, and return its process."""
    with open(OUT / f'{name}.log', 'ab') as log:
        return subprocess.Popen(  # nosec B603
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            start_new_session=True)


def wait_until(condition: Callable[[], bool], what: str,
               seconds: float = LIMIT) -> None:
    """Poll until a condition is met.

    :param what: what is waited for, for the message
    :raises NodeError: the condition was not met in time
    """
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise NodeError(f'not in time: {what}')
        time.sleep(0.05)


def answers(*command: str) -> bool:
    """Return whether a command succeeds."""
    return subprocess.run(command, capture_output=True,  # nosec B603
                          timeout=LIMIT).returncode == 0


def _start_udevd() -> None:
    kept = pathlib.Path('/run/rules')
    kept.mkdir()
    for name in _RULES:
        if (_RULES_FOLDER / f'{name}.rules').exists():
            shutil.copy(_RULES_FOLDER / f'{name}.rules', kept)
    shutil.copy(_HOST_FILES / _SCHEDULER_RULES, kept)
    shutil.copy(_SCSI_ID, '/run/scsi_id')
    for path, script in ((_WWID, _WWID_SCRIPT),
                         (_SCSI_ID_BESIDE, _SCSI_ID_SCRIPT)):
        path.write_text(script)
        path.chmod(0o755)
    _show_eui_64()
    run('mount', '--bind', str(kept), str(_RULES_FOLDER))
    os.makedirs('/run/udev', exist_ok=True)
    daemon('udevd', '/lib/systemd/systemd-udevd')
    wait_until(lambda: answers('udevadm', 'control', '--ping'), 'udevd')


def _show_eui_64() -> None:
    _WWID_RULES.parent.mkdir(parents=True, exist_ok=True)
    _WWID_RULES.write_text(_WWID_RULE)
    run('mount', '--bind', str(_SCSI_ID_BESIDE), str(_SCSI_ID))


@contextlib.contextmanager
def naa() -> Iterator[None]:
    """Let new disks have the target's own WWID within the block."""
    _WWID_RULES.unlink()
    run('umount', str(_SCSI_ID))
    run('udevadm', 'control', '--reload')
    try:
        yield
    finally:
        _show_eui_64()
        run('udevadm', 'control', '--reload')


@contextlib.contextmanager
def without_product() -> Iterator[None]:
    """Remove the product's settings of multipathd within the block."""
    text = _DEVICES.read_text()
    _DEVICES.unlink()
    multipathd.reconfigure()
    try:
        yield
    finally:
        _DEVICES.write_text(text)
        multipathd.reconfigure()


@contextlib.contextmanager
def product_alone() -> Iterator[None]:
    """Let no setting of the site override the product's within the block."""
    _MULTIPATH.write_text(_SITE)
    multipathd.reconfigure()
    try:
        yield
    finally:
        _MULTIPATH.write_text(_SITE + _PATIENT)
        multipathd.reconfigure()


def _start_iscsid() -> None:
    for folder in ('/etc/iscsi', '/var/lib/iscsi'):
        os.makedirs(folder, exist_ok=True)
        run('mount', '-t', 'tmpfs', 'iscsi', folder)
    os.makedirs('/run/lock/iscsi', exist_ok=True)
    etc = pathlib.Path('/etc/iscsi')
    (etc / 'initiatorname.iscsi').write_text(f'InitiatorName={IQN}\n')
    (etc / 'iscsid.conf').write_text(_ISCSID)
    daemon('iscsid', 'iscsid', '-f', '-d', '0')
    wait_until(lambda: _ISCSID_SOCKET in pathlib.Path(
        '/proc/net/unix').read_text(), 'iscsid')


class _Multipathd:
    """The daemon that creates multipath maps of disks with several paths."""

    def __init__(self) -> None:
        """Start without a running daemon."""
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start the daemon."""
        if self._process is None or self._process.poll() is not None:
            self._process = daemon('multipathd', 'multipathd', '-d', '-v2')
            wait_until(self._answers, 'multipathd')

    def _answers(self) -> bool:
        try:
            return bool(self.ask('show status'))
        except ConnectionError:
            return False

    def ask(self, command: str) -> str:
        """Return the response to a command, as its client prints it."""
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(LIMIT)
            client.connect(_MULTIPATHD_SOCKET)
            text = f'{command}\0'.encode()
            client.sendall(_LENGTH.pack(len(text)) + text)
            with client.makefile('rb') as stream:
                length, = _LENGTH.unpack(stream.read(_LENGTH.size))
                answer: bytes = stream.read(length)
                return answer.rstrip(b'\0').decode()

    def reconfigure(self) -> None:
        """Reload its files, if it is running."""
        if self._process is not None:
            self.ask('reconfigure')

    def stop(self) -> None:
        """Stop the daemon."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait(LIMIT)
            self._process = None


multipathd = _Multipathd()


def sessions() -> list[str]:
    """Return the portals of the sessions that the kernel has."""
    return sorted(
        ':'.join((path / f'persistent_{what}').read_text().strip()
                 for what in ('address', 'port'))
        for path in _CONNECTIONS.iterdir())


def disks() -> list[str]:
    """Return the names of the kernel's SCSI disks and multipath maps."""
    return sorted(name for name in os.listdir('/sys/block')
                  if name.startswith(('sd', 'dm-')))
