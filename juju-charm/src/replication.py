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

"""The replication targets of a back end."""

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
    """A replication target.

    :ivar san_ip: its management address
    :ivar rpo: recovery point objective in seconds
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
    """Read the targets of one back end; errors go to ``validator``."""
    label = given.label(_OPTION)
    devices = given.get(_OPTION)
    if isinstance(devices, str):
        devices = validator.yaml(label, devices)
    if not devices:
        return ()
    if not isinstance(devices, list):
        validator.error(f'{label}: begin each array with "- "')
        return ()
    parsed = [_device(validator, f'{label}: number {number}: ', fields)
              for number, fields in enumerate(devices, start=1)]
    return tuple(device for device in parsed if device)


def check(validator: validation.Validator, label: str,
          devices: tuple[Device, ...], own: tuple[str, str], credentials: str
          ) -> None:
    """Check the targets of one back end against each other.

    :param label: prefix of the messages
    :param own: address and port of the back end's own array
    :param credentials: default for a target without its own, or ''
    """
    ids = [device.backend_id for device in devices]
    addresses = [(address, port or _DEFAULT_PORT) for address, port in (
        own, *((device.san_ip, device.port) for device in devices))]
    if len(set(ids)) < len(ids):
        validator.error(f'{label}{_OPTION}: two arrays have the same '
                        'backend-id; each needs its own')
    if len(set(addresses)) < len(addresses):
        validator.error(f'{label}{_OPTION}: an array is listed twice, or '
                        'is the one at san_ip')
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
    values = {option: validator.read(given, option, reader)
              for option, reader in _READERS.items()}
    missing = [option for option in ('backend-id', 'san-ip')
               if not given.get(option)]
    for option in missing:
        validator.error(f'{where}{option} is not set')
    if not (values['backend-id'] and values['san-ip']):
        return None
    return Device(values['backend-id'], values['san-ip'],
                  values['rpo'] or _DEFAULT_RPO, values['port'],
                  values['tls-fingerprint'], values['credentials'])
