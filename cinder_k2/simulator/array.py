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

"""The simulated array: a core without any input or output of its own."""

from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
import contextlib
import dataclasses
import logging
import os
import threading
from typing import Any
import urllib.parse

from cinder_k2.simulator import archive as archive_module
from cinder_k2.simulator import clock as clock_module
from cinder_k2.simulator import control
from cinder_k2.simulator import control_api
from cinder_k2.simulator import conversation
from cinder_k2.simulator import disk as disk_module
from cinder_k2.simulator import equipment as equipment_module
from cinder_k2.simulator import errors
from cinder_k2.simulator import factory
from cinder_k2.simulator import faults as faults_module
from cinder_k2.simulator import furniture
from cinder_k2.simulator import journal as journal_module
from cinder_k2.simulator import limiter
from cinder_k2.simulator import links
from cinder_k2.simulator import messages
from cinder_k2.simulator.messages import Exchange
from cinder_k2.simulator.messages import Request
from cinder_k2.simulator.messages import Response
from cinder_k2.simulator import profiles
from cinder_k2.simulator import recorder
from cinder_k2.simulator import roles
from cinder_k2.simulator.rules import base
from cinder_k2.simulator.rules import peers
from cinder_k2.simulator.rules import replicas
from cinder_k2.simulator import seeding as seeding_module
from cinder_k2.simulator import service
from cinder_k2.simulator.settings import Seed
from cinder_k2.simulator import store as store_module
from cinder_k2.simulator import subjects
from cinder_k2.simulator import users as users_module
from cinder_k2.simulator import visibility
from cinder_k2.simulator import wire

LOG = logging.getLogger(__name__)
BASE = '/api/v2'
# How often one request may find that a peer must be asked more.
_ASKINGS = 5


class Array:
    """One simulated array, safe for threads.

    profile: k2 (no thin clones) or sdp. store: path of its SQLite file, or
    None to keep the state in memory only. clock: the array's time, real if
    not given. seed: makes the chance in fault rules repeatable. name,
    portals, wan_addresses and capacity (KiB) matter when the state is new,
    and so does equipment, which takes the place of all of them; later the
    state knows them. role: that of login; users: accounts beside it.
    control_user: the one account of the control API; None opens it to all
    of the array's. switches: choices that differ from the profile's.
    seeding: what a new state has from the start, until it is reset.

    Raises StateError when the state cannot be used or belongs to an array
    of another profile, ValueError for an unknown profile or role, ApiError
    for a switch that makes no sense.
    """

    def __init__(self, profile: str = 'sdp',
                 store: str | os.PathLike[str] | None = None, *,
                 name: str = 'sim-k2-a',
                 clock: clock_module.Clock | None = None,
                 seed: int | None = None,
                 portals: Sequence[str] = equipment_module.PORTALS,
                 wan_addresses: Sequence[str] = equipment_module.WAN_ADDRESSES,
                 capacity: int = equipment_module.CAPACITY_KIB,
                 equipment: equipment_module.Equipment | None = None,
                 login: str = 'admin', password: str = 'admin',  # nosec
                 role: str = 'admin',
                 users: Iterable[users_module.User] = (),
                 control_user: users_module.User | None = None,
                 switches: Mapping[str, Any] | None = None,
                 seeding: Seed | None = None) -> None:
        self.profile = profile
        self._choices = dict(switches or {})
        self.switches = self._switches()
        self.clock = clock or clock_module.Clock()
        self.faults = faults_module.Faults(seed)
        self.journal = journal_module.Journal()
        self.recorder = recorder.Recorder()
        self.login = (login, password)
        self.closed = False
        self._equipment = equipment or equipment_module.simple(
            name, portals, wan_addresses, capacity)
        self._users = users_module.Users(
            (users_module.User(login, password, role), *users))
        self._controllers = self._users if control_user is None \
            else users_module.Users([control_user])
        self._limiter = limiter.Limiter(self.switches, self.clock)
        self._visibility = visibility.Visibility(self.clock)
        self.lock = threading.RLock()
        self.store = self._open_store(store, seeding)
        self._service = service.Service(
            self.store, self.switches, self.clock, self._visibility)
        self.links = links.Links(self)
        self.control = control.Control(self)

    @property
    def name(self) -> str:
        """The name of the system."""
        return str(self.store.at('/system/state/1')['system_name'])

    def _switches(self) -> profiles.Switches:
        """Those of the profile, and the choices of the start."""
        switches = profiles.switches_of(self.profile)
        switches.change(self._choices)
        return switches

    def _open_store(self, path: str | os.PathLike[str] | None,
                    seed: Seed | None) -> store_module.Store:
        disk = None if path is None else disk_module.Disk(path)
        with contextlib.ExitStack() as stack:
            if disk is not None:
                stack.callback(disk.close)
                self._check_profile(disk)
            store = store_module.Store(disk)
            stack.callback(store.close)
            if not store.tables['system/state'].rows:
                with store.transaction():
                    factory.build(store, self._equipment, self.clock)
                    if seed is not None:
                        seeding_module.plant(base.Scope(
                            store, self.switches, self.clock), seed)
                store.flush()
            elif furniture.is_missing(store):
                with store.transaction():
                    furniture.furnish(store)
                store.flush()
            stack.pop_all()
        return store

    def _check_profile(self, disk: disk_module.Disk) -> None:
        found = disk.meta('profile')
        if found is None:
            disk.set_meta('profile', self.profile)
        elif found != self.profile:
            raise errors.StateError(
                f'state {disk.path} is of profile {found}, not'
                f' {self.profile}')

    def reset(self) -> None:
        """Back to factory state, and to the switches of the start.

        The equipment is that of the start, too, and ids begin anew.
        """
        with self.lock:
            with self.store.transaction():
                known = peers.equipment(self.store)
                self.store.clear()
                factory.build(self.store, self._equipment, self.clock)
                peers.install(self.store, known)
            self._visibility.clear()
            self.switches.change(dataclasses.asdict(self._switches()))
        # Without the lock: it may have to wait for a peer.
        self.links.reset()

    def save(self) -> archive_module.Archive:
        """The whole state as it is now; switches and faults are not in it."""
        with self.lock:
            return archive_module.of(self.store, self.profile)

    def restore(self, archive: archive_module.Archive) -> None:
        """Take a saved state, as archive.read() gives it, for the own."""
        with self.lock:
            with self.store.transaction():
                self.store.clear()
                archive_module.fill(self.store, archive)
            self._visibility.clear()
        # Without the lock: it may have to wait for a peer.
        self.links.reset()

    def close(self) -> None:
        """Release the state file; for its peers the array is lost."""
        with self.lock:
            self.closed = True
            self.store.close()

    def handle(self, method: str, path: str, query: str = '',
               headers: Mapping[str, str] | None = None,
               body: bytes = b'') -> Response:
        """The reply to one request, at once: delays and cuts are not felt.

        path is as in the URL; query the part behind the question mark.
        """
        with self.exchange(method, path, query, headers, body) as exchange:
            return exchange.settled().response

    @contextlib.contextmanager
    def exchange(self, method: str, path: str, query: str = '',
                 headers: Mapping[str, str] | None = None,
                 body: bytes = b'') -> Iterator[Exchange]:
        """The reply to one request, and what happens to it on its way.

        For adapters: wait for exchange.commit as settled() does, and sleep
        exchange.delay, both inside the block, so that the journal counts
        the request as running meanwhile.
        """
        request = Request(
            method.upper(), urllib.parse.unquote(path), query,
            {name.lower(): value
             for name, value in (headers or {}).items()}, body)
        if control_api.serves(request.path):
            response = self._controlled(request)
            yield Exchange(response, commit=self.store.commit)
            return
        entry = self.journal.enter(
            request.method, request.path, query,
            request.headers.get('x-k2-sequence', ''),
            self.clock.monotonic())
        status = 0
        exchange = None
        try:
            exchange = dataclasses.replace(
                self._exchange(request, entry), commit=self.store.commit)
            status = 0 if exchange.cut == 'reset' \
                else exchange.response.status
            yield exchange
        finally:
            self.journal.leave(entry, status, self.clock.monotonic())
            if exchange is not None and self.recorder.is_running:
                self.recorder.add(
                    request, exchange, entry, self.clock.time())

    def _controlled(self, request: Request) -> Response:
        try:
            if request.path == wire.PATH:
                # Arrays talk as those who replicate.
                user = self._authenticate(request)
                roles.check(user.role, request.method, replicas.SESSIONS)
            else:
                self._controllers.authenticate(
                    request.headers.get('authorization', ''))
            return control_api.answer(self.control, request)
        except errors.ApiError as exc:
            return messages.refusal(exc.status, exc.message)
        except errors.StateError as exc:
            return messages.refusal(500, str(exc))

    def _authenticate(self, request: Request) -> users_module.User:
        return self._users.authenticate(
            request.headers.get('authorization', ''))

    def _exchange(self, request: Request,
                  entry: journal_module.Entry) -> Exchange:
        try:
            user = self._authenticate(request)
            self._limiter.take(user.role)
            path = request.path.removeprefix(BASE)
            if path == request.path or path and path[0] != '/':
                raise errors.no_resource()
            roles.check(user.role, request.method, path)
        except errors.ApiError as exc:
            return Exchange(messages.refusal(exc.status, exc.message),
                            self.faults.delay())
        request = Request(request.method, path, request.query,
                          request.headers, request.body, user.role,
                          user.login)
        plan = self.faults.plan(
            request.method, path.strip('/'),
            lambda: subjects.of(request, self.store))
        entry.fault, entry.carried_out = plan.fault, plan.is_carried_out
        return self._struck(request, plan)

    def _struck(self, request: Request,
                plan: faults_module.Plan) -> Exchange:
        """The reply after the fault rules have done their work on it."""
        done = Response(200, {'Content-Type': messages.JSON_TYPE})
        if plan.is_carried_out:
            done = self._serve(request, plan.weather)
        return faults_module.spoilt(done, plan)

    def _serve(self, request: Request,
               weather: visibility.Weather) -> Response:
        talk = conversation.Conversation()
        try:
            self.links.look()
            response = self._answer(request, weather, talk)
            self.links.tell(talk.touched)
            return response
        except errors.ApiError as exc:
            self.links.cancel(talk)
            return messages.refusal(exc.status, exc.message)
        except errors.StateError as exc:
            return messages.refusal(500, str(exc))
        except Exception:
            LOG.exception('%s %s failed', request.method, request.path)
            return messages.refusal(500, 'Internal error')

    def _answer(self, request: Request, weather: visibility.Weather,
                talk: conversation.Conversation) -> Response:
        """The reply, after peers were asked what they must be asked."""
        for _ in range(_ASKINGS):
            talk.begin()
            try:
                with self.lock:
                    return self._service.answer(request, weather, talk)
            except conversation.UnansweredError:
                self.links.ask(talk)
        raise errors.refused('The peer has no answer that lasts')
