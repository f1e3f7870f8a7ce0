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

"""Glance's real API on the loopback interface.

A separate program, because Glance and Cinder use the same global
configuration. Argument: a folder for its files. Images are plain files, the
database is SQLite. There is no Keystone: every request is that of an
administrator of one project. Prints its port when it serves, and ends when its
standard input does, so that it never outlives its caller.
"""

import os
import pathlib
import sys
import threading

from cheroot import wsgi
from glance.common import wsgi_app
from glance.db.sqlalchemy import api as db_api
from glance.db.sqlalchemy import models

_CONFIG = """\
[DEFAULT]
enabled_backends = files:file
hashing_algorithm = sha1
log_file = {folder}/glance.log
show_multiple_locations = True
[database]
connection = sqlite:///{folder}/glance.sqlite?timeout=60
[glance_store]
default_backend = files
[files]
filesystem_store_datadir = {folder}/images
filesystem_store_chunk_size = 1048576
filesystem_thin_provisioning = True
[os_glance_staging_store]
filesystem_store_datadir = {folder}/staging
[os_glance_tasks_store]
filesystem_store_datadir = {folder}/tasks
[oslo_concurrency]
lock_path = {folder}/locks
[paste_deploy]
config_file = {folder}/glance-api-paste.ini
"""
_PASTE = pathlib.Path(sys.prefix, 'etc', 'glance', 'glance-api-paste.ini')
# Headers that Keystone's middleware would add to a request.
_IDENTITY = {'HTTP_X_IDENTITY_STATUS': 'Confirmed', 'HTTP_X_USER_ID': 'f' * 32,
             'HTTP_X_PROJECT_ID': 'a' * 32,
             'HTTP_X_ROLES': 'admin,member,reader'}


class Body:
    """The body of a request, without the stream's close().

    Glance closes the body, but cheroot reads on from the same stream.
    """

    def __init__(self, stream):
        self.read = stream.read
        self.readline = stream.readline


def write_files(folder):
    """Create folders, configuration, and a pipeline that trusts headers."""
    for name in ('images', 'staging', 'tasks', 'locks'):
        os.makedirs(os.path.join(folder, name))
    pathlib.Path(folder, 'glance-api.conf').write_text(
        _CONFIG.format(folder=folder), encoding='utf-8')
    pipeline = _PASTE.read_text(encoding='utf-8').replace(
        ' unauthenticated-context ', ' context ')
    pathlib.Path(folder, _PASTE.name).write_text(pipeline, encoding='utf-8')


def serve(folder):
    """Serve until standard input ends."""
    write_files(folder)
    os.environ['OS_GLANCE_CONFIG_DIR'] = folder
    glance = wsgi_app.init_app()

    def application(environ, start_response):
        return glance({**environ, **_IDENTITY, 'wsgi.input': Body(
            environ['wsgi.input'])}, start_response)
    models.register_models(db_api.get_engine())
    server = wsgi.Server(('127.0.0.1', 0), application, numthreads=8)
    server.prepare()
    threading.Thread(target=server.serve, daemon=True).start()
    print(server.bind_addr[1], flush=True)
    sys.stdin.read()
    # Glance's own threads would keep the process alive.
    os._exit(0)


if __name__ == '__main__':
    serve(sys.argv[1])
