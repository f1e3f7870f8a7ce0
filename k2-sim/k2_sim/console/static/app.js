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

// The console: one view at a time, selected by the fragment of the URL, and
// updated while it is visible.

import {byId, say} from './dom.js';
import {events} from './events.js';
import {hosts} from './hosts.js';
import {overview} from './overview.js';
import {replication} from './replication.js';
import {requests} from './requests.js';
import {Shell} from './shell.js';
import {system} from './system.js';
import {volumes} from './volumes.js';

const VIEWS = {overview, volumes, hosts, replication, events, requests,
               system};
const NAMES = Object.keys(VIEWS);
const HELP = [
  ['/', 'search'],
  ['↑ ↓ Home End', 'in the tree: previous, next, first, last line'],
  ['→', 'in the tree: expand, or go to the child'],
  ['←', 'in the tree: collapse, or go to the parent'],
  ['Enter', 'in the tree: show all fields'],
  ['← →', 'in a chart: the values of another time'],
  ['Esc', 'clear the search; leave a chart']];
const context = {wake: () => shell.poller.wake(), api: () => shell.api};
const made = {};
let name = 'overview';

// A view has: element, path(), show(value), and perhaps search, a field.
function view() {
  made[name] ??= VIEWS[name](context);
  return made[name];
}

function titled(view) {
  return view[0].toUpperCase() + view.slice(1);
}

function go(to) {
  location.hash = to;
}

function arrive() {
  const wanted = location.hash.slice(1);
  name = NAMES.includes(wanted) ? wanted : 'overview';
  say(byId('title'), titled(name));
  byId('view').replaceChildren(view().element);
  byId('tools').replaceChildren(...(view().tools ?? []));
  for (const link of document.querySelectorAll('#views a')) {
    if (link.hash === `#${name}`) {
      link.setAttribute('aria-current', 'page');
      link.scrollIntoView({block: 'nearest', inline: 'nearest'});
    } else {
      link.removeAttribute('aria-current');
    }
  }
  retitle();
  window.scrollTo(0, 0);
  shell.poller.wake();
}

let array = '';

function retitle() {
  document.title = [byId('title').textContent, array || 'K2', 'console']
    .join(' · ');
}

function show(value) {
  if (value.system) head(value.system);
  view().show(value);
}

function head(system) {
  array = system.system_name;
  say(byId('array'), array);
  const state = byId('state');
  const bad = system.state !== 'ONLINE';
  const degraded = system.is_system_functionality_degraded;
  say(state, degraded && !bad ? `${system.state}, degraded` : system.state);
  state.className = `pill ${bad ? 'bad' : degraded ? 'warn' : 'good'}`;
  retitle();
}

const shell = new Shell({
  base: '/console', page: {
    title: 'Console', things: 'views', links: NAMES.map((each) =>
      [each, titled(each)]),
    note: 'Log in with an account of the array. The console is read-only.',
    aside: ['/console/control/', 'Control page'], help: HELP}, path: () => `feed/${view().path()}`, show,
  entered: () => identify(), keys: {
    ...Object.fromEntries(NAMES.map((each, place) =>
      [String(place + 1), () => go(each)])),
    '/': () => view().search?.focus()}});

// Some views get no name of the array, but the header shows it with all.
async function identify() {
  try {
    const reply = await shell.api.act('GET', 'feed/system');
    head(reply.system);
  } catch {
    // The view reports the error.
  }
}

window.addEventListener('hashchange', () => {
  arrive();
  byId('title').focus();
});
arrive();
shell.begin();
