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

"""Builds the Debian package in the tree, and tries it there.

    python -m tools.packages.trial SOURCE

Not to be run by hand: tools/packages/deb.py starts it in separate namespaces,
with the name of the source tree. Mounts, network and processes end with it.

Debian's init scripts start cinder-api, cinder-scheduler and cinder-volume, as
systemd does, on Debian's MariaDB and RabbitMQ. The array is k2-sim of this
clone, and the client python-cinderclient.
"""

from collections.abc import Iterator
import contextlib
import dataclasses
import functools
import os
import pathlib
import re
import secrets
import socket
import sys
import textwrap

import requests

from tools.cloud import __main__ as cloud
from tools.cloud import children
from tools.cloud import client
from tools.cloud import console
from tools.cloud import errors
from tools.cloud import scenario
from tools.cloud import settings
from tools.cloud import stack
from tools.cloud import state
from tools.packages import deb
from tools.packages import programs
from tools.packages import tree
from tools.releases import table

HOST_NAME = 'trixie'
DATABASE_PORT = 3306
BROKER_PORT = 5672
SERVICES = ('cinder-scheduler', 'cinder-volume', 'cinder-api')
SECONDS = 240.0
_PATH = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin'
_CA_FILE = '/etc/cinder/k2-ca.pem'
_CINDER_CONF = 'etc/cinder/cinder.conf'
# Options that cinder.conf of the package sets to other values.
_REPLACED = re.compile(r'^(?=(enabled_backends|auth_strategy|my_ip) =)', re.M)
_CONFIGURATION = """
    [DEFAULT]
    enabled_backends = {backends}
    auth_strategy = noauth_include_project_id
    transport_url = rabbit://guest:guest@{host}:{broker}/
    my_ip = {host}
    scheduler_driver_init_wait_time = 1

    [database]
    connection = mysql+pymysql://cinder:{secret}@{host}:{database}/cinder

    [coordination]
    backend_url = file:///var/lib/cinder/coordination
    """
_SQL = ("CREATE DATABASE cinder; GRANT ALL ON cinder.* TO 'cinder'@'%'"
        " IDENTIFIED BY '{secret}'")
# Otherwise RabbitMQ uses a whole CPU while idle.
_ERLANG = ('RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS='
           '+sbwt none +sbwtdcpu none +sbwtdio none')


@dataclasses.dataclass(frozen=True)
class System:
    """The Debian system in the tree.

    :ivar root: its root directory
    """

    root: pathlib.Path

    def command(self, *words: str, user: str = 'root', folder: str = '/'
                ) -> list[str]:
        """Return the command that runs words in the system."""
        return ['chroot', f'--userspec={user}:{user}', str(self.root),
                'env', '--ignore-environment', f'--chdir={folder}',
                f'PATH={_PATH}', 'LC_ALL=C.UTF-8', 'PYTHONWARNINGS=ignore',
                'DEBIAN_FRONTEND=noninteractive', *words]

    def run(self, *words: str, user: str = 'root', folder: str = '/') -> str:
        """Run a program in the system; return what it printed.

        :raises PackageError: it failed
        """
        return programs.run(*self.command(*words, user=user, folder=folder))

    def start(self, name: str, log: pathlib.Path, *words: str,
              user: str = 'root') -> children.Child:
        """Start a program in the system that runs until it is stopped."""
        return children.Child(name, self.command(*words, user=user), log,
                              os.environ, pathlib.Path('/'))

    def make_folder(self, path: str, user: str) -> None:
        """Create a folder that belongs to a user, as systemd does."""
        self.run('install', '--directory', '--owner', user, '--group', user,
                 path)


def mount() -> System:
    """Mount an overlay of the tree, with what a system expects in it.

    :raises PackageError: something cannot be mounted
    """
    place = deb.WORK / 'overlay'
    place.mkdir()
    programs.run('mount', '-t', 'tmpfs', '-o', 'mode=755', 'tmpfs', place)
    for name in ('upper', 'work', 'root'):
        (place / name).mkdir()
    root = place / 'root'
    programs.run('mount', '-t', 'overlay', '-o', f'lowerdir={tree.BASE},'
                 f'upperdir={place / "upper"},workdir={place / "work"}',
                 'overlay', root)
    programs.run('mount', '-t', 'proc', 'proc', root / 'proc')
    programs.run('mount', '--rbind', '/dev', root / 'dev')
    (root / deb.BUILD).mkdir()
    programs.run('mount', '--bind', deb.WORK / deb.BUILD, root / deb.BUILD)
    (root / 'etc' / 'hosts').write_text(f'127.0.0.1 localhost {HOST_NAME}\n')
    socket.sethostname(HOST_NAME)
    system = System(root)
    system.run('ip', 'link', 'set', 'lo', 'up')
    return system


def build(system: System, source: str) -> None:
    """Build the packages, check them, and install the binary package.

    :param source: the name of the source tree
    :raises PackageError: a step failed
    """
    folder = f'/{deb.BUILD}/{source}'
    with console.step('dpkg-buildpackage'):
        system.run('dpkg-buildpackage', '--unsigned-source',
                   '--unsigned-changes', folder=folder)
    with console.step('lintian') as line:
        line.note = system.run(
            'lintian', '--allow-root', '--fail-on', 'error,warning',
            *_built(system, '*.changes')).strip()
    with console.step('dpkg --install') as line:
        system.run('dpkg', '--install', *_built(system, '*.deb'))
        line.note = system.run(
            'dpkg-query', '--show', '--showformat',
            '${Package} ${Version}; ', f'python3-{deb.NAME}',
            'cinder-volume').rstrip('; ')
    with console.step('debian/tests/load-driver') as line:
        line.note = '\n      '.join(system.run(
            f'{folder}/debian/tests/load-driver').splitlines())


def _built(system: System, pattern: str) -> list[str]:
    """Return the paths, in the system, of the files that were built."""
    return [f'/{deb.BUILD}/{path.name}' for path in sorted(
        (system.root / deb.BUILD).glob(pattern))]


def listens(port: int) -> bool:
    """Return whether something listens on a port of the loopback interface."""
    try:
        socket.create_connection((settings.HOST, port), 5).close()
    except OSError:
        return False
    return True


def start_servers(system: System, secret: str, logs: pathlib.Path,
                  started: list[children.Child]) -> None:
    """Start Debian's MariaDB and RabbitMQ, with a database for Cinder.

    :raises CloudError: one does not start
    """
    with console.step('MariaDB and RabbitMQ'):
        system.make_folder('/run/mysqld', 'mysql')
        started.append(system.start(
            'mariadb', logs / 'mariadb.log', 'mariadbd', '--user=mysql',
            '--innodb-flush-method=fsync'))
        started.append(system.start(
            'rabbitmq', logs / 'rabbitmq.log', 'HOME=/var/lib/rabbitmq',
            _ERLANG, '/usr/lib/rabbitmq/bin/rabbitmq-server',
            user='rabbitmq'))
        for child, port in zip(started[-2:], (DATABASE_PORT, BROKER_PORT)):
            child.wait_ready(functools.partial(listens, port), SECONDS)
        system.run('mariadb', '--execute', _SQL.format(secret=secret))


def configure(system: System, run: settings.Settings, secret: str) -> None:
    """Add the back ends to Debian's cinder.conf, and create the tables.

    :param secret: password of the database
    :raises PackageError: the tables cannot be created
    """
    text = textwrap.dedent(_CONFIGURATION).format(
        backends=','.join(state.DRIVERS), host=settings.HOST, secret=secret,
        broker=BROKER_PORT, database=DATABASE_PORT)
    for name, driver in state.DRIVERS.items():
        text += textwrap.dedent(state.BACKEND_TEMPLATE).format(
            name=name, driver=driver, host=settings.HOST,
            sim_port=run.sim_port, login=settings.LOGIN,
            password=state.password(run), ca_file=_CA_FILE)
    path = system.root / _CINDER_CONF
    path.write_text(_REPLACED.sub('#', path.read_text()) + text)
    (system.root / _CA_FILE.lstrip('/')).write_text(run.ca_file.read_text())
    with console.step('cinder-manage db sync'):
        system.run('cinder-manage', 'db', 'sync', user='cinder')


def answers(run: settings.Settings) -> bool:
    """Return whether the API answers; its workers start one by one."""
    try:
        return stack.api_answers(run)
    except requests.Timeout:
        return False


def start_cinder(system: System, run: settings.Settings,
                 started: list[children.Child]) -> client.Watcher:
    """Start Debian's services, and wait until both back ends are up.

    :raises CloudError: one does not start
    """
    cinder = client.connect(run.cinder_url)
    for folder in ('/run/cinder', '/run/lock/cinder', '/var/cache/cinder'):
        system.make_folder(folder, 'cinder')
    with console.step(' '.join(SERVICES)) as line:
        line.note = run.cinder_url
        for name in SERVICES:
            started.append(system.start(
                name, run.log_dir / f'{name}.log', f'/etc/init.d/{name}',
                'systemd-start', user='cinder'))
        started[-1].wait_ready(lambda: answers(run), SECONDS)
    with console.step('back ends ' + ' and '.join(settings.BACKENDS)):
        started[-2].wait_ready(
            lambda: len(cinder.pools.list()) >= len(settings.BACKENDS),
            SECONDS)
    return client.Watcher(
        cinder, system.root / 'var/log/cinder/cinder-volume.log')


@contextlib.contextmanager
def logs_of(system: System) -> Iterator[None]:
    """Show the end of Cinder's log if something fails."""
    try:
        yield
    except (errors.CloudError, *cloud.API_ERRORS):
        for log in sorted((system.root / 'var/log/cinder').glob('*.log')):
            console.say(f'{log.name}:\n{errors.tail(log)}')
        raise


def try_out(system: System, run: settings.Settings,
            started: list[children.Child]) -> None:
    """Run the main workflow on each back end, and remove everything.

    :raises CloudError: a step failed
    """
    reader, = stack.start_arrays(run, started)
    secret = secrets.token_hex(8)
    start_servers(system, secret, run.log_dir, started)
    configure(system, run, secret)
    watcher = start_cinder(system, run, started)
    with console.step('k2-admin check') as line:
        line.note = system.run('k2-admin', 'check', user='cinder'
                               ).strip().replace('\n', '\n      ')
    scenario.make_types(watcher.cinder)
    for backend in settings.BACKENDS:
        cloud.head(f'The main workflow on {backend}')
        scenario.Job(watcher, backend).run()
    cloud.head('Comparison of Cinder and the array')
    cloud.compare_both(watcher.cinder, reader)
    cloud.head('Removing everything')
    scenario.remove_all(watcher)
    cloud.check_empty(reader)


def main() -> int:
    """Build the package and try it; return the exit status."""
    run = settings.Settings(
        root=table.ROOT, state=deb.WORK / 'state',
        cinder_port=settings.CINDER_PORT, sim_port=settings.SIM_PORT)
    for folder in (run.primary.state, run.log_dir):
        folder.mkdir(parents=True)
    state.write_private(run.password_file, secrets.token_urlsafe(12) + '\n')
    started: list[children.Child] = []
    try:
        system = mount()
        build(system, sys.argv[1])
        with children.stopping(started), logs_of(system):
            try_out(system, run, started)
    except (programs.PackageError, errors.CloudError,
            *cloud.API_ERRORS) as error:
        console.say(f'\n{error}')
        return 1
    cloud.head('OK')
    return 0


if __name__ == '__main__':
    sys.exit(main())
