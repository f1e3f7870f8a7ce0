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

"""Capability verdicts on an array, stored in a file for the next start.

The file may be lost or damaged at any time: the verdicts are then learned
again.
"""

import dataclasses
import fcntl
import json
import logging
import math
import os
import pathlib
import re
import tempfile
from typing import Any

LOG = logging.getLogger(__name__)

UNKNOWN = 'unknown'
WORKS = 'works'
REFUSED = 'refused'
DISABLED = 'disabled'


@dataclasses.dataclass(frozen=True)
class Verdict:
    """Whether an array has a capability.

    :ivar state: UNKNOWN, WORKS, REFUSED, or DISABLED by the operator
    :ivar words: the array's text when it refused
    :ivar time: when that was found out, in seconds since the epoch
    """

    state: str = UNKNOWN
    words: str = ''
    time: float = 0.0


class Memory:
    """Stores verdicts as long as the process lives."""

    def __init__(self) -> None:
        self._version = ''
        self._verdicts: dict[str, Verdict] = {}

    def load(self) -> tuple[str, dict[str, Verdict]]:
        """The version of the array that was seen last, and the verdicts."""
        return self._version, dict(self._verdicts)

    def save(self, version: str, verdicts: dict[str, Verdict]) -> None:
        """Store the version of the array and the verdicts."""
        self._version, self._verdicts = version, dict(verdicts)


class File:
    """Stores the verdicts on one array in a file of a directory.

    The services of a machine that use the same array share the file. It is
    replaced as a whole, under a lock.

    :param directory: created if missing
    :param address: management address of the array
    """

    def __init__(self, directory: str, address: str) -> None:
        name = re.sub(r'[^0-9A-Za-z.-]', '_', address)
        self.path = pathlib.Path(directory) / f'{name}.json'

    def load(self) -> tuple[str, dict[str, Verdict]]:
        """The version of the array that was seen last, and the verdicts."""
        try:
            found = json.loads(self.path.read_text())
            return str(found['version']), {
                str(key): _parse(value)
                for key, value in found['verdicts'].items()}
        except FileNotFoundError:
            pass
        except (OSError, ValueError, TypeError, KeyError, AttributeError,
                RecursionError) as error:
            LOG.warning('%(path)s cannot be read and is ignored: %(error)s',
                        {'path': self.path, 'error': error})
        return '', {}

    def save(self, version: str, verdicts: dict[str, Verdict]) -> None:
        """Write the verdicts, merged with those of other processes.

        Of two verdicts on one capability, for one version of the array, the
        newer is kept.

        Nothing is written while another process writes: missing verdicts are
        written with the next one, or learned again.
        """
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with open(self.path.with_suffix('.lock'), 'w') as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                known_version, known = self.load()
                if known_version == version:
                    verdicts = {name: max(
                        (kept[name] for kept in (known, verdicts)
                         if name in kept), key=lambda each: each.time)
                        for name in {*known, *verdicts}}
                self._replace(version, verdicts)
        except OSError as error:
            LOG.debug('%(path)s was not written: %(error)s',
                      {'path': self.path, 'error': error})

    def _replace(self, version: str, verdicts: dict[str, Verdict]) -> None:
        text = json.dumps({'version': version, 'verdicts': {
            key: dataclasses.asdict(verdict)
            for key, verdict in sorted(verdicts.items())}}, indent=1)
        handle, temporary = tempfile.mkstemp(
            dir=self.path.parent, prefix=f'.{self.path.name}.')
        try:
            with open(handle, 'w') as file:
                file.write(text + '\n')
            os.replace(temporary, self.path)
        except OSError:
            os.unlink(temporary)
            raise


def _parse(value: dict[str, Any]) -> Verdict:
    verdict = Verdict(str(value['state']), str(value['words']),
                      float(value['time']))
    if verdict.state not in (WORKS, REFUSED) or not math.isfinite(
            verdict.time):
        raise ValueError(f'no verdict: {value}')
    return verdict
