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

"""Names of our objects on the array: built here, parsed here, nowhere else.

They are the names that the driver inside Cinder gives (``cv-<id>`` and so
on), so that a back end can change drivers in either direction. Limits:
rulebook section 12 (42 characters, hosts 32).
"""

import hashlib
import re

_HOST_TEXT = 16
_OUR_HOST = re.compile(r'cinder-[0-9A-Za-z_-]{1,%d}-[0-9a-f]{8}\Z'
                       % _HOST_TEXT)


def volume(volume_id: str) -> str:
    """Name of the volume, or of the view that backs it."""
    return f'cv-{volume_id}'


def volume_group(volume_id: str) -> str:
    """Name of the volume group that holds just this volume."""
    return f'cvg-{volume_id}'


def snapshot(snapshot_id: str) -> str:
    """Short name of a Cinder snapshot."""
    return f'cs-{snapshot_id}'


def clone_source(volume_id: str) -> str:
    """Short name of the hidden snapshot that a clone was made from.

    :param volume_id: id of the clone, which alone needs the snapshot
    """
    return f'ccs-{volume_id}'


def host(connector_host: str, initiators: list[str]) -> str:
    """Name for a host that the driver registers (HST-1).

    Two hosts never share a name, even if they call themselves alike in the
    first 32 characters or altogether: the tail is drawn from the whole name
    and the initiators. Hosts are looked up by initiator, never by this name.
    """
    text = re.sub(r'[^0-9A-Za-z_-]', '_', connector_host)[:_HOST_TEXT]
    seed = '\n'.join([connector_host, *sorted(initiators)])
    tail = hashlib.sha256(seed.encode()).hexdigest()[:8]
    return f'cinder-{text or "host"}-{tail}'


def is_our_host(name: str) -> bool:
    """Whether this driver named the host, so that it may delete it."""
    return _OUR_HOST.match(name) is not None
