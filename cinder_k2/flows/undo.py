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
    """Whether the array may have carried out a request that failed."""
    return isinstance(error, rest.RestError) and not isinstance(
        error, (rest.Refused, rest.Forbidden))


def take_back(array: Array, what: str, act: Callable[[], object]) -> None:
    """Undo one step with its own deadline; never raises.

    :param what: the step, for the log
    """
    try:
        with array.cleanup_deadline():
            act()
    except Exception as error:
        LOG.warning('Could not undo step %(what)s: %(error)s',
                    {'what': what, 'error': error})


class Undo:
    """Undoes, in reverse order, the writes before a failure.

    A context manager; each write inside is a ``step``::

        with undo.Undo(array) as steps:
            with steps.step('create volume group', drop_by_name):
                group = array.volumes.create_group(name, dedup)
            steps.on_failure('create volume group', lambda: drop(group))
            ...

    Errors during the undo are logged, and the other writes are still undone.
    Nothing is undone if the service is killed.
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
        """Context for one write.

        :param what: description, for the log
        :param outcome_unknown: undoes what may have been done if the write
            fails and its outcome is unknown
        :param always_unknown: it is several writes: even if the array clearly
            refused one, earlier ones may have been carried out
        """
        try:
            yield
        except Exception as error:
            if always_unknown or is_outcome_unknown(error):
                self._take_back(what, outcome_unknown)
            raise

    def on_failure(self, what: str, act: Callable[[], object]) -> None:
        """Register the undo of a completed step, for later failures."""
        self._done.append((what, act))

    def keep(self) -> None:
        """Keep what was done so far, whatever fails later."""
        self._done.clear()

    def _take_back(self, what: str, act: Callable[[], object]) -> None:
        take_back(self._array, f'"{what}"', act)
