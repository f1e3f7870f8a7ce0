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

"""Undoing a few writes to an array when a later one fails.

For operations of two or three writes. Those with more steps are flows of
taskflow, see ``cinder_k2.flows.engine``.
"""

from collections.abc import Callable
from collections.abc import Iterator
import contextlib
import types

from oslo_log import log as logging

from cinder_k2.array import Array
from cinder_k2 import rest

LOG = logging.getLogger(__name__)


def is_outcome_unknown(error: BaseException | None) -> bool:
    """Whether the array may have done what it did not answer for."""
    return isinstance(error, rest.RestError) and not isinstance(
        error, (rest.Refused, rest.Forbidden))


def take_back(array: Array, what: str, act: Callable[[], object]) -> None:
    """Undo one step in a time of its own; never raises, lest others stay.

    :param what: the step, for the log
    """
    try:
        with array.cleanup_deadline():
            act()
    except Exception as error:
        LOG.warning('Could not undo step %(what)s: %(error)s',
                    {'what': what, 'error': error})


class Undo:
    """Takes back, in reverse order, what was done before a failure.

    A context manager; each write inside is a ``step``::

        with undo.Undo(array) as steps:
            with steps.step('create volume group',
            outcome_unknown=drop_by_name): group =
            array.volumes.create_group(name)
            steps.on_failure('create volume group', drop(group))
            ...

    What fails while something is undone is logged; the rest is undone all
    the same. Nothing is undone in a service that is killed.
    """

    def __init__(self, array: Array) -> None:
        self._array = array
        self._done: list[tuple[str, Callable[[], object]]] = []

    def __enter__(self) -> 'Undo':
        return self

    def __exit__(self, kind: type[BaseException] | None,
                 error: BaseException | None,
                 traceback: types.TracebackType | None) -> None:
        if isinstance(error, Exception):
            while self._done:
                self._take_back(*self._done.pop())

    @contextlib.contextmanager
    def step(self, what: str, outcome_unknown: Callable[[], object], *,
             always_unknown: bool = False) -> Iterator[None]:
        """One write.

        :param what: what it does, for the log
        :param outcome_unknown: takes back what may have been done when the
            write fails without an answer that says so
        :param always_unknown: it is several writes: even when the array
            plainly refused one, those before it were carried out
        """
        try:
            yield
        except Exception as error:
            if always_unknown or is_outcome_unknown(error):
                self._take_back(what, outcome_unknown)
            raise

    def on_failure(self, what: str, act: Callable[[], object]) -> None:
        """Have something that was done taken back if a later step fails."""
        self._done.append((what, act))

    def _take_back(self, what: str, act: Callable[[], object]) -> None:
        take_back(self._array, f'"{what}"', act)
