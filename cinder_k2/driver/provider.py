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

"""The array's ids in ``provider_id`` of Cinder's rows.

They save the call that looks a name up. They hold good on the array they
were made on only; anything else, such as rows of the driver inside Cinder,
reads as None and is looked up by name.
"""

import dataclasses
import json
import typing

from cinder_k2.array import Backing
from cinder_k2.array import SnapshotBacking

T = typing.TypeVar('T', Backing, SnapshotBacking)


def dump(system_id: str, backing: Backing | SnapshotBacking) -> str:
    """The value for ``provider_id``, well below its 255 characters."""
    ids = {name: value for name, value in dataclasses.asdict(backing).items()
           if value not in (None, False)}
    return json.dumps({'system': system_id, **ids}, separators=(',', ':'))


def load(kind: type[T], system_id: str, value: str | None) -> T | None:
    """Read a ``provider_id``.

    :param kind: Backing or SnapshotBacking
    :returns: None if it is empty, of another array or of another form
    """
    try:
        ids = json.loads(value or '')
        if ids.pop('system') != system_id:
            return None
        return kind(**ids)
    except (ValueError, TypeError, KeyError, AttributeError):
        return None
