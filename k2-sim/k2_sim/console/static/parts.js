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

// Pieces that several views have.

import {el} from './dom.js';

let number = 0;

// A field that searches while the user types.
export function searchField(label, wake) {
  const id = `search-${number += 1}`;
  const input = el('input', {type: 'search', id, placeholder: label,
                             autocomplete: 'off', spellcheck: 'false'});
  let timer;
  input.addEventListener('input', () => {
    clearTimeout(timer);
    timer = setTimeout(wake, 150);
  });
  input.addEventListener('keydown', (event) => {
    if (event.key === 'Escape' && input.value) {
      event.preventDefault();
      input.value = '';
      wake();
    }
  });
  return {input, element: el('div', {class: 'search'},
    el('label', {class: 'unseen', for: id}, label), input)};
}

// One of a few, as buttons in a row.
export function choice(label, options, wake) {
  const name = `choice-${number += 1}`;
  const element = el('fieldset', {class: 'choice', onchange: wake},
    el('legend', {class: 'unseen'}, label),
    options.map(([value, text], place) => el('label', {},
      el('input', {type: 'radio', name, value, checked: place === 0}),
      el('span', {}, text))));
  return {element, value: () =>
    element.querySelector('input:checked').value};
}

// Forward and back through pages of a long list.
export function pager(thing, wake) {
  let offset = 0;
  let limit = 50;
  const words = el('span', {role: 'status'});
  const step = (by) => () => {
    offset = Math.max(0, offset + by * limit);
    wake();
  };
  const back = el('button', {type: 'button', onclick: step(-1)}, 'Previous');
  const next = el('button', {type: 'button', onclick: step(1)}, 'Next');
  return {
    element: el('nav', {class: 'pager', 'aria-label': `Pages of ${thing}s`},
      words, back, next),
    offset: () => offset,
    first: () => { offset = 0; },
    // Returns false if the page is beyond the end; then polls the first one.
    show(value) {
      if (value.offset && value.offset >= value.total) {
        offset = 0;
        wake();
        return false;
      }
      limit = value.limit;
      const last = Math.min(value.offset + limit, value.total);
      const text = value.total
        ? `${value.offset + 1}–${last} of ${value.total} ${thing}s`
        : `No ${thing}s`;
      if (words.textContent !== text) words.textContent = text;
      back.disabled = value.offset === 0;
      next.disabled = last === value.total;
      return true;
    }};
}

export function query(name, values) {
  const parts = Object.entries(values).filter(([, value]) => value)
    .map(([key, value]) => `${key}=${encodeURIComponent(value)}`);
  return parts.length ? `${name}?${parts.join('&')}` : name;
}
