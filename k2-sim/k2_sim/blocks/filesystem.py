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

"""Where the volumes of one array are: on Btrfs, if possible.

Only there does a snapshot take the same time for any amount of data. On
another file system, a Btrfs is created in a file. It has no mount point: it
is mounted as long as this process lives, however that ends. Other processes
find it below /proc/PID/fd.
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

#: In the state directory: the directory with the files of volumes, or the file
#: with the Btrfs that has them.
PLAIN, IMAGE = 'content', 'content.btrfs'
_FILES = 'files'
_PROGRAM, _PACKAGE = 'mkfs.btrfs', 'btrfs-progs'
# The part of the free space that the Btrfs gets: the state needs the rest,
# which hosts can then never use up.
_SHARE = 0.9
# Bytes. A smaller Btrfs may have no room for metadata when it is full; ext4
# has no larger files.
_LEAST, _MOST = 4 * 2 ** 30, 15 * 2 ** 40
# Seconds.
_LIMIT = 60.0
_DAMAGED = '; if it is damaged, restore it from a copy'
_ADVICE = {
    errno.EPERM: '; start k2-sim as root',
    errno.EACCES: '; start k2-sim as root',
    errno.EEXIST: '; a copy of it is in use, stop that first',
    **dict.fromkeys((errno.EINVAL, errno.EIO, errno.EUCLEAN), _DAMAGED)}


class Place(NamedTuple):
    """The directory of the files. shown: its name for the user.

    drawback: why snapshots take longer there, '' if they do not.
    """

    directory: pathlib.Path
    shown: pathlib.Path
    drawback: str = ''


class _FailedError(Exception):
    """A Btrfs cannot be created or mounted; the text says why."""


def place(state: pathlib.Path, is_served: bool, stack: contextlib.ExitStack
          ) -> Place:
    """Where the files of an array are; the stack unmounts a Btrfs.

    is_served: whether initiators write to them; without initiators, a new
    state needs no Btrfs. Raises StateError if an existing directory or Btrfs
    cannot be used.
    """
    shown = state.absolute()
    try:
        # The data plane forms relative paths.
        state = state.resolve()
        plain, image = state / PLAIN, state / IMAGE
        # A dangling link counts, too: its target may not be mounted.
        if os.path.lexists(image):
            return Place(_existing(image, plain, stack), shown / IMAGE)
        if not is_served:
            return Place(plain, shown / PLAIN)
        drawback = _drawback(plain)
        if drawback is None:
            return Place(_made(image, stack), shown / IMAGE)
    except _FailedError as exc:
        drawback = str(exc)
    except OSError as exc:
        raise errors.StateError(f'cannot use {shown}: {_reason(exc)}'
                                ) from exc
    return Place(plain, shown / PLAIN, drawback)


def lock(state: pathlib.Path, stack: contextlib.ExitStack) -> None:
    """Keep other processes from a state directory until the stack ends.

    Two processes would mount, or create, the same file system. Raises
    StateError.
    """
    descriptor = os.open(state, os.O_RDONLY | os.O_CLOEXEC)
    stack.callback(os.close, descriptor)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as exc:
        raise errors.StateError(f'state directory {state} is in use by'
                                ' another process') from exc
    except OSError as exc:
        # A network file system without locks; state.db is locked, too.
        if exc.errno not in (errno.ENOLCK, errno.EOPNOTSUPP, errno.EBADF):
            raise


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
    except OSError as exc:
        raise errors.StateError(f'cannot mount {image}: {_reason(exc)}'
                                f'{_ADVICE.get(exc.errno or 0, "")}') from exc
    return found


def _drawback(plain: pathlib.Path) -> str | None:
    """Why snapshots take longer in a plain directory, '' on Btrfs.

    None if a Btrfs can be created instead.
    """
    if btrfs.is_on(plain if plain.exists() else plain.parent):
        return ''
    # Also an empty directory: what belongs there may not be mounted.
    if os.path.lexists(plain):
        return (f'{plain} is not on Btrfs; begin with a new state directory,'
                ' or move the files to a Btrfs that is mounted there')
    return None


def _made(image: pathlib.Path, stack: contextlib.ExitStack) -> pathlib.Path:
    """The directory for files in a new file system."""
    status = os.statvfs(image.parent)
    size = min(int(status.f_bavail * status.f_frsize * _SHARE), _MOST)
    if size < _LEAST:
        raise _FailedError(
            f'{image.parent} has less than 4.5 GiB of free space for a Btrfs')
    new = image.with_suffix('.new')
    new.unlink(missing_ok=True)
    with contextlib.ExitStack() as undo:
        undo.callback(new.unlink, missing_ok=True)
        with new.open('xb') as file:
            os.fchmod(file.fileno(), 0o600)
            file.truncate(size)
        _format(new)
        try:
            found = _mounted(new, undo)
        except OSError as exc:
            raise _FailedError(
                f'cannot mount a Btrfs: {_reason(exc)}') from exc
        new.rename(image)
        stack.push(undo.pop_all())
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
    """Mount a file system until the stack ends; returns its directory."""
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
