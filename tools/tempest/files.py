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
"""The settings of the services, as an operator would write them."""

import pathlib
import shlex
import shutil
import sys

from tools.tempest import layout

# Where wheels install the other files that a service needs.
_WHEELS = pathlib.Path(sys.prefix, 'etc')
_COPIED = ('cinder/api-paste.ini', 'cinder/resource_filters.json',
           'glance/glance-api-paste.ini')
_AUTH = """\
www_authenticate_uri = {keystone}
auth_url = {keystone}
auth_type = password
project_domain_name = Default
user_domain_name = Default
project_name = service
username = {user}
password = {secret}
"""
_KEYSTONE = """\
[database]
connection = {database}

[fernet_tokens]
key_repository = {state}/keystone/fernet

[credential]
key_repository = {state}/keystone/credential

[token]
expiration = 86400

[identity]
password_hash_rounds = 4

# In memory, because there is one process. Tokens are validated repeatedly.
[cache]
enabled = True
backend = oslo_cache.dict
"""
_GLANCE = """\
[DEFAULT]
enabled_backends = files:file
enabled_import_methods = [glance-direct]

[database]
connection = {database}

[glance_store]
default_backend = files

[files]
filesystem_store_datadir = {state}/glance/images

[os_glance_staging_store]
filesystem_store_datadir = {state}/glance/staging

[os_glance_tasks_store]
filesystem_store_datadir = {state}/glance/tasks

[paste_deploy]
flavor = keystone
config_file = {etc}/glance-api-paste.ini

[oslo_concurrency]
lock_path = {state}/locks

[keystone_authtoken]
{auth}service_token_roles_required = True
"""
_CINDER = """\
[DEFAULT]
host = cloud
my_ip = {guest}
debug = {debug}
auth_strategy = keystone
transport_url = rabbit://openstack:{secret}@{host}:{broker}/
state_path = {state}/cinder
enabled_backends = {back_ends}
api_paste_config = {etc}/api-paste.ini
resource_query_filters_file = {etc}/resource_filters.json
rootwrap_config = {wheels}/cinder/rootwrap.conf
glance_api_servers = {glance}
enable_force_upload = True
allow_migration_on_attach = True
# Report new services and their state quickly.
periodic_interval = 10
periodic_fuzzy_delay = 0
report_interval = 5
backend_stats_polling_interval = 15
scheduler_driver_init_wait_time = 5
backup_driver = cinder.backup.drivers.posix.PosixBackupDriver
backup_posix_path = {state}/cinder/backup
# The machine allows the guest only so many mappings, one for each page.
backup_file_size = 8388608
backup_sha_block_size_bytes = 1048576
backup_workers = 1

[database]
connection = {database}

[oslo_concurrency]
lock_path = {state}/cinder/locks

[coordination]
backend_url = file://{state}/cinder/coordination

[cinder_sys_admin]
helper_command = {privsep}

[privsep_osbrick]
helper_command = {privsep}

[keystone_authtoken]
{auth}service_token_roles = service
service_token_roles_required = True

[service_user]
send_service_user_token = True
{auth}
[nova]
{auth}"""
_BACK_END = """
[{name}]
volume_driver = cinder_k2.driver.K2ISCSIDriver
volume_backend_name = {name}
san_ip = {host}
san_api_port = {port}
san_login = {login}
san_password = {secret}
driver_ssl_cert_verify = True
driver_ssl_cert_path = {authorities}
"""
_REPLICATION = """\
replication_device = backend_id:{name},san_ip:{host},port:{port},\
login:{login},rpo:60
k2_replication_password = {secret}
"""
#: The directories that services write to, below the state directory.
_PLACES = ('keystone/fernet', 'keystone/credential', 'glance/images',
           'glance/staging', 'glance/tasks', 'locks', 'cinder/locks',
           'cinder/backup', 'cinder/coordination', 'cinder/conversion')


def write(run: layout.Layout, debug: bool = False) -> None:
    """Write all files; the arrays must be running."""
    for place in _PLACES:
        (run.state / place).mkdir(parents=True, exist_ok=True)
    for name in _COPIED:
        shutil.copy(_WHEELS / name, run.etc)
    run.keystone_conf.write_text(_KEYSTONE.format(
        state=run.state, database=run.database_url('keystone')))
    run.glance_conf.write_text(_GLANCE.format(
        state=run.state, etc=run.etc, database=run.database_url('glance'),
        auth=_auth(run, 'glance')))
    run.cinder_conf.write_text(_cinder(run, debug))


def _auth(run: layout.Layout, user: str) -> str:
    """Return the options for authentication of and by a service."""
    return _AUTH.format(keystone=layout.url(layout.KEYSTONE), user=user,
                        secret=run.secret)


def _cinder(run: layout.Layout, debug: bool) -> str:
    """Return the settings of Cinder, with a back end for each array."""
    # The command is split like a shell does; paths may have spaces.
    helper = shlex.join([f'{sys.prefix}/bin/privsep-helper',
                         '--config-file', str(run.cinder_conf)])
    primary, secondary = layout.ARRAYS
    return _CINDER.format(
        guest=layout.GUEST, host=layout.HOST, broker=layout.BROKER,
        debug=debug, secret=run.secret, state=run.state, etc=run.etc,
        wheels=_WHEELS, glance=layout.url(layout.GLANCE),
        back_ends=','.join(array.name for array in layout.ARRAYS),
        database=run.database_url('cinder'), privsep=helper,
        auth=_auth(run, 'cinder')
    ) + _back_end(run, primary) + _REPLICATION.format(
        name=secondary.name, host=layout.HOST, port=secondary.port,
        login=layout.ADMIN, secret=run.secret) + _back_end(run, secondary)


def _back_end(run: layout.Layout, array: layout.Array) -> str:
    return _BACK_END.format(
        name=array.name, host=layout.HOST, port=array.port,
        login=layout.ADMIN, secret=run.secret, authorities=run.authorities)
