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

// The latest requests to the REST API.

import {el, emptiness, keyed, pill, say, table} from './dom.js';
import {clock, count, milliseconds} from './format.js';
import {choice, query, searchField} from './parts.js';

function outcome({status}) {
  if (status === null) return pill('running');
  if (status === 0) return pill('reset', 'bad');
  const kind = status >= 500 ? 'bad' : status >= 400 ? 'warn' : 'good';
  return pill(String(status), kind);
}

function fault({fault: kind, carried_out: done}) {
  if (!kind) return '';
  return [pill(kind, 'fault'), done ? '' : el('small', {}, ' not done')];
}

function row(request) {
  return el('tr', {},
    el('td', {class: 'time'}, clock(request.time)),
    el('td', {}, el('span', {class: `method ${request.method}`},
      request.method)),
    el('td', {}, outcome(request)),
    el('td', {class: 'code wide'}, request.path,
      request.query ? el('span', {class: 'query'}, `?${request.query}`) : ''),
    el('td', {class: 'number'},
      request.ms === null ? '…' : milliseconds(request.ms)),
    el('td', {}, fault(request)));
}

export function requests({wake}) {
  const search = searchField('Search method, path, query', wake);
  const kind = choice('Which requests', [
    ['', 'All'], ['writes', 'Writes'], ['errors', 'Errors'],
    ['faults', 'Faults']], wake);
  const body = el('tbody');
  const none = emptiness('No matching requests.');
  const summary = el('p', {class: 'summary'});
  return {
    element: el('section', {class: 'card', 'aria-label': 'Requests'},
      summary, table('Requests, newest first', [
        ['Time'], ['Method'], ['Status'], ['Path'], ['Took', 'number'],
        ['Fault']], body), none),
    tools: [kind.element, search.element],
    search: search.input,
    path: () => query('requests', {search: search.input.value,
                                   kind: kind.value()}),
    show(value) {
      say(summary, `${count(value.count, 'request')} since the journal was `
        + `cleared, at most ${value.most} at once. The last ${value.limit} `
        + 'that fit are shown.');
      none.hidden = value.requests.length > 0;
      const seen = {};
      keyed(body, value.requests, ({time, method, path}) => {
        const key = `${time} ${method} ${path}`;
        seen[key] = (seen[key] ?? 0) + 1;
        return `${key} ${seen[key]}`;
      }, row);
    }};
}
