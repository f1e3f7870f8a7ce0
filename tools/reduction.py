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

"""Shows the savings of data reduction for a database and its replicas.

One instance of a database is written to a simulated array, then the two other
members of its replica set with the same data, each with a separate journal.
This is done twice: in volume groups with deduplication, and without. After
each step, the capacities that the REST API of the array reports are printed
(CAP-2).
"""

import json
import pathlib
import random
import sys
import tempfile
from typing import Any

import k2_sim

_MIB = 2 ** 20
_VOLUME_GIB = 10
_MEMBERS = 3
# Contents of an instance: records, which are text; images, which cannot be
# compressed; and allocated but unused space of the file system.
_RECORDS, _IMAGES, _UNUSED = 24 * _MIB, 8 * _MIB, 16 * _MIB
_JOURNAL = 2 * _MIB
_HEADERS = {'Authorization': 'Basic YWRtaW46YWRtaW4=',  # admin:admin
            'Content-Type': 'application/json'}


def main() -> int:
    """Print the savings; return the exit status."""
    with tempfile.TemporaryDirectory() as directory:
        for is_dedup in (True, False):
            path = pathlib.Path(directory, str(is_dedup))
            path.mkdir()
            _tell(k2_sim.Array(
                store=path / 'state.db',
                contents=k2_sim.Contents(path / 'content')), is_dedup)
    return 0


def _tell(array: k2_sim.Array, is_dedup: bool) -> None:
    name = 'with deduplication' if is_dedup else 'without deduplication'
    print(f'\n{name:24} {"provisioned":>13} {"written":>9} {"used":>9}'
          f' {"reduction":>10} {"with thin":>10}')
    database = _database(random.Random(1))  # nosec B311
    for member in range(_MEMBERS):
        group = _post(array, 'volume_groups', {
            'name': f'member-{member}', 'quota': 0, 'is_dedup': is_dedup})
        volume = _post(array, 'volumes', {
            'name': f'member-{member}', 'size': _VOLUME_GIB * 2 ** 20,
            'volume_group': {'ref': f'/volume_groups/{group["id"]}'}})
        journal = random.Random(member + 2).randbytes(  # nosec B311
            _JOURNAL)
        for start, data in ((0, database), (len(database), journal)):
            _write(array, volume['id'], start, data)
        array.control.scan_usage()
        if member in (0, _MEMBERS - 1):
            print(_line('one instance' if not member
                        else f'a replica set of {_MEMBERS}', array))
    array.close()


def _write(array: k2_sim.Array, volume: int, start: int, data: bytes
           ) -> None:
    for at in range(0, len(data), _MIB):
        array.control.data.write(
            'volumes', volume, start + at, data[at:at + _MIB])


def _database(chance: random.Random) -> bytes:
    """Return the files of the database as on a disk, in whole pages."""
    names = [f'user{chance.randrange(10 ** 9)}' for _ in range(1000)]
    records = bytearray()
    while len(records) < _RECORDS:
        records += json.dumps({
            '_id': chance.randrange(2 ** 48), 'name': chance.choice(names),
            'city': chance.choice(names), 'balance': chance.randrange(1000),
            'seen': chance.randrange(2 ** 31)}).encode()
    return (bytes(records[:_RECORDS]) + bytes(_UNUSED)
            + chance.randbytes(_IMAGES))


def _line(title: str, array: k2_sim.Array) -> str:
    found = _call(array, 'GET', 'system/capacity')['hits'][0]
    allocated, physical = found['allocated'], found['physical']
    provisioned = found['provisioned']
    return (f'{title:24} {provisioned / 1024:9,.0f} MiB'
            f' {allocated / 1024:5.0f} MiB {physical / 1024:5.0f} MiB'
            f' {allocated / physical:8.1f}:1 {provisioned / physical:8.0f}:1')


def _post(array: k2_sim.Array, resource: str, body: dict[str, Any]
          ) -> dict[str, Any]:
    return _call(array, 'POST', resource, body)


def _call(array: k2_sim.Array, method: str, path: str,
          body: object = None) -> dict[str, Any]:
    reply = array.handle(
        method, f'/api/v2/{path}', '', _HEADERS,
        b'' if body is None else json.dumps(body).encode())
    if reply.status not in (200, 201):
        raise RuntimeError(reply.body.decode())
    found: dict[str, Any] = reply.json()
    return found


if __name__ == '__main__':
    sys.exit(main())
