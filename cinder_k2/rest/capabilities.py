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

"""What is known of the capabilities of one array.

A capability is a kind of request, or a part of one, that is not in
``cinder_k2.rest.forms``. It is tried (``cinder_k2.rest.attempts``), and the
verdict is stored: it works, or it was refused. Refused capabilities are tried
again after a day, and all of them after the array's version changes.
"""

from collections.abc import Collection
import dataclasses
import logging
import threading
import time
from typing import Protocol

from cinder_k2.rest import capability_names
from cinder_k2.rest import errors
from cinder_k2.rest import verdicts
from cinder_k2.rest.verdicts import DISABLED
from cinder_k2.rest.verdicts import REFUSED
from cinder_k2.rest.verdicts import UNKNOWN
from cinder_k2.rest.verdicts import Verdict
from cinder_k2.rest.verdicts import WORKS

LOG = logging.getLogger(__name__)

# Seconds after which a refused capability is tried again.
ASK_AGAIN = 86400.0
# Seconds without a try after an inconclusive one, such as a time-out.
PAUSE = 60.0
# Failures in a row after which a capability counts as refused, where a single
# one proves nothing.
STRIKES = 3


class Store(Protocol):
    """Where verdicts are stored."""

    def load(self) -> tuple[str, dict[str, Verdict]]:
        """The version of the array that was seen last, and the verdicts."""

    def save(self, version: str, verdicts: dict[str, Verdict]) -> None:
        """Store the version of the array and the verdicts."""


@dataclasses.dataclass
class Progress:
    """The in-memory state of one capability.

    :ivar learning: held by the one caller that tries it
    :ivar paused: the time on the monotonic clock until which it is not tried
    :ivar strikes: failures in a row since it worked last
    :ivar refused: the time on the monotonic clock of the first refusal since
        it worked last, of a call that the array may refuse for other reasons
    :ivar unanswered: tries in a row without a reply in time, where the
        fallback worked
    :ivar failing: the time on the monotonic clock until which a call without a
        fallback is not sent, and the error that caused this
    """

    learning: threading.Lock = dataclasses.field(
        default_factory=threading.Lock)
    paused: float = 0.0
    strikes: int = 0
    refused: float | None = None
    unanswered: int = 0
    failing: tuple[float, errors.RestError] | None = None


class Capabilities:
    """The verdicts on one array; may be used by any thread.

    :param address: management address of the array, for the log
    :param disabled: names, or beginnings of names up to a colon, of the
        capabilities that the operator has disabled
    """

    def __init__(self, address: str, store: Store | None = None,
                 disabled: Collection[str] = ()) -> None:
        self._address = address
        self._store = store or verdicts.Memory()
        self._disabled = frozenset(disabled)
        self._lock = threading.Lock()
        self._progress: dict[str, Progress] = {}
        self._version, self._verdicts = self._store.load()

    def verdict(self, name: str) -> Verdict:
        """What is known of a capability."""
        if not self._disabled.isdisjoint(capability_names.beginnings(name)):
            return Verdict(DISABLED)
        found = self._verdicts.get(name, Verdict())
        # A wrong clock may have left a time in the future.
        age = time.time() - found.time
        if found.state == REFUSED and not -PAUSE <= age <= ASK_AGAIN:
            return Verdict()
        return found

    def all(self) -> dict[str, Verdict]:
        """The verdicts on all capabilities that were tried, by name."""
        return {name: self.verdict(name)
                for name in sorted({*self._verdicts, *self._disabled})}

    def works(self, name: str) -> bool:
        """Whether a capability was seen to work."""
        return self.verdict(name).state == WORKS

    def refused(self, name: str) -> bool:
        """Whether a capability is not to be used."""
        return self.verdict(name).state in (REFUSED, DISABLED)

    def note_version(self, version: str) -> None:
        """Forget all verdicts if the array's version has changed."""
        if version == self._version:
            return
        with self._lock:
            if self._version:
                LOG.info('The array at %(address)s has version %(version)s, '
                         'not %(before)s as before: its capabilities are '
                         'tested again.',
                         {'address': self._address, 'version': version,
                          'before': self._version})
                self._verdicts.clear()
            self._version = version
            self._store.save(self._version, self._verdicts)

    def found(self, name: str) -> None:
        """Record that a capability works."""
        progress = self.progress(name)
        progress.strikes = progress.unanswered = 0
        if self.verdict(name).state == UNKNOWN:
            self._note(name, Verdict(WORKS, time=time.time()))

    def failed(self, name: str, error: errors.RestError) -> None:
        """Record a failure that may be about the capability or not.

        Such a failure is a refusal of a capability that once worked, where the
        fallback works, or a 5xx where there is no fallback. After three in a
        row the capability counts as refused.
        """
        progress = self.progress(name)
        progress.strikes += 1
        if progress.strikes >= STRIKES:
            self.set_refused(name, error)

    def refuse(self, name: str, error: errors.RestError) -> None:
        """Record a refusal of a call whose fallback has just worked."""
        if self.verdict(name).state == UNKNOWN:
            self.set_refused(name, error)

    def set_refused(self, name: str, error: errors.RestError | None) -> None:
        """Record a refusal, whatever was known before.

        :param error: None if the array ignored the capability
        """
        words = 'no error, but nothing was done' if error is None else (
            f'HTTP {error.status}: {error.message}' if error.status
            else error.message)
        self.progress(name).strikes = 0
        known = self._verdicts.get(name, Verdict()).state == REFUSED
        self._note(name, Verdict(REFUSED, words, time.time()))
        if known:
            # Another thread has found out meanwhile, or nothing has changed.
            return
        what, without = capability_names.describe(name)
        LOG.warning(
            'The array at %(address)s does not offer %(what)s (capability '
            '%(name)s): %(without)s. It answered: %(words)s',
            {'address': self._address, 'what': what, 'name': name,
             'without': without, 'words': words})

    def progress(self, name: str) -> Progress:
        """The in-memory state of a capability, for the caller trying it."""
        with self._lock:
            return self._progress.setdefault(name, Progress())

    def not_offered(self, name: str, words: str) -> errors.NotOffered:
        """The error for a call that needs a capability.

        :param words: the array's text; '' if the operator has disabled it
        """
        what, _ = capability_names.describe(name)
        why = f': {words}' if words else ' (k2_disabled_capabilities)'
        return errors.NotOffered(
            f'it does not offer {what} (capability {name}){why}',
            errors.Place(self._address))

    def _note(self, name: str, verdict: Verdict) -> None:
        with self._lock:
            self._verdicts[name] = verdict
            self._store.save(self._version, self._verdicts)
