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

"""The existing or initial state of an array."""

import contextlib
import os

from k2_sim import clock as clock_module
from k2_sim.config.settings import Seed
from k2_sim import equipment as equipment_module
from k2_sim import errors
from k2_sim.initial import consistency
from k2_sim.initial import factory
from k2_sim.initial import hardware_inventory
from k2_sim.initial import seeding
from k2_sim import profiles
from k2_sim.rules import base
from k2_sim.state import disk as disk_module
from k2_sim.state import store as store_module


def open_store(path: str | os.PathLike[str] | None, profile: str,
               equipment: equipment_module.Equipment, seed: Seed | None,
               behaviors: profiles.Behaviors, clock: clock_module.Clock
               ) -> store_module.Store:
    """The state in a file, or one in memory only if path is None.

    equipment, seed and behaviors apply only to a new state; clock is
    advanced to the latest time in an existing one. Raises StateError when
    the state cannot be used or belongs to an array of another profile, and
    ApiError for a seed that the rules refuse.
    """
    disk = None if path is None else disk_module.Disk(path)
    with contextlib.ExitStack() as stack:
        if disk is not None:
            stack.callback(disk.close)
            _check_profile(disk, profile)
        store = store_module.Store(disk)
        stack.callback(store.close)
        if consistency.is_new(store):
            with store.transaction():
                factory.build(store, equipment, clock)
                if seed is not None:
                    seeding.create(base.Scope(store, behaviors, clock), seed)
            store.flush()
            if disk is not None:
                disk.keep_whole()
        else:
            _continue(store, disk, clock)
        stack.pop_all()
    return store


def _continue(store: store_module.Store, disk: disk_module.Disk | None,
              clock: clock_module.Clock) -> None:
    """Check an existing state, and prepare to continue with it."""
    if disk is not None:
        for damage in consistency.damages(store):
            raise disk.damaged(f'it has {damage}')
    # The clock may have been advanced, or the machine's clock set back.
    clock.not_before(consistency.latest(store))
    if hardware_inventory.is_missing(store):
        with store.transaction():
            hardware_inventory.populate(store)
        store.flush()


def _check_profile(disk: disk_module.Disk, profile: str) -> None:
    found = disk.meta('profile')
    if found is None:
        disk.set_meta('profile', profile)
    elif found != profile:
        raise errors.StateError(
            f'state {disk.path} is of profile {found}, not {profile}')
