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

// Elements. Text is inserted as text, and never parsed as HTML.

const SVG = 'http://www.w3.org/2000/svg';

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith('on')) {
      element.addEventListener(name.slice(2), value);
    } else if (value === true) {
      element.setAttribute(name, '');
    } else if (value !== false && value !== null && value !== undefined) {
      element.setAttribute(name, value);
    }
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null));
  return element;
}

// An element with attributes, listeners (onclick: ...) and children.
export function el(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

// The same for an element of SVG.
export function svg(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

export function byId(id) {
  return document.getElementById(id);
}

// A long name that may be broken after its underscores and slashes.
export function breakable(text) {
  return text.split(/(?<=[_/])/).flatMap((part) => [part, el('wbr')]);
}

// Change a text only if it differs, so that it is not read out again.
export function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

// Update the children of an element to show some items. An item that has not
// changed keeps its element, and so the focus and the selection; items that
// are new since the last call are marked.
export function keyed(parent, items, keyOf, make) {
  const before = parent.known ?? new Map();
  const after = new Map();
  const focused = document.activeElement;
  let place = parent.firstElementChild;
  for (const item of items) {
    const key = keyOf(item);
    const text = JSON.stringify(item);
    let entry = before.get(key);
    if (!entry || entry.text !== text) {
      const element = make(item);
      label(element, parent.labels ?? []);
      if (!entry && parent.known) element.classList.add('new');
      if (entry) replace(entry.element, element, focused);
      if (place && entry && place === entry.element) place = element;
      entry = {text, element};
    }
    after.set(key, entry);
    if (entry.element === place) {
      place = place.nextElementSibling;
    } else {
      parent.insertBefore(entry.element, place);
    }
  }
  for (const [key, {element}] of before) {
    if (!after.has(key)) element.remove();
  }
  parent.known = after;
}

// Label the cells of a row: a narrow page shows no table head.
function label(row, labels) {
  labels.forEach((text, place) => {
    row.children[place].dataset.label = text;
  });
}

function replace(old, element, focused) {
  const had = old.contains(focused);
  const tag = focused && had ? focused.dataset.focus : undefined;
  old.replaceWith(element);
  if (!had) return;
  const target = tag
    ? element.querySelector(`[data-focus="${CSS.escape(tag)}"]`) : element;
  (target ?? element).focus({preventScroll: true});
}

// A table with a caption for screen readers; fill it with keyed(body).
export function table(caption, columns, body) {
  body.labels = columns.map(([name]) => name);
  return el('div', {class: 'scroll', tabindex: 0, role: 'region',
                    'aria-label': caption},
    el('table', {},
      el('caption', {class: 'unseen'}, caption),
      el('thead', {}, el('tr', {}, columns.map(([name, kind]) =>
        el('th', {scope: 'col', class: kind ?? false}, name)))),
      body));
}

export function card(title, ...children) {
  const id = `card-${title.toLowerCase().replace(/[^a-z]+/g, '-')}`;
  return el('section', {class: 'card', 'aria-labelledby': id},
    el('h2', {id}, title), ...children);
}

export function pill(text, kind = '') {
  return el('span', {class: `pill ${kind}`}, text);
}

// The text that a table without rows shows.
export function emptiness(text) {
  return el('p', {class: 'empty', hidden: true}, text);
}

export function pairs(entries) {
  return el('dl', {class: 'pairs'}, entries.map(([name, value]) => [
    el('dt', {}, name), el('dd', {}, value)]));
}
