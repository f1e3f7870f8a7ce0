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

"""The two programs of the cloud: the simulated array and Cinder."""

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


def environment() -> dict[str, str]:
    """Return our environment with what the programs need added."""
    return {**os.environ,
            'PATH': f'{sys.prefix}/bin:{os.environ.get("PATH", "")}',
            'PYTHONUNBUFFERED': '1',
            # Cinder still imports eventlet, which warns at every start.
            'PYTHONWARNINGS': 'ignore',
            'OS_CINDER_DISABLE_EVENTLET_PATCHING': 'true'}


def check_ports(run: settings.Settings) -> None:
    """Make sure that both ports are ours to listen on.

    :raises CloudError: one is not
    """
    if run.cinder_port == run.sim_port:
        raise errors.CloudError(
            f'PORT and SIM_PORT are both {run.sim_port}: they must differ.')
    children.check_port(run.cinder_port, 'PORT')
    children.check_port(run.sim_port, 'SIM_PORT')


def start_array(run: settings.Settings,
                started: list[children.Child]) -> array.Array:
    """Start k2-sim and wait until it answers over verified TLS."""
    with console.step(f'simulated array (k2-sim), profile {PROFILE}, '
                      'HTTPS') as line:
        line.note = run.sim_url
        child = children.Child(
            'k2-sim',
            [f'{sys.prefix}/bin/k2-sim', '--listen',
             f'{settings.HOST}:{run.sim_port}',
             '--state-dir', str(run.sim_state), '--profile', PROFILE,
             '--login', settings.LOGIN,
             '--password-file', str(run.password_file)],
            run.log_dir / 'k2-sim.log', environment(), run.root)
        started.append(child)
        password = state.password(run)
        reader = array.Array(run.sim_url, str(run.ca_file), password)
        child.wait_ready(
            lambda: run.ca_file.exists() and reader.answers(), SIM_SECONDS)
    return reader


def api_answers(run: settings.Settings) -> bool:
    """Tell whether the volume API lists its versions."""
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
