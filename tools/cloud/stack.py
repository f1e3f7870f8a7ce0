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

"""The programs of the cloud: one or two simulated arrays, and Cinder."""

import os
import sys

import requests

from tools.cloud import array
from tools.cloud import children
from tools.cloud import client
from tools.cloud import console
from tools.cloud import errors
from tools.cloud import settings
from tools.cloud import state

SIM_SECONDS = 30.0
CINDER_SECONDS = 60.0
REQUEST_SECONDS = 5
PROFILE = 'sdp'
# Addresses of the second array; the first one has the defaults of k2-sim.
PORTALS = ('203.0.113.11', '203.0.113.12')


def environment() -> dict[str, str]:
    """Return our environment, extended with what the programs need."""
    return {**os.environ,
            'PATH': f'{sys.prefix}/bin:{os.environ.get("PATH", "")}',
            'PYTHONUNBUFFERED': '1',
            # Cinder still imports eventlet, which warns at every start.
            'PYTHONWARNINGS': 'ignore',
            'OS_CINDER_DISABLE_EVENTLET_PATCHING': 'true'}


def check_ports(run: settings.Settings) -> None:
    """Check that all ports are free, and different.

    :raises CloudError: one is in use, or two are the same
    """
    ports = {'PORT': run.cinder_port, 'SIM_PORT': run.sim_port}
    if run.second_port is not None:
        ports['SECOND_PORT'] = run.second_port
    for port in ports.values():
        same = [name for name, other in ports.items() if other == port]
        if len(same) > 1:
            raise errors.CloudError(f'{" and ".join(same)} are both {port}: '
                                    'they must differ.')
    for name, port in ports.items():
        children.check_port(port, name)


def start_arrays(run: settings.Settings, started: list[children.Child]
                 ) -> list[array.Array]:
    """Start the arrays, and write their CA certificates to one file.

    :raises CloudError: an array does not start
    """
    readers = [start_array(run, site, started)[1] for site in run.sites]
    run.ca_file.write_text(''.join(site.ca_file.read_text()
                                   for site in run.sites))
    return readers


def start_array(run: settings.Settings, site: settings.Site,
                started: list[children.Child]
                ) -> tuple[children.Child, array.Array]:
    """Start k2-sim and wait until it answers over verified TLS.

    :raises CloudError: it does not start
    """
    with console.step(f'simulated array {site.name} (k2-sim), profile '
                      f'{PROFILE}, HTTPS') as line:
        line.note = site.url
        child = children.Child(
            site.name, [f'{sys.prefix}/bin/k2-sim', *arguments(run, site)],
            run.log_dir / f'{site.name}.log', environment(), run.root)
        started.append(child)
        reader = array.Array(site.url, str(site.ca_file),
                             state.password(run), site.control_file)
        child.wait_ready(
            lambda: site.ca_file.exists() and reader.answers(), SIM_SECONDS)
    return child, reader


def arguments(run: settings.Settings, site: settings.Site) -> list[str]:
    """Return the arguments of k2-sim; the arrays are each other's peers."""
    found = ['--name', site.name, '--listen', site.host,
             '--state-dir', str(site.state), '--profile', PROFILE,
             '--behavior', 'clones_movable=true',
             '--behavior', 'grow_suspended=true',
             '--login', settings.LOGIN,
             '--password-file', str(run.password_file)]
    if site == run.secondary:
        for portal in PORTALS:
            found += ['--portal', portal]
    for other in run.sites:
        if other != site:
            found += ['--peer', f'{other.name}={other.host}',
                      '--peer-login', settings.LOGIN,
                      '--peer-password-file', str(run.password_file),
                      '--peer-ca', str(other.ca_file)]
    return found


def api_answers(run: settings.Settings) -> bool:
    """Return whether the volume API lists its versions."""
    try:
        reply = requests.get(f'http://{settings.HOST}:{run.cinder_port}/',
                             timeout=REQUEST_SECONDS)
    except requests.ConnectionError:
        return False
    return 'versions' in reply.text


def start_cinder(run: settings.Settings,
                 started: list[children.Child]) -> client.Watcher:
    """Start Cinder and wait until its scheduler knows both back ends."""
    log = run.log_dir / 'cinder.log'
    cinder = client.connect(run.cinder_url)
    with console.step('Cinder: database, API, scheduler, '
                      'cinder-volume') as line:
        line.note = run.cinder_url
        child = children.Child(
            'cinder',
            [sys.executable, '-m', 'tools.cloud.cinder_service',
             '--config-file', str(run.cinder_conf)],
            log, environment(), run.root)
        started.append(child)
        child.wait_ready(lambda: api_answers(run), CINDER_SECONDS)
    with console.step('back ends ' + ' and '.join(settings.BACKENDS)):
        child.wait_ready(
            lambda: len(cinder.pools.list()) >= len(settings.BACKENDS),
            CINDER_SECONDS)
    return client.Watcher(cinder, log)
