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

"""The whole state as one JSON document, to save and restore.

It has everything in a state file, including secrets: rows as they are
stored, the last number of each counter, and the sequence ids with their
last number and age.
"""

from typing import Annotated
from typing import Any

import msgspec

from k2_sim.api import service
from k2_sim import clock as clock_module
from k2_sim import errors
from k2_sim.faults import visibility
from k2_sim.initial import consistency
from k2_sim import profiles
from k2_sim.protocol import messages
from k2_sim.protocol import request_context
from k2_sim.recording import performance
from k2_sim.state import store as store_module

FORMAT = 'k2-sim state'
VERSION = 1
# So far below the limit of a state file that counters never reach the limit.
_LARGEST = 2 ** 62
_Natural = Annotated[int, msgspec.Meta(ge=0, le=_LARGEST)]


class Archive(msgspec.Struct, forbid_unknown_fields=True):
    """A saved state.

    objects: rows by resource, each with its id. sequences: the last number
    and the age of each sequence id.
    """

    format: str
    version: int
    profile: str
    objects: dict[str, list[dict[str, Any]]]
    counters: dict[str, _Natural]
    sequences: dict[str, tuple[_Natural, _Natural]]


def of(store: store_module.Store, profile: str) -> Archive:
    """The state as it is now; later changes do not affect it."""
    return Archive(
        FORMAT, VERSION, profile,
        {name: store.rows(name) for name, table in store.tables.items()
         if table.rows},
        dict(sorted(store.counters.items())), dict(store.sequences))


def read(text: bytes, profile: str) -> Archive:
    """A document that can be restored on an array of this profile.

    Raises StateError with the reason for an invalid one.
    """
    try:
        archive = msgspec.json.decode(text, type=Archive)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as exc:
        raise errors.StateError(f'not a saved state: {exc}') from exc
    if archive.format != FORMAT:
        raise errors.StateError(
            f'not a saved state: its format is not {FORMAT!r}')
    if archive.version != VERSION:
        raise errors.StateError(f'the saved state is of version'
                                f' {archive.version}, not {VERSION}')
    if archive.profile != profile:
        raise errors.StateError(f'the saved state is of profile'
                                f' {archive.profile}, not {profile}')
    _check(archive)
    return archive


def _check(archive: Archive) -> None:
    """Restore an archive to a store in memory, and render every object.

    Raises StateError if that fails.
    """
    store = store_module.Store()
    try:
        fill(store, archive)
        for name, rows in archive.objects.items():
            for row in rows:
                damage = consistency.damage_of(store, name, row)
                if damage:
                    raise errors.StateError(f'the saved state has {damage}')
        clock = clock_module.FakeClock(0)
        whole = service.Service(
            store, profiles.behaviors_of(archive.profile), clock,
            visibility.Visibility(clock), performance.Performance(clock))
        store.at('/system/state/1')
        whole.answer(messages.Request('GET', '__full'),
                     visibility.StaleReads(), request_context.RequestContext())
    except errors.StateError:
        raise
    except Exception as exc:
        raise errors.StateError(f'the saved state is damaged:'
                                f' {type(exc).__name__} {exc}') from exc


def fill(store: store_module.Store, archive: Archive) -> None:
    """Load a saved state into an empty store.

    Raises StateError for unknown resources and bad ids.
    """
    for name, rows in archive.objects.items():
        if name not in store.tables:
            raise errors.StateError(
                f'the saved state has an unknown resource {name}')
        for row in rows:
            number = row.get('id')
            if (type(number) is not int or abs(number) > _LARGEST
                    or number in store.tables[name].rows):
                raise errors.StateError(
                    f'the saved state has {name} with a bad id: {number}')
            store.insert_as(name, number, row)
    for name, number in archive.counters.items():
        store.reserve(name, number)
    for name, value in sorted(
            archive.sequences.items(), key=lambda item: item[1][1]):
        store.set_sequence(name, value)
