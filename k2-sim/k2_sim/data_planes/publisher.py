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

"""Keeps a data plane at what the rows of an array say.

A thread of its own hears of changes, gives each row that hosts can see a
file of its own, and tells the plane. Nothing of it is kept: at its start
everything is published as the rows say.
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
# How soon it is seen that the plane has ended by itself.
_LOOK_SECONDS = 1.0
_RETRY_SECONDS = 30.0


class Publisher:
    """Publishes what one array, which has contents, serves by a plane.

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
        # Ids of the volumes that are served, by their serials.
        self._volumes: dict[str, int] = {}
        # What the requests of each thread wait for.
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
        """What publishes the changes that this thread has made.

        None if there were none since the last call. It ends with an error
        if they cannot be published.
        """
        found: commits.Commit | None = getattr(self._own, 'publication', None)
        self._own.publication = None
        return found

    def _run(self) -> None:
        # When what has failed is tried again, if there are no news before.
        again: float | None = None
        while True:
            with self._wakeup:
                self._wakeup.wait_for(
                    lambda: self._next or self._is_closing, _LOOK_SECONDS)
                publication, self._next = self._next, None
                if publication is None and self._is_closing:
                    return
            if publication is None:
                self._note_traffic()
                if (self._data_plane.is_serving if again is None
                        else time.monotonic() < again):
                    continue
                LOG.warning('the data plane has ended, or does not serve'
                            ' everything, and is tried again')
                publication = commits.started()
            again = None if self._publish_for(publication) \
                else time.monotonic() + _RETRY_SECONDS

    def _note_traffic(self) -> None:
        """What initiators have read and written, for the statistics.

        How long it took them nobody tells.
        """
        for traffic in self._data_plane.traffic():
            number = self._volumes.get(traffic.serial)
            if number is not None:
                self._core.io.note(
                    number, traffic.reads, 0, traffic.read_bytes, 0.0)
                self._core.io.note(
                    number, 0, traffic.writes, traffic.written_bytes, 0.0)

    def _publish_for(self, publication: commits.Commit) -> bool:
        """Publish, and tell those who wait; gives whether it went well."""
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
        """Serve what is mapped, each row from a file that is its own.

        What cannot have one is left out, and raises StateError in the end.
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
            # Meanwhile another row may have got the id: its turn comes next.
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
        """What tells a row from all others that ever have its id."""
        row = self._core.store.get(*schema.split_ref(ref))
        return None if row is None else str(row['scsi_sn'])

    def _tokens(self, refs: Iterable[str]
                ) -> tuple[dict[str, str], list[errors.StateError]]:
        """The tokens of rows by reference, and what was in the way."""
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
        """The token that a row has already, if it can be written to."""
        with self._core.lock:
            row = self._core.store.get(*schema.split_ref(ref)) or {}
        token = replicas.content(row)
        return token if token in self._contents.live else None

    def _token(self, ref: str) -> str | None:
        """The token of a row, which is live if it can be written to.

        None if the row has gone meanwhile: that is the next news.
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
        """Whether a row has a file, and that is as long as it shall be."""
        token = replicas.content(row)
        return self._contents.has(token) and self._contents.size(
            token) == row['size'] * exports.KIB

    def close(self) -> None:
        """Serve nothing any more."""
        with self._wakeup:
            self._is_closing = True
            self._wakeup.notify()
        self._thread.join(messages.PUBLICATION_LIMIT)
        self._data_plane.close()
