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

"""One Cinder for the whole test process: configuration, database, locks.

Everything is real except the message bus, which is within the process, the
scheduler, which does not exist, and quotas, which do not concern drivers.
"""

import atexit
from collections.abc import Iterable
import functools
import os
import shutil
import sqlite3
import tempfile
from typing import Any
from unittest import mock

from cinder.common import config  # noqa: F401  registers Cinder's options
from cinder import context
from cinder import coordination
from cinder.db import migration
from cinder import rpc
from cinder import version
from oslo_config import cfg
from oslo_log import log as logging
import sqlalchemy
from sqlalchemy import pool

from tools.cloud import database
from tools.releases import features

CONF = cfg.CONF
HOST = 'tester'
# Arguments of this process's ``Cinder``, if it is shared; see ``join``.
_place: dict[str, str] = {}
PROJECT = 'a' * 32
_DATABASE = 'cinder.sqlite'

_DEFAULTS = """\
[DEFAULT]
host = {host}
state_path = {state}
transport_url = fake:///
rootwrap_config = /etc/cinder/rootwrap.conf
reinit_driver_count = 0
service_down_time = 3600
quota_driver = tests.functional.cinder_env.NoQuotas
[database]
connection = sqlite:///{state}/{database}?timeout=60
sqlite_synchronous = False
[oslo_concurrency]
lock_path = {state}/locks
[coordination]
backend_url = file://{state}/coordination
[key_manager]
backend = cinder.keymgr.conf_key_mgr.ConfKeyManager
fixed_key = 5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a
"""

# Children before parents, in case foreign keys are on.
_TABLES = ('image_volume_cache_entries', 'volume_glance_metadata',
           'attachment_specs', 'volume_attachment', 'snapshot_metadata',
           'snapshots', 'volume_metadata', 'volume_admin_metadata',
           'volumes', 'group_volume_type_mapping', 'group_snapshots',
           '"groups"', 'workers', 'messages', 'driver_initiator_data')
# Tables, and columns that refer to back ends or types.
_PLACES = (('services', 'host'), ('clusters', 'name'))
_TYPES = (('volume_type_extra_specs', 'volume_type_id'),
          ('encryption', 'volume_type_id'), ('volume_types', 'id'),
          ('group_type_specs', 'group_type_id'), ('group_types', 'id'))


class NoQuotas:
    """Cinder's quota driver, without limits and without rows."""

    def reserve(self, *args: Any, **kwargs: Any) -> list[str]:
        """Grant everything."""
        return []

    def commit(self, *args: Any, **kwargs: Any) -> None:
        """Do nothing."""

    def rollback(self, *args: Any, **kwargs: Any) -> None:
        """Do nothing."""

    def limit_check(self, *args: Any, **kwargs: Any) -> None:
        """Check no limit."""


class Cinder:
    """Cinder's process-wide state.

    :param state: its directory; a temporary one if not given
    :param host: the name of this machine
    """

    def __init__(self, state: str = '', host: str = HOST) -> None:
        self.host = host
        self.state = state or temporary_directory()
        self._config = os.path.join(self.state, f'{host}.conf')
        self._sections: dict[str, dict[str, Any]] = {}
        self._write()
        logging.register_options(CONF)
        CONF(['--config-file', self._config], project='cinder',
             version=version.version_string())
        # The journal mode is stored in the file: commits append to a log.
        with sqlite3.connect(os.path.join(self.state, _DATABASE)) as file:
            file.execute('PRAGMA journal_mode = WAL')
        database.begin_immediately(_engine())
        migration.db_sync()
        rpc.init(CONF)
        coordination.COORDINATOR.start()

    def set_section(self, name: str, options: dict[str, Any]) -> None:
        """Write the options of a back end to its section, and load them."""
        self._sections.setdefault(name, {}).update(options)
        self._write()
        CONF.reload_config_files()

    def context(self) -> Any:
        """Return the context of an administrator's request from nova."""
        return context.RequestContext(
            user_id='f' * 32, project_id=PROJECT, is_admin=True,
            overwrite=False, service_roles=['service'])

    def forget_everything(self) -> None:
        """Remove the rows of the previous test."""
        with database.engine().begin() as connection:
            for table in _TABLES:
                connection.execute(
                    sqlalchemy.text(f'DELETE FROM {table}'))  # nosec

    def forget_backend(self, name: str, types: Iterable[str]) -> None:
        """Remove a back end's section, services, clusters and types.

        :param types: ids of volume types and group types
        """
        self._sections.pop(name, None)
        self._write()
        with database.engine().begin() as connection:
            for table, column in _PLACES:
                connection.execute(sqlalchemy.text(
                    f'DELETE FROM {table} '  # nosec
                    f'WHERE {column} LIKE :place'), {'place': f'%@{name}'})
            for number in types:
                for table, column in _TYPES:
                    connection.execute(sqlalchemy.text(
                        f'DELETE FROM {table} '  # nosec
                        f'WHERE {column} = :number'), {'number': number})

    def _write(self) -> None:
        text = _DEFAULTS.format(host=self.host, state=self.state,
                                database=_DATABASE)
        for name, options in self._sections.items():
            lines = [f'{key} = {value}' for key, value in options.items()]
            text += '\n'.join([f'[{name}]', *lines, ''])
        with open(self._config, 'w', encoding='utf-8') as stream:
            stream.write(text)


@functools.cache
def cinder() -> Cinder:
    """Return this process's Cinder, started on first use."""
    return Cinder(**_place)


def join(state: str, host: str) -> None:
    """Let this process share database and locks with others.

    It must be called before ``cinder``.

    :param state: the directory of database and locks
    :param host: the host name of this process
    """
    _place.update(state=state, host=host)


def temporary_directory() -> str:
    """Create a directory that is removed when the process ends."""
    path = tempfile.mkdtemp(prefix='cinder-k2-')
    atexit.register(shutil.rmtree, path, ignore_errors=True)
    return path


class _Pool(pool.QueuePool):
    """A pool without a limit, whose connections stay open."""

    def __init__(self, creator: Any, **kwargs: Any) -> None:
        super().__init__(creator, pool_size=0, **kwargs)


def _engine() -> Any:
    """Return Cinder's database engine, with persistent connections.

    For SQLite, oslo.db opens a connection for each transaction and lets the
    thread sleep after it, which took a third of the time of all tests.
    """
    features.database_api().main_context_manager.configure(
        thread_checkin=False)
    with mock.patch.object(pool, 'NullPool', _Pool):
        return database.engine()
