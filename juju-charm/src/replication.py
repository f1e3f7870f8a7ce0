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

"""The arrays that a back end replicates to."""

from collections.abc import Callable
import dataclasses
from typing import Any

import validation

_OPTION = 'replication-devices'
_DEFAULT_RPO = '300'
_DEFAULT_PORT = '443'
_READERS: dict[str, Callable[[str], str]] = {
    'backend-id': validation.backend_id, 'san-ip': validation.address,
    'rpo': validation.rpo, 'port': validation.port,
    'tls-fingerprint': validation.fingerprint,
    'credentials': validation.secret_id}


@dataclasses.dataclass(frozen=True)
class Device:
    """An array that volumes can be replicated to.

    :ivar san_ip: its management address
    :ivar rpo: seconds between two copies
    :ivar credentials: the id of a secret, or '' for that of the back end
    """

    backend_id: str
    san_ip: str
    rpo: str = _DEFAULT_RPO
    port: str = ''
    tls_fingerprint: str = ''
    credentials: str = ''


def read(validator: validation.Validator, given: validation.GivenOptions
         ) -> tuple[Device, ...]:
    """Read the arrays of one back end; mistakes are noted in ``validator``."""
    label = given.label(_OPTION)
    devices = given.get(_OPTION)
    if isinstance(devices, str):
        devices = validator.yaml(label, devices)
    if not devices:
        return ()
    if not isinstance(devices, list):
        validator.error(f'{label}: begin each array with "- "')
        return ()
    read_ones = [_device(validator, f'{label}: number {number}: ', fields)
                 for number, fields in enumerate(devices, start=1)]
    return tuple(device for device in read_ones if device)


def check(validator: validation.Validator, label: str,
          devices: tuple[Device, ...], own: tuple[str, str], credentials: str
          ) -> None:
    """Note what is wrong with the arrays together.

    :param label: what to write before it
    :param own: address and port of the back end's own array
    :param credentials: what an array has that names none, or ''
    """
    ids = [device.backend_id for device in devices]
    addresses = [(address, port or _DEFAULT_PORT) for address, port in (
        own, *((device.san_ip, device.port) for device in devices))]
    if len(set(ids)) < len(ids):
        validator.error(f'{label}{_OPTION}: two have the same backend-id; '
                        'each needs its own')
    if len(set(addresses)) < len(addresses):
        validator.error(f'{label}{_OPTION}: an array is there twice, or is '
                        'that of san_ip')
    for device in devices:
        if not (device.credentials or credentials):
            validator.error(f'{label}{_OPTION}: {device.backend_id} has no '
                            'credentials; set replication-credentials')


def _device(validator: validation.Validator, where: str, fields: Any
            ) -> Device | None:
    if not isinstance(fields, dict):
        validator.error(f'{where}write it as "option: value"')
        return None
    given = validation.GivenOptions(fields, where)
    validator.check_names(given, tuple(_READERS))
    read_ones = {option: validator.read(given, option, reader)
                 for option, reader in _READERS.items()}
    missing = [option for option in ('backend-id', 'san-ip')
               if not given.get(option)]
    for option in missing:
        validator.error(f'{where}{option} is not set')
    if not (read_ones['backend-id'] and read_ones['san-ip']):
        return None
    return Device(read_ones['backend-id'], read_ones['san-ip'],
                  read_ones['rpo'] or _DEFAULT_RPO, read_ones['port'],
                  read_ones['tls-fingerprint'], read_ones['credentials'])
