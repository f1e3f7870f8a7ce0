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

"""Requests of a probe: those that it must never send are stopped here."""

from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
import contextlib
import dataclasses
from typing import Any

from cinder_k2 import naming
from cinder_k2.probe import findings
from cinder_k2.probe import tokens
from cinder_k2.probe import words
from cinder_k2 import rest
from cinder_k2.rest import raw

_TRIES = 5
_PAUSE = 2.0


class Forbidden(Exception):
    """A request that a probe must not send: a bug in a check."""


class _NotMade(rest.RestError):
    """A POST was not carried out, as far as is known."""


class Unseen(findings.Skip):
    """Objects of a resource cannot be searched for."""

    def __init__(self, resource: str, answer: raw.Answer) -> None:
        super().__init__(f'{resource} cannot be looked for: '
                         f'{words.said(answer)}')
        self.resource = resource
        self.error = answer.error or rest.BadReply(
            f'{resource} cannot be looked for: the reply is no list',
            status=answer.status)

    @property
    def is_known(self) -> bool:
        """Whether every array shows them (section 16)."""
        return _is_known(self.resource)


class Asker:
    """Sends requests to one array, one after the other.

    :ivar busy: how many were answered with 429, 503 or a busy code
    :ivar bare: of those with a code, whether it was all that they said
    :ivar carried_out: forms of the requests that the array carried out
    """

    def __init__(self, client: rest.Client,
                 carried_out: set[str] | None = None) -> None:
        self.client = client
        self.busy = 0
        self.bare: list[bool] = []
        self.carried_out = set() if carried_out is None else carried_out

    def get(self, resource: str, part: int | str = '', *query: raw.Pair
            ) -> raw.Answer:
        """Send a GET, but never search by a part of a name (QRY-9).

        :raises Forbidden: the query is such a search
        """
        if any('contains' in key or 'regexp' in key for key, _ in query):
            raise Forbidden(f'a substring search of {resource}')
        return self._send('GET', resource, part, query)

    def _send(self, method: str, resource: str, part: int | str = '',
              query: Iterable[raw.Pair] = (), body: Any = None,
              sequence: str | None = None) -> raw.Answer:
        for n in range(_TRIES):
            if n:
                self.client.clock.sleep(_PAUSE * n)
            answer = self.client.raw.ask(
                method, resource, part, tuple(query), body, sequence)
            if not isinstance(answer.error, rest.Busy):
                break
            self.busy += 1
            if answer.error.code is not None:
                self.bare.append(answer.error.message == answer.error.code)
        if answer.ok:
            self.carried_out.add(answer.form)
        return answer


class Writer(Asker):
    """Creates, changes and removes only objects that a token names."""

    def __init__(self, client: rest.Client, token: tokens.Token,
                 carried_out: set[str] | None = None,
                 save: Callable[[tokens.Token], None] | None = None) -> None:
        super().__init__(client, carried_out)
        self.token = token
        self._save = save or (lambda token: None)
        self._own: set[tuple[str, int]] = set()
        self._gone: set[tuple[str, int]] = set()
        self._unconfirmed: set[tuple[str, int]] = set()
        self._names: dict[tuple[str, int], str] = {}
        self._made: set[str] = set()
        self._found_by: set[str] = set()

    def make(self, resource: str, body: Mapping[str, Any]) -> raw.Answer:
        """POST of an object of the token."""
        self._check_body(resource, body)
        with contextlib.suppress(_NotMade), self.making(resource):
            answer = self._send('POST', resource, body=dict(body))
            if not answer.ok:
                raise _NotMade(str(answer.error), status=answer.status)
        if answer.ok:
            self.adopt(resource, answer, body)
        return answer

    @contextlib.contextmanager
    def making(self, resource: str) -> Iterator[None]:
        """A context in which an object of a resource is created.

        The resource is recorded first: if the array does not show such
        objects, the next probe must not assume that there are none.
        """
        if resource in tokens.BEGUN and resource not in self.token.begun:
            self._note((*self.token.begun, resource))
        try:
            yield
        except rest.RestError as error:
            self._not_made(resource, error.status)
            raise
        self._made.add(resource)

    def _not_made(self, resource: str, status: int | None) -> None:
        """Undo the record, if no object can exist.

        A request without a reply may have been carried out, unless the array
        does not even list the resource.
        """
        if resource not in self.token.begun or resource in self._made:
            return
        if (status is not None and status < 500
                or not self.get(resource).is_list):
            self._note(tuple(each for each in self.token.begun
                             if each != resource))

    def _note(self, begun: tuple[str, ...]) -> None:
        self.token = dataclasses.replace(self.token, begun=begun)
        self._save(self.token)

    def make_many(self, resource: str, bodies: list[dict[str, Any]]
                  ) -> raw.Answer:
        """POST of several objects of the token at once (BLK-1)."""
        for body in bodies:
            self._check_body(resource, body)
        answer = self._send('POST', resource, '__bulk', body=bodies)
        key = tokens.KEYS[resource]
        for hit in answer.hits if answer.ok else []:
            id, name = raw.id_of(hit), str(hit.get(key))
            if id is not None and name in self.token.names[resource]:
                self._keep(resource, id, name)
        return answer

    def adopt(self, resource: str, answer: raw.Answer,
              body: Mapping[str, Any]) -> int | None:
        """Id of a created object, looked up if the reply is empty (OBJ-3)."""
        id = answer.id
        if id is None and resource in tokens.KEYS:
            id = self.find(resource, str(body[tokens.KEYS[resource]]))
        elif id is None:
            id = self._find_mapping(body)
        if id is not None:
            self._keep(resource, id, str(body.get(
                tokens.KEYS.get(resource, ''), '')))
        return id

    def _keep(self, resource: str, id: int, name: str) -> None:
        """Record an object of the token that was just seen."""
        self._own.add((resource, id))
        self._unconfirmed.discard((resource, id))
        self._names[resource, id] = name

    def find(self, resource: str, name: str) -> int | None:
        """Id of an object of the token, by its exact name.

        Where the array does not search by the name, the plain list is read.

        :raises Unseen: the array shows neither, or a part of the list
        """
        key = tokens.KEYS[resource]
        answer = self.get(resource, '', (key, name))
        found = _exactly(answer.hits, key, name)
        if found is None and not (answer.is_list and _is_known(resource)):
            found = self._find_in_list(resource, key, name, answer)
        if found is not None:
            self._check_name(name)
            self._keep(resource, found, name)
        return found

    def _find_in_list(self, resource: str, key: str, name: str,
                      answer: raw.Answer) -> int | None:
        """Find an object in the list if the search proves nothing.

        :param answer: to the search
        """
        listed = self.get(resource)
        found = _exactly(listed.hits, key, name)
        is_whole = listed.is_list and listed.total <= len(listed.hits)
        if found is None and not is_whole and not (
                answer.is_list and self._finds(resource, key, listed)):
            raise Unseen(resource, answer)
        return found

    def _finds(self, resource: str, key: str, listed: raw.Answer) -> bool:
        """Whether a search by the key finds an existing object, and no other.

        For a condition that an array does not know it may find nothing, or
        ignore the condition.
        """
        known = next((str(hit[key]) for hit in listed.hits
                      if hit.get(key)), None)
        if known is not None and resource not in self._found_by:
            hits = self.get(resource, '', (key, known)).hits
            if hits and all(hit.get(key) == known for hit in hits):
                self._found_by.add(resource)
        return resource in self._found_by

    def _find_mapping(self, body: Mapping[str, Any]) -> int | None:
        for hit in self.mappings(body['host']['ref']):
            if refers(hit, 'volume', body['volume']['ref']):
                return raw.id_of(hit)
        return None

    def mappings(self, host: str) -> list[Any]:
        """Mappings of a host, or of a host group, of the token.

        :raises Unseen: the array does not show them
        """
        self._check_ref(host)
        answer = self.get('mappings', '', ('host.ref', host))
        if not answer.is_list:
            raise Unseen('mappings', answer)
        found = [hit for hit in answer.hits if refers(hit, 'host', host)]
        for hit in found:
            if (id := raw.id_of(hit)) is not None:
                self._keep('mappings', id, '')
        return found

    def change(self, resource: str, id: int, body: Mapping[str, Any],
               sequence: str | None = None) -> raw.Answer:
        """PATCH of an object of the token."""
        self._check_own(resource, id)
        self._check_refs(body)
        for key in ('name', 'short_name'):
            if key in body:
                self._check_name(str(body[key]))
        return self._send('PATCH', resource, id, body=dict(body),
                          sequence=sequence)

    def remove(self, resource: str, id: int, *, leaf: bool = False
               ) -> raw.Answer:
        """DELETE of an object of the token.

        :param leaf: no other object can be deleted along with it
        """
        self._check_own(resource, id)
        answer = self._send('DELETE', resource, id)
        self._let_go(resource, [id], answer)
        if not leaf and _may_be_done(answer):
            self._unconfirmed |= self._own
        return answer

    def remove_many(self, resource: str, ids: list[int]) -> raw.Answer:
        """DELETE of several leaves of the token at once (BLK-1)."""
        for id in ids:
            self._check_own(resource, id)
        answer = self._send('DELETE', resource, '__bulk',
                            body=[{'id': id} for id in ids])
        self._let_go(resource, ids, answer)
        return answer

    def _let_go(self, resource: str, ids: list[int], answer: raw.Answer
                ) -> None:
        """Treat deleted objects as gone: their ids may be reused (OBJ-7)."""
        if _may_be_done(answer):
            gone = {(resource, id) for id in ids}
            self._own -= gone
            self._gone |= gone

    def may_be_there(self, resource: str) -> list[str]:
        """Names in a resource of which some were created and cannot be found.

        Initiators are deleted with their hosts on arrays that do not show
        them.
        """
        return [*self.token.names[resource]] if (
            resource not in ('host_iqns', 'host_fc_ports')
            and resource in self.token.begun) else []

    # What may be written

    def _check_body(self, resource: str, body: Mapping[str, Any]) -> None:
        key = tokens.KEYS.get(resource)
        if key is not None and key in body:
            if body[key] not in self.token.names[resource]:
                raise Forbidden(f'{resource} {body[key]} is not planned')
        elif resource != 'mappings':
            raise Forbidden(f'{resource} without a name')
        self._check_refs(body)

    def _check_refs(self, body: Mapping[str, Any]) -> None:
        for key, value in body.items():
            # A reference to a policy does not change the policy.
            if isinstance(value, dict) and value and (
                    key != 'retention_policy'):
                self._check_ref(str(value.get('ref')))

    def _check_ref(self, text: str) -> None:
        try:
            ref = rest.Ref.parse(text)
        except ValueError as error:
            raise Forbidden(str(error)) from None
        self._check_own(ref.resource, ref.id)

    def _check_own(self, resource: str, id: int) -> None:
        if (resource, id) not in self._own:
            if (resource, id) in self._gone:
                raise findings.Skip(f'{resource} {id} may be gone')
            raise Forbidden(f'{resource} {id} is not of this probe')
        if (resource, id) in self._unconfirmed:
            self._see_again(resource, id)

    def _see_again(self, resource: str, id: int) -> None:
        """Check the name of an object that may have been deleted with others.

        An array that deletes more than requested may reuse the ids for foreign
        objects (OBJ-7).

        :raises findings.Skip: it is gone
        """
        name = self._names[resource, id]
        if not name or self.find(resource, name) != id:
            self._own.discard((resource, id))
            self._gone.add((resource, id))
            raise findings.Skip(f'{resource} {id} may be gone')

    def _check_name(self, name: str) -> None:
        if not naming.is_of_probe(name, self.token.token):
            raise Forbidden(f'{name} is not of this probe')


def _may_be_done(answer: raw.Answer) -> bool:
    """Whether a DELETE was carried out, or may have been."""
    return answer.ok or answer.status is None or answer.status >= 500


def _exactly(hits: list[Any], key: str, name: str) -> int | None:
    return next((id for hit in hits if _is_named(hit, key, name)
                 and (id := raw.id_of(hit)) is not None
                 and not is_true(hit.get('is_deleted'))
                 and not is_true(hit.get('marked_for_deletion'))), None)


def _is_named(hit: Mapping[str, Any], key: str, name: str) -> bool:
    """Whether an object has a name; WWPNs have several forms (INI-4)."""
    if key == 'pwwn':
        return bool(rest.records.normal(key, hit.get(key)) == name)
    return bool(hit.get(key) == name)


def is_true(value: Any) -> bool:
    """Whether a field is true, whatever its type."""
    return str(value).lower() in ('true', '1')


def ref_of(hit: Mapping[str, Any], key: str) -> str:
    """The reference in a field; empty if there is none."""
    found = hit.get(key)
    return str(found.get('ref') or '') if isinstance(found, dict) else ''


def refers(hit: Mapping[str, Any], key: str, ref: str) -> bool:
    """Whether a field is this reference."""
    return ref_of(hit, key) == ref


def _is_known(resource: str) -> bool:
    """Whether every array searches it by name (section 16)."""
    return resource in ('snapshots', 'volumes', 'volume_groups', 'hosts',
                        'mappings', 'retention_policies')
