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

// Volume groups and the objects in them, as a tree, and one object in full.

import {breakable, el, emptiness, keyed} from './dom.js';
import {count, moment, size} from './format.js';
import {pager, query, searchField} from './parts.js';

function facts(node) {
  if (node.kind !== 'group') return node.mapped.join(', ');
  return `${count(node.volumes, 'volume')}, ${
    count(node.snapshots, 'snapshot')}`;
}

function words(node) {
  if (node.kind === 'more') return node.name;
  return [`${node.name}, ${node.kind}`, size(node.size), node.kind === 'group'
    ? facts(node) : node.mapped.length && `mapped to ${facts(node)}`]
    .filter(Boolean).join(', ');
}

// Add to each node its position among its siblings, and how many there are.
function placed(nodes) {
  const open = [];
  const found = nodes.map((node) => {
    open.length = node.level;
    const above = open[node.level - 1] ?? (open[node.level - 1] = {many: 0});
    above.many += 1;
    open[node.level] = {many: 0};
    return {node, place: above.many, above};
  });
  return found.map(({node, place, above}) =>
    ({...node, place, many: above.many}));
}

export function volumes({wake, api}) {
  const opened = new Set();
  const pages = pager('group', wake);
  const search = searchField('Search groups, volumes, snapshots', () => {
    pages.first();
    wake();
  });
  const tree = el('div', {class: 'tree', role: 'tree',
                          'aria-label': 'Volume groups', onkeydown: key});
  const none = emptiness('No matching groups, volumes or snapshots.');
  const detail = el('aside', {class: 'card detail', 'aria-live': 'polite',
                              'aria-label': 'Details'});
  let nodes = [];
  let current = null;
  let chosen = null;
  hint();

  function hint() {
    detail.dataset.shown = '';
    detail.replaceChildren(el('p', {class: 'empty'},
      'Select a line to see the object as in the REST API.'));
  }

  function item(node) {
    return el('div', {
      class: `node ${node.kind}`, role: 'treeitem', id: `node${node.ref}`,
      'aria-level': node.level, 'aria-setsize': node.many,
      'aria-posinset': node.place, 'aria-label': words(node),
      'aria-expanded': node.open === null ? null : String(node.open),
      'aria-selected': String(node.ref === chosen),
      tabindex: node.ref === current ? 0 : -1, 'data-ref': node.ref,
      onclick: (event) => click(event, node)},
    el('span', {class: `name l${Math.min(node.level, 8)}`},
      el('i', {class: node.open === null ? 'leaf' : 'twisty'}),
      el('span', {class: 'text'}, node.name),
      node.kind === 'more' ? '' : el('small', {class: 'kind'}, node.kind)),
    el('span', {class: 'number'}, 'size' in node ? size(node.size) : ''),
    el('span', {class: 'number'},
      'written' in node ? size(node.written) : ''),
    el('span', {class: 'facts'}, node.kind === 'more' ? '' : facts(node)),
    el('span', {class: 'time'}, node.time ? moment(node.time) : ''));
  }

  function find(ref) {
    return [...tree.children].find((child) => child.dataset.ref === ref);
  }

  function focus(ref) {
    if (!ref) return;
    find(current)?.setAttribute('tabindex', -1);
    current = ref;
    const element = find(ref);
    element?.setAttribute('tabindex', 0);
    element?.focus();
  }

  function click(event, node) {
    focus(node.ref);
    if (event.target.closest('.twisty')) toggle(node);
    else choose(node);
  }

  function toggle(node) {
    if (node.open === null) return;
    if (!opened.delete(node.ref)) opened.add(node.ref);
    wake();
  }

  function choose(node) {
    if (node.kind === 'more') return;
    find(chosen)?.setAttribute('aria-selected', 'false');
    chosen = node.ref;
    find(chosen)?.setAttribute('aria-selected', 'true');
    look();
  }

  async function look() {
    const wanted = chosen;
    try {
      const {fields} = await api().act(
        'GET', query('feed/object', {ref: wanted}));
      if (wanted === chosen) inFull(wanted, fields);
    } catch (error) {
      if (error.status === 404) {
        chosen = null;
        hint();
      }
    }
  }

  function inFull(ref, fields) {
    // Do not replace the same text, which would be read out again.
    const text = JSON.stringify([ref, fields]);
    if (detail.dataset.shown === text) return;
    detail.dataset.shown = text;
    const list = el('dl', {class: 'pairs record'});
    for (const [name, value] of Object.entries(fields)) {
      list.append(el('dt', {}, breakable(name)),
        el('dd', {}, plain(name, value)));
    }
    detail.replaceChildren(
      el('h2', {}, fields.short_name ?? fields.name),
      el('p', {class: 'code'}, `/api/v2${ref}`), list);
  }

  function key(event) {
    const place = nodes.findIndex(({ref}) => ref === current);
    const node = nodes[place];
    if (!node) return;
    const action = {
      ArrowDown: () => focus(nodes[place + 1]?.ref),
      ArrowUp: () => focus(nodes[place - 1]?.ref),
      Home: () => focus(nodes[0].ref),
      End: () => focus(nodes.at(-1).ref),
      ArrowRight: () => (node.open === false ? toggle(node)
        : node.open && focus(nodes[place + 1].ref)),
      ArrowLeft: () => (opened.has(node.ref) ? toggle(node)
        : focus(above(place)?.ref)),
      Enter: () => choose(node),
      ' ': () => choose(node)}[event.key];
    if (!action || event.ctrlKey || event.altKey || event.metaKey) return;
    event.preventDefault();
    action();
  }

  function above(place) {
    return nodes.slice(0, place).reverse().find(
      ({level}) => level < nodes[place].level);
  }

  return {
    element: el('div', {class: 'beside'},
      el('section', {class: 'card', 'aria-label': 'Volumes'},
        el('div', {class: 'scroll'},
          el('div', {class: 'grid'},
            el('div', {class: 'node heads', 'aria-hidden': 'true'},
              el('span', {}, 'Name'), el('span', {class: 'number'}, 'Size'),
              el('span', {class: 'number'}, 'Written'),
              el('span', {}, 'Holds, or mapped to'),
              el('span', {}, 'Created')),
            tree)), none, pages.element),
      detail),
    tools: [search.element],
    search: search.input,
    path: () => query('volumes', {
      search: search.input.value, offset: pages.offset(),
      open: [...opened].join(',')}),
    show(value) {
      if (!pages.show(value)) return;
      nodes = placed(value.nodes);
      if (!nodes.some(({ref}) => ref === current)) {
        current = nodes[0]?.ref ?? null;
      }
      none.hidden = nodes.length > 0;
      keyed(tree, nodes, ({ref}) => ref, item);
      for (const child of tree.children) {
        child.tabIndex = child.dataset.ref === current ? 0 : -1;
      }
      if (chosen) look();
    }};
}

function plain(name, value) {
  if (value === null) return el('span', {class: 'none'}, 'null');
  if (typeof value === 'object') {
    return breakable(value.ref ?? JSON.stringify(value));
  }
  if (name.endsWith('_time') && value > 0) return moment(value);
  return breakable(String(value));
}
