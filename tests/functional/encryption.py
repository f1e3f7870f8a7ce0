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

"""A mock of LUKS, because there is no device mapper here.

Everything else about an encrypted volume is real: its type, the key manager
and how the key reaches os-brick. A volume has the magic number of LUKS and,
after space for a header, data that is XORed with the first byte of the key.
"""

import os
from typing import Any
from unittest import mock

from os_brick import encryptors

HEADER = 2 * 1048576
_MAGIC = b'LUKS\xba\xbe\0\1'


def install(testcase: Any) -> None:
    """Replace the provider "luks" until the test ends."""
    patch = mock.patch.dict(encryptors.FORMAT_TO_FRONTEND_ENCRYPTOR_MAP,
                            luks=f'{__name__}.Encryptor')
    patch.start()
    testcase.addCleanup(patch.stop)


class Encryptor:
    """Replaces the device by a file with the decrypted data."""

    def __init__(self, root_helper: str, connection_info: dict[str, Any],
                 keymgr: Any, execute: Any = None, **kwargs: Any) -> None:
        self._device = connection_info['data']['device_path']
        self._hidden = f'{self._device}.luks'
        self._keys = keymgr

    def attach_volume(self, context: Any, **kwargs: Any) -> None:
        """Decrypt a device; one that is not encrypted is formatted."""
        key = self._keys.get(context, kwargs['encryption_key_id'])
        os.rename(self._device, self._hidden)
        size = os.stat(self._hidden).st_size
        with open(self._hidden, 'r+b') as cipher, \
                open(self._device, 'wb') as plain:
            plain.truncate(size - HEADER)
            if cipher.read(len(_MAGIC)) == _MAGIC:
                _change(cipher, plain, -HEADER, key)
            else:
                cipher.seek(0)
                cipher.write(_MAGIC)

    def detach_volume(self, **kwargs: Any) -> None:
        """Encrypt the data and write it to the device."""
        key = self._keys.get(mock.sentinel.context,
                             kwargs['encryption_key_id'])
        with open(self._device, 'rb') as plain, \
                open(self._hidden, 'r+b') as cipher:
            _change(plain, cipher, HEADER, key)
        os.rename(self._hidden, self._device)


def _change(source: Any, target: Any, shift: int, key: Any) -> None:
    """Copy data to another file, shifted and XORed with the key."""
    table = bytes(n ^ key.get_encoded()[0] for n in range(256))
    begin, end = max(0, -shift), source.seek(0, os.SEEK_END)
    while begin < end:
        try:
            begin = source.seek(begin, os.SEEK_DATA)
        except OSError:
            return
        hole = source.seek(begin, os.SEEK_HOLE)
        source.seek(begin)
        target.seek(begin + shift)
        target.write(source.read(hole - begin).translate(table))
        begin = hole
