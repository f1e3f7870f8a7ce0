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

"""The routes of the console, and their authentication.

The console is not part of the array's API: its requests are not in the
journal, not rate limited, and not subject to faults.
"""

from collections.abc import Callable
import dataclasses
import hashlib
import http.cookies
import logging
import math
from typing import Any
import urllib.parse

import msgspec

from k2_sim.access import users as users_module
from k2_sim.console import control_page
from k2_sim.console import files
from k2_sim.console import logins as logins_module
from k2_sim.console import view_models as view_models_module
from k2_sim.control import control as control_module
from k2_sim import core as core_module
from k2_sim import errors
from k2_sim.protocol import messages
from k2_sim.protocol.messages import Request
from k2_sim.protocol.messages import Response


LOG = logging.getLogger(__name__)
BASE = '/console'
_CONTROL = f'{BASE}/control'
# Browsers request it automatically.
_ICON = '/favicon.ico'
_SECURITY = {
    'Content-Security-Policy':
        "default-src 'none'; script-src 'self'; style-src 'self';"
        " img-src 'self'; connect-src 'self'; base-uri 'none';"
        " form-action 'none'; frame-ancestors 'none'",
    'Cross-Origin-Opener-Policy': 'same-origin',
    'Cross-Origin-Resource-Policy': 'same-origin',
    'Referrer-Policy': 'no-referrer',
    'X-Content-Type-Options': 'nosniff'}
# Limits of a request; no view and no action needs more.
_LONGEST_QUERY = 20000
LARGEST_BODY = 2 ** 16


def serves(path: str) -> bool:
    """Whether a path belongs to the console."""
    return path in ('/', BASE, _ICON) or path.startswith(f'{BASE}/')


@dataclasses.dataclass(frozen=True)
class _Page:
    """One of the two pages: its sessions, and its handler.

    cookie: the prefix of its cookie names.
    """

    path: str
    cookie: str
    logins: logins_module.Logins
    serve: Callable[[Request, str], object]

    def cookie_of(self, request: Request) -> str:
        """The name of the page's cookie, which includes the port.

        Browsers send the cookies of a machine to all of its ports, where
        other arrays may listen.
        """
        port = request.headers.get('host', '').rpartition(':')[2]
        return f'{self.cookie}_{port}' if port.isdecimal() else self.cookie

    def login(self, request: Request) -> logins_module.Login:
        """The session of a request; raises ApiError (401)."""
        cookies = http.cookies.SimpleCookie()
        try:
            cookies.load(request.headers.get('cookie', ''))
        except http.cookies.CookieError as exc:
            raise errors.ApiError(401, 'Log in first') from exc
        found = cookies.get(self.cookie_of(request))
        return self.logins.find('' if found is None else found.value)


class Console:
    """The console of one array.

    users: accounts of the console; controllers: of its control page.
    """

    def __init__(self, core: core_module.Core, control: control_module.Control,
                 users: users_module.Users,
                 controllers: users_module.Users) -> None:
        self._view_models = view_models_module.ViewModels(
            core, users, control.tick)
        self._control = control_page.ControlPage(control)
        self._pages = (
            _Page(_CONTROL, 'k2_control',
                  logins_module.Logins(controllers, core.clock),
                  self._control.answer),
            _Page(BASE, 'k2_console',
                  logins_module.Logins(users, core.clock), self._view))

    def sample(self) -> None:
        """Take a sample of the array's figures if one is due."""
        self._view_models.history.sample()

    def answer(self, request: Request) -> Response:
        """The reply to a request; a refusal is a reply, too."""
        try:
            response = self._answer(request)
        except errors.ApiError as exc:
            response = messages.refusal(exc.status, exc.message)
        except errors.StateError as exc:
            response = messages.refusal(500, str(exc))
        except Exception:
            LOG.exception('%s %s failed', request.method, request.path)
            response = messages.refusal(500, 'Internal error')
        return msgspec.structs.replace(response, headers={
            'Cache-Control': 'no-store', **response.headers, **_SECURITY})

    def _answer(self, request: Request) -> Response:
        if request.path in ('/', BASE, _CONTROL):
            return _moved(_CONTROL if request.path == _CONTROL else BASE)
        file = files.find('static/icon.svg' if request.path == _ICON
                          else request.path.removeprefix(f'{BASE}/'))
        if file is not None:
            return _tagged(request, file)
        page = next(page for page in self._pages
                    if request.path.startswith(f'{page.path}/'))
        name = request.path.removeprefix(f'{page.path}/')
        if (request.method, name) == ('POST', 'session'):
            return _log_in(page, request)
        login = page.login(request)
        if request.method != 'GET':
            login.check(request.headers.get('x-console-proof', ''))
        if name == 'session':
            return _session(page, request, login)
        value = page.serve(request, name)
        if isinstance(value, Response):
            return value
        return _tagged(request, messages.reply(200, value))

    def _view(self, request: Request, name: str) -> object:
        if request.method != 'GET':
            raise errors.wrong_method()
        if len(request.query) > _LONGEST_QUERY:
            raise errors.refused('Too many objects are expanded; collapse'
                                 ' some of them')
        query = dict(urllib.parse.parse_qsl(request.query))
        return self._view_models.answer(
            name.removeprefix('feed/'), view_models_module.read(query))


def _moved(path: str) -> Response:
    return Response(302, {'Location': f'{path}/'})


def _tagged(request: Request, response: Response) -> Response:
    """The reply, or 304 if the page has it already.

    Pages poll each second instead of keeping a connection open: the core has
    no connections, and a reply without changes is cheap.
    """
    tag = f'"{hashlib.sha256(response.body).hexdigest()[:24]}"'
    headers = {'Cache-Control': 'no-cache', **response.headers, 'ETag': tag}
    if request.headers.get('if-none-match') == tag:
        return Response(304, headers)
    return msgspec.structs.replace(response, headers=headers)


def _log_in(page: _Page, request: Request) -> Response:
    """Log in with a password.

    The body must be JSON, which another site cannot send from a form.
    """
    body = request.json()
    if not isinstance(body, dict) or not all(
            isinstance(body.get(name), str) for name in ('login', 'password')):
        raise errors.refused('The body must have login and password')
    made = page.logins.open(body['login'], body['password'],
                            request.address)
    return _with_cookie(page, request, made.token, logins_module.LIFE,
                        messages.reply(200, _shown(made)))


def _session(page: _Page, request: Request, login: logins_module.Login
             ) -> Response:
    """The user who is logged in; DELETE logs out."""
    if request.method == 'GET':
        return messages.reply(200, _shown(login))
    if request.method != 'DELETE':
        raise errors.wrong_method()
    page.logins.close(login)
    return _with_cookie(page, request, '', 0.0, Response(204))


def _shown(login: logins_module.Login) -> dict[str, Any]:
    return {'login': login.user.login, 'role': login.user.role,
            'proof': login.proof}


def _with_cookie(page: _Page, request: Request, token: str, life: float,
                 response: Response) -> Response:
    """The reply with a cookie for requests of the page only.

    Origin shows whether the browser uses TLS; without TLS it would reject a
    secure cookie.
    """
    cookie = (f'{page.cookie_of(request)}={token}; Path={page.path}; HttpOnly;'
              f' SameSite=Strict; Max-Age={math.ceil(life)}')
    if not request.headers.get('origin', '').startswith('http:'):
        cookie += '; Secure'
    return msgspec.structs.replace(
        response, headers={**response.headers, 'Set-Cookie': cookie})
