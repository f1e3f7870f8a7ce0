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

"""The second service of a cluster, in its own process.

It shares the database and the locks of the measuring process, which therefore
keep the two apart as they do on two machines.
"""

from concurrent import futures
import json
import subprocess  # nosec
import sys
from typing import Any

from tests.functional import cinder_env

# Seconds in which the process must end after its input is closed.
_SECONDS = 30.0


class Peer:
    """A driver in another process, with the same options.

    :param path: import path of the driver's class
    :param section: of cinder.conf
    :param options: those of the section
    """

    def __init__(self, path: str, section: str, options: dict[str, Any]
                 ) -> None:
        order = json.dumps([cinder_env.cinder().state, path, section, options])
        self._process = subprocess.Popen(  # nosec
            [sys.executable, '-W', 'ignore', '-m', 'benchmarks.peer', order],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        try:
            self._wait('loaded')
        except RuntimeError:
            self.stop()
            raise

    def prepare(self, pairs: list[tuple[str, Any]], host: dict[str, Any],
                at_once: int) -> None:
        """Let the process read the rows for its operations.

        :param pairs: names of methods of the driver, and volumes
        :param host: the connector of all of them
        :param at_once: how many operations run at the same time
        """
        self._send([[[name, row.id] for name, row in pairs], host, at_once])
        self._wait('ready')

    def begin(self) -> None:
        """Start the prepared operations."""
        self._send('begin')

    def end(self) -> None:
        """Wait until the operations are finished."""
        self._wait('done')

    def stop(self) -> None:
        """End the process."""
        try:
            self._process.communicate(timeout=_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.communicate()

    def _send(self, order: Any) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(order) + '\n')
        self._process.stdin.flush()

    def _wait(self, word: str) -> None:
        """Wait until the process writes a word.

        :raises RuntimeError: the process has ended, with its error on stderr
        """
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if line != f'{word}\n':
            raise RuntimeError(f'The second service said {line!r}, and not '
                               f'{word!r}.')


def _serve(state: str, path: str, section: str, options: dict[str, Any]
           ) -> None:
    """Run the operations that the other process sends, until it stops."""
    # Each process has its own file of options.
    cinder_env.join(state, f'second-{section}')
    # When imported, it determines where Cinder's files are.
    from benchmarks import drivers
    from cinder import objects
    driver = drivers.load(path, section, **options)
    print('loaded', flush=True)
    for line in sys.stdin:
        pairs, host, at_once = json.loads(line)
        rows = [(getattr(driver, name), objects.Volume.get_by_id(
            drivers.context(), volume)) for name, volume in pairs]
        with futures.ThreadPoolExecutor(at_once) as pool:
            print('ready', flush=True)
            if not sys.stdin.readline():
                return
            for _ in pool.map(lambda pair: pair[0](pair[1], host), rows):
                pass
        print('done', flush=True)


if __name__ == '__main__':
    _serve(*json.loads(sys.argv[1]))
