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

"""Running a flow of steps with undo."""

from collections.abc import Callable
import functools
import typing

from taskflow import engines
from taskflow import flow as flows
from taskflow import task
from taskflow.types import failure

from cinder_k2.array import Array
from cinder_k2.flows import undo


class Step(task.Task):
    """One write to an array, which is among its inputs as ``array``.

    ``execute`` makes it; ``undo`` reverts it. Both get the same inputs.

    :cvar always_unknown: the step makes several calls: even if the array
        clearly refused one, earlier ones may have been carried out
    """

    always_unknown = False

    def __init__(self, **settings: typing.Any) -> None:
        super().__init__(**settings)
        # taskflow reads the inputs of revert from its signature, which is
        # the same for all steps here: give it those of execute.
        self.revert_rebind = self.rebind

    def undo(self, done: typing.Any, **inputs: typing.Any) -> None:
        """Revert the write for which ``execute`` returned ``done``.

        By default as if its outcome were unknown.
        """
        self.undo_unknown(**inputs)

    def undo_unknown(self, **inputs: typing.Any) -> None:
        """Revert what ``execute`` may have done before it failed."""

    def revert(self, array: Array, result: typing.Any,
               **inputs: typing.Any) -> None:
        """Called by taskflow; never raises, so that all steps are reverted."""
        inputs.pop('flow_failures', None)
        if not isinstance(result, failure.Failure):
            act: Callable[..., None] = functools.partial(self.undo, result)
        elif self.always_unknown or undo.is_outcome_unknown(result.exception):
            act = self.undo_unknown
        else:
            return
        undo.take_back(array, f'{self.name} (result {result})',
                       functools.partial(act, array=array, **inputs))


def run(flow: flows.Flow, **inputs: typing.Any) -> dict[str, typing.Any]:
    """Run a flow in this thread.

    :returns: everything that the steps provided, by name
    :raises: the error of the failed step, after all earlier steps were undone
    """
    engine = engines.load(flow, store=inputs, engine='serial')
    engine.run()
    results: dict[str, typing.Any] = engine.storage.fetch_all()
    return results
