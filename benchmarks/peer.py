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

# Seconds in which it ends when it is told to.
_SECONDS = 30.0


class Peer:
    """A driver in another process, with the same options.

    :param path: of the driver's class
    :param options: of its section
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
        """Let it read the rows of what it is going to do.

        :param pairs: names of methods of the driver, and volumes
        :param host: the connector of all of them
        :param at_once: how many operations run at the same time
        """
        self._send([[[name, row.id] for name, row in pairs], host, at_once])
        self._wait('ready')

    def begin(self) -> None:
        """Let it do what it has prepared."""
        self._send('begin')

    def end(self) -> None:
        """Wait until it has done it."""
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
        """Wait until it says this.

        :raises RuntimeError: it has ended, with its error on stderr
        """
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if line != f'{word}\n':
            raise RuntimeError(f'The second service said {line!r}, and not '
                               f'{word!r}.')


def _serve(state: str, path: str, section: str, options: dict[str, Any]
           ) -> None:
    """Do what the other process says, until it closes its end."""
    # Each has a file of options of its own.
    cinder_env.join(state, f'second-{section}')
    # It reads where Cinder is at import.
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
