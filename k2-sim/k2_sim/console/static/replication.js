// Licensed under the Apache License, Version 2.0 (the "License"); you may
// not use this file except in compliance with the License. You may obtain
// a copy of the License at
//
//      http://www.apache.org/licenses/LICENSE-2.0
//
// Unless required by applicable law or agreed to in writing, software
// distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
// WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
// License for the specific language governing permissions and limitations
// under the License.

// Peers, and the replication sessions with them.

import {bars} from './chart.js';
import {card, el, emptiness, keyed, pill, table} from './dom.js';
import {bytes, duration, size} from './format.js';

const STATES = {in_sync: 'good', suspended: 'warn', failed_over: 'bad'};

function lag({lag: seconds, rpo, state}) {
  if (seconds === null) return '–';
  const late = state === 'in_sync' && seconds > 2 * rpo;
  return el('div', {class: `lag ${late ? 'late' : ''}`},
    el('meter', {min: 0, max: 2 * rpo, high: 1.5 * rpo, optimum: 0,
                 value: Math.min(seconds, 2 * rpo),
                 'aria-label': `${duration(seconds)} of an RPO of ${
                   duration(rpo)}`}),
    duration(seconds));
}

function history(rounds) {
  if (!rounds.length) return 'no round yet';
  const last = rounds.at(-1);
  return el('div', {class: 'rounds'},
    bars(rounds.map((round) => round.bytes),
      `${rounds.length} rounds, the last of ${bytes(last.bytes)} in ${
        duration(last.seconds)}`),
    el('small', {}, `last ${bytes(last.bytes)} in ${
      duration(last.seconds)}`));
}

function progress(session) {
  const value = session.current_snapshot_progress;
  const left = session.estimated_remaining_time;
  return el('div', {class: 'progress'},
    el('progress', {max: 100, value, 'aria-label': `${value} %`}),
    left === null ? `${value} %` : `${value} %, ${duration(left)} left`);
}

function row(session) {
  return el('tr', {},
    el('th', {scope: 'row'}, session.name,
      el('small', {}, session.group)),
    el('td', {}, session.peer),
    el('td', {}, session.current_role),
    el('td', {}, pill(session.state.replace('_', ' '),
      STATES[session.state] ?? ''),
    session.suspend_reason ? el('small', {}, session.suspend_reason) : ''),
    el('td', {class: 'number'}, duration(session.rpo)),
    el('td', {}, lag(session)), el('td', {}, progress(session)),
    el('td', {}, history(session.rounds)));
}

function peer(value) {
  const up = value.mgmt_connectivity_state;
  return el('tr', {},
    el('th', {scope: 'row'}, value.name),
    el('td', {}, pill(up, up === 'ok' ? 'good' : 'bad')),
    el('td', {class: 'code'}, value.mgmt_host),
    el('td', {}, value.system_id),
    el('td', {class: 'number'}, size(value.capacity_free ?? 0)),
    el('td', {class: 'number'}, size(value.capacity_total ?? 0)));
}

export function replication() {
  const peers = el('tbody');
  const sessions = el('tbody');
  const nobody = emptiness('No peers.');
  const none = emptiness('No replication sessions.');
  return {
    element: el('div', {class: 'stack'},
      card('Sessions', table('Sessions', [
        ['Session'], ['Peer'], ['Role'], ['State'], ['RPO', 'number'],
        ['Lag'], ['Progress'], ['Rounds']], sessions), none),
      card('Peers', table('Peers', [
        ['Peer'], ['Link'], ['Address'], ['System id'], ['Free', 'number'],
        ['Total', 'number']], peers), nobody)),
    path: () => 'replication',
    show(value) {
      none.hidden = value.sessions.length > 0;
      nobody.hidden = value.peers.length > 0;
      keyed(peers, value.peers, ({id}) => id, peer);
      keyed(sessions, value.sessions, ({name}) => name, row);
    }};
}
