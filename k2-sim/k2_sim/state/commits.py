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

"""Group commit: the changes of many requests in one write to the disk.

A request changes the state in memory immediately; its changes are queued. A
thread writes the queue as one transaction, while new changes are queued. A
reply is sent when the changes that were newest when it was made are on disk,
as it cannot depend on later ones.
"""

from concurrent import futures
import threading

from k2_sim import errors
from k2_sim.state import disk as disk_module

Commit = futures.Future[None]


class Commits:
    """The commits of one state to its disk, safe for threads.

    newest: the commit of the newest changes, or None if all are on disk. It
    fails with StateError on a disk error, as do all later ones: the memory
    is then ahead of the disk, and replies must not depend on it.
    """

    def __init__(self, disk: disk_module.Disk) -> None:
        self._disk = disk
        self._queue = disk_module.Changes()
        self._wakeup = threading.Condition()
        self._is_closing = False
        self.newest: Commit | None = None
        self._thread = threading.Thread(
            target=self._run, name='commits', daemon=True)
        self._thread.start()

    @property
    def failure(self) -> BaseException | None:
        """The error of the disk, or None."""
        newest = self.newest
        if newest is None or not newest.done():
            return None
        return newest.exception()

    def add(self, changes: disk_module.Changes) -> None:
        """Queue the changes of one request."""
        with self._wakeup:
            if self.failure is not None:
                return
            if not self._queue:
                self.newest = started()
                self._wakeup.notify()
            self._queue.update(changes)

    def _run(self) -> None:
        while True:
            with self._wakeup:
                self._wakeup.wait_for(lambda: self._queue or self._is_closing)
                changes, commit = self._queue, self.newest
                if commit is None or not changes:
                    return
                self._queue = disk_module.Changes()
            try:
                self._disk.write(changes)
            except Exception as exc:
                self._fail(commit, exc)
                return
            commit.set_result(None)
            with self._wakeup:
                if self.newest is commit:
                    self.newest = None

    def _fail(self, commit: Commit, reason: Exception) -> None:
        with self._wakeup:
            for lost in {commit, self.newest or commit}:
                lost.set_exception(reason)

    def close(self) -> None:
        """Write the queue, and stop; later commits fail."""
        with self._wakeup:
            self._is_closing = True
            self._wakeup.notify()
        self._thread.join()
        with self._wakeup:
            if self.failure is None:
                if self.newest is None or self.newest.done():
                    self.newest = started()
                self.newest.set_exception(errors.StateError(
                    f'state {self._disk.path} is closed'))


def started() -> Commit:
    """A commit that its waiters cannot cancel."""
    commit = Commit()
    commit.set_running_or_notify_cancel()
    return commit
