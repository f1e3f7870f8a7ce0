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

// Hosts, their initiators, and what is mapped to them.

import {card, el, emptiness, keyed, table} from './dom.js';
import {count} from './format.js';
import {pager, query, searchField} from './parts.js';

const KINDS = {volumes: 'volume', snapshots: 'view', volsnaps: 'image'};

function mappings(host) {
  if (!host.mappings) return null;
  if (!host.mappings.length) return el('p', {}, 'No mappings.');
  const left = host.count - host.mappings.length;
  return el('div', {}, el('ul', {class: 'mappings'}, host.mappings.map(
    ({lun, name, kind, through}) => el('li', {},
      el('span', {class: 'lun'}, lun === null ? 'view' : `LUN ${lun}`),
      el('span', {}, name), el('small', {}, KINDS[kind]
        + (through === 'host_groups' ? ', by the host group' : ''))))),
    left > 0 ? el('p', {}, `and ${left} more`) : null);
}

export function hosts({wake}) {
  const opened = new Set();
  const pages = pager('host', wake);
  const search = searchField('Search hosts', () => {
    pages.first();
    wake();
  });
  const body = el('tbody');
  const groupBody = el('tbody');
  const none = emptiness('No matching hosts.');
  const groupNone = emptiness('No host groups.');

  function toggle(ref) {
    if (!opened.delete(ref)) opened.add(ref);
    wake();
  }

  function row(host) {
    const open = host.mappings !== null;
    return el('tr', {},
      el('th', {scope: 'row'}, el('button', {
        type: 'button', class: 'twist', 'aria-expanded': String(open),
        'data-focus': 'twist', onclick: () => toggle(host.ref)},
      el('i', {'aria-hidden': 'true'}), host.name)),
      el('td', {}, host.type), el('td', {}, host.group ?? '–'),
      el('td', {class: 'code wide'}, host.initiators.length
        ? host.initiators.map((name) => el('div', {}, name)) : '–'),
      el('td', {class: 'maps'}, open ? mappings(host)
        : count(host.count, 'mapping')));
  }

  return {
    element: el('div', {class: 'stack'},
      card('Hosts', table('Hosts', [
        ['Host'], ['Type'], ['Host group'], ['Initiators'], ['Mapped']],
      body), none, pages.element),
      card('Host groups', table('Host groups', [
        ['Host group'], ['Hosts'], ['Mapped']], groupBody), groupNone)),
    tools: [search.element],
    search: search.input,
    path: () => query('hosts', {
      search: search.input.value, offset: pages.offset(),
      open: [...opened].join(',')}),
    show(value) {
      if (!pages.show(value)) return;
      none.hidden = value.hosts.length > 0;
      groupNone.hidden = value.groups.length > 0;
      keyed(body, value.hosts, ({ref}) => ref, row);
      keyed(groupBody, value.groups, ({name}) => name, (group) =>
        el('tr', {}, el('th', {scope: 'row'}, group.name),
          el('td', {class: 'wide'}, group.hosts.join(', ') || '–'),
          el('td', {}, count(group.count, 'mapping'))));
    }};
}
