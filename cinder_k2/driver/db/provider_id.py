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

They save the call that looks a name up. They are valid only on the array they
were created on; anything else, such as rows of the in-tree driver, decodes as
None and is looked up by name.

They are also valid for one row only. Cinder copies provider_id when it makes
the target of a migration, or an image's volume, from the row of another
volume; until the new row has its own volume, the ids in it belong to the other
row. So they include their owner: the beginning of the row's name_id, which
Cinder swaps together with provider_id when a migration is complete.
"""

import json
import typing

from cinder_k2.array import ArraySnapshot
from cinder_k2.array import ArrayVolume

T = typing.TypeVar('T', ArrayVolume, ArraySnapshot)

# The key of each field in a value. Rows have these keys: a field may be
# renamed, its key may not.
_KEYS: dict[type, dict[str, str]] = {
    ArrayVolume: {
        'group': 'group', 'volume': 'volume', 'view': 'view',
        'volsnap': 'volsnap', 'origin': 'origin', 'parent': 'parent',
        'parent_group': 'parent_group', 'hidden_parent': 'hidden_parent',
        'has_clones': 'has_clones', 'shared': 'shared',
        'flattening': 'unfinished', 'regrouping': 'moving',
        'replicated': 'replicated', 'failback_in_progress': 'reserved',
        'target': 'target'},
    ArraySnapshot: {
        'snapshot': 'snapshot', 'group': 'group', 'volume': 'volume',
        'view': 'view', 'has_clones': 'has_clones', 'shared': 'shared',
        'named': 'named'}}
_FIELDS = {kind: {key: field for field, key in keys.items()}
           for kind, keys in _KEYS.items()}
# Characters of a name_id that are enough to distinguish rows.
_OWNER = 8


def encode(system_id: str, backing: ArrayVolume | ArraySnapshot,
           name_id: str = '') -> str:
    """The value for ``provider_id``, well below its 255 characters.

    :param name_id: that of the row; empty for snapshots, whose rows Cinder
        does not copy
    """
    values = {key: getattr(backing, field)
              for field, key in _KEYS[type(backing)].items()}
    ids = {key: value for key, value in values.items()
           if value not in (None, False)}
    owner = {'of': name_id[:_OWNER]} if name_id else {}
    return json.dumps({'system': system_id, **ids, **owner},
                      separators=(',', ':'))


def decode(kind: type[T], system_id: str, value: str | None,
           name_id: str = '') -> T | None:
    """Read a ``provider_id``.

    :param kind: ArrayVolume or ArraySnapshot
    :param name_id: that of the row; empty for snapshots
    :returns: None if it is empty, of another array, of another row or of
        another form
    """
    try:
        ids = json.loads(value or '')
        if (ids.pop('system') != system_id
                or ids.pop('of', name_id[:_OWNER]) != name_id[:_OWNER]):
            return None
        return kind(**{_FIELDS[kind][key]: value
                       for key, value in ids.items()})
    except (ValueError, TypeError, KeyError, AttributeError):
        return None


def system_of(value: str | None) -> str | None:
    """The array that a ``provider_id`` belongs to; None if it is not ours."""
    try:
        system: str = json.loads(value or '')['system']
    except (ValueError, TypeError, KeyError):
        return None
    return system


def is_replicated(value: str | None) -> bool:
    """Whether a ``provider_id`` belongs to a volume that is replicated."""
    try:
        return bool(json.loads(value or '')['replicated'])
    except (ValueError, TypeError, KeyError):
        return False


def fragment(key: str, value: str | int) -> str:
    """The text of one entry, in every value that contains it.

    It may also match a longer number.
    """
    return json.dumps({key: value}, separators=(',', ':'))[1:-1]
