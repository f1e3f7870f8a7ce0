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

"""Running a flow of steps that undo themselves."""

import typing

from oslo_log import log as logging
from taskflow import engines
from taskflow import flow as flows
from taskflow import task
from taskflow.types import failure

LOG = logging.getLogger(__name__)


class Step(task.Task):
    """One write. ``execute`` does it; ``undo`` takes it back.

    ``undo`` gets what ``execute`` got, and its result as ``done``. It is
    not called for the step that failed: the REST client leaves either one
    object or none, and an object that a lost array kept is found by its
    name when Cinder deletes the volume.
    """

    def __init__(self, **settings: typing.Any) -> None:
        super().__init__(**settings)
        # taskflow reads the inputs of revert from its signature, which is
        # the same for all steps here: give it those of execute.
        self.revert_rebind = self.rebind

    def undo(self, done: typing.Any, **inputs: typing.Any) -> None:
        """Take the step back; nothing to do by default."""

    def revert(self, *args: typing.Any, result: typing.Any,
               **kwargs: typing.Any) -> None:
        """Called by taskflow; never raises, so that all steps get theirs."""
        if isinstance(result, failure.Failure):
            return
        kwargs.pop('flow_failures', None)
        try:
            self.undo(result, **kwargs)
        except Exception as error:
            LOG.warning('Could not undo step %(step)s (result %(result)s): '
                        '%(error)s',
                        {'step': self.name, 'result': result, 'error': error})


def run(flow: flows.Flow, **inputs: typing.Any) -> dict[str, typing.Any]:
    """Run a flow in this thread.

    :returns: everything that the steps provided, by name
    :raises: what the failed step raised, after all before it were undone
    """
    engine = engines.load(flow, store=inputs, engine='serial')
    engine.run()
    results: dict[str, typing.Any] = engine.storage.fetch_all()
    return results
