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

from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Mapping
import dataclasses
import functools
import typing

from cinder_k2.array import Array
from cinder_k2.array import ArrayVolume
from cinder_k2.array import chap as array_chap
from cinder_k2.array import host_identity
from cinder_k2.array import hosts
from cinder_k2.flows import chap
from cinder_k2.flows import undo
from cinder_k2 import rest


@dataclasses.dataclass(frozen=True)
class Attached:
    """How a host reaches a volume: the LUN, and with CHAP the login."""

    lun: int
    login: array_chap.Login | None = None


@dataclasses.dataclass(frozen=True)
class _AttachRequest:
    """A request to attach a volume: the inputs of all its steps."""

    array: Array
    registry: hosts.Hosts
    backing: ArrayVolume
    found: host_identity.HostInitiators
    sought: host_identity.Sought
    look_first: bool
    guard: chap.Guard | None
    hold: 'Hold'
    share_early: bool
    verify_volume: Callable[[], object]

    def verify(self, host: int) -> None:
        """Check that an id is still the host's, when a reply was lost."""
        self.registry.verify(host, self.sought)

    def verify_mapping(self, host: int) -> None:
        """Check that ids are still the host's and the volume's."""
        self.verify(host)
        self.verify_volume()

    def may_undo(self, host: int) -> bool:
        """Whether objects that a new host has been given may be removed again.

        The reason for the failure is not known: the host may be gone, and its
        id another host's (OBJ-7).
        """
        return self.found.host is None and not self.registry.is_anothers(
            rest.Host(host, self.sought.name))

    def may_take_initiators(self, host: int) -> bool:
        """Whether initiators that were missing may be removed from a host.

        For a host found by its name, it is not known which ones it had.
        """
        if self.found.host is None:
            return self.may_undo(host)
        return not self.found.by_name


class MustBeAlone(Exception):
    """An operation needs exclusive access to a host."""


class Hold(typing.Protocol):
    """The part of a host's lock that this module uses.

    See ``cinder_k2.driver.operations.host_holds``.
    """

    @property
    def is_alone(self) -> bool:
        """Whether no other operation uses the host, or can begin to."""

    def share(self) -> None:
        """Let other operations map to the host; its record stays as it is."""

    def claim(self) -> None:
        """Ensure that no other operation changes the host or maps to it.

        :raises MustBeAlone: another operation may do so
        """


def attach(array: Array, registry: hosts.Hosts, backing: ArrayVolume, *,
           sought: host_identity.Sought, look_first: bool, hold: Hold,
           verify_volume: Callable[[], object],
           guard: chap.Guard | None = None, share_early: bool = True
           ) -> Attached:
    """Map a volume to a host, which is registered first if necessary.

    :param sought: the host
    :param look_first: the mapping probably exists already
    :param hold: the lock of the host
    :param verify_volume: called after a lost reply, before the volume is
        mapped again; raises if its id is another's by now (OBJ-7)
    :param guard: CHAP of the host, or None
    :param share_early: a new host may be shared before the volume is mapped;
        if that fails, the caller unmaps as from a known host
    :raises MustBeAlone: the host must be changed, but its lock is shared
    """
    found = registry.locate(sought)
    request = _AttachRequest(array, registry, backing, found, sought,
                             look_first, guard,
                             hold, share_early, verify_volume)
    if found.complete and found.host is not None:
        return _attach_known(request, found.host)
    hold.claim()
    found = registry.clear(found)
    request = dataclasses.replace(request, found=found)
    try:
        return _register(request)
    except rest.Refused as refusal:
        if not hold.is_alone:
            # The host was registered; only the mapping was refused.
            raise
        again = registry.locate_taken(sought)
        if found.host is None is again.host and refusal.repeats:
            # An initiator may have been created without a reply, and on an
            # array that does not search for them nothing shows it. It was
            # deleted with the new host.
            return _register(request)
        if again.host is None or again.host == found.host:
            raise
        request = dataclasses.replace(request, found=again)
        if again.complete or registry.ours(again.host) is None:
            return _attach_known(request, again.host)
        return _register(dataclasses.replace(
            request, found=registry.clear(again)))


def _attach_known(request: _AttachRequest, host: int) -> Attached:
    """Map a volume to a host of the array, after assigning CHAP if needed."""
    guard, login = request.guard, None
    if guard is not None:
        login = guard.login(host, request.hold.claim)
        if login is None and guard.may_give(host):
            request.hold.claim()
            return _register(request)
    request.hold.share()
    return Attached(request.array.mappings.map(
        request.backing, host, look_first=request.look_first,
        verify=functools.partial(request.verify_mapping, host)), login)


def _register(request: _AttachRequest) -> Attached:
    """Create what the array lacks of a host, and map a volume to it.

    Other operations that wait may use a new host before this volume is
    mapped, if they can find it. If mapping fails after that, the host stays.
    """
    guard = request.guard if request.guard and request.guard.required else None
    with undo.Undo(request.array) as steps:
        login = None if guard is None else _make_profile(guard, steps)
        host = _make_host(request, steps)
        if login is not None:
            _give_profile(request, host, login, steps)
        for initiator, record in request.found.loose.items():
            _adopt_initiator(request, host, initiator, record, steps)
        if request.found.missing:
            _add_initiators(request, host, steps)
        if (request.share_early and request.found.searched
                and request.found.host is None):
            request.hold.share()
        if not request.hold.is_alone:
            steps.keep()
        attached = Attached(_map(request, host, steps), login)
    # Nothing of this is undone any more.
    request.hold.share()
    return attached


def _make_profile(guard: chap.Guard, steps: undo.Undo) -> array_chap.Login:
    """Create the CHAP profile that the host is about to get."""
    with steps.step('create CHAP profile', guard.discard,
                    always_unknown=True):
        login = guard.make()
    steps.on_failure('create CHAP profile', guard.discard)
    return login


def _make_host(request: _AttachRequest, steps: undo.Undo) -> int:
    """Create the host, unless its initiators have one."""
    if request.found.host is not None:
        return request.found.host
    # A host created without a reply is taken over when its name is used again.
    host = request.registry.create(request.sought.name)

    def discard() -> None:
        if request.may_undo(host):
            request.registry.delete(rest.Host(host, request.sought.name))
    steps.on_failure('create host', discard)
    return host


def _give_profile(request: _AttachRequest, host: int, login: array_chap.Login,
                  steps: undo.Undo) -> None:
    """Require CHAP from the host (CHP-2).

    Called before the host has initiators: a host that is found by one then
    has the profile, even if the service was killed in between.
    """
    def take() -> None:
        # A new host is deleted with its profile.
        if request.found.host is not None and not request.found.by_name:
            request.array.chap.take(host, verify=verify)

    verify = functools.partial(request.verify, host)
    with steps.step('give CHAP profile', take):
        request.array.chap.give(host, login.name, verify=verify)
    steps.on_failure('give CHAP profile', take)


def _adopt_initiator(request: _AttachRequest, host: int, initiator: str,
                     record: int,
                     steps: undo.Undo) -> None:
    """Assign an initiator that the array has seen before (INI-1)."""
    records = request.registry.records
    records.adopt(host, record, initiator,
                  functools.partial(request.verify, host))
    steps.on_failure(f'adopt initiator {initiator}',
                     lambda: records.release(host, initiator))


def _add_initiators(request: _AttachRequest, host: int,
                    steps: undo.Undo) -> None:
    """Add the initiators that the array does not know."""
    records = request.registry.records
    made: dict[str, int | None] = dict.fromkeys(request.found.missing)

    def remove() -> None:
        if request.may_take_initiators(host):
            records.remove(host, records.still_new(host, made))

    # One is created or refused; of several, some may exist (BLK-4).
    with steps.step('add initiators', remove,
                    always_unknown=len(made) > 1):
        made.update(records.add(
            host, request.found.missing,
            functools.partial(request.verify, host)))
    steps.on_failure('add initiators', remove)


def _map(request: _AttachRequest, host: int, steps: undo.Undo) -> int:
    """Map the volume, as the last step of registering a host."""
    def unmap() -> None:
        # The mapping may exist, and would keep a new host from being deleted.
        # On an existing host it may be another attachment's.
        if request.may_undo(host):
            request.array.mappings.unmap(request.backing, host)

    with steps.step('map volume', unmap, always_unknown=True):
        return request.array.mappings.map(
            request.backing, host, look_first=request.look_first,
            verify=functools.partial(request.verify_mapping, host))


def remove(array: Array, registry: hosts.Hosts, host: rest.Host,
           initiators: Mapping[str, int] | None = None,
           protection: chap.Chap | None = None, *,
           connected: Iterable[str] = ()) -> None:
    """Delete a host that has no mappings, with its initiators.

    One call if the array deletes them together (HST-3), else two; if it then
    refuses to delete the host, the initiators are added again. The CHAP
    profile is deleted after the host (CHP-4). After a lost reply, host and
    initiators are looked up by name before anything else is done (OBJ-7).

    :param host: as seen in this operation
    :param initiators: its initiators as seen while its lock is held, with the
        ids of their records. If None, they are looked up first, in one more
        call. If the array refuses, they are looked up again.
    :param protection: CHAP on the array, None without CHAP
    :param connected: initiators by which it was connected; their profiles are
        deleted, too, since the array may not show its initiators
    """
    if initiators is None:
        initiators = registry.initiators(host.id)
    try:
        _remove(array, registry, host, initiators)
    except rest.Refused:
        others = registry.initiators(host.id)
        # What was given to another host with this id stays.
        if (others.keys() <= initiators.keys()
                or not registry.is_there(host)):
            raise
        initiators = others
        _remove(array, registry, host, initiators)
    if protection is not None:
        protection.forget({initiator.lower(): initiator for initiator
                           in (*connected, *initiators)}.values())


def _remove(array: Array, registry: hosts.Hosts, host: rest.Host,
            initiators: Mapping[str, int]) -> None:
    if initiators:
        registry.delete_whole(host, lambda outcome: _remove_one_by_one(
            array, registry, host, initiators, outcome))
    else:
        registry.delete(host)


def _remove_one_by_one(array: Array, registry: hosts.Hosts, host: rest.Host,
                       initiators: Mapping[str, int],
                       outcome: rest.OutcomeCheck
                       ) -> None:
    """Delete the initiators first; a host with any cannot be deleted (HST-3).

    The array refuses to delete a host that was mapped meanwhile (HST-2).

    :param outcome: whether replies were lost since the host was seen
    """
    def give_back() -> None:
        if not registry.is_there(host):
            return
        known = registry.initiators(host.id)
        missing = [i for i in initiators if i not in known]
        if missing:
            registry.records.add(
                host.id, missing, lambda: registry.verify_named(host))

    lost = rest.OutcomeCheck(open=outcome.open, unseen=outcome.open)
    with undo.Undo(array) as steps:
        with steps.step('remove initiators', give_back,
                        always_unknown=True):
            refusal = registry.records.remove(host.id, initiators, lost)
        steps.on_failure('remove initiators', give_back)
        registry.delete(host, rest.OutcomeCheck(unseen=lost.open), refusal)
