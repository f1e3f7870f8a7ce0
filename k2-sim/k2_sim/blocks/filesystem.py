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

"""Where the volumes of one array are: on Btrfs, if there can be one.

Only there a snapshot takes the same time however much data there is. On
another file system a Btrfs in a file is made. It has no mount point: it is
mounted as long as this process lives, however that ends. Other processes find
it below /proc/PID/fd.
"""

import contextlib
import errno
import fcntl
import os
import pathlib
import shutil
import subprocess  # nosec B404
from typing import NamedTuple

from k2_sim.blocks import btrfs
from k2_sim.blocks import loop_devices
from k2_sim import errors

#: In the state directory: the files of volumes, or the file system of these.
PLAIN, IMAGE = 'content', 'content.btrfs'
_FILES = 'files'
_PROGRAM, _PACKAGE = 'mkfs.btrfs', 'btrfs-progs'
# Of the free space: so that hosts never take the rest, which the state needs.
_SHARE = 0.9
# Less may leave no room for metadata when it is full; ext4 has no larger
# files.
_LEAST, _MOST = 4 * 2 ** 30, 15 * 2 ** 40
# Seconds.
_LIMIT = 60.0


class Place(NamedTuple):
    """The directory of the files, and why snapshots take longer there.

    shown: its name for the user.
    """

    directory: pathlib.Path
    shown: pathlib.Path
    drawback: str = ''


class _FailedError(Exception):
    """It cannot be made, or mounted; the text says why."""


def place(state: pathlib.Path, is_served: bool, stack: contextlib.ExitStack
          ) -> Place:
    """Where the files of an array are; the stack releases it.

    is_served: whether initiators write to them; without any, a new state
    needs no Btrfs. Raises StateError if what is there cannot be used.
    """
    state = state.absolute()
    plain, image = state / PLAIN, state / IMAGE
    try:
        if is_served or image.exists():
            _lock(state, stack)
        if image.exists():
            return Place(_existing(image, plain, stack), image)
        if not is_served:
            return Place(plain, plain)
        return _new(image, plain, stack)
    except OSError as exc:
        raise errors.StateError(f'cannot use {state}: {_reason(exc)}'
                                ) from exc


def _lock(state: pathlib.Path, stack: contextlib.ExitStack) -> None:
    """Keep others from mounting, or making, the same file system."""
    descriptor = os.open(state, os.O_RDONLY | os.O_CLOEXEC)
    stack.callback(os.close, descriptor)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as exc:
        raise errors.StateError(f'state directory {state} is in use by'
                                ' another process') from exc


def _existing(image: pathlib.Path, plain: pathlib.Path,
              stack: contextlib.ExitStack) -> pathlib.Path:
    """The directory for files in a file system that was made before."""
    if plain.exists() and any(plain.iterdir()):
        raise errors.StateError(f'both {plain} and {image} have volumes:'
                                ' move away what does not belong there')
    try:
        found = _mounted(image, stack)
        # It is not new, so the state must not name files that are missing.
        found.mkdir(mode=0o700, exist_ok=True)
    except PermissionError as exc:
        raise errors.StateError(f'cannot mount {image}: {_reason(exc)};'
                                ' start k2-sim as root') from exc
    except OSError as exc:
        raise errors.StateError(f'cannot mount {image}: {_reason(exc)}; if it'
                                ' is damaged, restore it from a copy'
                                ) from exc
    return found


def _new(image: pathlib.Path, plain: pathlib.Path,
         stack: contextlib.ExitStack) -> Place:
    """A file system for a new state, if there is none and can be one."""
    if btrfs.is_on(plain if plain.exists() else image.parent):
        return Place(plain, plain)
    # Also an empty directory: what belongs there may not be mounted.
    if plain.exists():
        return Place(plain, plain, f'{plain} is not on Btrfs; begin with a new'
                     ' state directory, or mount a Btrfs there')
    try:
        return Place(_made(image, stack), image)
    except _FailedError as exc:
        return Place(plain, plain, str(exc))
    except OSError as exc:
        return Place(plain, plain,
                     f'cannot mount a Btrfs: {_reason(exc)}')


def _made(image: pathlib.Path, stack: contextlib.ExitStack) -> pathlib.Path:
    """The directory for files in a new file system."""
    status = os.statvfs(image.parent)
    size = min(int(status.f_bavail * status.f_frsize * _SHARE), _MOST)
    if size < _LEAST:
        raise _FailedError(
            f'{image.parent} has less than {_LEAST / _SHARE / 2 ** 30:.1f} GiB'
            ' of free space for a Btrfs')
    new = image.with_suffix('.new')
    new.unlink(missing_ok=True)
    try:
        with new.open('xb') as file:
            os.fchmod(file.fileno(), 0o600)
            file.truncate(size)
        _format(new)
        found = _mounted(new, stack)
        new.rename(image)
    except BaseException:
        new.unlink(missing_ok=True)
        raise
    return found


def _format(image: pathlib.Path) -> None:
    path = f'{os.environ.get("PATH", os.defpath)}:/usr/sbin:/sbin'
    program = shutil.which(_PROGRAM, path=path)
    if program is None:
        raise _FailedError(f'{_PROGRAM} is not installed; install the package'
                           f' {_PACKAGE}')
    try:
        subprocess.run(  # nosec B603
            [program, '--quiet', '--metadata', 'single', image], check=True,
            capture_output=True, text=True, stdin=subprocess.DEVNULL,
            timeout=_LIMIT, env={**os.environ, 'LC_ALL': 'C'})
    except subprocess.TimeoutExpired as exc:
        raise _FailedError(
            f'{_PROGRAM} did not end within {_LIMIT:.0f} s') from exc
    except subprocess.CalledProcessError as exc:
        text = ' '.join(exc.stderr.split()) or f'status {exc.returncode}'
        raise _FailedError(f'{_PROGRAM} failed: {text}') from exc


def _mounted(image: pathlib.Path, stack: contextlib.ExitStack
             ) -> pathlib.Path:
    """The directory for files in a file system, until the stack ends."""
    with loop_devices.shared(image) as device:
        descriptor = btrfs.mounted(os.readlink(f'/proc/self/fd/{device}'))
    stack.callback(os.close, descriptor)
    return pathlib.Path(f'/proc/{os.getpid()}/fd/{descriptor}', _FILES)


def _reason(exc: OSError) -> str:
    """What failed, and why, for the user."""
    if exc.errno == errno.ENODEV:
        return 'this kernel has no Btrfs'
    text = exc.strerror or str(exc)
    return f'{exc.filename}: {text}' if exc.filename else text
