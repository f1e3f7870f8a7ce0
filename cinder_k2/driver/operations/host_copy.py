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

"""Copying data through this host, where the array cannot copy."""

from collections.abc import Iterator
import contextlib
import subprocess  # nosec B404
import threading
import typing

from cinder import exception
from cinder import utils
from cinder.volume import volume_utils
from oslo_log import log as logging

from cinder_k2.array import Array
from cinder_k2.array import ArrayVolume
from cinder_k2.array import NamedVolume
from cinder_k2.driver.operations import attach
from cinder_k2.driver.operations import detach
from cinder_k2 import exceptions
from cinder_k2 import rest
from cinder_k2 import transport

LOG = logging.getLogger(__name__)

_KIB_PER_MIB = 1024


class HostCopy:
    """Attaches two volumes to this host and copies, a few at a time.

    :param driver: Cinder's, which connects devices
    """

    def __init__(self, array: Array, attaching: attach.Attach,
                 detaching: detach.Detach,
                 driver: typing.Any) -> None:
        self._array = array
        self._attach = attaching
        self._detach = detaching
        self._driver = driver
        self._configuration = driver.configuration
        self._turns = threading.BoundedSemaphore(
            self._configuration.k2_max_concurrent_copies)

    def copy(self, source: NamedVolume, target: NamedVolume,
             size: int) -> None:
        """Copy ``size`` KiB to a volume without data; zeros are left out.

        :raises ObjectMissing: one of them was deleted while the copy waited
            for its turn
        :raises CopyTimeout: the copy, or waiting for its turn, took too long
        """
        self._copy_blocks(source, target, size, sparse=True)

    def overwrite(self, source: NamedVolume, target: NamedVolume, size: int,
                  target_size: int) -> None:
        """Copy ``size`` KiB over the data of a volume, and zeros after that.

        :param target_size: KiB up to which zeros are written
        :raises ObjectMissing, CopyTimeout: as for ``copy``
        """
        self._copy_blocks(source, target, size, sparse=False,
                          target_size=target_size)

    def _copy_blocks(self, source: NamedVolume, target: NamedVolume, size: int,
                     *,
                     sparse: bool, target_size: int = 0) -> None:
        conf = self._configuration
        connector = volume_utils.brick_get_connector_properties(
            conf.use_multipath_for_image_xfer,
            conf.enforce_multipath_for_image_xfer)
        # The next copy need not wait until these are detached.
        with contextlib.ExitStack() as attached, self._turn():
            source_path, target_path = [
                attached.enter_context(self._attached_here(one, connector))
                for one in (source, target)]
            volume_utils.copy_volume(
                source_path, target_path, -(-size // _KIB_PER_MIB),
                conf.volume_dd_blocksize, sparse=sparse, execute=self._run)
            if target_size > size:
                self._zero(target_path, size, target_size)

    def _zero(self, path: str, start: int, end: int) -> None:
        """Write zeros from ``start`` to ``end`` KiB of a device."""
        self._run(
            'dd', 'if=/dev/zero', f'of={path}', 'bs=1M', 'conv=fdatasync',
            'oflag=seek_bytes', 'iflag=count_bytes', f'seek={start * 1024}',
            f'count={(end - start) * 1024}', run_as_root=True)

    def _run(self, *command: str, **how: typing.Any) -> typing.Any:
        """Run a program that writes to a device, and wait until it ends.

        :raises CopyTimeout: it took too long
        """
        timeout = self._configuration.k2_copy_timeout
        started: list[subprocess.Popen[bytes]] = []
        try:
            return utils.execute(*command, timeout=timeout,
                                 on_execute=started.append, **how)
        except subprocess.TimeoutExpired:
            _end(started[-1], timeout)
            raise exceptions.CopyTimeout(
                f'Copying took more than {timeout:g} seconds. Raise '
                'k2_copy_timeout.') from None

    @contextlib.contextmanager
    def _turn(self) -> Iterator[None]:
        timeout = self._configuration.k2_copy_timeout
        if not self._turns.acquire(timeout=timeout):
            raise exceptions.CopyTimeout(
                f'Waited {timeout:g} seconds for other copies to end. Raise '
                'k2_max_concurrent_copies or k2_copy_timeout.')
        try:
            yield
        finally:
            self._turns.release()

    @contextlib.contextmanager
    def _attached_here(self, copied: NamedVolume,
                       connector: transport.Connector) -> Iterator[str]:
        """Attach a volume or view to this host; yields the device's path.

        It is looked up by its name before it is mapped, since hours may have
        passed (OBJ-7), and again if the copy fails: it cannot be deleted
        while it is mapped (VOL-6, SNP-9), but a deletion in Cinder unmaps it,
        too.
        """
        with self._array.deadline(fresh=True):
            connection = self._attach.connect_backing(copied, connector)
        mapped: ArrayVolume | None = copied.backing
        try:
            with self._device(connection) as path:
                yield path
        except BaseException:
            if not self._is_there(copied):
                mapped = None
            raise
        finally:
            with self._array.deadline(fresh=True):
                self._detach.disconnect_backing(mapped, connector)

    def _is_there(self, copied: NamedVolume) -> bool:
        """Whether a volume or view that was copied may be unmapped by its id.

        If the array does not reply, it may: the error of the copy is the one
        to raise.
        """
        try:
            with self._array.deadline(fresh=True):
                return self._array.identity.is_current(copied)
        except rest.RestError as error:
            LOG.warning('Volume or view %(name)s could not be looked up after '
                        'copying it failed, and is unmapped by its id: '
                        '%(error)s', {'name': copied.names[0], 'error': error})
            return True

    @contextlib.contextmanager
    def _device(self, connection: dict[str, typing.Any]) -> Iterator[str]:
        try:
            attached = self._driver._connect_device(connection)
        except exception.DeviceUnavailable as error:
            # The device is connected nevertheless.
            _disconnect(error.kwargs['attach_info'])
            raise
        try:
            yield attached['device']['path']
        finally:
            _disconnect(attached)


def _disconnect(attached: dict[str, typing.Any]) -> None:
    attached['connector'].disconnect_volume(
        attached['conn']['data'], attached['device'], force=True)


def _end(process: 'subprocess.Popen[bytes]', patience: float) -> None:
    """End a program; nothing may be unmapped while it writes.

    Cinder's user cannot kill a program that runs as root, only wait for it.

    :param patience: seconds to wait for it
    """
    with contextlib.suppress(PermissionError):
        process.kill()
    try:
        process.wait(patience)
    except subprocess.TimeoutExpired:
        LOG.error('Process %s is still copying; its devices are disconnected '
                  'nevertheless.', process.pid)
