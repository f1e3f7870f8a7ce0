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

"""Registering a host and mapping to it; removing it again."""

from collections.abc import Mapping
import dataclasses
import typing

from taskflow.patterns import linear_flow

from cinder_k2.array import Array
from cinder_k2.array import Backing
from cinder_k2.array import chap as array_chap
from cinder_k2.array import hosts
from cinder_k2.flows import chap
from cinder_k2.flows import engine
from cinder_k2 import rest


@dataclasses.dataclass(frozen=True)
class Attached:
    """How a host reaches a volume: the LUN, and with CHAP the login."""

    lun: int
    login: array_chap.Login | None = None


@dataclasses.dataclass(frozen=True)
class _Order:
    """What to attach; the inputs of all steps of attaching."""

    array: Array
    registry: hosts.Hosts
    backing: Backing
    found: hosts.HostInitiators
    sought: hosts.Sought
    look_first: bool
    guard: chap.Guard | None
    hold: 'Hold'


class MustBeAlone(Exception):
    """A host must be held by one alone for what is to be done to it."""


class Hold(typing.Protocol):
    """What is needed of the lock of a host, see ``driver.host_holds``."""

    def share(self) -> None:
        """Let others map to the host, too: it is there, and stays."""

    def claim(self) -> None:
        """See that nobody else changes the host or maps to it.

        :raises MustBeAlone: somebody may
        """


class MakeProfile(engine.Step):
    """Make the CHAP profile that the host is about to get."""

    default_provides = 'login'
    always_doubtful = True

    def execute(self, array: Array, guard: chap.Guard) -> array_chap.Login:
        return guard.make()

    def undo_doubtful(self, **inputs: typing.Any) -> None:
        inputs['array'].chap.discard(inputs['guard'].name)


class CreateHost(engine.Step):
    """Make the host, unless its initiators have one."""

    default_provides = 'host'

    def execute(self, array: Array, registry: hosts.Hosts,
                sought: hosts.Sought, found: hosts.HostInitiators) -> int:
        if found.host is not None:
            return found.host
        return registry.create(sought.name)

    def undo(self, done: typing.Any, **inputs: typing.Any) -> None:
        if inputs['found'].host is None:
            inputs['registry'].delete(done)


class GiveProfile(engine.Step):
    """Ask the host for CHAP (CHP-2).

    Before it has initiators, so that a host that is found by one has the
    profile, too, whenever the service was killed.
    """

    def execute(self, array: Array, host: int, login: array_chap.Login,
                found: hosts.HostInitiators) -> None:
        array.chap.give(host, login.name)

    def undo_doubtful(self, **inputs: typing.Any) -> None:
        # A new host goes with all that it has.
        found = inputs['found']
        if found.host is not None and _may_undo(found):
            inputs['array'].chap.take(inputs['host'])


class AdoptInitiator(engine.Step):
    """Give the host an initiator that the array has seen before (INI-1)."""

    def __init__(self, initiator: str, **settings: typing.Any) -> None:
        super().__init__(name=f'AdoptInitiator {initiator}', **settings)
        self._initiator = initiator

    def execute(self, array: Array, registry: hosts.Hosts, host: int,
                record: int) -> None:
        registry.adopt_initiator(host, record, self._initiator)

    def undo(self, done: typing.Any, **inputs: typing.Any) -> None:
        inputs['registry'].release_initiator(inputs['record'])


class AddInitiators(engine.Step):
    """Give the host the initiators that the array does not know."""

    def __init__(self, count: int) -> None:
        super().__init__()
        # One is made or refused; of several, some may be there (BLK-4).
        self.always_doubtful = count > 1

    def execute(self, array: Array, registry: hosts.Hosts, host: int,
                found: hosts.HostInitiators) -> list[int]:
        return registry.add_initiators(host, found.missing)

    def undo(self, done: typing.Any, **inputs: typing.Any) -> None:
        if _may_undo(inputs['found']):
            inputs['registry'].remove_initiators(dict(zip(
                inputs['found'].missing, done, strict=False)))

    def undo_doubtful(self, **inputs: typing.Any) -> None:
        if not _may_undo(inputs['found']):
            return
        registry = inputs['registry']
        names = {name.lower() for name in inputs['found'].missing}
        registry.remove_initiators({
            name: record for name, record
            in registry.initiators(inputs['host']).items()
            if name.lower() in names})


def _may_undo(found: hosts.HostInitiators) -> bool:
    """Whether what is there was not there before, as far as one can know.

    Which initiators a host has that was found by its name is not known.
    """
    return found.host is None or not found.by_name


class RemoveInitiators(engine.Step):
    """Take initiators away; a host with initiators cannot go (HST-3)."""

    always_doubtful = True

    def execute(self, array: Array, registry: hosts.Hosts, host: int,
                initiators: Mapping[str, int]) -> None:
        registry.remove_initiators(initiators)

    def undo_doubtful(self, **inputs: typing.Any) -> None:
        registry, host = inputs['registry'], inputs['host']
        there = registry.initiators(host)
        missing = [i for i in inputs['initiators'] if i not in there]
        if missing:
            registry.add_initiators(host, missing)


class DeleteHost(engine.Step):
    """Delete the host; refused if it was mapped meanwhile (HST-2)."""

    def execute(self, array: Array, registry: hosts.Hosts, host: int) -> None:
        registry.delete(host)


class MapVolume(engine.Step):
    """Map the volume, as the last step of bringing a host to the array."""

    default_provides = 'lun'
    always_doubtful = True

    def execute(self, array: Array, backing: Backing, host: int,
                found: hosts.HostInitiators, look_first: bool) -> int:
        return array.access.grant(backing, host, look_first=look_first)

    def undo_doubtful(self, **inputs: typing.Any) -> None:
        # The mapping may be there, and would keep a new host from being
        # removed. On a host that was there it may be another attachment's.
        if inputs['found'].host is None:
            inputs['array'].access.revoke(inputs['backing'], inputs['host'])


def attach(array: Array, registry: hosts.Hosts, backing: Backing, *,
           sought: hosts.Sought, look_first: bool, hold: Hold,
           guard: chap.Guard | None = None) -> Attached:
    """Map a volume to a host, which is registered first if need be.

    :param sought: the host
    :param look_first: the mapping is probably there already
    :param hold: of the host
    :param guard: CHAP of the host, None where there is none
    :raises MustBeAlone: the host must be changed, and is shared
    """
    found = registry.locate(sought)
    order = _Order(array, registry, backing, found, sought, look_first, guard,
                   hold)
    if found.complete and found.host is not None:
        return _attach_known(order, found.host)
    hold.claim()
    found = registry.clear(found)
    order = dataclasses.replace(order, found=found)
    try:
        return _attach_new(order)
    except rest.Refused as refusal:
        # Does the array know the initiators in another spelling?
        again = registry.locate_in_any_case([*found.loose, *found.missing])
        if found.host is None is again.host and refusal.repeats:
            # An initiator may have been made without a reply, and where the
            # array does not search for them nothing tells so. It went with
            # the new host.
            return _attach_new(order)
        if again.host is None or again.host == found.host:
            raise
        return _attach_known(dataclasses.replace(order, found=again),
                             again.host)


def _attach_known(order: _Order, host: int) -> Attached:
    """Map a volume to a host of the array, which may get CHAP before."""
    guard, login = order.guard, None
    if guard is not None:
        login = guard.login(host)
        if login is None and guard.may_give(host):
            order.hold.claim()
            return _run(_protecting('protect-host', guard), order)
    order.hold.share()
    return Attached(order.array.access.grant(
        order.backing, host, look_first=order.look_first), login)


def _attach_new(order: _Order) -> Attached:
    """Register a host, or what it lacks, and map a volume to it."""
    flow = _protecting('attach-new-host', order.guard)
    inputs: dict[str, typing.Any] = {}
    for initiator, record in order.found.loose.items():
        flow.add(_adoption(inputs, initiator, record))
    if order.found.missing:
        flow.add(AddInitiators(len(order.found.missing)))
    return _run(flow, order, **inputs)


def _protecting(name: str, guard: chap.Guard | None) -> linear_flow.Flow:
    """A flow that begins with a host, which gets CHAP if it must."""
    flow = linear_flow.Flow(name)
    if guard is None or not guard.required:
        return flow.add(CreateHost())
    return flow.add(MakeProfile(), CreateHost(), GiveProfile())


def _run(flow: linear_flow.Flow, order: _Order, **inputs: typing.Any
         ) -> Attached:
    made = engine.run(flow.add(MapVolume()), **vars(order), **inputs)
    return Attached(made['lun'], made.get('login'))


def remove(array: Array, registry: hosts.Hosts, host: int,
           initiators: Mapping[str, int] | None = None,
           protection: chap.Chap | None = None) -> None:
    """Delete a host that has no mappings, with its initiators.

    One call where the array deletes them together (HST-3), else two; if it
    then refuses, the host gets its initiators back. Its CHAP profile goes
    after it (CHP-4).

    :param initiators: those that it was seen to have since it is held, with
        their records; whether it has others is looked up if the array
        refuses, or at once, with one more call, if this is None
    """
    inputs = {'array': array, 'registry': registry, 'host': host}
    if initiators is None:
        initiators = registry.initiators(host)
    try:
        _remove(initiators=initiators, **inputs)
    except rest.Refused:
        others = registry.initiators(host)
        if others.keys() <= initiators.keys():
            raise
        initiators = others
        _remove(initiators=initiators, **inputs)
    if protection is not None:
        protection.forget(initiators)


def _remove(registry: hosts.Hosts, host: int, **inputs: typing.Any) -> None:
    def one_by_one() -> None:
        engine.run(linear_flow.Flow('remove-host').add(
            RemoveInitiators(), DeleteHost()), registry=registry, host=host,
            **inputs)

    if inputs['initiators']:
        registry.delete_whole(host, one_by_one)
    else:
        one_by_one()


def _adoption(inputs: dict[str, typing.Any], initiator: str,
              record: int) -> engine.Step:
    """The step for one initiator, its input under a name of its own."""
    name = f'record {initiator}'
    inputs[name] = record
    return AdoptInitiator(initiator, rebind={'record': name})
