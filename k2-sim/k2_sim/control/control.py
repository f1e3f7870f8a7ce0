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

"""Control of an array by tests and operators, beside its REST API."""

from collections.abc import Mapping
import dataclasses
import math
from typing import Any
from typing import Protocol

from k2_sim import clock
from k2_sim.config import settings
from k2_sim.control import data
from k2_sim.control import outages
from k2_sim import core as core_module
from k2_sim import errors
from k2_sim.faults import fault_rules
from k2_sim.faults.fault_rules import FaultRule
from k2_sim.faults import latency
from k2_sim.initial import archive
from k2_sim.initial import consistency
from k2_sim.initial import seeding
from k2_sim.peers import links as links_module
from k2_sim.recording import journal
from k2_sim.recording import recorder
from k2_sim.rules import base
from k2_sim.rules import ports
from k2_sim.rules import registry
from k2_sim.rules import statistics
from k2_sim.rules import system
from k2_sim.rules import volumes


# Of each kind per request: the array answers no other request meanwhile.
_MOST_SEEDED = 10000
_SECRETS = ('password', 'local_password')


class Lifecycle(Protocol):
    """The operations on the whole array."""

    def tick(self) -> None:
        """Do what is due by the clock, and sample statistics."""

    def run_maintenance(self) -> None:
        """Do what is due by the clock, including slow work."""

    def reset(self) -> None:
        """Reset to factory state."""

    def save(self) -> archive.Archive:
        """The whole state as it is now."""

    def restore(self, archive: archive.Archive) -> None:
        """Replace the state with a saved one."""


class Control:
    """The control of one array; control_api offers the same over HTTP.

    data: the data of volumes and views. Raises ApiError (400) for invalid
    values.
    """

    def __init__(self, core: core_module.Core, links: links_module.Links,
                 life: Lifecycle) -> None:
        self._core = core
        self._links = links
        self._life = life
        self.data = data.Data(core)
        self.outages = outages.Outages(self, core.clock.time)

    @property
    def name(self) -> str:
        """The name of the array."""
        return str(self._core.store.at('/system/state/1')['system_name'])

    def add_fault(self, rule: FaultRule | Mapping[str, Any] | None = None,
                  **fields: Any) -> FaultRule:
        """Add a fault rule, given as an object or by its fields.

        The returned rule has counters: rule.triggered is how many requests it
        affected.
        """
        checked = fault_rules.read(fields if rule is None else rule)
        self._check_port(checked.port)
        return self._core.faults.add(checked)

    def _check_port(self, port: str) -> None:
        if port:
            self.has_link(port)

    def fault(self, number: int) -> FaultRule:
        """One fault rule; raises ApiError (404)."""
        return self._core.faults.rule(number)

    def change_fault(self, number: int, /, **fields: Any) -> FaultRule:
        """Change a fault rule; its position and its counts stay."""
        self._check_port(str(fields.get('port', '')))
        return self._core.faults.change(number, fields)

    def remove_fault(self, number: int) -> None:
        """Remove one fault rule."""
        self._core.faults.remove(number)

    def clear_faults(self) -> None:
        """Remove every fault rule, and end the outages they caused."""
        self._core.faults.clear()
        self.outages.end()

    def faults(self) -> list[dict[str, Any]]:
        """The fault rules and their counts."""
        return self._core.faults.rules()

    @property
    def seed(self) -> int:
        """The seed of all random numbers."""
        return self._core.faults.seed

    def set_seed(self, seed: int | None) -> None:
        """Restart all random streams, and the counts of the fault rules.

        None generates a seed.
        """
        if seed is not None and (type(seed) is not int or seed < 0):
            raise errors.refused('A seed must be a whole number from 0')
        self._core.faults.reseed(seed)

    @property
    def latency(self) -> latency.Latency:
        """The latency of replies without a latency rule."""
        return self._core.faults.latency

    def set_latency(self, value: float | Mapping[str, Any]) -> None:
        """Set the latency of replies: in seconds, or as a distribution.

        A mapping is parsed by latency.read().
        """
        self._core.faults.latency = latency.read(value) \
            if isinstance(value, Mapping) else latency.constant(value)

    def behaviors(self) -> dict[str, Any]:
        """The behaviors (see profiles.Behaviors)."""
        return dataclasses.asdict(self._core.behaviors)

    def set_behaviors(self, /, **values: Any) -> None:
        """Change behaviors, all that are given or none."""
        with self._core.lock:
            self._core.behaviors.change(values)

    def advance(self, seconds: float) -> None:
        """Advance the array's clock by a number of seconds."""
        if isinstance(seconds, bool) or not isinstance(
                seconds, (int, float)) or not seconds >= 0:
            raise errors.refused('Time only goes forward')
        if self._core.clock.time() + seconds > clock.END:
            raise errors.refused('Time ends with the year 9998')
        core = self._core
        core.clock.advance(seconds)
        with core.lock, core.store.transaction():
            # So that it does not go back with a restart.
            core.store.reserve(consistency.CLOCK,
                               math.ceil(core.clock.time()))
        self.tick()

    def journal(self) -> list[journal.Entry]:
        """The requests since the journal was cleared, oldest first."""
        return self._core.journal.entries()

    @property
    def max_in_flight(self) -> int:
        """The most concurrent requests since the journal was cleared."""
        return self._core.journal.max_in_flight

    def clear_journal(self) -> None:
        """Remove all entries, and restart the counts."""
        self._core.journal.clear()

    @property
    def recorder(self) -> recorder.Recorder:
        """The recorder of requests and their bodies."""
        return self._core.recorder

    def log_in(self, resource: str, identifier: str) -> dict[str, Any]:
        """Log an initiator in: adds a record without host (INI-1).

        resource: host_iqns or host_fc_ports.
        """
        core = self._core
        with core.lock, core.store.transaction():
            return registry.log_in(self._scope(), resource, identifier)

    def set_written(self, volume: int, kib: int,
                    snapshot: int | None = None) -> None:
        """Set how many KiB hosts have written to a volume (CAP-4).

        snapshot: set the KiB of the volume's image in this snapshot or view
        instead. Raises ApiError (400) if the array has no space (CAP-3).
        """
        core = self._core
        with core.lock, core.store.transaction():
            row, resource = core.store.get('volumes', volume), 'volumes'
            if row is not None and snapshot is not None:
                row, resource = self._image(volume, snapshot), 'volsnaps'
            if row is None or not 0 <= kib <= row['size']:
                raise errors.refused('No such volume, or more than its size')
            core.store.update(
                resource, row['id'], logical_capacity=float(kib))
            if system.free(self._scope()) < 0:
                raise errors.refused('No space is left on the array')

    def write(self, volume: int, token: str,
              snapshot: int | None = None) -> None:
        """Write to a volume as a host: a token stands for its data.

        With contents it is the text at the start of the data. snapshot:
        write to the image of the volume in this view instead; snapshots
        are read-only (SNP-5).
        """
        self._links.sync()
        resource, row = self._place(volume, snapshot)
        if not isinstance(token, str):
            raise errors.refused('A token must be a text')
        self.data.write_text(resource, row['id'], token)

    def _place(self, volume: int, snapshot: int | None
               ) -> tuple[str, dict[str, Any]]:
        """A volume, or its image in a snapshot or view, with its resource."""
        with self._core.lock:
            row = self._volume(volume)
            if snapshot is None:
                return 'volumes', row
            return 'volsnaps', self._image(volume, snapshot)

    def read(self, volume: int, snapshot: int | None = None) -> str:
        """The token of a volume, or of its image in a snapshot or view.

        '' if nothing was written.
        """
        self._life.run_maintenance()
        with self._core.lock:
            return self.data.read_text(self._place(volume, snapshot)[1])

    def _image(self, volume: int, snapshot: int) -> dict[str, Any]:
        for image in self._core.store.find(
                'volsnaps', 'snapshot', f'/snapshots/{snapshot}'):
            if image['source'] == f'/volumes/{volume}':
                return image
        raise errors.refused('No such image')

    def _volume(self, number: int) -> dict[str, Any]:
        row = self._core.store.get('volumes', number)
        if row is None or number == volumes.CTRL_ID:
            raise errors.refused('No such volume')
        return row

    def contents(self) -> dict[str, str]:
        """The tokens of all volumes, by id."""
        core = self._core
        self._life.run_maintenance()
        with core.lock:
            return {str(row['id']): self.data.read_text(row)
                    for row in core.store.rows('volumes')
                    if row['id'] != volumes.CTRL_ID}

    def ports(self) -> list[dict[str, Any]]:
        """The data and FC ports: reference, name, link state."""
        with self._core.lock:
            return ports.listed(self._scope())

    def has_link(self, port: str) -> bool:
        """Whether a port, by its reference, has a link."""
        with self._core.lock:
            return ports.has_link(self._scope(), port)

    def set_port(self, port: str, up: bool) -> None:
        """Take the link of a port down, or up.

        port: its reference, as /system/net_ports/1 or /system/fc_ports/1.
        """
        core = self._core
        with core.lock, core.store.transaction():
            ports.set_link(self._scope(), port, up)

    def cut_link(self) -> None:
        """Cut the links to the peers, in both directions.

        Transfers that are due arrive first.
        """
        links = self._links
        self._life.run_maintenance()
        links.transport.cut = True
        links.sync()

    def restore_link(self) -> None:
        """Restore the links to the peers."""
        links = self._links
        links.transport.cut = False
        links.reset()
        links.sync()

    @property
    def is_cut(self) -> bool:
        """Whether the links are cut."""
        return self._links.transport.cut

    def receive(self, message: object, role: str) -> object:
        """The reply to a message of a peer in this role."""
        return self._links.receive(message, role)

    def receive_data(self, message: bytes) -> object:
        """The reply to data that a peer replicates to this array."""
        return self._links.receive_data(message)

    def tick(self) -> None:
        """Do what is due by the clock, including slow work."""
        self.outages.settle()
        self._life.tick()

    def run_maintenance(self) -> None:
        """Do what is due, and scan the usage of volumes at intervals."""
        self.tick()
        self._core.usage_scanner.scan_if_due()

    def scan_usage(self) -> None:
        """Update all capacities from the data that is there now."""
        self._core.usage_scanner.scan()

    def set_performance(self, /, **figures: float) -> None:
        """Set the values of stats/system, by field name."""
        core = self._core
        with core.lock, core.store.transaction():
            statistics.set_figures(self._scope(), figures)

    def clear_performance(self) -> None:
        """Let stats/system show counted values again."""
        core = self._core
        with core.lock, core.store.transaction():
            statistics.clear_figures(self._scope())

    def seed_objects(self, counts: Mapping[str, Any]) -> None:
        """Create more volumes, hosts and so on: see settings.Seed."""
        if not all(type(value) is int and 0 <= value <= _MOST_SEEDED
                   for value in counts.values()):
            raise errors.refused(
                f'Numbers of objects must be from 0 to {_MOST_SEEDED}')
        try:
            seed = settings.seed_of(counts)
        except ValueError as exc:
            raise errors.refused(f'Expected: {exc}') from exc
        core = self._core
        with core.lock, core.store.transaction():
            seeding.create(self._scope(), seed)

    def leftovers(self) -> dict[str, list[dict[str, Any]]]:
        """Every object that a user created, by resource; views as "views".

        Empty when nothing was left behind.
        """
        with self._core.lock:
            return registry.leftovers(self._scope())

    def _scope(self) -> base.Scope:
        return self._core.scope()

    def dump(self) -> dict[str, Any]:
        """The whole state as it is stored, without secrets."""
        store = self._core.store
        with self._core.lock:
            return {
                'profile': self._core.profile,
                'objects': {name: [_shown(row) for row in store.rows(name)]
                            for name, table in store.tables.items()
                            if table.rows},
                'counters': dict(store.counters),
                'sequences': {name: number for name, (number, _)
                              in store.sequences.items()}}

    def save(self) -> archive.Archive:
        """The whole state including secrets, for restore()."""
        return self._life.save()

    def restore(self, document: bytes) -> None:
        """Replace the state with the one in a JSON document.

        The document is what save() returns, as JSON. Faults, behaviors and
        the journal stay. Raises ApiError (400) if it is invalid; then nothing
        changes.
        """
        try:
            saved = archive.read(document, self._core.profile)
        except errors.StateError as exc:
            raise errors.refused(str(exc)) from exc
        self._life.restore(saved)

    def reset(self) -> None:
        """Reset to factory state, without faults, latency and recordings.

        The journal is cleared, and a link that was cut is restored.
        """
        self._links.transport.cut = False
        self._life.reset()
        self.clear_faults()
        self.set_seed(self.seed)
        self.set_latency(0)
        self.clear_journal()
        self.recorder.clear()

    # Deprecated names.
    look = tick
    mend_link = restore_link
    survey = scan_usage


def _shown(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items()
            if name not in _SECRETS}
