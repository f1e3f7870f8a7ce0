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

"""A scripted array, and a clock that never waits."""

import json
from urllib import parse

import requests
import requests.adapters

from cinder_k2 import polling
from cinder_k2 import rest


class FakeClock(polling.Clock):
    """A clock that only sleep() advances; records each sleep."""

    def __init__(self):
        self.now = 1000.0
        self.sleeps = []

    def monotonic(self):
        return self.now

    def sleep(self, seconds):
        self.sleeps.append(seconds)
        self.now += seconds


class Reply:
    """One scripted reply: a status with a JSON value or raw bytes."""

    def __init__(self, status, body=b'', headers=()):
        self.status = status
        self.headers = dict(headers)
        self.body = body if isinstance(body, bytes) else json.dumps(
            body).encode()


def hits(*objects, total=None):
    """A reply that lists objects of a collection (OBJ-1)."""
    return Reply(200, {'hits': list(objects), 'limit': 100, 'offset': 0,
                       'total': len(objects) if total is None else total})


def refusal(text, status=400):
    """A reply with an error_msg."""
    return Reply(status, {'error_msg': text})


class Adapter(requests.adapters.BaseAdapter):
    """Answers requests with ``script``: replies, exceptions, callables."""

    def __init__(self, *script):
        super().__init__()
        self.script = list(script)
        self.requests = []
        self.timeouts = []

    def send(self, request, stream=False, timeout=None, verify=True,
             cert=None, proxies=None):
        self.requests.append(request)
        self.timeouts.append(timeout)
        step = self.script.pop(0)
        if callable(step) and not isinstance(step, type):
            step = step(request)
        if isinstance(step, BaseException):
            raise step
        response = requests.Response()
        response.status_code = step.status
        response._content = step.body
        response.headers.update(step.headers)
        response.request = request
        response.url = request.url
        return response

    def close(self):
        pass

    @property
    def calls(self):
        """Method and path of each request so far: ``GET /volumes``."""
        return [f'{r.method} {parse.urlsplit(r.url).path[7:]}'
                for r in self.requests]

    def query(self, number):
        """The decoded query of a request, as a dict."""
        return dict(parse.parse_qsl(
            parse.urlsplit(self.requests[number].url).query))

    def body(self, number):
        """The decoded JSON body of a request."""
        return json.loads(self.requests[number].body)

    def sequences(self):
        """The X-K2-Sequence of each write, None if it has none."""
        return [r.headers.get('X-K2-Sequence') for r in self.requests
                if r.method != 'GET']


def client(*script, works=(), **settings):
    """A client of a scripted array: ``(client, adapter, clock)``.

    :param works: capabilities that are known to work
    """
    adapter, clock = Adapter(*script), FakeClock()
    settings = {'address': '10.0.0.1', 'login': 'admin',
                'password': 'Secr3t-word'} | settings
    made = rest.Client(rest.Settings(**settings), adapter, clock)
    for name in works:
        made.capabilities.found(name)
    return made, adapter, clock
