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

"""The links between arrays: who asks whom, and when.

No lock of an array is held while another array is waited for. A request
that changes sessions first asks the peer what it must know, then changes
this array, then tells the peer the news. What is not told, because a
process ended or the link was cut, is told when the arrays meet again: at
the first contact, and after each loss, both sides show each other all
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
from k2_sim.protocol.request_context import Answer
from k2_sim.protocol.request_context import Question
from k2_sim.protocol.request_context import RequestContext
from k2_sim.protocol.request_context import UnansweredError
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
# Real seconds between two attempts at a peer in another process.
_PROBE_EVERY = 1.0
# News may call for more news; after so many turns the next look goes on.
_TURNS = 4
_NEVER = 1e9
# Questions that a peer makes something for.
_MAKING = ('create', 'add_volume')


@dataclasses.dataclass
class _State:
    """What is known of the link to one peer, in memory only.

    met: whether both sides have shown each other all their sessions since
    the link came up. contact_at: the array's time at which the peer has
    something new. tried: the real time of the last message. wanted: what
    the peer needs before parcels can arrive (see peering.Reply).
    """

    met: bool = False
    contact_at: float = 0.0
    tried: float = -math.inf
    wanted: dict[str, str] = dataclasses.field(default_factory=dict)


class Links:
    """The links of one array.

    transport: the way to the peers. address: how they reach this array.
    """

    def __init__(self, core: core_module.Core) -> None:
        self._core = core
        self.transport = transport.Transport()
        self.address = ''
        self._states: dict[int, _State] = {}
        self._untold: dict[int, int] = {}
        self._due = 0.0
        # Held while a peer is waited for; never wanted by what answers.
        self._meeting = threading.RLock()
        # How many requests make something on a peer right now.
        self._makes = 0
        # Held while data is sent; nothing else waits for that.
        self._outbound = threading.Lock()

    def reset(self) -> None:
        """Forget what was known of the peers."""
        with self._meeting:
            self._states.clear()
            self._untold.clear()
            self._due = 0.0

    def forget(self, number: int) -> None:
        """Another peer gets the id of one that is gone."""
        self._states.pop(number, None)

    def may_wait(self, path: str) -> bool:
        """Whether a request may have to wait for another array.

        It waits for that one's process, or at least for its disk. What a
        peer says never does: it is answered by what is here.
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
        """Know a peer from the start, as part of the equipment."""
        core = self._core
        with core.lock, core.store.transaction():
            peers.add(core.store, name, address)
        self.reset()

    # Speaking.

    def ask(self, talk: RequestContext, until: contextlib.ExitStack) -> None:
        """Ask the peers all open questions of a request.

        until: what they make for it is no leftover before it is closed.
        """
        if any(question.kind in _MAKING for question in talk.open.values()):
            until.enter_context(self._making())
        by_address: dict[Address, list[Question]] = {}
        for question in talk.open.values():
            by_address.setdefault(question.address, []).append(question)
        for address, asked in by_address.items():
            for answer in self._answers(address, asked):
                talk.answers[answer.question.key] = answer

    @contextlib.contextmanager
    def _making(self) -> Iterator[None]:
        """Inside, no peer is told all there is: what it makes is missing."""
        with self._meeting:
            self._makes += 1
            try:
                yield
            finally:
                self._makes -= 1

    def _answers(self, address: Address,
                 asked: list[Question]) -> list[Answer]:
        message = peering.Ask(self._sender(), [
            (question.kind, question.fields) for question in asked])
        try:
            reply = self._send(address, message, peering.Answers)
        except transport.LinkDownError as exc:
            text = f'Peer {address.host} cannot be reached: {exc}'
            return [Answer(question, {}, text) for question in asked]
        self._meet_soon(address)
        return [Answer(question, *answer)
                for question, answer in zip(asked, reply.answers)]

    def _meet_soon(self, address: Address) -> None:
        """A peer that has answered is back: the next look is not early."""
        for peer in self._peers():
            state = self._states.get(peer['id'])
            if state is not None and not state.met and (
                    peers.address_of(peer) == address):
                state.tried = -math.inf

    def _send(self, address: Address, message: peering.Message,
              kind: type[transport.R]) -> transport.R:
        """A message and its reply; what it tells is on disk before."""
        self._core.store.flush()
        return self.transport.send(address, message, kind)

    def _sender(self) -> peering.Sender:
        with self._core.lock:
            row = self._core.store.at('/system/state/1')
        return peering.Sender(row['system_id'], row['system_name'],
                              self.address, self._core.data_store.has_files)

    def cancel(self, talk: RequestContext) -> None:
        """Undo what peers made for a request that was refused after all."""
        for answer in talk.answers.values():
            if (answer.question.kind in _MAKING
                    and not answer.refusal):
                self._answers(answer.question.address, [Question(
                    answer.question.address, 'cancel', {
                        'session': answer.fields.get('session', 0),
                        'volume': answer.fields.get('volume', 0)})])

    def tell(self, touched: Iterable[int]) -> None:
        """Let the peers know that sessions have changed."""
        if touched:
            self._touch(touched)
            self.look()

    def _touch(self, touched: Iterable[int]) -> None:
        with self._core.lock:
            self._due = 0.0
            for number in touched:
                self._untold[number] = self._untold.get(number, 0) + 1

    def look(self) -> None:
        """Do what is due by the clock, and see how the peers are."""
        if self._core.closed or self._is_alone:
            return
        with self._meeting:
            self._settle()
            for peer in self._peers():
                self._meet(peer['id'])

    def look_near(self) -> None:
        """Do what is due by the clock, and see peers of this process.

        Those of other processes are left to the next look(): it may have
        to wait for them.
        """
        if self._core.closed or self._is_alone:
            return
        self._settle()
        near = [peer['id'] for peer in self._peers()
                if peer['mgmt_host'] in self.transport.network]
        if near and self._meeting.acquire(blocking=False):
            try:
                for number in near:
                    self._meet(number)
            finally:
                self._meeting.release()

    def _settle(self) -> None:
        """Do what is due here, unless copies must be made first."""
        with self._core.lock, contextlib.suppress(UnansweredError):
            self.settle(self._scope())

    def settle(self, scope: base.Scope) -> None:
        """Do what is due here; the peers may have to hear of it.

        Comes with the lock. Raises UnansweredError if copies must be made
        first.
        """
        if scope.now < self._due:
            return
        with scope.store.transaction():
            states.settle(scope)
        self._untold.update(
            (number, self._untold.get(number, 0) + 1)
            for number in scope.talk.touched)
        self._due = transfers.due(scope)

    def _meet(self, number: int) -> None:
        state = self._states.setdefault(number, _State())
        for _ in range(_TURNS):
            with self._core.lock:
                peer = self._core.store.get(replicas.PEERS, number)
                if peer is None:
                    return
                message, told = self._news(peer, state)
            if message is None:
                return
            try:
                reply = self._send(
                    peers.address_of(peer), message, peering.Reply)
            except transport.LinkDownError:
                self._lose(number, state)
                return
            self._hear(number, state, reply, told)

    def _news(self, peer: Row, state: _State
              ) -> tuple[peering.News | None, dict[int, int]]:
        """What is to be said to a peer now, and the touches it covers."""
        if not state.met and self._is_early(peer, state):
            return None, {}
        scope = self._scope()
        rows = replicas.sessions_with(scope, peer['id'])
        told = {row['id']: self._untold[row['id']] for row in rows
                if row['id'] in self._untold}
        if state.met:
            rows = [row for row in rows if row['id'] in told
                    or transfers.arrived(scope, row) and not state.wanted]
            if (not rows and scope.now < state.contact_at
                    and not self._must_probe(peer, state)):
                return None, {}
        return peering.News(
            self._sender(), [session_sync.view(scope, row) for row in rows],
            not state.met, self._next_in(scope)), told

    def _next_in(self, scope: base.Scope) -> float:
        """In how many seconds this array will have news by itself."""
        return min(max(0.0, transfers.due(scope) - scope.now), _NEVER)

    def _is_early(self, peer: Row, state: _State) -> bool:
        """Whether a lost peer in another process was tried just now."""
        return (peer['mgmt_host'] not in self.transport.network
                and time.monotonic() < state.tried + _PROBE_EVERY)

    def _must_probe(self, peer: Row, state: _State) -> bool:
        array = self.transport.network.get(peer['mgmt_host'])
        if array is not None and not array.is_open:
            return True
        return self.transport.cut or (array is None and time.monotonic()
                                      >= state.tried + _PROBE_EVERY)

    def _lose(self, number: int, state: _State) -> None:
        """The peer is lost (REP-19)."""
        state.met = False
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

    def _hear(self, number: int, state: _State, reply: peering.Reply,
              told: dict[int, int]) -> None:
        """Take in what the peer said in return."""
        core = self._core
        with core.lock:
            scope = self._scope()
            with core.store.transaction():
                peer = core.store.get(replicas.PEERS, number)
                if peer is None:
                    return
                if not state.met:
                    peers.note(scope, peer, reply.about)
                session_sync.merge(scope, peer, reply.views,
                                   reply.whole and not state.met)
                if reply.whole:
                    session_sync.forget(scope, reply.unknown)
            for told_id, count in told.items():
                if self._untold.get(told_id) == count:
                    del self._untold[told_id]
            self._touch(scope.talk.touched)
            self._due = 0.0
            state.contact_at = scope.now + reply.next_in
        state.met = state.met or reply.whole
        state.wanted = reply.wanted
        state.tried = time.monotonic()

    def deliver(self) -> None:
        """Send the peers the data that they want, and then the news.

        It takes its time, but requests need not wait for it.
        """
        with self._outbound:
            for _ in range(_TURNS):
                waiting = [(number, state) for number, state
                           in list(self._states.items()) if state.wanted]
                for number, state in waiting:
                    self._deliver(number, state)
                if waiting:
                    self.look()

    def _deliver(self, number: int, state: _State) -> None:
        with self._core.lock:
            peer = self._core.store.get(replicas.PEERS, number)
        try:
            for token, known in state.wanted.items():
                if peer is not None:
                    self._push(peers.address_of(peer), token, known)
        except transport.LinkDownError:
            with self._meeting:
                self._lose(number, state)
        # If something is missing still, the next news tell.
        state.wanted = {}

    def _push(self, address: Address, token: str, known: str) -> None:
        """Send one file to who knows another one; note how much it was."""
        core = self._core
        sent = outbound.send(core.data_store, token, known, functools.partial(
            self.transport.push, address))
        if sent.logical:
            with core.lock, core.store.transaction():
                transfers.note_sent(self._scope(), token, sent)

    # Listening.

    @property
    def is_open(self) -> bool:
        """Whether peers can speak to this array."""
        return not self.transport.cut and not self._core.closed

    def receive(self, body: object, role: str
                ) -> peering.Answers | peering.Reply:
        """The reply to a peer's message; raises ApiError (400, 503).

        role: that of the account with which the peer logs in.
        """
        if not self.is_open:
            raise errors.ApiError(503, 'The link is cut')
        message = peering.read(body)
        try:
            with self._core.lock:
                if isinstance(message, peering.News):
                    return self._follow(message)
                return peering.Answers([
                    self._answer(role, message.sender, *question)
                    for question in message.questions])
        except errors.ApiError:
            raise
        except Exception as exc:
            LOG.exception('message of a peer failed')
            raise errors.ApiError(500, 'Internal error') from exc

    def receive_data(self, body: bytes) -> peering.Taken:
        """The reply to data of a peer; raises ApiError (400, 503)."""
        if not self.is_open:
            raise errors.ApiError(503, 'The link is cut')
        return self._core.data_store.inbound.take(peering.read_piece(body))

    def _answer(self, role: str, sender: peering.Sender, kind: str,
                fields: peering.Fields) -> tuple[peering.Fields, str]:
        self._due = 0.0
        try:
            with self._core.store.transaction():
                return peer_requests.answer(
                    self._scope(role), sender, kind, fields), ''
        except errors.ApiError as exc:
            return {}, exc.message

    def _follow(self, said: peering.News) -> peering.Reply:
        """Follow the peer, and say how things stand here."""
        self._due = 0.0
        self._settle()
        scope = self._scope()
        with self._core.store.transaction():
            peer = pairing.find_peer(scope, said.sender)
            if peer is None:
                raise errors.refused('No peer of this array')
            unknown = session_sync.merge(scope, peer, said.views, said.full)
        self._due = 0.0
        state = self._states.setdefault(peer['id'], _State())
        state.contact_at = scope.now + said.next_in
        if not state.met:
            state.tried = -math.inf
        rows = self._concerned(scope, peer, said)
        return peering.Reply(
            [session_sync.view(scope, row) for row in rows], unknown,
            self._next_in(scope),
            peer_requests.about(scope) if said.full else {}, scope.talk.wanted,
            not self._makes)

    def _concerned(self, scope: base.Scope, peer: Row, said: peering.News
                   ) -> list[Row]:
        """The sessions that the peer spoke of, or must hear of."""
        named = {item['remote'] for item in said.views}
        return [row for row in replicas.sessions_with(scope, peer['id'])
                if said.full or row['id'] in named
                or row['id'] in self._untold
                or transfers.arrived(scope, row)]
