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
# Seconds; all of it takes far less, unless something hangs.
LIMIT = 240
# The socket that iscsid listens on, in no directory.
_ISCSID_SOCKET = '@ISCSIADM_ABSTRACT_NAMESPACE'
_MULTIPATHD_SOCKET = '\0/org/kernel/linux/storage/multipathd'
# What comes before each message to and from it: a size_t.
_LENGTH = struct.Struct('@N')
_CONNECTIONS = pathlib.Path('/sys/class/iscsi_connection')
_MODULES = ('iscsi_tcp', 'sd_mod', 'sg', 'dm-multipath', 'dm-round-robin',
            'dm-service-time')
# Those that disks need. Each program that a rule starts takes its time here.
_RULES = ('50-udev-default', '55-dm', '56-dm-mpath', '60-multipath',
          '60-persistent-storage', '60-persistent-storage-dm',
          '95-dm-notify')
_RULES_FOLDER = pathlib.Path('/usr/lib/udev/rules.d')
# A path of several fails soon, as multipathd sets it; one that is alone waits
# for a machine that is slow.
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
# Disks of other hosts than this are known by a property.
_MULTIPATH = """\
blacklist {
    property "UDEV_DISABLE_PERSISTENT_STORAGE_RULES_FLAG"
}
defaults {
    find_multipaths yes
    user_friendly_names no
    skip_kpartx yes
    polling_interval 2
    max_polling_interval 4
}
devices {
    device {
        vendor "SILK"
        product "SDP"
        path_grouping_policy multibus
        path_checker tur
        path_selector "round-robin 0"
        no_path_retry 60
        fast_io_fail_tmo 5
    }
}
"""


class NodeError(Exception):
    """A program of the host failed, or is not up in time."""


def is_guest() -> bool:
    """Whether this is a guest, where daemons may be started at will."""
    return 'User Mode Linux' in pathlib.Path('/proc/cpuinfo').read_text()


def run(*command: str, **options: Any) -> str:
    """Return what a command prints; raises NodeError with its complaint."""
    done = subprocess.run(command, **{  # nosec B603
        'capture_output': True, 'text': True, 'timeout': LIMIT, **options})
    if done.returncode:
        raise NodeError(f'{" ".join(command)}: {done.stderr}')
    return str(done.stdout)


@functools.cache
def start() -> None:
    """Start everything, once for all that a guest runs.

    :raises NodeError: this is no guest, or something does not start
    """
    if not is_guest():
        raise NodeError('daemons are started in a guest alone')
    run('modprobe', '-a', *_MODULES)
    _start_udevd()
    _start_iscsid()
    pathlib.Path('/etc/multipath').mkdir(exist_ok=True)
    pathlib.Path('/etc/multipath.conf').write_text(_MULTIPATH)
    multipathd.start()


def daemon(name: str, *command: str) -> subprocess.Popen[bytes]:
    """Start a program that logs to /out, and return its process."""
    with open(OUT / f'{name}.log', 'ab') as log:
        return subprocess.Popen(  # nosec B603
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            start_new_session=True)


def wait_until(condition: Callable[[], bool], what: str,
               seconds: float = LIMIT) -> None:
    """Look again and again, but not for ever; raises NodeError."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise NodeError(f'not in time: {what}')
        time.sleep(0.05)


def answers(*command: str) -> bool:
    """Whether a command succeeds."""
    return subprocess.run(command, capture_output=True,  # nosec B603
                          timeout=LIMIT).returncode == 0


def _start_udevd() -> None:
    kept = pathlib.Path('/run/rules')
    kept.mkdir()
    for name in _RULES:
        if (_RULES_FOLDER / f'{name}.rules').exists():
            shutil.copy(_RULES_FOLDER / f'{name}.rules', kept)
    run('mount', '--bind', str(kept), str(_RULES_FOLDER))
    os.makedirs('/run/udev', exist_ok=True)
    daemon('udevd', '/lib/systemd/systemd-udevd')
    wait_until(lambda: answers('udevadm', 'control', '--ping'), 'udevd')


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
    """The daemon that makes maps of all disks that have several paths."""

    def __init__(self) -> None:
        """Begin with none that runs."""
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Have it run."""
        if self._process is None or self._process.poll() is not None:
            self._process = daemon('multipathd', 'multipathd', '-d', '-v2')
            wait_until(self._answers, 'multipathd')

    def _answers(self) -> bool:
        try:
            return bool(self.ask('show status'))
        except ConnectionError:
            return False

    def ask(self, command: str) -> str:
        """What it says, as its program would print it."""
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(LIMIT)
            client.connect(_MULTIPATHD_SOCKET)
            text = f'{command}\0'.encode()
            client.sendall(_LENGTH.pack(len(text)) + text)
            with client.makefile('rb') as stream:
                length, = _LENGTH.unpack(stream.read(_LENGTH.size))
                answer: bytes = stream.read(length)
                return answer.rstrip(b'\0').decode()

    def stop(self) -> None:
        """Have it not run."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait(LIMIT)
            self._process = None


multipathd = _Multipathd()


def sessions() -> list[str]:
    """Portals that the initiator is logged in to, as the kernel has them."""
    return sorted(
        ':'.join((path / f'persistent_{what}').read_text().strip()
                 for what in ('address', 'port'))
        for path in _CONNECTIONS.iterdir())


def disks() -> list[str]:
    """Names of the SCSI disks and the maps that the kernel has."""
    return sorted(name for name in os.listdir('/sys/block')
                  if name.startswith(('sd', 'dm-')))
