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
"""The database and the broker, from Debian's packages."""

from collections.abc import Sequence
import glob
import os
import socket
import subprocess  # nosec B404

import pymysql

from tools.cloud import children
from tools.cloud import errors
from tools.tempest import layout

#: The package of Debian that each of their programs is in.
PROGRAMS = {'mariadbd': 'mariadb-server', 'ip': 'iproute2'}
FILES = {'/usr/lib/rabbitmq/bin/rabbitmq-server': 'rabbitmq-server',
         '/usr/lib/erlang/erts-*/bin/epmd': 'erlang-base'}
SECONDS = 120.0
_RABBIT = """\
listeners.tcp.1 = {host}:{port}
default_user = openstack
default_pass = {secret}
loopback_users = none
vm_memory_high_watermark.absolute = 512MB
disk_free_limit.absolute = 50MB
"""


def start_database(run: layout.Layout, services: Sequence[str],
                   started: list[children.Child]) -> None:
    """Start MariaDB with a database and a user for each service.

    :raises CloudError: it does not start
    """
    place = run.state / 'mariadb'
    made = subprocess.run(  # nosec B603 B607
        ['mariadb-install-db', '--no-defaults', '--user=root',
         f'--datadir={place}', '--skip-test-db',
         '--auth-root-authentication-method=normal'],
        capture_output=True, text=True, timeout=SECONDS)
    if made.returncode:
        raise errors.CloudError(f'mariadb-install-db: {made.stderr}')
    control = place / 'socket'
    child = children.Child('mariadb', [
        'mariadbd', '--no-defaults', '--user=root', f'--datadir={place}',
        f'--bind-address={layout.HOST}', f'--port={layout.DATABASE}',
        f'--socket={control}', '--max-connections=500', '--skip-log-bin',
        '--skip-name-resolve', '--innodb-flush-log-at-trx-commit=0'],
        run.logs / 'mariadb.log', os.environ, run.state)
    started.append(child)
    child.wait_ready(control.exists, SECONDS)
    with pymysql.connect(unix_socket=str(control), user='root',
                         read_timeout=SECONDS) as connection:
        with connection.cursor() as cursor:
            for name in services:
                cursor.execute(f'CREATE DATABASE {name} CHARACTER SET utf8')
                cursor.execute(f"GRANT ALL ON {name}.* TO '{name}'@'%%'"
                               ' IDENTIFIED BY %s', [run.secret])


def start_broker(run: layout.Layout, started: list[children.Child]) -> None:
    """Start RabbitMQ; wait_for_broker() waits for it.

    Erlang's port mapper is started here, so that it can be stopped, too.
    """
    place = run.state / 'rabbitmq'
    place.mkdir()
    (place / 'plugins').write_text('[].')
    (place / 'rabbitmq.conf').write_text(_RABBIT.format(
        host=layout.HOST, port=layout.BROKER, secret=run.secret))
    environment = {
        **os.environ, 'HOME': str(place), 'RABBITMQ_NODENAME': 'k2@localhost',
        'RABBITMQ_MNESIA_BASE': str(place / 'mnesia'),
        'RABBITMQ_LOG_BASE': str(place / 'log'), 'RABBITMQ_LOGS': '-',
        'RABBITMQ_PID_FILE': str(place / 'pid'),
        'RABBITMQ_CONFIG_FILE': str(place / 'rabbitmq'),
        'RABBITMQ_ENABLED_PLUGINS_FILE': str(place / 'plugins'),
        # Otherwise it uses a whole CPU while idle.
        'RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS':
            '+sbwt none +sbwtdcpu none +sbwtdio none'}
    mapper = glob.glob('/usr/lib/erlang/erts-*/bin/epmd')[0]
    started.append(children.Child(
        'epmd', [mapper, '-address', '127.0.0.1'], run.logs / 'epmd.log',
        os.environ, run.state))
    started.append(children.Child(
        'rabbitmq', ['/usr/lib/rabbitmq/bin/rabbitmq-server'],
        run.logs / 'rabbitmq.log', environment, run.state))


def wait_for_broker(broker: children.Child) -> None:
    """Wait until it listens.

    :raises CloudError: it ended, or does not listen in time
    """
    broker.wait_ready(lambda: listens(layout.BROKER), SECONDS)


def listens(port: int) -> bool:
    """Return whether something listens on a port of the host."""
    try:
        socket.create_connection((layout.HOST, port), 5).close()
    except OSError:
        return False
    return True
