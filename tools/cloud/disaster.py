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
"""The loss of an array: failover to its replication target, and failback."""

from typing import Any

from tools.cloud import array
from tools.cloud import children
from tools.cloud import client
from tools.cloud import console
from tools.cloud import errors
from tools.cloud import scenario
from tools.cloud import settings
from tools.cloud import stack

BACKEND = 'k2-iscsi'
KIND = f'{BACKEND}-replicated'
SPECS = {'kaminario:replication': 'enabled',
         'replication_enabled': '<is> True', 'volume_backend_name': BACKEND}
# From cinder.conf; the maximum duration of a round of replication.
RPO = 60
BINARY = 'cinder-volume'
BACK_SECONDS = 120.0
# The offsets at which a volume of 1 GiB is written, and the bytes at each.
PLACES = (0, 2 ** 30 - 2 ** 20)
LENGTH = 2 ** 20


class Disaster:
    """Kills the primary array under an attached volume.

    :param started: the running programs; a new array is added to them
    :param readers: the primary array and the secondary one
    """

    def __init__(self, run: settings.Settings,
                 started: list[children.Child], watcher: client.Watcher,
                 readers: list[array.Array], suffix: str) -> None:
        self._run = run
        self._started = started
        self._watcher = watcher
        self._cinder = watcher.cinder
        self._primary, self._secondary = readers
        self._job = scenario.Job(watcher, BACKEND, suffix)

    def run(self) -> None:
        """Run all steps once; the volume is kept for the table."""
        self._make_type()
        volume = self._job.create('mirrored', 'create, replicated', size=1,
                                  volume_type=KIND)
        attachment = self._job.attach(volume)
        self._write(self._primary, volume, 'written before')
        self._let_copy()
        self._kill()
        self._fail_over(volume, settings.TARGET, 'failed-over')
        self._check(self._secondary, volume, 'written before')
        scenario.detach(self._watcher, volume, attachment)
        attachment = self._job.attach(volume)
        self._write(self._secondary, volume, 'written after')
        stack.start_array(self._run, self._run.primary, self._started)
        self._fail_over(volume, 'default', 'enabled')
        self._check(self._primary, volume, 'written after')
        scenario.detach(self._watcher, volume, attachment)
        self._job.attach(volume)

    def _make_type(self) -> None:
        with console.step(f'type {KIND}') as line:
            if KIND in {kind.name for kind
                        in self._cinder.volume_types.list()}:
                line.note = 'kept from an earlier run'
                return
            self._cinder.volume_types.create(KIND).set_keys(SPECS)

    def _let_copy(self) -> None:
        """Advance the clocks of both arrays by more than the RPO."""
        with console.step(f'{RPO} seconds pass on the arrays'):
            for reader in (self._primary, self._secondary):
                reader.post('/sim/v1/clock', advance=RPO + 1)

    def _kill(self) -> None:
        with console.step(f'kill -9 of {self._run.primary.name}'):
            victim = next(child for child in self._started
                          if child.name == self._run.primary.name)
            self._started.remove(victim)
            victim.kill()

    def _fail_over(self, volume: Any, target: str, status: str) -> None:
        """Call "cinder failover-host", wait, and check that a volume moved.

        :raises CloudError: the service or the volume has another status
        """
        host = f'k2cloud@{BACKEND}'
        with console.step(f'cinder failover-host {host} --backend_id '
                          f'{target}') as line:
            self._cinder.services.failover_host(host, target)
            client.poll(f'{host} becoming {status}',
                        lambda: self._service_is(host, status), BACK_SECONDS)
            now = self._cinder.volumes.get(volume.id)
            if now.replication_status != status:
                raise self._watcher.failed(
                    now, f'has replication_status {now.replication_status}')
            line.note = f'replication_status {status}'

    def _service_is(self, host: str, status: str) -> bool:
        """Return whether the service has the status.

        :raises CloudError: it has failed
        """
        service, = self._cinder.services.list(host, BINARY)
        if service.replication_status.endswith('error'):
            raise errors.CloudError(
                f'{host} is in {service.replication_status}; see '
                f'{self._run.log_dir / "cinder.log"}')
        return bool(service.replication_status == status)

    def _write(self, reader: array.Array, volume: Any, text: str) -> None:
        with console.step(f'{volume.name}: write "{text}" on {reader.url}'):
            number = _id(reader, volume)
            for offset in PLACES:
                reader.write(number, offset, _pattern(text))

    def _check(self, reader: array.Array, volume: Any, text: str) -> None:
        """Check that an array has the data.

        :raises CloudError: it does not
        """
        with console.step(f'{volume.name}: read "{text}" on {reader.url}'):
            number = _id(reader, volume)
            for offset in PLACES:
                found = reader.read(number, offset, LENGTH)
                if found != _pattern(text):
                    raise errors.CloudError(
                        f'{volume.name} does not hold "{text}" on '
                        f'{reader.url} at byte {offset}, but {found[:30]!r}')


def _pattern(text: str) -> bytes:
    """Return a text, repeated as often as it fits."""
    return (text.encode() * LENGTH)[:LENGTH]


def _id(reader: array.Array, volume: Any) -> int:
    """Return the array's id of a volume, by either of its names."""
    for name in (f'cv-{volume.id}', f'rcv-{volume.id}'):
        for found in reader.get(f'/api/v2/volumes?name={name}')['hits']:
            return int(found['id'])
    raise errors.CloudError(f'{reader.url} has no volume {volume.name}.')
