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

"""The state directory: new or reused, locked, with a cinder.conf."""

from collections.abc import Iterable
from collections.abc import Iterator
import contextlib
import fcntl
import pathlib
import secrets
import shutil
import sys
import textwrap

from tools.cloud import errors
from tools.cloud import settings

MARKER = '.made-by-make-cloud'

DEFAULT_TEMPLATE = """\
    # Written by make cloud. A real one needs a database server, a message
    # broker and keystone; the sections of the back ends are as in any cloud.
    [DEFAULT]
    host = k2cloud
    my_ip = {host}
    debug = False
    state_path = {state}/cinder
    enabled_backends = {backends}
    default_volume_type = k2-iscsi
    auth_strategy = noauth_include_project_id
    transport_url = fake:///
    api_paste_config = {prefix}/etc/cinder/api-paste.ini
    resource_query_filters_file = {prefix}/etc/cinder/resource_filters.json
    rootwrap_config = {prefix}/etc/cinder/rootwrap.conf
    osapi_volume_listen = {host}
    osapi_volume_listen_port = {port}
    # All services start together here, and a back end that does not start
    # must be reported at once.
    scheduler_driver_init_wait_time = 1
    reinit_driver_count = 0
    periodic_fuzzy_delay = 0
    quota_volumes = -1
    quota_snapshots = -1
    quota_gigabytes = -1

    [database]
    connection = sqlite:///{state}/cinder/cinder.sqlite?timeout=60

    [oslo_concurrency]
    lock_path = {state}/cinder/locks

    [coordination]
    backend_url = file://{state}/cinder/coordination

    [cinder_sys_admin]
    helper_command = {privsep} --config-file {conf}

    [privsep_osbrick]
    helper_command = {privsep} --config-file {conf}
    """

BACKEND_TEMPLATE = """
    [{name}]
    volume_driver = {driver}
    volume_backend_name = {name}
    san_ip = {host}
    san_api_port = {sim_port}
    san_login = {login}
    san_password = {password}
    driver_ssl_cert_verify = True
    driver_ssl_cert_path = {ca_file}
    """

REPLICATION_TEMPLATE = """\
    replication_device = backend_id:{target},san_ip:{host},port:{port},login:{login},rpo:60
    k2_replication_password = {password}
    """  # noqa: E501

DRIVERS = {'k2-iscsi': 'cinder_k2.driver.K2ISCSIDriver',
           'k2-fc': 'cinder_k2.driver.K2FCDriver'}


def render(run: settings.Settings, secret: str, prefix: str) -> str:
    """Return the text of cinder.conf.

    :param secret: password of the array's user
    :param prefix: of the Python installation that contains etc/cinder
    """
    text = render_common(run, DRIVERS, prefix)
    for name, driver in DRIVERS.items():
        text += textwrap.dedent(BACKEND_TEMPLATE).format(
            name=name, driver=driver, host=settings.HOST,
            sim_port=run.sim_port, login=settings.LOGIN, password=secret,
            ca_file=run.ca_file)
        if run.second_port is not None:
            text += textwrap.dedent(REPLICATION_TEMPLATE).format(
                target=settings.TARGET, host=settings.HOST,
                port=run.second_port, login=settings.LOGIN, password=secret)
    return text


def render_common(run: settings.Settings, backends: Iterable[str],
                  prefix: str) -> str:
    """Return the part of cinder.conf before the back ends.

    :param backends: names of their sections
    """
    return textwrap.dedent(DEFAULT_TEMPLATE).format(
        host=settings.HOST, state=run.state, prefix=prefix,
        backends=','.join(backends), port=run.cinder_port,
        privsep=f'{prefix}/bin/privsep-helper', conf=run.cinder_conf)


def write_private(path: pathlib.Path, text: str) -> None:
    """Write a file that only its owner may read."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch(mode=0o600)
    path.write_text(text)


def clear(state: pathlib.Path) -> None:
    """Remove files of an earlier run, except the marker, which is the lock."""
    for entry in state.iterdir():
        if entry.name == MARKER:
            continue
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        else:
            entry.unlink()


@contextlib.contextmanager
def locked(state: pathlib.Path) -> Iterator[None]:
    """Lock the directory for one run; the lock ends with the process.

    :raises CloudError: another run has locked it, or it contains foreign
        files
    """
    try:
        state.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise errors.CloudError(
            f'{state} cannot be created ({error.strerror}): choose another '
            'directory with STATE_DIR=...') from error
    if any(state.iterdir()) and not (state / MARKER).exists():
        raise errors.CloudError(
            f'{state} was not created by make cloud, so it is not used: '
            'choose another directory with STATE_DIR=...')
    with (state / MARKER).open('a') as marker:
        try:
            fcntl.flock(marker, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise errors.CloudError(
                f'another make cloud is running in {state}: stop it, or '
                'choose another directory with STATE_DIR=...') from None
        yield


def password(run: settings.Settings) -> str:
    """Return the password of the array's user."""
    return run.password_file.read_text().rstrip('\n')


def prepare(run: settings.Settings) -> None:
    """Create the state directory, with a password and a cinder.conf."""
    if not run.keep:
        clear(run.state)
    for name in ('array', 'etc', 'log', 'cinder/locks',
                 'cinder/coordination'):
        (run.state / name).mkdir(parents=True, exist_ok=True)
    if not run.password_file.exists():
        write_private(run.password_file, secrets.token_urlsafe(12) + '\n')
    write_private(run.cinder_conf, render(run, password(run), sys.prefix))
