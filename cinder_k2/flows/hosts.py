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

import typing

from taskflow.patterns import linear_flow

from cinder_k2.array import Array
from cinder_k2.array import Backing
from cinder_k2.array import hosts
from cinder_k2.flows import engine
from cinder_k2 import rest


class CreateHost(engine.Step):
    """Make the host, unless its initiators have one."""

    default_provides = 'host'

    def execute(self, array: Array, registry: hosts.Hosts, name: str,
                found: hosts.HostInitiators) -> int:
        if found.host is not None:
            return found.host
        return registry.create(name)

    def undo(self, done: typing.Any, **inputs: typing.Any) -> None:
        if inputs['found'].host is None:
            inputs['registry'].delete(done)


class AdoptInitiator(engine.Step):
    """Give the host an initiator that the array has seen before (INI-1)."""

    def execute(self, array: Array, registry: hosts.Hosts, host: int,
                initiator: str, record: int) -> None:
        registry.add_initiator(host, initiator, record)

    def undo(self, done: typing.Any, **inputs: typing.Any) -> None:
        inputs['registry'].release_initiator(inputs['record'])


class AddInitiator(engine.Step):
    """Give the host an initiator that the array does not know."""

    def execute(self, array: Array, registry: hosts.Hosts, host: int,
                initiator: str) -> int:
        return registry.add_initiator(host, initiator)

    def undo(self, done: typing.Any, **inputs: typing.Any) -> None:
        inputs['registry'].remove_initiator(done)


class RemoveInitiator(engine.Step):
    """Take an initiator away; a host with initiators cannot go (HST-3)."""

    def execute(self, array: Array, registry: hosts.Hosts, host: int,
                initiator: str, record: int) -> None:
        registry.remove_initiator(record)

    def undo(self, done: typing.Any, **inputs: typing.Any) -> None:
        inputs['registry'].add_initiator(inputs['host'], inputs['initiator'])


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
           found: hosts.HostInitiators, name: str, look_first: bool) -> int:
    """Map a volume to a host, which is registered first if need be.

    :param found: what the array knows of the host
    :param name: name for the host if it has to be made
    :param look_first: the mapping is probably there already
    :returns: the LUN
    """
    if found.complete and found.host is not None:
        return array.access.grant(backing, found.host, look_first=look_first)
    try:
        return _attach_new(array, registry, backing, found, name, look_first)
    except rest.Refused:
        # Does the array know the initiators in another spelling?
        again = registry.locate_in_any_case([*found.loose, *found.missing])
        if again.host is None or again.host == found.host:
            raise
        return array.access.grant(backing, again.host, look_first=look_first)


def _attach_new(array: Array, registry: hosts.Hosts, backing: Backing,
                found: hosts.HostInitiators, name: str,
                look_first: bool) -> int:
    """Register a host, or what it lacks, and map a volume to it."""
    flow = linear_flow.Flow('attach-new-host').add(CreateHost())
    inputs: dict[str, typing.Any] = {}
    for initiator, record in found.loose.items():
        flow.add(_step(AdoptInitiator, inputs, initiator, record))
    for initiator in found.missing:
        flow.add(_step(AddInitiator, inputs, initiator))
    flow.add(MapVolume())
    made = engine.run(flow, array=array, registry=registry, backing=backing,
                      name=name, found=found, look_first=look_first, **inputs)
    return typing.cast(int, made['lun'])


def remove(array: Array, registry: hosts.Hosts, host: int) -> None:
    """Delete a host that has no mappings, with its initiators.

    If the array refuses, the host gets its initiators back.
    """
    flow = linear_flow.Flow('remove-host')
    inputs: dict[str, typing.Any] = {}
    for initiator, record in registry.initiators(host).items():
        flow.add(_step(RemoveInitiator, inputs, initiator, record))
    flow.add(DeleteHost())
    engine.run(flow, array=array, registry=registry, host=host, **inputs)


def _step(kind: type[engine.Step], inputs: dict[str, typing.Any],
          initiator: str, record: int | None = None) -> engine.Step:
    """One step for one initiator, its inputs under names of their own."""
    rebind = {'initiator': f'initiator {initiator}'}
    inputs[rebind['initiator']] = initiator
    if record is not None:
        rebind['record'] = f'record {initiator}'
        inputs[rebind['record']] = record
    return kind(name=f'{kind.__name__} {initiator}', rebind=rebind)
