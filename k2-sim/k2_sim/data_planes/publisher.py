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

"""Keeps a data plane in line with the rows of an array.

A separate thread is notified of changes, gives each row that hosts can see its
own file, and calls the data plane. It stores nothing: at its start it
publishes everything as the rows say.
"""

from collections.abc import Iterable
import logging
import threading
import time

from k2_sim import core as core_module
from k2_sim.data_planes import base
from k2_sim.data_planes import exports
from k2_sim import errors
from k2_sim.protocol import messages
from k2_sim.rules import replicas
from k2_sim.state import commits
from k2_sim.state import schema
from k2_sim.state.schema import Row


LOG = logging.getLogger(__name__)
# Seconds between checks whether the data plane has stopped.
_LOOK_SECONDS = 1.0
_RETRY_SECONDS = 30.0


class Publisher:
    """Publishes what one array, which has contents, exports by a data plane.

    exports: what was published last. Raises DataPlaneError when nothing can be
    published at the start.
    """

    def __init__(self, core: core_module.Core, data_plane: base.DataPlane
                 ) -> None:
        if core.contents is None:
            raise TypeError('the array has no contents')
        self._core = core
        self._contents = core.contents
        self._data_plane = data_plane
        self._wakeup = threading.Condition()
        self._next: commits.Commit | None = None
        self._is_closing = False
        # Ids of the exported volumes, by serial.
        self._volumes: dict[str, int] = {}
        # The publication that each thread's request waits for.
        self._own = threading.local()
        with core.lock:
            core.store.listeners.append(self._changed)
        self._contents.pause = data_plane.quiesced
        self.exports: base.Exports
        try:
            self._publish()
        except BaseException:
            data_plane.close()
            raise
        self._thread = threading.Thread(
            target=self._run, name='publisher', daemon=True)
        self._thread.start()

    def _changed(self, resource: schema.Resource, old: Row | None,
                 new: Row | None) -> None:
        if exports.is_affected(resource, old, new, self._data_plane.has_fc):
            with self._wakeup:
                if self._is_closing:
                    return
                if self._next is None:
                    self._next = commits.started()
                    self._wakeup.notify()
                self._own.publication = self._next

    def taken(self) -> commits.Commit | None:
        """The publication of the changes that this thread has made.

        None if there were none since the last call. It ends with an error if
        they cannot be published.
        """
        found: commits.Commit | None = getattr(self._own, 'publication', None)
        self._own.publication = None
        return found

    def _run(self) -> None:
        # When to retry after a failure, if nothing changes before.
        again: float | None = None
        while True:
            with self._wakeup:
                self._wakeup.wait_for(
                    lambda: self._next or self._is_closing, _LOOK_SECONDS)
                publication, self._next = self._next, None
                if publication is None and self._is_closing:
                    return
            if publication is None:
                if (self._serves() if again is None
                        else time.monotonic() < again):
                    continue
                LOG.warning('the data plane has stopped, or does not serve'
                            ' everything; retrying')
                publication = commits.started()
            done = (self._publish_for(publication)
                    and self._serves() is not None)
            again = None if done else time.monotonic() + _RETRY_SECONDS

    def _serves(self) -> bool | None:
        """Whether the data plane serves everything; records its traffic.

        None if it cannot be read. Without this thread no change of exports
        would be published, so it does not end then.
        """
        try:
            self._note_traffic()
            return self._data_plane.is_serving
        except Exception as exc:
            LOG.error('the data plane cannot be read: %s', exc)
            return None

    def _note_traffic(self) -> None:
        """Record initiators' reads and writes for the statistics.

        Their latency is not known.
        """
        for traffic in self._data_plane.traffic():
            number = self._volumes.get(traffic.serial)
            if number is not None:
                self._core.io.note(
                    number, traffic.reads, 0, traffic.read_bytes, 0.0)
                self._core.io.note(
                    number, 0, traffic.writes, traffic.written_bytes, 0.0)

    def _publish_for(self, publication: commits.Commit) -> bool:
        """Publish, and notify waiting threads; returns whether it worked."""
        try:
            self._publish()
        except Exception as exc:
            LOG.error('the data plane does not serve everything: %s', exc,
                      exc_info=not isinstance(exc, errors.StateError))
            publication.set_exception(exc)
            return False
        publication.set_result(None)
        return True

    def _publish(self) -> None:
        """Export what is mapped, each row from its own file.

        Rows without a file are omitted; StateError is raised at the end.
        """
        core, live = self._core, self._contents.live
        with core.lock:
            refs = exports.mapped(core.store, core.behaviors,
                                  self._data_plane.has_fc)
            serials = {ref: self._serial(ref) for ref in refs}
        tokens, failures = self._tokens(refs)
        files = {ref: self._contents.path(token)
                 for ref, token in tokens.items()}
        with core.lock:
            # Another row may have got the id meanwhile: it is published next.
            files = {ref: path for ref, path in files.items()
                     if self._serial(ref) == serials[ref]}
            wanted = exports.of(core.store, core.behaviors, files,
                                self._data_plane.has_fc)
            self._volumes = exports.volumes(core.store, files)
        self._data_plane.publish(wanted)
        self.exports = wanted
        with core.lock:
            live.intersection_update(tokens.values())
        for failure in failures:
            raise failure

    def _serial(self, ref: str) -> str | None:
        """The serial of a row, which no other row with its id ever had."""
        row = self._core.store.get(*schema.split_ref(ref))
        return None if row is None else str(row['scsi_sn'])

    def _tokens(self, refs: Iterable[str]
                ) -> tuple[dict[str, str], list[errors.StateError]]:
        """The tokens of rows by reference, and the errors."""
        tokens, failures = {}, []
        for ref in refs:
            try:
                token = self._token(ref)
            except errors.StateError as exc:
                failures.append(exc)
                token = self._live(ref)
            if token is not None:
                tokens[ref] = token
        return tokens, failures

    def _live(self, ref: str) -> str | None:
        """The token that a row already has, if its file is live."""
        with self._core.lock:
            row = self._core.store.get(*schema.split_ref(ref)) or {}
        token = replicas.content(row)
        return token if token in self._contents.live else None

    def _token(self, ref: str) -> str | None:
        """The token of a row; it is made live if it is writable.

        None if the row is gone meanwhile: that change is published next.
        """
        resource, number = schema.split_ref(ref)
        with self._core.lock:
            row = self._core.store.get(resource, number) or {}
        if row.get('read_only') and self._is_whole(row):
            return replicas.content(row)
        try:
            return self._core.data_store.own(resource, number, live=True)
        except errors.ApiError:
            return None

    def _is_whole(self, row: Row) -> bool:
        """Whether a row has a file of the right size."""
        token = replicas.content(row)
        return self._contents.has(token) and self._contents.size(
            token) == row['size'] * exports.KIB

    def close(self) -> None:
        """Stop exporting."""
        with self._wakeup:
            self._is_closing = True
            self._wakeup.notify()
        self._thread.join(messages.PUBLICATION_LIMIT)
        self._data_plane.close()
