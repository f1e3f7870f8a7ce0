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

"""Inputs of the flows: two arrays, and the volumes to replicate."""

from collections.abc import Callable
from collections.abc import Collection
from collections.abc import Iterator
import contextlib
import dataclasses

from cinder_k2.array import Array
from cinder_k2 import exceptions
from cinder_k2 import naming
from cinder_k2 import rest

#: Unmaps volumes of an array from hosts that should not have them.
Release = Callable[[Array, Collection[int]], None]
#: Raises if the operation must not be carried out any more. Its argument is
#: whether hosts may be using the copies by now.
Confirm = Callable[[bool], None]


@dataclasses.dataclass(frozen=True)
class Link:
    """Two arrays, one of which replicates to the other.

    :ivar peer_address: management address of ``target_array``, by which
        ``source_array`` may know it
    :ivar backend_id: name by which ``source_array`` may know it instead
    :ivar rpo: seconds, 60 or a multiple of 300 (REP-4)
    """

    source_array: Array
    target_array: Array
    peer_address: str
    backend_id: str
    rpo: int

    @property
    def is_own_peer(self) -> bool:
        """Whether both are the same array (REP-21). Usually no call."""
        return self.source_array.system.id == self.target_array.system.id

    def number(self) -> int:
        """Id of the record that ``source_array`` has of ``target_array``.

        Usually no call.

        :raises ArrayNotSupported: it has none
        """
        return self.source_array.replication.peer(self.peer_address,
                                                  self.backend_id)

    def target(self) -> str:
        """System id of ``target_array``. Usually no call.

        :raises ArrayNotSupported: ``source_array`` has no record of it
        :raises PeerUnreachable: ``target_array`` does not reply
        """
        self.number()
        try:
            with self.target_array.probe_deadline():
                return self.target_array.system.id
        except rest.RestError as error:
            raise exceptions.PeerUnreachable(
                f'The array at {self.target_array.address}, the replication '
                f'target, does not answer: {error}') from error

    def is_number(self, number: int) -> bool:
        """Whether ``number`` returns this id. Usually no call."""
        try:
            return number == self.number()
        except exceptions.ArrayNotSupported:
            return False


@dataclasses.dataclass(frozen=True)
class Member:
    """A volume of the group.

    :ivar volume: its id on ``source_array``
    :ivar size: KiB
    """

    volume: int
    name: str
    size: int


def unmarked(name: str) -> str:
    """A name without the mark of a copy."""
    return name.removeprefix(naming.peer(''))


def copy_name(marked: bool, name: str) -> str:
    """Name of the copy of an object.

    :param marked: whether copies have the mark
    """
    return naming.peer(unmarked(name)) if marked else unmarked(name)


@contextlib.contextmanager
def deadlines(*arrays: Array | None) -> Iterator[None]:
    """Set the deadline of each array, which applies to its calls only."""
    with contextlib.ExitStack() as stack:
        for array in arrays:
            if array is not None:
                stack.enter_context(array.deadline())
        yield


def each(*actions: Callable[[], object]) -> None:
    """Carry out all actions, even if some fail.

    :raises: the first error
    """
    errors: list[Exception] = []
    for action in actions:
        try:
            action()
        except (rest.RestError, exceptions.K2Error) as error:
            errors.append(error)
    if errors:
        raise errors[0]
