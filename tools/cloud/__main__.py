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

"""The command behind `make cloud`: python -m tools.cloud."""

import os
import pathlib
import shlex
import signal
import sys
import time
from typing import Any

from cinderclient import exceptions as cinder_exceptions
from keystoneauth1 import exceptions as keystone_exceptions
import requests

from tools.cloud import array
from tools.cloud import children
from tools.cloud import client
from tools.cloud import compare
from tools.cloud import console
from tools.cloud import disaster
from tools.cloud import errors
from tools.cloud import scenario
from tools.cloud import settings
from tools.cloud import stack
from tools.cloud import state
from tools import signals

WATCH_SECONDS = 0.5
API_ERRORS = (cinder_exceptions.ClientException,
              keystone_exceptions.ClientException,
              requests.RequestException)


def head(title: str) -> None:
    """Print the heading of a section."""
    console.say(f'\n{title}')


def volumes_of(cinder: Any) -> list[compare.Volume]:
    """Return Cinder's volumes; types without our extra spec deduplicate."""
    nodedup = {
        kind.name for kind in cinder.volume_types.list()
        if scenario.NODEDUP.items() <= kind.extra_specs.items()}
    return [compare.Volume(
        volume.id, volume.name, volume.size,
        volume.volume_type not in nodedup,
        frozenset(item['host_name'] for item in volume.attachments))
        for volume in reversed(cinder.volumes.list())]


def snapshots_of(cinder: Any) -> list[compare.Snapshot]:
    """Return Cinder's snapshots."""
    return [compare.Snapshot(item.id, item.name, item.size, item.volume_id)
            for item in reversed(cinder.volume_snapshots.list())]


def compare_both(cinder: Any, reader: array.Array) -> None:
    """Print the table that compares Cinder with the array.

    :raises CloudError: they differ
    """
    rows = compare.compare(
        volumes_of(cinder), snapshots_of(cinder),
        compare.ArrayState(reader.objects(), scenario.CONNECTORS.values()))
    for line in compare.report(rows):
        console.say(f'  {line}')
    verdict = compare.verdict(rows)
    console.say(f'  {verdict}')
    if any(row.problems for row in rows):
        raise errors.CloudError(verdict)


def check_empty(reader: array.Array) -> None:
    """Check that nothing of Cinder's is left on the array.

    :raises CloudError: something is left; the text says what
    """
    with console.step(f'the array at {reader.url} is empty again'):
        left = reader.leftovers()
        if left:
            names = '; '.join(
                f'{resource}: '
                + ', '.join(str(item.get('name', item['id']))
                            for item in objects)
                for resource, objects in left.items())
            raise errors.CloudError(f'left on the array: {names}')


def hints(run: settings.Settings) -> list[str]:
    """Return commands to paste into another terminal."""
    site = run.primary
    bin_dir, ca_file, password_file, control_file, log_dir = (
        shlex.quote(str(path)) for path in (
            os.path.join(sys.prefix, 'bin'), run.ca_file, run.password_file,
            site.control_file, run.log_dir))
    curl = f'curl -s --cacert {ca_file} -H Content-Type:application/json'
    return [
        '# the cinder client, without keystone',
        f'export PATH={bin_dir}:"$PATH" PYTHONWARNINGS=ignore',
        'export no_proxy=127.0.0.1,"$no_proxy"',
        f'export OS_AUTH_TYPE=noauth OS_USER_ID={settings.USER_ID} '
        f'OS_PROJECT_ID={settings.PROJECT_ID}',
        f'export CINDER_ENDPOINT={run.cinder_url} '
        f'OS_VOLUME_API_VERSION={client.API_VERSION}',
        'cinder list',
        'cinder create --volume-type k2-iscsi --name mine 1',
        '# the array, behind Cinder\'s back, with curl; the last one makes it'
        ' busy',
        f'k2() {{ {curl} -u {settings.LOGIN}:"$(cat {password_file})" '
        f'{site.url}/api/v2"$@"; }}',
        f'sim() {{ {curl} '
        f'-u {settings.CONTROL_LOGIN}:"$(cat {control_file})" '
        f'{site.url}/sim/v1"$@"; }}',
        "k2 '/volumes?__pretty&__fields=id,name,size,is_dedup'",
        'sim /journal | python3 -m json.tool | tail -n 24',
        'sim /faults -d '
        '\'{"kind": "busy", "method": "POST", "times": 3}\'',
        '# what they log',
        f'tail -f {log_dir}/*.log']


def stay(started: list[children.Child]) -> None:
    """Monitor the programs until interrupted.

    :raises CloudError: one of them ended by itself
    """
    while True:
        for child in started:
            child.check()
        time.sleep(WATCH_SECONDS)


def stand_up(run: settings.Settings,
             started: list[children.Child]) -> None:
    """Start everything, run the main workflow, compare, stay or clean up."""
    begin = time.monotonic()
    head(f'Starting, in {run.state}')
    readers = stack.start_arrays(run, started)
    watcher = stack.start_cinder(run, started)
    head('Volume types')
    scenario.make_types(watcher.cinder)
    suffix = time.strftime('-%H%M%S') if run.keep else ''
    for backend in settings.BACKENDS:
        head(f'The main workflow on {backend}')
        scenario.Job(watcher, backend, suffix).run()
    head('Comparison of Cinder and the array')
    compare_both(watcher.cinder, readers[0])
    if run.secondary:
        head('Loss of the primary array, and failback')
        disaster.Disaster(run, started, watcher, readers, suffix).run()
    if run.check:
        head('Removing everything')
        scenario.remove_all(watcher)
        for reader in readers:
            check_empty(reader)
        head(f'OK, checked in {time.monotonic() - begin:.0f} s')
        return
    head(f'The cloud is up, after {time.monotonic() - begin:.0f} s. '
         'To look around, from another terminal:')
    for line in hints(run):
        console.say(f'  {line}')
    head('Ctrl-C stops it.')
    stay(started)


def run_cloud(run: settings.Settings) -> int:
    """Lock the state directory, run the cloud in it, and stop everything.

    :returns: the exit status
    :raises CloudError: a step failed
    """
    started: list[children.Child] = []
    with state.locked(run.state):
        stack.check_ports(run)
        state.prepare(run)
        with children.stopping(started):
            try:
                stand_up(run, started)
            except API_ERRORS as error:
                log = run.log_dir / 'cinder.log'
                raise errors.CloudError(
                    f'{error}\n  {log} has:\n'
                    + errors.tail(log, about=' ERROR ')) from error
            except KeyboardInterrupt:
                head('Stopping.')
                # A check that is interrupted has not passed.
                return 1 if run.check else 0
    return 0


def main() -> int:
    """Run `make cloud` and return its exit status."""
    signals.interrupt_on(signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    root = pathlib.Path(__file__).resolve().parents[2]
    try:
        return run_cloud(settings.parse(sys.argv[1:], os.environ, root))
    except errors.CloudError as error:
        print(f'\nmake cloud: {error}', file=sys.stderr)
        return 1


if __name__ == '__main__':
    sys.exit(main())
