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

"""The links between arrays: calls to peers, and session updates.

No lock of an array is held while waiting for another array. A request that
changes sessions first calls the peer, then changes this array, then sends
the peer an update of the sessions. If the update is not sent, because a
process ended or the link was cut, it follows on the next contact: on the
first contact, and after each loss of the link, both arrays exchange all
their sessions.
"""

from collections.abc import Iterable
from collections.abc import Iterator
import contextlib
import dataclasses
import functools
import logging
import math
import threading
import time

from k2_sim import core as core_module
from k2_sim.data import outbound
from k2_sim import errors
from k2_sim.peers import transport
from k2_sim.protocol import peering
from k2_sim.protocol.request_context import Address
from k2_sim.protocol.request_context import PeerReply
from k2_sim.protocol.request_context import PeerRequest
from k2_sim.protocol.request_context import PendingError
from k2_sim.protocol.request_context import RequestContext
from k2_sim.rules import base
from k2_sim.rules import pairing
from k2_sim.rules import peer_requests
from k2_sim.rules import peers
from k2_sim.rules import replicas
from k2_sim.rules import session_sync
from k2_sim.rules import states
from k2_sim.rules import transfers
from k2_sim.state.schema import Row


LOG = logging.getLogger(__name__)
# Real seconds between two attempts to reach a peer in another process.
_PROBE_EVERY = 1.0
# An update can require another one; the rest is left to the next sync().
_MAX_ROUNDS = 4
_NEVER = 1e9
# Requests that create objects on the peer.
_CREATING = ('create', 'add_volume')


@dataclasses.dataclass
class _State:
    """The state of the link to one peer, in memory only.

    synced: whether both sides have exchanged all their sessions since the
    link came up. contact_at: when the next change on the peer is due, on
    this array's clock. tried: the real time of the last message, monotonic.
    wanted: the data that the peer needs before it can apply what has
    been transferred (see peering.UpdateReply).
    """

    synced: bool = False
    contact_at: float = 0.0
    tried: float = -math.inf
    wanted: dict[str, str] = dataclasses.field(default_factory=dict)


class Links:
    """The links of one array.

    transport: sends to the peers. address: where they reach this array.
    """

    def __init__(self, core: core_module.Core) -> None:
        self._core = core
        self.transport = transport.Transport()
        self.address = ''
        self._states: dict[int, _State] = {}
        self._unsent: dict[int, int] = {}
        self._due = 0.0
        # Held while waiting for a peer; not needed to handle its messages.
        self._sync_lock = threading.RLock()
        # How many requests are creating objects on a peer now.
        self._creating_requests = 0
        # Held while data is sent; nothing else waits for it.
        self._data_lock = threading.Lock()

    def reset(self) -> None:
        """Discard the state of all links."""
        with self._sync_lock:
            self._states.clear()
            self._unsent.clear()
            self._due = 0.0

    def forget(self, number: int) -> None:
        """Discard the state of a link, as its peer was deleted."""
        self._states.pop(number, None)

    def may_wait(self, path: str) -> bool:
        """Whether a request may have to wait for another array.

        It waits for the process of the peer, or at least for its disk. A
        message from a peer never waits: it is handled with local state.
        """
        if replicas.PEERS in path:
            return True
        return path != peering.PATH and not self._is_alone and (
            self._core.store.has_disk or any(
                row['mgmt_host'] not in self.transport.network
                for row in self._peers()))

    @property
    def _is_alone(self) -> bool:
        return not self._core.store.tables[replicas.PEERS].rows

    def _peers(self) -> list[Row]:
        with self._core.lock:
            return self._core.store.rows(replicas.PEERS)

    def _scope(self, role: str = 'admin') -> base.Scope:
        return self._core.scope(role)

    def add_peer(self, name: str, address: Address) -> None:
        """Add a peer as part of the equipment."""
        core = self._core
        with core.lock, core.store.transaction():
            peers.add(core.store, name, address)
        self.reset()

    # Outgoing.

    def call(self, context: RequestContext,
             until: contextlib.ExitStack) -> None:
        """Send the peers all pending calls of a request.

        until: updates are marked as incomplete until this stack is closed,
        so that the peers keep the objects that the calls create.
        """
        if any(request.kind in _CREATING
               for request in context.pending.values()):
            until.enter_context(self._creating())
        by_address: dict[Address, list[PeerRequest]] = {}
        for request in context.pending.values():
            by_address.setdefault(request.address, []).append(request)
        for address, requests in by_address.items():
            for reply in self._send_requests(address, requests):
                context.replies[reply.request.key] = reply

    @contextlib.contextmanager
    def _creating(self) -> Iterator[None]:
        """Mark updates as incomplete inside: they lack new sessions."""
        with self._sync_lock:
            self._creating_requests += 1
            try:
                yield
            finally:
                self._creating_requests -= 1

    def _send_requests(self, address: Address, requests: list[PeerRequest]
                       ) -> list[PeerReply]:
        message = peering.Requests(self._sender(), [
            (request.kind, request.fields) for request in requests])
        try:
            reply = self._send(address, message, peering.Replies)
        except transport.LinkDownError as exc:
            text = f'Peer {address.host} cannot be reached: {exc}'
            return [PeerReply(request, {}, text) for request in requests]
        self._retry_soon(address)
        return [PeerReply(request, *answer)
                for request, answer in zip(requests, reply.replies)]

    def _retry_soon(self, address: Address) -> None:
        """Do not delay the next sync with a peer that has just replied."""
        for peer in self._peers():
            state = self._states.get(peer['id'])
            if state is not None and not state.synced and (
                    peers.address_of(peer) == address):
                state.tried = -math.inf

    def _send(self, address: Address, message: peering.Message,
              kind: type[transport.R]) -> transport.R:
        """Send a message once its content is on disk; returns the reply."""
        self._core.store.flush()
        return self.transport.send(address, message, kind)

    def _sender(self) -> peering.Sender:
        with self._core.lock:
            row = self._core.store.at('/system/state/1')
        return peering.Sender(row['system_id'], row['system_name'],
                              self.address, self._core.data_store.has_files)

    def cancel(self, context: RequestContext) -> None:
        """Remove what peers created for a request that was refused later."""
        for reply in context.replies.values():
            if (reply.request.kind in _CREATING
                    and not reply.refusal):
                self._send_requests(reply.request.address, [PeerRequest(
                    reply.request.address, 'cancel', {
                        'session': reply.fields.get('session', 0),
                        'volume': reply.fields.get('volume', 0)})])

    def notify(self, touched: Iterable[int]) -> None:
        """Send the peers the sessions that have changed."""
        if touched:
            self._mark_unsent(touched)
            self.sync()

    def _mark_unsent(self, touched: Iterable[int]) -> None:
        with self._core.lock:
            self._due = 0.0
            for number in touched:
                self._unsent[number] = self._unsent.get(number, 0) + 1

    def sync(self) -> None:
        """Do what is due by the clock, and exchange updates with all peers."""
        if self._core.closed or self._is_alone:
            return
        with self._sync_lock:
            self._run_due()
            for peer in self._peers():
                self._sync_peer(peer['id'])

    def sync_local(self) -> None:
        """Do what is due by the clock, and sync with peers of this process.

        Peers in other processes are left to the next sync(), which can wait
        for them.
        """
        if self._core.closed or self._is_alone:
            return
        self._run_due()
        near = [peer['id'] for peer in self._peers()
                if peer['mgmt_host'] in self.transport.network]
        if near and self._sync_lock.acquire(blocking=False):
            try:
                for number in near:
                    self._sync_peer(number)
            finally:
                self._sync_lock.release()

    def _run_due(self) -> None:
        """Do what is due on this array, unless copies must be made first."""
        with self._core.lock, contextlib.suppress(PendingError):
            self.settle(self._scope())

    def settle(self, scope: base.Scope) -> None:
        """Do what is due on this array, and mark sessions to be sent.

        Call it with the lock held. Raises PendingError if copies must be
        made first.
        """
        if scope.now < self._due:
            return
        with scope.store.transaction():
            states.settle(scope)
        self._unsent.update(
            (number, self._unsent.get(number, 0) + 1)
            for number in scope.context.touched)
        self._due = transfers.due(scope)

    def _sync_peer(self, number: int) -> None:
        state = self._states.setdefault(number, _State())
        for _ in range(_MAX_ROUNDS):
            with self._core.lock:
                peer = self._core.store.get(replicas.PEERS, number)
                if peer is None:
                    return
                message, sent = self._next_update(peer, state)
            if message is None:
                return
            try:
                reply = self._send(
                    peers.address_of(peer), message, peering.UpdateReply)
            except transport.LinkDownError:
                self._mark_lost(number, state)
                return
            self._process_reply(number, state, reply, sent)

    def _next_update(self, peer: Row, state: _State
                     ) -> tuple[peering.SessionUpdate | None,
                                dict[int, int]]:
        """The next update for a peer, and the changes that it covers."""
        if not state.synced and self._is_early(peer, state):
            return None, {}
        scope = self._scope()
        rows = replicas.sessions_with(scope, peer['id'])
        sent = {row['id']: self._unsent[row['id']] for row in rows
                if row['id'] in self._unsent}
        if state.synced:
            rows = [row for row in rows if row['id'] in sent
                    or transfers.arrived(scope, row) and not state.wanted]
            if (not rows and scope.now < state.contact_at
                    and not self._must_probe(peer, state)):
                return None, {}
        return peering.SessionUpdate(
            self._sender(), [session_sync.view(scope, row) for row in rows],
            not state.synced, self._next_in(scope)), sent

    def _next_in(self, scope: base.Scope) -> float:
        """Seconds until the next change of this array by the clock."""
        return min(max(0.0, transfers.due(scope) - scope.now), _NEVER)

    def _is_early(self, peer: Row, state: _State) -> bool:
        """Whether it is too early to retry a lost peer in another process."""
        return (peer['mgmt_host'] not in self.transport.network
                and time.monotonic() < state.tried + _PROBE_EVERY)

    def _must_probe(self, peer: Row, state: _State) -> bool:
        array = self.transport.network.get(peer['mgmt_host'])
        if array is not None and not array.is_open:
            return True
        return self.transport.cut or (array is None and time.monotonic()
                                      >= state.tried + _PROBE_EVERY)

    def _mark_lost(self, number: int, state: _State) -> None:
        """Record that a peer is unreachable; suspend its sources (REP-19)."""
        state.synced = False
        state.wanted = {}
        state.tried = time.monotonic()
        core = self._core
        with core.lock, core.store.transaction():
            peer = core.store.get(replicas.PEERS, number)
            if peer is not None and (
                    peer['mgmt_connectivity_state'] != peers.LOST):
                core.store.update(replicas.PEERS, number,
                                  mgmt_connectivity_state=peers.LOST)
            states.suspend_all(self._scope(), number)
            self._due = 0.0

    def _process_reply(self, number: int, state: _State,
                       reply: peering.UpdateReply, sent: dict[int, int]
                       ) -> None:
        """Process the reply to an update."""
        core = self._core
        with core.lock:
            scope = self._scope()
            with core.store.transaction():
                peer = core.store.get(replicas.PEERS, number)
                if peer is None:
                    return
                if not state.synced:
                    peers.note(scope, peer, reply.about)
                session_sync.merge(scope, peer, reply.views,
                                   reply.whole and not state.synced)
                if reply.whole:
                    session_sync.forget(scope, reply.unknown)
            for sent_id, count in sent.items():
                if self._unsent.get(sent_id) == count:
                    del self._unsent[sent_id]
            self._mark_unsent(scope.context.touched)
            self._due = 0.0
            state.contact_at = scope.now + reply.next_in
        state.synced = state.synced or reply.whole
        state.wanted = reply.wanted
        state.tried = time.monotonic()

    def send_data(self) -> None:
        """Send the peers the data that they want, and then the updates.

        This can take long, but requests need not wait for it.
        """
        with self._data_lock:
            for _ in range(_MAX_ROUNDS):
                waiting = [(number, state) for number, state
                           in list(self._states.items()) if state.wanted]
                for number, state in waiting:
                    self._send_data(number, state)
                if waiting:
                    self.sync()

    def _send_data(self, number: int, state: _State) -> None:
        with self._core.lock:
            peer = self._core.store.get(replicas.PEERS, number)
        try:
            for token, known in state.wanted.items():
                if peer is not None:
                    self._push(peers.address_of(peer), token, known)
        except transport.LinkDownError:
            with self._sync_lock:
                self._mark_lost(number, state)
        # The reply to the next update lists what is still missing.
        state.wanted = {}

    def _push(self, address: Address, token: str, known: str) -> None:
        """Send a file as the difference from a known one; count the bytes."""
        core = self._core
        sent = outbound.send(core.data_store, token, known, functools.partial(
            self.transport.push, address))
        if sent.logical:
            with core.lock, core.store.transaction():
                transfers.note_sent(self._scope(), token, sent)

    # Incoming.

    @property
    def is_open(self) -> bool:
        """Whether peers can reach this array."""
        return not self.transport.cut and not self._core.closed

    def receive(self, body: object, role: str
                ) -> peering.Replies | peering.UpdateReply:
        """The reply to a peer's message; raises ApiError (400, 500, 503).

        role: the role of the account with which the peer logs in.
        """
        if not self.is_open:
            raise errors.ApiError(503, 'The link is cut')
        message = peering.read(body)
        try:
            with self._core.lock:
                if isinstance(message, peering.SessionUpdate):
                    return self._follow(message)
                return peering.Replies([
                    self._handle(role, message.sender, *request)
                    for request in message.requests])
        except errors.ApiError:
            raise
        except Exception as exc:
            LOG.exception('message of a peer failed')
            raise errors.ApiError(500, 'Internal error') from exc

    def receive_data(self, body: bytes) -> peering.Taken:
        """The reply to data from a peer; raises ApiError (400, 503)."""
        if not self.is_open:
            raise errors.ApiError(503, 'The link is cut')
        return self._core.data_store.inbound.take(peering.read_piece(body))

    def _handle(self, role: str, sender: peering.Sender, kind: str,
                fields: peering.Fields) -> tuple[peering.Fields, str]:
        self._due = 0.0
        try:
            with self._core.store.transaction():
                return peer_requests.handle(
                    self._scope(role), sender, kind, fields), ''
        except errors.ApiError as exc:
            return {}, exc.message

    def _follow(self, update: peering.SessionUpdate) -> peering.UpdateReply:
        """Apply an update from a peer; returns the state of sessions here."""
        self._due = 0.0
        self._run_due()
        scope = self._scope()
        with self._core.store.transaction():
            peer = pairing.find_peer(scope, update.sender)
            if peer is None:
                raise errors.refused('No peer of this array')
            unknown = session_sync.merge(
                scope, peer, update.views, update.full)
        self._due = 0.0
        state = self._states.setdefault(peer['id'], _State())
        state.contact_at = scope.now + update.next_in
        if not state.synced:
            state.tried = -math.inf
        rows = self._sessions_for(scope, peer, update)
        return peering.UpdateReply(
            [session_sync.view(scope, row) for row in rows], unknown,
            self._next_in(scope),
            peer_requests.describe(scope) if update.full else {},
            scope.context.wanted, not self._creating_requests)

    def _sessions_for(self, scope: base.Scope, peer: Row,
                      update: peering.SessionUpdate) -> list[Row]:
        """The sessions in the update, and others that the peer needs."""
        named = {item['remote'] for item in update.views}
        return [row for row in replicas.sessions_with(scope, peer['id'])
                if update.full or row['id'] in named
                or row['id'] in self._unsent
                or transfers.arrived(scope, row)]
