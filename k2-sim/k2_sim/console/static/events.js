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

// The events of the array.

import {el, emptiness, keyed, pill, table} from './dom.js';
import {moment} from './format.js';
import {choice, query, searchField} from './parts.js';
import {announce} from './shell.js';

const LEVELS = {INFO: '', WARNING: 'warn', ERROR: 'bad', CRITICAL: 'bad'};

export function eventRow(event) {
  return el('tr', {},
    el('td', {class: 'time'}, moment(event.timestamp)),
    el('td', {}, pill(event.level, LEVELS[event.level] ?? '')),
    el('td', {class: 'code'}, event.name),
    el('td', {class: 'wide'}, event.message),
    el('td', {}, event.user ?? 'the array'));
}

export function events({wake}) {
  const search = searchField('Search events', wake);
  const level = choice('Level', [
    ['', 'All'], ['WARNING', 'Warnings'], ['ERROR', 'Errors']], wake);
  const body = el('tbody');
  const none = emptiness('No matching events.');
  let newest = null;
  return {
    element: el('section', {class: 'card', 'aria-label': 'Events'},
      table('Events, newest first', [
        ['Time'], ['Level'], ['Event'], ['Message'], ['User']], body), none),
    tools: [level.element, search.element],
    search: search.input,
    path: () => query('events', {search: search.input.value,
                                 kind: level.value()}),
    show(value) {
      none.hidden = value.events.length > 0;
      keyed(body, value.events, ({id}) => id, eventRow);
      const first = value.events[0];
      if (newest !== null && first && first.id > newest) {
        announce(first.message);
      }
      newest = Math.max(newest ?? 0, first?.id ?? 0);
    }};
}
