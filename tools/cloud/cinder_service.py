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

"""All of Cinder in one process: volume service per back end, scheduler, API.

All of it is real Cinder code. Only its configuration is minimal: SQLite,
in-process messaging (fake:///), native threads where the release has them, and
an HTTP server in the same process. Started as `python -m
tools.cloud.cinder_service --config-file cinder.conf`; prints READY when
everything is up, or one line that begins with FAILED if a back end does not
start.
"""

# Cinder's threading model is chosen before its first module is loaded.
from tools.cloud import threads
threads.use()

import logging as python_logging  # noqa: E402
import os  # noqa: E402
import shlex  # noqa: E402
import signal  # noqa: E402
import sys  # noqa: E402
import threading  # noqa: E402
import types  # noqa: E402

from cheroot import wsgi as cheroot_wsgi  # noqa: E402
from cinder.common import config  # noqa: E402
from cinder.common import constants  # noqa: E402
from cinder.db import migration  # noqa: E402
from cinder import objects  # noqa: E402
from cinder import rpc  # noqa: E402
from cinder import service  # noqa: E402
from cinder import utils  # noqa: E402
from cinder import version  # noqa: E402
import os_brick  # noqa: E402
from oslo_config import cfg  # noqa: E402
from oslo_log import log as logging  # noqa: E402
from oslo_privsep import priv_context  # noqa: E402
from oslo_service import wsgi  # noqa: E402

from tools.cloud import database  # noqa: E402
from tools.cloud import errors  # noqa: E402

CONF = cfg.CONF
# Threads for one person with one client.
API_THREADS = 10
# The log is for inspecting the driver: it includes the REST calls, but not
# Cinder's two lines for each poll of a client.
LOG_LEVELS = ['cinder_k2=DEBUG', 'cinder.api.openstack.wsgi=WARNING',
              'cinder.volume.api=WARNING']


class FirstError(python_logging.Handler):
    """Stores the first exception that was logged, as one line.

    The volume manager only logs why a driver did not start.
    """

    def __init__(self) -> None:
        """Start without an exception."""
        super().__init__(python_logging.ERROR)
        self.text = ''

    def emit(self, record: python_logging.LogRecord) -> None:
        """Handle one log record."""
        if record.exc_info and record.exc_info[1] is not None:
            self.text = self.text or ' '.join(str(record.exc_info[1]).split())


def configure(argv: list[str]) -> None:
    """Configure Cinder like the main functions of its three programs."""
    objects.register_all()
    logging.set_defaults(default_log_levels=[
        *logging.get_default_log_levels(), *LOG_LEVELS])
    CONF(argv, project='cinder', version=version.version_string())
    logging.setup(CONF, 'cinder')
    config.set_middleware_defaults()
    priv_context.init(root_helper=shlex.split(utils.get_root_helper()))
    os_brick.setup(CONF)
    rpc.init(CONF)


def start_volume(name: str) -> service.Service:
    """Start the volume service of one back end.

    If the back end does not start, the process prints why and ends.
    """
    seen = FirstError()
    manager_log = python_logging.getLogger('cinder.volume.manager')
    volume = service.Service.create(
        host=f'{CONF.host}@{name}', service_name=name,
        binary=constants.VOLUME_BINARY, coordination=True)
    manager_log.addHandler(seen)
    volume.start()
    manager_log.removeHandler(seen)
    if not volume.manager.is_working():
        print(f'{errors.GAVE_UP}back end {name} is down: {seen.text}',
              flush=True)
        os._exit(1)
    return volume


def start_services() -> list[service.Service]:
    """Start the volume services, then the scheduler, which queries them."""
    started = [start_volume(name) for name in CONF.enabled_backends]
    scheduler = service.Service.create(binary=constants.SCHEDULER_BINARY)
    scheduler.start()
    return [*started, scheduler]


def start_api() -> cheroot_wsgi.Server:
    """Serve the volume API in a separate thread."""
    application = wsgi.Loader(CONF).load_app(name='osapi_volume')
    server = cheroot_wsgi.Server(
        (CONF.osapi_volume_listen, CONF.osapi_volume_listen_port),
        application, numthreads=API_THREADS)
    server.prepare()
    threading.Thread(target=server.serve, daemon=True).start()
    return server


def main() -> None:
    """Run until SIGTERM."""
    stop = threading.Event()

    def on_signal(number: int, frame: types.FrameType | None) -> None:
        stop.set()

    signal.signal(signal.SIGTERM, on_signal)
    configure(sys.argv[1:])
    database.begin_immediately(database.engine())
    migration.db_sync()
    services = start_services()
    server = start_api()
    print('READY', flush=True)
    stop.wait()
    server.stop()
    for started in reversed(services):
        started.stop()
    print('stopped', flush=True)
    # Nothing joins the threads of timers and in-process messaging.
    os._exit(0)


if __name__ == '__main__':
    try:
        main()
    except Exception as error:
        # Running threads would keep the process alive.
        logging.getLogger(__name__).exception('Cinder did not start')
        words = ' '.join(str(error).split('\n')[0].split())
        print(f'{errors.GAVE_UP}{type(error).__name__}: {words}', flush=True)
        os._exit(1)
