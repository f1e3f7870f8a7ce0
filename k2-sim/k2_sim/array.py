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

"""The simulated array, independent of how requests reach it."""

from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
import contextlib
import dataclasses
import functools
import logging
import os
import threading
import time
from typing import Any
from typing import TypeVar
import urllib.parse

import msgspec

from k2_sim.access import accounts
from k2_sim.access import limiter
from k2_sim.access import login_throttle
from k2_sim.access import roles
from k2_sim.access import users as users_module
from k2_sim.api import service
from k2_sim.api import slices
from k2_sim.blocks import contents as contents_module
from k2_sim import clock as clock_module
from k2_sim.config.settings import Seed
from k2_sim.console import routes as console_module
from k2_sim.control import control
from k2_sim.control import control_api
from k2_sim import core as core_module
from k2_sim.data import data_store as data_store_module
from k2_sim.data import null
from k2_sim.data import usage_scanner
from k2_sim.data_planes import base as data_planes
from k2_sim.data_planes import publisher as publisher_module
from k2_sim import equipment as equipment_module
from k2_sim import errors
from k2_sim.faults import faults as faults_module
from k2_sim.faults import subjects
from k2_sim.faults import visibility
from k2_sim.initial import archive as archive_module
from k2_sim.initial import bootstrap
from k2_sim.initial import consistency
from k2_sim.initial import factory
from k2_sim.known import known_requests
from k2_sim.peers import links
from k2_sim import profiles
from k2_sim.protocol import messages
from k2_sim.protocol.messages import Exchange
from k2_sim.protocol.messages import Request
from k2_sim.protocol.messages import Response
from k2_sim.protocol import peering
from k2_sim.protocol import request_context
from k2_sim.recording import journal as journal_module
from k2_sim.recording import performance
from k2_sim.recording import recorder
from k2_sim.rules import base
from k2_sim.rules import peers
from k2_sim.rules import replicas
from k2_sim.state import reused_ids
from k2_sim.state import store as store_module

LOG = logging.getLogger(__name__)
# How often a request is tried again after further peer calls or copies.
_MAX_CALLS = 4
# The longest delay, in seconds, of the reply to a wrong password of another
# array: arrays wait 5 seconds for each other, and hold a lock meanwhile.
_PEER_PENALTY = 1.0
# Paths that may have to wait for files, besides the control API.
_WITH_COPIES = ('/snapshots', '/replication/sessions')
T = TypeVar('T')


class Array:
    """One simulated array; thread-safe.

    profile: k2 (no thin clones), sdp, or known (refuses requests that are
    not known to work on every array). store: path of its SQLite file, or
    None to keep the state in memory only. clock: the array's clock, real time
    by default. seed: makes random numbers repeatable. name, portals,
    wan_addresses and capacity (KiB), or equipment in place of all of them,
    apply only to a new state. role: the role of login; users: further
    accounts. control_user: the only account of the control API; None allows
    all accounts of the array. flex: access as through the cloud manager.
    behaviors: those that differ from the profile. seeding: objects that a new
    state has from the start; a reset removes them. contents: the files of
    volumes, not shared with other arrays; None means that tokens stand for
    data.

    Raises StateError when the state cannot be used or belongs to an array
    of another profile, ValueError for an unknown profile or role, ApiError
    for an invalid behavior.
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
                 flex: users_module.Flex | None = None,
                 behaviors: Mapping[str, Any] | None = None,
                 seeding: Seed | None = None,
                 contents: contents_module.Contents | None = None) -> None:
        self._choices = dict(behaviors or {})
        self._equipment = equipment or equipment_module.simple(
            name, portals, wan_addresses, capacity)
        self.core = self._core(profile, store, clock or clock_module.Clock(),
                               faults_module.Faults(seed), seeding, contents)
        self.login = (login, password)
        self._accounts = accounts.Accounts(
            (users_module.User(login, password, role), *users),
            control_user, flex)
        self._limiter = limiter.Limiter(self.behaviors, self.clock)
        self._long_reads = threading.Lock()
        self._throttle = login_throttle.LoginThrottle(self.clock)
        self._visibility = visibility.Visibility(self.clock)
        self._publisher: publisher_module.Publisher | None = None
        self._service = service.Service(
            self.store, self.behaviors, self.clock, self._visibility,
            self.core.io)
        self.links = links.Links(self.core)
        self._reuse_ids()
        self.control = control.Control(self.core, self.links, self)
        self.outages = self.control.outages
        self.console = console_module.Console(
            self.core, self.control, self._accounts.users,
            self._accounts.controllers)

    def _core(self, profile: str, store: str | os.PathLike[str] | None,
              clock: clock_module.Clock, faults: faults_module.Faults,
              seeding: Seed | None,
              contents: contents_module.Contents | None) -> core_module.Core:
        behaviors = self._behaviors(profile)
        rows = bootstrap.open_store(
            store, profile, self._equipment, seeding, behaviors, clock)
        lock = threading.RLock()
        data_store: data_store_module.DataStore | null.NullDataStore = (
            null.NullDataStore())
        scanner: usage_scanner.UsageScanner | null.NullUsageScanner = (
            null.NullUsageScanner())
        if contents is not None:
            try:
                data_store = data_store_module.DataStore(
                    contents, rows, lock, clock)
            except BaseException:
                rows.close()
                raise
            scanner = usage_scanner.UsageScanner(contents, rows, lock)
        return core_module.Core(
            profile, clock, behaviors, rows, faults, journal_module.Journal(),
            recorder.Recorder(), performance.Performance(clock), contents,
            lock, data_store, scanner)

    def _reuse_ids(self) -> None:
        """Set up the reuse of ids that nothing refers to any more (OBJ-7)."""
        self.store.reused_id = reused_ids.ReusedIds(
            self.store, self.behaviors, self._visibility.knows,
            {'volumes': self.core.io.retire,
             replicas.PEERS: self.links.forget}).take

    @property
    def name(self) -> str:
        """The name of the system."""
        return self.control.name

    @property
    def is_open(self) -> bool:
        """Whether peers can reach the array."""
        return self.links.is_open

    @property
    def profile(self) -> str:
        """The name of the array's profile."""
        return self.core.profile

    @property
    def behaviors(self) -> profiles.Behaviors:
        """How the array behaves where sources disagree or arrays differ."""
        return self.core.behaviors

    @property
    def store(self) -> store_module.Store:
        """The array's rows; callers must hold the lock."""
        return self.core.store

    @property
    def lock(self) -> threading.RLock:
        """See core.Core."""
        return self.core.lock

    @property
    def clock(self) -> clock_module.Clock:
        """The array's clock."""
        return self.core.clock

    def _behaviors(self, profile: str) -> profiles.Behaviors:
        """The profile's behaviors, changed by those of the constructor."""
        behaviors = profiles.behaviors_of(profile)
        behaviors.change(self._choices)
        return behaviors

    def own(self, resource: str, number: int, live: bool = False) -> str:
        """The token of a volume, or of its image in a view, for writing.

        No other row has the token, its file is at least as long as the row
        is large, and both are on disk. live: from now on initiators write
        to the file (see Contents.live). Callers must not hold the array's
        lock. Raises ApiError (404, 400), StateError, and TypeError without
        contents.
        """
        return self.core.data_store.own(resource, number, live)

    def reset(self) -> None:
        """Reset to factory state, and to the initial behaviors.

        The equipment is the initial one again, with its peers, and ids
        restart.
        """
        self.outages.end()
        with self.lock:
            with self.store.transaction():
                known = peers.equipment(self.store)
                self.store.clear()
                factory.build(self.store, self._equipment, self.clock)
                peers.install(self.store, known)
            self._visibility.clear()
            self.core.io.clear()
            self.behaviors.change(dataclasses.asdict(
                self._behaviors(self.profile)))
        # Without the lock: it may have to wait for a peer.
        self.links.reset()
        self.core.data_store.sweep()

    def save(self) -> archive_module.Archive:
        """The whole current state, without behaviors and faults."""
        with self.lock:
            return archive_module.of(self.store, self.profile)

    def restore(self, archive: archive_module.Archive) -> None:
        """Replace the state with a saved one, as archive.read() returns it.

        A saved state has no data: files that exist under its tokens are used
        as they are now, and all other volumes read as zeros.
        """
        self.outages.end()
        with self.lock:
            with self.store.transaction():
                self.store.clear()
                archive_module.fill(self.store, archive)
                self.clock.not_before(consistency.latest(self.store))
                self.core.data_store.drop_missing()
            self._visibility.clear()
            self.core.io.clear()
        # Without the lock: it may have to wait for a peer.
        self.links.reset()
        self.core.data_store.sweep()

    def serve(self, data_plane: data_planes.DataPlane) -> data_planes.Exports:
        """Export mapped volumes to initiators, until the array is closed.

        Takes ownership of the data plane, and returns its exports. Raises
        DataPlaneError on failure, and TypeError without contents.
        """
        self._publisher = publisher_module.Publisher(self.core, data_plane)
        return self._publisher.exports

    def close(self) -> None:
        """Release the state file; peers can no longer reach the array."""
        if self._publisher is not None:
            self._publisher.close()
        with self.lock:
            self.core.closed = True
            self.store.close()

    def handle(self, method: str, path: str, query: str = '',
               headers: Mapping[str, str] | None = None,
               body: bytes = b'') -> Response:
        """The reply to one request, without delays and broken connections.

        path is as in the URL; query is the part after the question mark.
        """
        with self.exchange(method, path, query, headers, body) as exchange:
            return exchange.settled().response

    @contextlib.contextmanager
    def exchange(self, method: str, path: str, query: str = '',
                 headers: Mapping[str, str] | None = None,
                 body: bytes = b'', address: str = '', *,
                 may_pause: bool = False) -> Iterator[Exchange]:
        """The reply to one request, and how to deliver it.

        address: the caller's; each has its own count of wrong passwords.
        may_pause: whether other requests may be served during a long read
        (see is_long); the caller must not hold the lock then.

        Adapters must wait for exchange.commit and exchange.publication as
        settled() does, and sleep exchange.delay, both inside the block, so
        that the journal counts the request as running meanwhile.
        """
        request = Request(
            method.upper(), urllib.parse.unquote(path), query,
            {name.lower(): value
             for name, value in (headers or {}).items()}, body,
            address=address, may_pause=may_pause)
        if self._publisher is not None:
            # Earlier changes by this thread do not belong to this request.
            self._publisher.taken()
        aside = self._aside(request)
        if aside is not None:
            yield self._awaiting(aside)
            return
        entry = self.core.journal.enter(
            request.method, request.path, query,
            request.headers.get('x-k2-sequence', ''),
            self.clock.monotonic())
        status = 0
        exchange = None
        try:
            exchange = self._awaiting(
                self._answered(request, entry)
                if len(path) + len(query) < messages.LONGEST_URL
                else Exchange(messages.url_too_long(),
                              self.core.faults.delay()))
            status = 0 if exchange.cut == 'reset' \
                else exchange.response.status
            yield exchange
        finally:
            self.core.journal.leave(entry, status, self.clock.monotonic())
            if exchange is not None and self.core.recorder.is_running:
                self.core.recorder.add(
                    request, exchange, entry, self.clock.time())

    def _awaiting(self, exchange: Exchange) -> Exchange:
        """Add what must be complete before the reply is sent."""
        commit = self.store.commit
        publication = None if self._publisher is None \
            else self._publisher.taken()
        if commit is None and publication is None:
            return exchange
        return msgspec.structs.replace(
            exchange, commit=commit, publication=publication)

    def body_limit(self, path: str, headers: Mapping[str, str]) -> int:
        """The number of bytes of a body to read at most.

        0 for a caller of an API without valid credentials, who is refused
        anyway.

        path is as in the URL; header names are in lower case.
        """
        path = urllib.parse.unquote(path)
        if console_module.serves(path):
            return console_module.LARGEST_BODY
        header = headers.get('authorization', '')
        try:
            if control_api.serves(path):
                self._controller(path, header)
            else:
                self._accounts.admit(path, header)
        except errors.ApiError:
            return 0
        return messages.LARGEST_BODY

    def _aside(self, request: Request) -> Exchange | None:
        """The exchange of a request to the control API or the console.

        None for a request to the API of the array.
        """
        if control_api.serves(request.path):
            response = _replied(request, lambda: self._controlled(request))
            return Exchange(response, self._penalty(request, response.status))
        if console_module.serves(request.path):
            return Exchange(self.console.answer(request))
        return None

    def _controlled(self, request: Request) -> Response:
        user = self._controller(
            request.path, request.headers.get('authorization', ''))
        if _is_of_peer(request.path):
            # The account of a peer must be allowed to replicate.
            roles.check(user.role, request.method, replicas.SESSIONS)
            request = msgspec.structs.replace(request, role=user.role)
        return control_api.answer(self.control, request)

    def _controller(self, path: str, header: str) -> users_module.User:
        """The user of a request to the control API; raises ApiError."""
        users = self._accounts.users if _is_of_peer(path) \
            else self._accounts.controllers
        return users.authenticate(header)

    def _penalty(self, request: Request, status: int) -> float:
        """The delay, in seconds, of the reply to a wrong password.

        0 if there was no password: clients first ask without one.
        """
        if status != 401 or not request.headers.get('authorization'):
            return 0.0
        seconds = self._throttle.fail(request.address)
        return min(seconds, _PEER_PENALTY) if _is_of_peer(
            request.path) else seconds

    def _answered(self, request: Request,
                  entry: journal_module.Entry) -> Exchange:
        """The exchange; an unexpected error becomes a 500."""
        try:
            return self._exchange(request, entry)
        except Exception:
            LOG.exception('%s %s failed', request.method, request.path)
            return Exchange(messages.refusal(500, 'Internal error'))

    def _exchange(self, request: Request,
                  entry: journal_module.Entry) -> Exchange:
        try:
            user, base_path = self._accounts.admit(
                request.path, request.headers.get('authorization', ''))
            self._limiter.take(user.role)
            path = request.path.removeprefix(base_path)
            if path == request.path or path and path[0] != '/':
                raise errors.no_resource()
            request = known_requests.admit(Request(
                request.method, path, request.query, request.headers,
                request.body, user.role, user.login, request.address,
                request.may_pause),
                self.behaviors.refuse_unlisted, self.behaviors.refuse_only)
            roles.check(user.role, request.method, path)
        except errors.ApiError as exc:
            return Exchange(
                messages.refusal(exc.status, exc.message),
                self.core.faults.delay() + self._penalty(request, exc.status),
                'reset' if isinstance(exc, errors.DroppedError) else '')
        self.outages.settle()
        plan = self.core.faults.plan(
            request.method, path.strip('/'),
            lambda: subjects.of(request, self.store))
        entry.fault, entry.carried_out = plan.fault, plan.is_carried_out
        return self._faulty(request, plan)

    def _faulty(self, request: Request,
                plan: faults_module.Plan) -> Exchange:
        """The reply after the fault rules have been applied to it."""
        done = Response(200)
        with self.outages.during(plan.outages):
            if plan.is_carried_out:
                done = _replied(
                    request, lambda: self._serve(request, plan.stale))
        return faults_module.apply(done, plan)

    def _serve(self, request: Request,
               stale: visibility.StaleReads) -> Response:
        context = request_context.RequestContext(self.core.contents)
        try:
            self._run_due()
            response = self._ended(self._carry_out(
                context, lambda: self._service.answer(
                    request, stale, context)))
            self.links.notify(context.touched)
            if not self.core.has_maintenance:
                self.links.send_data()
            return response
        except errors.ApiError:
            self.links.cancel(context)
            raise

    def _ended(self, answer: Response | slices.Slices[Response]) -> Response:
        """The reply; a long read releases the lock between its slices."""
        if isinstance(answer, Response):
            return answer
        while True:
            # All long reads together take at most half of the time.
            with self._long_reads:
                with self.lock:
                    has_ended = answer.next_slice()
                if has_ended:
                    return answer.result
                if self.core.closed:
                    raise errors.StateError('The array has been stopped')
                time.sleep(slices.SECONDS)

    def _carry_out(self, context: request_context.RequestContext,
                   action: Callable[[], T]) -> T:
        """The result of an action, after the calls and copies it needs."""
        try:
            with self.lock:
                return action()
        except request_context.PendingError:
            return self._resolve(context, action)

    def _resolve(self, context: request_context.RequestContext,
                 action: Callable[[], T]) -> T:
        """Make the pending calls and copies, and repeat the action."""
        with contextlib.ExitStack() as until:
            until.callback(self.core.data_store.end, context)
            for _ in range(_MAX_CALLS):
                self.links.call(context, until)
                self.core.data_store.freeze(context, until)
                context.begin()
                with contextlib.suppress(
                        request_context.PendingError), self.lock:
                    return action()
            raise errors.refused('The replies of the peer keep changing')

    def _run_due(self) -> None:
        """Do what is due; a failure does not fail the current request."""
        if self.core.has_maintenance:
            self.links.sync_local()
            return
        try:
            self.run_maintenance()
        except (errors.ApiError, errors.StateError) as exc:
            LOG.error('maintenance failed: %s', exc)

    def tick(self) -> None:
        """Do all that is due by the clock, and sample statistics."""
        self.run_maintenance()
        self.console.sample()

    def run_maintenance(self) -> None:
        """Do all that is due by the clock, including slow work.

        Raises an error after everything has been tried.
        """
        if self.core.closed:
            return
        with contextlib.ExitStack() as steps:
            # In reverse order, and each even if others fail: a full disk
            # must not prevent the removal of files.
            steps.callback(self.core.data_store.run_maintenance)
            steps.callback(self.links.send_data)
            steps.callback(self.links.sync)
            steps.callback(self._run_due_rules, self.links.settle)
            steps.callback(self._run_due_rules, self._service.expire)

    def _run_due_rules(self, action: Callable[[base.Scope], object]) -> None:
        context = request_context.RequestContext(self.core.contents)
        self._carry_out(context, functools.partial(action, base.Scope(
            self.store, self.behaviors, self.clock, context=context)))

    def is_long(self, method: str, path: str, query: str) -> bool:
        """Whether a request reads so much that it is served in slices.

        path and query are as in the URL.
        """
        path = urllib.parse.unquote(path)
        base_path = self._accounts.base_path(path)
        return path.startswith(base_path) and self._service.is_long(
            method.upper(), path.removeprefix(base_path), query)

    def may_wait(self, path: str) -> bool:
        """Whether a request may have to wait for a peer, or for files.

        path is as in the URL.
        """
        path = urllib.parse.unquote(path)
        if self.core.data_store.has_files and path != peering.PATH and (
                control_api.serves(path) or path.removeprefix(accounts.BASE)
                .startswith(_WITH_COPIES)):
            return True
        return self.links.may_wait(path)


def _is_of_peer(path: str) -> bool:
    """Whether requests to a path come from other arrays."""
    return path in (peering.PATH, peering.DATA_PATH)


def _replied(request: Request, answer: Callable[[], Response]) -> Response:
    """The response of answer(), or one for its refusal or failure."""
    try:
        return answer()
    except errors.ApiError as exc:
        return messages.refusal(exc.status, exc.message)
    except errors.StateError as exc:
        return messages.refusal(500, str(exc))
    except Exception:
        LOG.exception('%s %s failed', request.method, request.path)
        return messages.refusal(500, 'Internal error')
