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
"""Start an OpenStack with block storage and images only.

The database, the broker, keystone, glance, Cinder's API and scheduler and two
simulated arrays run on this machine; cinder-volume and cinder-backup, which
attach volumes, run in a guest.
"""

from collections.abc import Mapping
import concurrent.futures
import os
import sys
import time

from cinderclient import client as cinder_client
import requests

from tools.cloud import array
from tools.cloud import children
from tools.cloud import console
from tools.releases import features
from tools import run_tests
from tools.tempest import files
from tools.tempest import identity
from tools.tempest import layout
from tools.tempest import programs
from tools.tempest import servers
from tools.tempest import volume_host

DATABASES = ('keystone', 'glance', 'cinder')
# Timeouts in seconds, for a busy machine.
READY, SCHEMA, REQUEST, EMPTY = 240.0, 600.0, 10.0, 60.0
# It also holds the files that the services in the guest write.
GUEST_MEMORY = '6G'
BIN = f'{sys.prefix}/bin'
_API_VERSION = '3.71'
# Binaries and hosts of the services; each back end has its own.
_UP = {('cinder-scheduler', 'cloud'), ('cinder-backup', 'cloud'), *(
    ('cinder-volume', f'cloud@{one.name}') for one in layout.ARRAYS)}


def start(run: layout.Layout, seconds: float, debug: bool,
          started: list[children.Child]) -> None:
    """Start everything.

    :param seconds: time limit of the guest
    :param debug: whether to enable debug logs of Cinder
    :param started: the started programs are added to this, in order
    :raises CloudError: something does not start
    """
    with console.step('database and broker (MariaDB, RabbitMQ)'):
        servers.start_broker(run, started)
        broker = started[-1]
        servers.start_database(run, DATABASES, started)
        servers.wait_for_broker(broker)
    with console.step('two simulated arrays'):
        _start_arrays(run, started)
    files.write(run, debug)
    with console.step('schemas of the databases'):
        _make_schemas(run)
    with console.step('keystone') as step:
        _serve('keystone', layout.KEYSTONE, started, run, {
            'OS_KEYSTONE_CONFIG_FILES': str(run.keystone_conf)})
        identity.set_up(run)
        step.note = layout.url(layout.KEYSTONE)
    with console.step('glance, Cinder'):
        _start_services(run, seconds, started)
    with console.step('cinder-volume and cinder-backup, in a guest'):
        wait_for_cinder(run, started[-1])


def environment(**more: str) -> dict[str, str]:
    """Return the environment of a service."""
    return {**os.environ, 'PYTHONWARNINGS': 'ignore',
            'PYTHONUNBUFFERED': '1', **more}


def _start_arrays(run: layout.Layout, started: list[children.Child]) -> None:
    """Start the arrays, which are each other's peers."""
    for one, peer in zip(layout.ARRAYS, reversed(layout.ARRAYS)):
        child = children.Child(one.name, [
            f'{BIN}/k2-sim', '--name', one.name,
            '--listen', one.address, '--profile', 'sdp',
            '--state-dir', str(run.array_state(one)),
            '--behavior', 'clones_movable=true',
            '--behavior', 'grow_suspended=true',
            '--data-plane', 'tgt', '--require-data-plane',
            *(f'--portal={portal}' for portal in one.portals),
            '--login', layout.ADMIN,
            '--password-file', str(run.password_file),
            # A generated password would be in the log.
            '--control-password-file', str(run.password_file),
            '--peer', f'{peer.name}={peer.address}',
            '--peer-login', layout.ADMIN,
            '--peer-password-file', str(run.password_file),
            '--peer-ca', str(run.authority(peer))],
            run.logs / f'{one.name}.log', environment(), run_tests.ROOT)
        started.append(child)
        child.wait_ready(lambda: run.authority(one).exists()
                         and servers.listens(one.port), READY)
    run.authorities.write_text(''.join(
        run.authority(one).read_text() for one in layout.ARRAYS))


def _make_schemas(run: layout.Layout) -> None:
    """Create the tables of all services, in parallel."""
    keystone = [f'{BIN}/keystone-manage', '--config-file',
                str(run.keystone_conf)]
    owner = ['--keystone-user', 'root', '--keystone-group', 'root']
    place = layout.url(layout.KEYSTONE, '/v3/')
    orders = [
        [[*keystone, 'db_sync'], [*keystone, 'fernet_setup', *owner],
         [*keystone, 'credential_setup', *owner],
         [*keystone, 'bootstrap', '--bootstrap-region-id', layout.REGION,
          *(f'--bootstrap-{kind}-url={place}'
            for kind in ('admin', 'internal', 'public'))]],
        [[f'{BIN}/glance-manage', '--config-file', str(run.glance_conf),
          'db_sync']],
        [[f'{BIN}/cinder-manage', '--config-file', str(run.cinder_conf),
          'db', 'sync']]]
    variables = environment(OS_BOOTSTRAP_PASSWORD=run.secret)
    with concurrent.futures.ThreadPoolExecutor() as pool:
        for future in [
                pool.submit(programs.run_all, commands, SCHEMA, variables)
                for commands in orders]:
            future.result()


def _serve(name: str, port: int, started: list[children.Child],
           run: layout.Layout, variables: Mapping[str, str]) -> None:
    """Start an API, and wait until it answers."""
    child = children.Child(name, [
        sys.executable, '-m', 'gunicorn', '--threads=8', '--timeout=600',
        '--graceful-timeout=5',
        *(['--no-control-socket'] if features.has_control_socket() else []),
        f'--bind={layout.HOST}:{port}', f'tools.tempest.wsgi:{name}()'],
        run.logs / f'{name}.log', environment(**variables), run_tests.ROOT)
    started.append(child)
    child.wait_ready(lambda: _answers(port), READY)


def _answers(port: int) -> bool:
    """Return whether an API lists its versions."""
    try:
        reply = requests.get(layout.url(port), timeout=REQUEST)
    except requests.RequestException:
        return False
    return 'versions' in reply.text


def _start_services(run: layout.Layout, seconds: float,
                    started: list[children.Child]) -> None:
    """Start the services that need keystone, and begin to boot the guest."""
    for name, command in {
            'neutron': [sys.executable, '-m', 'tools.tempest.neutron'],
            'cinder-scheduler': [f'{BIN}/cinder-scheduler', '--config-file',
                                 str(run.cinder_conf)]}.items():
        started.append(children.Child(name, command, run.logs / f'{name}.log',
                                      environment(), run_tests.ROOT))
    _serve('glance', layout.GLANCE, started, run,
           {'OS_GLANCE_CONFIG_DIR': str(run.etc)})
    _serve('cinder', layout.CINDER, started, run, {
        'CINDER_CONF': str(run.cinder_conf),
        'OS_CINDER_DISABLE_EVENTLET_PATCHING': 'true'})
    # Started last, so that it is stopped first.
    started.append(children.Child('guest', [
        sys.executable, '-m', 'tools.guest', f'--seconds={seconds:.0f}',
        f'--memory={GUEST_MEMORY}', f'--tap={layout.TAP}',
        f'--out={run.logs / "guest"}', '--',
        sys.executable, '-m', volume_host.__name__, str(run.cinder_conf)],
        run.logs / 'guest.log', environment(), run_tests.ROOT))


def wait_for_cinder(run: layout.Layout, guest: children.Child) -> None:
    """Wait until all of Cinder's services are up.

    :raises CloudError: they are not up in time, or the guest has ended
    """
    cinder = cinder_client.Client(_API_VERSION, session=identity.session(run))

    def all_up() -> bool:
        return _UP <= {(service.binary, service.host)
                       for service in cinder.services.list()
                       if service.state == 'up'} and len(
                           cinder.pools.list()) == len(layout.ARRAYS)

    guest.wait_ready(all_up, READY)


def leftovers(run: layout.Layout) -> dict[str, dict[str, array.Objects]]:
    """Return what is left on the arrays once all deletions have ended.

    :returns: objects by resource, of each array that has some
    """
    readers = {one.name: array.Array(
        f'https://{one.address}', str(run.authority(one)), run.secret,
        run.password_file) for one in layout.ARRAYS}
    deadline = time.monotonic() + EMPTY
    while True:
        found = {name: left for name, reader in readers.items()
                 if (left := reader.leftovers())}
        if not found or time.monotonic() > deadline:
            return found
        time.sleep(1)


def stop_guest(run: layout.Layout, guest: children.Child) -> None:
    """Stop the services in the guest, so that their logs are complete."""
    (run.logs / 'guest' / volume_host.STOP).touch()
    deadline = time.monotonic() + 2 * volume_host.STOP_SECONDS
    while guest.is_running() and time.monotonic() < deadline:
        time.sleep(0.2)
