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

"""Rounds, and transfers from a source to its target.

There are no timers: settle() does what is due by the array's clock, and a
transfer has arrived when the target confirms it. An item of a session's queue
is one snapshot in transfer: its start, its end, the number of rounds that it
stands for (several after a time without requests, when nothing was written
between them), whether a user created it, and, with contents, the bytes sent
of each token, before and after compression.
"""

import math
from typing import Any

from k2_sim.rules.base import Scope
from k2_sim.rules import replicas
from k2_sim.rules import snapshots
from k2_sim.state import replication
from k2_sim.state import schema
from k2_sim.state.schema import Row

# How many rounds the history of a session keeps, on each side.
HISTORY_KEPT = 20
_HISTORY = replication.RPO_HISTORY.name
# The assumed compression ratio: without contents it is not known.
_REDUCTION = 4
# Bytes before and after compression.
Sent = tuple[int, int]
_NOTHING: Sent = (0, 0)
# Snapshots that the array created for a round, on either side.
_BY_ARRAY = 'Replication'


def _snapshot_ref(item: replicas.Item) -> str:
    return schema.make_ref('snapshots', item['snapshot'])


def begin(scope: Scope, row: Row, seconds: float) -> Row:
    """Start copying: snapshots of users first, then the current data."""
    waiting = row['queue']
    row = replicas.change(
        scope, row, queue=[], next_round=scope.now + row['rpo'])
    for item in waiting:
        start = replicas.free_at(row, scope.now)
        row = replicas.change(scope, row, queue=[*row['queue'], {
            **item, 'began': start,
            'ends': start + scope.behaviors.snapshot_seconds}])
    return _send(scope, row, scope.now, seconds)


def _send(scope: Scope, row: Row, began: float, seconds: float,
          rounds: int = 1) -> Row:
    """Start a round: send an internal snapshot to the peer."""
    snapshot = snapshots.make_replicated(
        scope, row, row['last_generation'] + rounds, triggered_by=_BY_ARRAY)
    return replicas.enqueue(
        scope, row, snapshot, seconds, began=began, rounds=rounds)


def abort(scope: Scope, row: Row, forget: bool = False) -> Row:
    """Stop all transfers; users' snapshots can be sent again later.

    forget: drop those, too, so that they never arrive.
    """
    waiting = [item for item in row['queue'] if item['user']]
    dropped = [item for item in row['queue'] if not item['user']]
    row = replicas.change(
        scope, row, queue=[] if forget else waiting, next_round=None)
    for item in dropped:
        _discard(scope, _snapshot_ref(item))
    return row


def settle(scope: Scope) -> None:
    """Start the rounds that are due."""
    scope.context.for_each(
        (row for row in scope.store.rows(replicas.SESSIONS)
         if row['next_round'] is not None and row['next_round'] <= scope.now),
        lambda row: _run_rounds(scope, row))


def _run_rounds(scope: Scope, row: Row) -> None:
    """Start every round up to now; one snapshot stands for several.

    A round starts on schedule, but not while a transfer is running.
    """
    rpo, seconds = row['rpo'], scope.behaviors.round_seconds
    period = rpo * max(1, math.ceil(seconds / rpo))
    busy = replicas.free_at(row, row['next_round']) - row['next_round']
    first = row['next_round'] + rpo * math.ceil(busy / rpo)
    rounds = 1 + math.floor((scope.now - first) / period)
    last = first + (rounds - 1) * period
    if rounds > 1 and last + seconds > scope.now:
        # The last one is still running; the one before has arrived.
        row = _send(scope, row, last - period, seconds, rounds - 1)
        rounds = 1
    if rounds > 0:
        row = _send(scope, row, last, seconds, rounds)
        first = last + rpo
    replicas.change(scope, row, next_round=first)


def due(scope: Scope) -> float:
    """The time of the next action; infinite if there is none."""
    return min((time for row in scope.store.rows(replicas.SESSIONS)
                for time in _times(row)), default=math.inf)


def _times(row: Row) -> list[float]:
    times = []
    if _runs(row):
        times = [item['ends'] for item in row['queue'][:1]]
    if row['next_round'] is not None:
        times.append(row['next_round'])
    if row['pending'] is not None:
        times.append(row['pending']['due'])
    return times


def _runs(row: Row) -> bool:
    return (row['current_role'], row['state']) == (
        replicas.SOURCE, replicas.IN_SYNC)


def arrived(scope: Scope, row: Row) -> list[replicas.Item]:
    """The items whose transfer time is over, ready to hand over."""
    if not _runs(row):
        return []
    return [item for item in row['queue'] if item['ends'] <= scope.now]


def parcels(scope: Scope, row: Row) -> list[dict[str, Any]]:
    """The data to hand over, with the peer's ids of volumes."""
    return [_parcel(scope, row, item) for item in arrived(scope, row)]


def _parcel(scope: Scope, row: Row, item: replicas.Item) -> dict[str, Any]:
    remote = {pair['local_volume']: pair['remote_volume_id']
              for pair in replicas.pairs_of(scope, row)}
    images = scope.store.find('volsnaps', 'snapshot', _snapshot_ref(item))
    sent = _bytes(scope, row, item)
    return {
        **{name: item[name] for name in
           ('generation', 'began', 'ends', 'rounds', 'user')},
        'images': [
            {'volume': remote[image['source']], 'size': image['size'],
             'content': replicas.content(image),
             'bytes': sent.get(image['source'], _NOTHING)}
            for image in images if image['source'] in remote]}


def _bytes(scope: Scope, row: Row, item: replicas.Item) -> dict[str, Sent]:
    """The bytes sent for each volume, by reference.

    With contents they are counted; otherwise they are taken to be all data of
    each volume that has changed.
    """
    now = _held(scope, _snapshot_ref(item))
    if scope.context.contents is not None:
        sent = item.get('sent', {})
        return {ref: sent.get(held, _NOTHING) for ref, held in now.items()}
    before = _latest(scope, row)
    return {ref: _supposed(int(scope.store.at(ref)['logical_capacity']) * 1024)
            for ref, held in now.items() if before.get(ref) != held}


def _supposed(size: int) -> Sent:
    return size, size // _REDUCTION


def _latest(scope: Scope, row: Row) -> dict[str, str]:
    """The token of the data that both sides have, by volume."""
    if row['latest_replicated_snapshot'] is None:
        return {}
    return _held(scope, row['latest_replicated_snapshot'])


def note_sent(scope: Scope, token: str, size: Sent) -> None:
    """Note how many bytes were sent of a token."""
    for row in scope.store.rows(replicas.SESSIONS):
        queue = [
            {**item, 'sent': {**item.get('sent', {}), token: size}}
            if token in _held(scope, _snapshot_ref(item)).values() else item
            for item in row['queue']]
        if queue != row['queue']:
            # No change for the peer: the version stays.
            scope.store.update(replicas.SESSIONS, row['id'], queue=queue)


def missing(scope: Scope, row: Row, parcel: dict[str, Any]
            ) -> dict[str, str]:
    """The tokens of a parcel without data here, each with its base.

    The base is the data of the volume that both sides have, or ''.
    """
    contents, before = scope.context.contents, _latest(scope, row)
    return {} if contents is None else {
        image['content']: before.get(
            schema.make_ref('volumes', image['volume']), '')
        for image in parcel['images']
        if image['content'] and not contents.has(image['content'])}


def _held(scope: Scope, snapshot: str) -> dict[str, str]:
    return {image['source']: replicas.content(image) for image
            in scope.store.find('volsnaps', 'snapshot', snapshot)}


def acknowledge(scope: Scope, row: Row, generation: int) -> Row:
    """Complete the transfers up to a generation that has arrived (REP-14)."""
    for item in row['queue']:
        if item['generation'] <= generation:
            row = _complete(scope, row, item)
    return row


def _complete(scope: Scope, row: Row, item: replicas.Item) -> Row:
    sent = _bytes(scope, row, item)
    scope.store.update(
        'snapshots', item['snapshot'], is_exist_on_peer=True)
    queue = [other for other in row['queue'] if other != item]
    row = _set_latest(
        scope, row, _snapshot_ref(item), item['generation'], queue=queue)
    _record(scope, row, item, {
        schema.split_ref(ref)[1]: size for ref, size in sent.items()})
    return row


def receive(scope: Scope, row: Row, parcel: dict[str, Any]) -> Row:
    """Store a snapshot that has arrived on this target (SNP-14)."""
    images = [_image(scope, image) for image in parcel['images']
              if scope.store.get('volumes', image['volume'])]
    snapshot = snapshots.make_replicated(
        scope, row, parcel['generation'], images,
        triggered_by='Replication_API' if parcel['user'] else _BY_ARRAY,
        is_exist_on_peer=True, is_originating_from_peer=True)
    ref = schema.make_ref('snapshots', snapshot['id'])
    fill(scope, ref)
    row = _set_latest(
        scope, row, ref, parcel['generation'],
        last_generation=max(row['last_generation'], parcel['generation']))
    _record(scope, row, parcel, {
        image['volume']: image['bytes'] for image in parcel['images']})
    return row


def _image(scope: Scope, image: dict[str, Any]) -> Row:
    ref = schema.make_ref('volumes', image['volume'])
    return {'source': ref, 'size': image['size'],
            'short_name': scope.store.at(ref)['name'],
            'content': image['content']}


def fill(scope: Scope, snapshot: str) -> None:
    """Set the volumes of a group to the data of a snapshot."""
    for image in scope.store.find('volsnaps', 'snapshot', snapshot):
        _, number = schema.split_ref(image['source'])
        scope.store.update(
            'volumes', number, content=replicas.content(image))


def _set_latest(scope: Scope, row: Row, snapshot: str, generation: int,
                **changes: Any) -> Row:
    """Set the latest snapshot that both sides have.

    The one before is removed if the array had created it for a round.
    """
    before = row['latest_replicated_snapshot']
    row = replicas.change(
        scope, row, generation_number=generation,
        latest_replicated_snapshot=snapshot, **changes)
    before = replicas.live(scope, before)
    if before and scope.store.at(before).get('triggered_by') == _BY_ARRAY:
        _discard(scope, before)
    return row


def _discard(scope: Scope, snapshot: str) -> None:
    """Remove a snapshot, unless other objects depend on it."""
    row = scope.store.at(snapshot)
    if not snapshots.why_used(scope, row):
        snapshots.remove(scope, row)


def _record(scope: Scope, row: Row, item: dict[str, Any],
            sent: dict[int, Sent]) -> None:
    """Add the rounds of an item to the history."""
    volumes = {str(number): size for number, size in sent.items()
               if any(size)}
    for before in reversed(range(min(item['rounds'], HISTORY_KEPT))):
        # The last of them had all the written data.
        _record_one(scope, row, item, before, {} if before else volumes)
    for old in history(scope, row)[:-HISTORY_KEPT]:
        scope.store.remove(_HISTORY, old['id'])


def _record_one(scope: Scope, row: Row, item: dict[str, Any], before: int,
                volumes: dict[str, Sent]) -> None:
    logical, physical = (
        sum(size[place] for size in volumes.values()) for place in (0, 1))
    scope.store.insert(_HISTORY, {
        'session': replicas.session_ref(row), 'role': row['current_role'],
        'generation_number': item['generation'] - before,
        'round_start': int(item['began'] - before * row['rpo']),
        'round_end': int(item['ends'] - before * row['rpo']),
        'target_rpo': row['rpo'], 'bytes_transmitted_logical': logical,
        'bytes_transmitted_physical': physical,
        'volumes': volumes})


def history(scope: Scope, row: Row) -> list[Row]:
    """The rounds in the history of a session, oldest first."""
    return scope.store.find(
        _HISTORY, 'session', replicas.session_ref(row))
