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

"""A client of the volume API: python-cinderclient, with polling."""

from collections.abc import Callable
import pathlib
import time
from typing import Any

from cinderclient import client as cinder_client
from cinderclient.contrib import noauth
from cinderclient import exceptions as cinder_exceptions
from keystoneauth1 import session

from tools.cloud import errors
from tools.cloud import settings

API_VERSION = '3.70'
SECONDS = 60.0
REQUEST_SECONDS = 60
POLL_SECONDS = 0.1


def connect(url: str) -> Any:
    """Return a client of the volume API; nothing is sent yet.

    :param url: the endpoint, without the project
    """
    auth = noauth.CinderNoAuthPlugin(
        settings.USER_ID, settings.PROJECT_ID, endpoint=url)
    return cinder_client.Client(
        API_VERSION, session=session.Session(auth=auth,
                                             timeout=REQUEST_SECONDS))


def poll(what: str, done: Callable[[], bool],
         seconds: float = SECONDS) -> None:
    """Poll until a condition is met.

    :param what: what should have happened, for the message
    :raises CloudError: the condition was not met in time
    """
    end = time.monotonic() + seconds
    while not done():
        if time.monotonic() > end:
            raise errors.CloudError(f'{what}: not within {seconds:.0f} s')
        time.sleep(POLL_SECONDS)


class Watcher:
    """Waits for volumes and snapshots to reach a status."""

    def __init__(self, cinder: Any, log: pathlib.Path) -> None:
        """Store the client and the log.

        :param log: cinder.log, which is quoted in errors
        """
        self.cinder = cinder
        self._log = log

    def reason(self, resource_id: str) -> str:
        """Return why Cinder failed: its user messages, then its log."""
        messages = self.cinder.messages.list(
            search_opts={'resource_uuid': resource_id})
        told = [message.user_message for message in messages]
        return '\n'.join([*(f'  Cinder says: {text}' for text in told),
                          f'  {self._log} has:',
                          errors.tail(self._log, about=resource_id)])

    def failed(self, resource: Any, what: str) -> errors.CloudError:
        """Return the error for a resource in an unexpected state."""
        return errors.CloudError(
            f'{resource.name} {what}\n{self.reason(resource.id)}')

    def until(self, resource: Any, status: str) -> Any:
        """Wait until the resource has the status.

        :returns: the resource as it is then
        :raises CloudError: it went into error, or time ran out
        """
        now = [resource]

        def done() -> bool:
            now[0] = resource.manager.get(resource.id)
            if now[0].status.startswith('error'):
                raise self.failed(resource, f'is in status {now[0].status}')
            return bool(now[0].status == status)

        poll(f'{resource.name} becoming {status}', done)
        return now[0]

    def until_gone(self, resource: Any) -> None:
        """Wait until the resource, which is being deleted, is gone.

        :raises CloudError: it came back in another status, as after a
            refusal, or time ran out
        """
        def gone() -> bool:
            try:
                now = resource.manager.get(resource.id)
            except cinder_exceptions.NotFound:
                return True
            if now.status != 'deleting':
                raise self.failed(
                    resource, f'was not deleted; its status is {now.status}')
            return False

        poll(f'{resource.name} being gone', gone)
