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

// The array at a glance.

import {Chart} from './chart.js';
import {el, emptiness, keyed, pairs, say, table} from './dom.js';
import {eventRow} from './events.js';
import * as format from './format.js';
import {query} from './parts.js';

const HOUR = 3600;
const COUNTS = [
  ['volume_groups', 'Volume groups', 'volumes'],
  ['volumes', 'Volumes', 'volumes'], ['snapshots', 'Snapshots', 'volumes'],
  ['views', 'Views', 'volumes'], ['hosts', 'Hosts', 'hosts'],
  ['mappings', 'Mappings', 'hosts'],
  ['replication/sessions', 'Sessions', 'replication']];

function reduced(of, physical) {
  return physical > 0 ? of / physical : null;
}

function charts() {
  const all = [];
  const moved = (time) => all.forEach((chart) => chart.point(time));
  const kib = (name) => (sample) => sample[name] * 1024;
  const of = (name) => (sample) => sample[name];
  all.push(
    new Chart({title: 'Capacity', format: format.bytes, base: 1024, moved,
               series: [{name: 'Allocated', value: kib('allocated')},
                        {name: 'Physical', value: kib('physical')}]}),
    new Chart({title: 'Data reduction', moved,
               format: (value) => `${format.number(value)} : 1`,
               series: [{name: 'Ratio', value: (sample) =>
                 reduced(sample.allocated, sample.physical)}]}),
    new Chart({title: 'IOPS', format: (value) => format.number(value), moved,
               series: [{name: 'IO/s', value: of('iops')}]}),
    new Chart({title: 'Throughput', format: format.rate, base: 1024, moved,
               series: [{name: 'Read and write', value: of('throughput')}]}),
    new Chart({title: 'Latency', format: format.milliseconds, moved,
               series: [{name: 'Outer', value: of('latency_outer')},
                        {name: 'Inner', value: of('latency_inner')}]}),
    new Chart({title: 'API requests', moved,
               format: (value) => `${format.number(value)}/s`,
               series: [{name: 'Requests', value: of('requests')}]}));
  return all;
}

// How full the array is, as a bar and in numbers.
function fullness() {
  const physical = el('i', {class: 's1'});
  const allocated = el('i', {class: 's0'});
  const reserved = el('i', {class: 'reserved'});
  const bar = el('div', {class: 'fill', role: 'img'},
    physical, allocated, reserved);
  const used = el('b', {class: 'big'});
  const usedOf = el('span');
  const ratio = el('b', {class: 'big'});
  const numbers = el('div');
  const element = el('section', {class: 'card full',
                                 'aria-labelledby': 'full-title'},
    el('h2', {id: 'full-title'}, 'Capacity'),
    el('div', {class: 'heads'},
      el('p', {}, used, usedOf),
      el('p', {class: 'right'}, ratio, el('span', {}, 'data reduction'))),
    bar, numbers);
  return {element, show(capacity) {
    const share = (kib) => 100 * kib / (capacity.total || 1);
    const left = capacity.allocated - capacity.physical;
    physical.style.width = `${share(capacity.physical)}%`;
    allocated.style.width = `${Math.max(0, share(left))}%`;
    reserved.style.width = `${share(capacity.reserved)}%`;
    say(used, format.percent(capacity.allocated, capacity.total));
    say(usedOf, ` allocated of ${format.size(capacity.total)}`);
    say(ratio, format.ratio(
      reduced(capacity.allocated, capacity.physical)));
    bar.setAttribute('aria-label',
      `${format.size(capacity.allocated)} of ${
        format.size(capacity.total)} are allocated`);
    numbers.replaceChildren(pairs([
      ['Free', format.size(capacity.free)],
      [[el('i', {class: 'swatch s0'}), 'Allocated'],
       format.size(capacity.allocated)],
      [[el('i', {class: 'swatch s1'}), 'Physical'],
       format.size(capacity.physical)],
      ['Written by hosts', format.size(capacity.logical)],
      ['Provisioned', format.size(capacity.provisioned)],
      ['Thin provisioning', format.ratio(
        reduced(capacity.provisioned, capacity.physical))]]));
  }};
}

function tiles() {
  const values = {};
  const element = el('ul', {class: 'tiles'}, COUNTS.map(
    ([key, name, view]) => {
      values[key] = el('b', {}, '–');
      return el('li', {}, el('a', {href: `#${view}`},
        values[key], el('span', {}, name)));
    }));
  return {element, show: (counts) => COUNTS.forEach(([key]) =>
    say(values[key], format.number(counts[key])))};
}

export function overview() {
  let samples = [];
  const full = fullness();
  const counts = tiles();
  const drawn = charts();
  const facts = el('div');
  const body = el('tbody');
  const none = emptiness('No changes yet.');
  const element = el('div', {class: 'overview'},
    el('div', {class: 'split'}, full.element,
      el('section', {class: 'card', 'aria-labelledby': 'system-title'},
        el('h2', {id: 'system-title'}, 'System'), facts)),
    counts.element,
    el('div', {class: 'charts'}, drawn.map((chart) => chart.element)),
    el('section', {class: 'card', 'aria-labelledby': 'last-title'},
      el('h2', {id: 'last-title'}, 'Last events',
        el('a', {href: '#events'}, 'All events')),
      table('Last events', [['Time'], ['Level'], ['Event'], ['Message'],
                            ['User']], body), none));

  function keep(value) {
    const fresh = value.samples.map((sample) => Object.fromEntries(
      value.columns.map((column, place) => [column, sample[place]])));
    if (!fresh.length) return;
    const last = fresh.at(-1).time;
    samples = samples.concat(fresh).filter(
      ({time}) => time > last - HOUR && time <= last);
    drawn.forEach((chart) => chart.update(samples));
  }

  return {
    element,
    path: () => query('overview', {since: samples.at(-1)?.time}),
    show(value) {
      full.show(value.capacity);
      counts.show(value.counts);
      keep(value);
      const {system} = value;
      const sessions = Object.entries(value.sessions)
        .map(([state, many]) => `${many} ${state.replace('_', ' ')}`);
      facts.replaceChildren(pairs([
        ['Profile', value.profile], ['Version', system.system_version],
        ['REST API', system.rest_api_version],
        ['System id', system.system_id],
        ['Connectivity', system.system_connectivity_type],
        ['Replication', sessions.join(', ') || 'no sessions'],
        ['iSCSI target', system.iscsi_qualified_target_name]]));
      none.hidden = value.events.length > 0;
      keyed(body, value.events, ({id}) => id, eventRow);
    }};
}
