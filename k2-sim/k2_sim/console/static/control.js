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

// The control page: faults, latency, seeding, ports, behaviors and reset.

import {byId, el, emptiness, keyed, pill, say, table} from './dom.js';
import {Shell} from './shell.js';

const SECTIONS = [
  ['faults', 'Faults'], ['latency', 'Latency'], ['seeding', 'Seeding'],
  ['ports', 'Ports and link'], ['behaviors', 'Behaviors'],
  ['reset', 'Reset']];
// Fields that only some kinds of fault use.
const OWN = {busy: ['code'], status: ['status'], hang: ['seconds'],
             slow_loris: ['rate'], latency: ['latency'],
             late: ['reads', 'seconds'], linger: ['reads', 'seconds']};
const SEEDS = [
  ['volumes', 'Volumes', 100], ['volumes_per_group', 'Volumes per group', 10],
  ['snapshots', 'Snapshots', 10], ['hosts', 'Hosts', 10]];

let updaters = null;

// Run an action, and show its result.
async function act(words, method, path, body) {
  try {
    await shell.api.act(method, `api/${path}`, body);
    say(byId('done'), words);
    byId('done').className = 'good';
    shell.poller.wake();
    return true;
  } catch (error) {
    say(byId('done'), error.message);
    byId('done').className = 'bad';
    if (error.status === 401) shell.poller.wake();
    return false;
  }
}

function field(label, input, note = '') {
  return el('label', {class: 'field', 'data-field': input.name || false},
    el('span', {}, label), input, note ? el('small', {}, note) : null);
}

function text(name, placeholder = '') {
  return el('input', {name, placeholder, autocomplete: 'off',
                      spellcheck: 'false'});
}

function numeric(name, value, attributes = {}) {
  return el('input', {name, type: 'number', min: 0, step: 'any', value,
                      ...attributes});
}

function select(name, options) {
  return el('select', {name}, options.map((option) =>
    el('option', {}, String(option))));
}

function button(words, attributes = {}) {
  return el('button', {type: 'button', ...attributes}, words);
}

function form(words, submit, ...children) {
  return el('form', {class: 'fields', onsubmit: (event) => {
    event.preventDefault();
    submit(event.target);
  }}, ...children, el('button', {type: 'submit', class: 'main'}, words));
}

// The fields of a latency: a kind, and the parameters of that kind.
function latencyFields(kinds) {
  const kind = select('latency-kind', Object.keys(kinds));
  const inputs = el('span', {class: 'fields inner'});
  function change(values = {}) {
    const longest = kind.value === 'constant' ? [] : ['longest'];
    inputs.replaceChildren(...[...kinds[kind.value], ...longest].map(
      (name) => field(unit(name), numeric(`latency-${name}`,
        values[name] ?? (name === 'longest' ? 60000 : 1)))));
  }
  kind.addEventListener('change', () => change());
  change();
  return {
    element: el('span', {class: 'fields inner'},
      field('Distribution', kind), inputs),
    set(value) {
      kind.value = value.kind;
      change(value);
    },
    value() {
      const found = {kind: kind.value};
      for (const input of inputs.querySelectorAll('input')) {
        found[input.name.replace('latency-', '')] = Number(input.value);
      }
      return found;
    }};
}

function unit(name) {
  if (name === 'ms') return 'Milliseconds';
  const words = name[0].toUpperCase() + name.slice(1);
  return ['sigma', 'shape'].includes(name) ? words : `${words}, ms`;
}

function inWords(latency) {
  const {kind, ...rest} = latency;
  return [kind, ...Object.entries(rest).map((pair) => pair.join(' '))]
    .join(', ');
}

// "field=glob" on each line.
function where(lines) {
  const found = {};
  for (const line of lines.split('\n').filter((one) => one.trim())) {
    const at = line.indexOf('=');
    if (at < 1) throw new Error(`Not field=glob: ${line}`);
    found[line.slice(0, at).trim()] = line.slice(at + 1).trim();
  }
  return found;
}

// The fault rule in a form.
function ruleOf(inputs, latency) {
  const own = OWN[inputs.kind.value] ?? [];
  const rule = {
    kind: inputs.kind.value, method: inputs.method.value || '*',
    path: inputs.path.value || '*', regexp: inputs.regexp.value,
    where: where(inputs.where.value), after: Number(inputs.after.value),
    times: inputs.times.value ? Number(inputs.times.value) : null,
    probability: Number(inputs.probability.value),
    commit: inputs.commit.value === 'usual' ? '' : inputs.commit.value,
    enabled: inputs.enabled.checked};
  if (own.includes('code')) rule.code = inputs.code.value;
  for (const name of ['status', 'seconds', 'rate', 'reads']) {
    if (own.includes(name)) rule[name] = Number(inputs[name].value);
  }
  if (own.includes('latency')) rule.latency = latency.value();
  return rule;
}

function faultForm(value) {
  const latency = latencyFields(value.latencies);
  const kind = select('kind', value.kinds);
  const own = [
    field('Code', select('code', value.codes)),
    field('Status', select('status', value.statuses)),
    field('Seconds', numeric('seconds', 0)),
    field('Bytes per second', numeric('rate', 64, {min: 0.001})),
    field('Reads', numeric('reads', 1, {step: 1})),
    el('span', {'data-field': 'latency'}, latency.element)];
  function change() {
    const wanted = OWN[kind.value] ?? [];
    own.forEach((one) => {
      one.hidden = !wanted.includes(one.dataset.field);
    });
  }
  kind.addEventListener('change', change);
  change();
  return form('Add the fault', (target) => {
    try {
      act(`A fault ${kind.value} was added.`, 'POST', 'faults',
        ruleOf(target.elements, latency));
    } catch (error) {
      say(byId('done'), error.message);
      byId('done').className = 'bad';
    }
  },
  el('fieldset', {}, el('legend', {}, 'Requests'),
    field('Method', text('method', '*'), 'comma-separated list, or write'),
    field('Path', text('path', '*'), 'a glob below /api/v2'),
    field('Regular expression', text('regexp'), 'searched in the path'),
    field('Where', el('textarea', {name: 'where', rows: 2,
                                   placeholder: 'name=cv-*'}),
      'field=glob, one per line')),
  el('fieldset', {}, el('legend', {}, 'How often'),
    field('Times', numeric('times', '', {step: 1, placeholder: 'always'})),
    field('After', numeric('after', 0, {step: 1}), 'requests that pass first'),
    field('Probability', numeric('probability', 1, {max: 1}), 'of the rest'),
    el('label', {class: 'check'}, el('input', {
      type: 'checkbox', name: 'enabled', checked: true}), 'Enabled')),
  el('fieldset', {}, el('legend', {}, 'Effect'),
    field('Kind', kind), ...own,
    field('Commit', select('commit', ['usual', 'before', 'after']),
      'before: the request is not carried out')));
}

function faultRow(rule) {
  const about = [rule.method === '*' ? 'any' : rule.method, rule.path,
    rule.regexp && `/${rule.regexp}/`,
    ...Object.entries(rule.where).map((pair) => pair.join('='))]
    .filter(Boolean).join(' ');
  const details = [...(OWN[rule.kind] ?? []).map((name) =>
    `${name} ${name === 'latency' ? inWords(rule.latency) : rule[name]}`),
  `commit ${rule.commit}`].join(', ');
  const often = [rule.times === null ? 'always' : `${rule.times} times`,
    rule.after ? `after ${rule.after}` : '',
    rule.probability < 1 ? `with probability ${rule.probability}` : '']
    .filter(Boolean).join(', ');
  return el('tr', {},
    el('td', {class: 'number'}, rule.id),
    el('td', {}, pill(rule.kind, rule.enabled ? 'fault' : '')),
    el('td', {class: 'code wide'}, about), el('td', {}, often),
    el('td', {}, details),
    el('td', {class: 'number'}, `${rule.triggered} of ${rule.matched}`),
    el('td', {}, el('span', {class: 'row'},
      button(rule.enabled ? 'Disable' : 'Enable', {
        'data-focus': 'enable', 'aria-label':
          `${rule.enabled ? 'Disable' : 'Enable'} fault ${rule.id}`,
        onclick: () => act(`Fault ${rule.id} was changed.`, 'PATCH',
          `faults/${rule.id}`, {enabled: !rule.enabled})}),
      button('Remove', {
        'aria-label': `Remove fault ${rule.id}`, onclick: () => act(
          `Fault ${rule.id} was removed.`, 'DELETE',
          `faults/${rule.id}`)}))));
}

function faults(value) {
  const body = el('tbody');
  const none = emptiness('No fault rules.');
  byId('faults').append(table('Faults', [
    ['Id', 'number'], ['Kind'], ['Requests'], ['How often'], ['Details'],
    ['Triggered', 'number'], ['Change']], body), none,
  el('details', {open: true}, el('summary', {}, 'Add a fault'),
    faultForm(value)));
  return (now) => {
    none.hidden = now.faults.length > 0;
    keyed(body, now.faults, ({id}) => id, faultRow);
  };
}

function latencySection(value) {
  const fields = latencyFields(value.latencies);
  const words = el('p', {class: 'summary'});
  fields.set(value.latency);
  byId('latency').append(words, form('Set the latency', () =>
    act('The latency was set.', 'POST', 'latency', fields.value()),
  fields.element));
  return ({latency: now}) => say(words, now.kind === 'constant'
    ? `Every reply is delayed by ${now.ms} ms.`
    : `Every reply is delayed by a random time: ${inWords(now)}.`);
}

function seeding() {
  byId('seeding').append(
    el('p', {class: 'summary'}, 'Creates more objects with new names. '
      + 'The array answers no requests meanwhile.'),
    form('Create them', (target) => {
      const counts = Object.fromEntries(SEEDS.map(([name]) =>
        [name, Number(target.elements[name].value)]));
      act('The objects were created.', 'POST', 'seed', counts);
    }, ...SEEDS.map(([name, label, usual]) => field(label, numeric(
      name, usual, {step: 1, max: name === 'volumes_per_group'
        ? 32 : 10000})))));
  return () => {};
}

// A switch that is set back if the array refuses the change.
function toggle(words, on, set) {
  return el('label', {class: 'check'}, el('input', {
    type: 'checkbox', role: 'switch', checked: on, 'data-focus': 'switch',
    onchange: async ({target}) => {
      if (!await set(target.checked)) target.checked = on;
    }}), words);
}

function ports() {
  const list = el('ul', {class: 'behaviors'});
  const link = el('div');
  byId('ports').append(link, list);
  return (now) => {
    keyed(link, [{cut: now.cut}], () => 'link', ({cut}) => el('p', {},
      toggle('Link to the peers', !cut, (on) => act(
        `The link was ${on ? 'restored' : 'cut'}.`, 'POST', 'link',
        {cut: !on}))));
    keyed(list, now.ports, ({port}) => port, (one) => el('li', {},
      toggle(one.name, one.up, (up) => act(
        `${one.name} is ${up ? 'up' : 'down'}.`, 'POST', 'ports',
        {port: one.port, up}))));
  };
}

function behaviorInput(name, value, choices) {
  if (typeof value === 'boolean') {
    return toggle('', value, (on) => set(name, on));
  }
  const shown = Array.isArray(value) ? value.join(', ') : String(value);
  const input = choices ? select(name, choices) : el('input', {
    type: typeof value === 'number' ? 'number' : 'text', step: 'any'});
  input.dataset.focus = 'value';
  input.value = shown;
  input.addEventListener('change', async () => {
    const wanted = input.value !== '' && typed(value, input.value);
    if (wanted === false || !await set(name, wanted)) input.value = shown;
  });
  return input;
}

// A text as a value of the same type as another.
function typed(like, text) {
  if (typeof like === 'number') return Number(text);
  if (!Array.isArray(like)) return text;
  return text.split(',').map((one) => one.trim());
}

function set(name, value) {
  return act(`${name} was set.`, 'POST', 'behaviors', {[name]: value});
}

function behaviors(value) {
  const list = el('ul', {class: 'settings'});
  byId('behaviors').append(el('p', {class: 'summary'},
    'Behavior where arrays differ; changes apply immediately.'), list);
  return (now) => keyed(list, Object.entries(now.behaviors),
    ([name]) => name, ([name, set_]) => {
      const input = behaviorInput(name, set_, value.choices[name]);
      const control = input.matches('input, select')
        ? input : input.querySelector('input');
      control.setAttribute('aria-label', name);
      return el('li', {}, el('span', {class: 'code'}, name), input);
    });
}

// Asks for confirmation.
function confirmation() {
  return el('dialog', {id: 'confirm', 'aria-labelledby': 'confirm-title'},
    el('h2', {id: 'confirm-title'}, 'Reset the array?'),
    el('p', {}, 'All volumes, snapshots, hosts, mappings and sessions are '
      + 'removed, and so are faults, latency and the journal. This cannot be '
      + 'undone.'),
    el('form', {method: 'dialog', class: 'row'},
      el('button', {value: 'no'}, 'Keep everything'),
      el('button', {value: 'yes', class: 'danger'}, 'Reset the array')));
}

function reset() {
  const dialog = confirmation();
  document.body.append(dialog);
  dialog.addEventListener('close', () => {
    if (dialog.returnValue === 'yes') {
      act('The array was reset.', 'POST', 'reset');
    }
    dialog.returnValue = 'no';
  });
  byId('reset').append(el('p', {class: 'summary'},
    'Resets the array to factory state: removes all objects, faults, the '
    + 'latency and the journal.'),
  button('Reset the array …', {class: 'danger', id: 'reset-button',
                               onclick: () => dialog.showModal()}));
  return () => {};
}

function show(value) {
  updaters ??= [faults, latencySection, seeding, ports, behaviors, reset].map(
    (section) => section(value));
  document.title = `Control · ${value.name} · K2`;
  say(byId('array'), value.name);
  updaters.forEach((update) => update(value));
}

function jump(section) {
  byId(section).scrollIntoView();
  byId(section).focus({preventScroll: true});
}

// Create the sections of the page, and the status line.
function prepare() {
  byId('tools').append(el('p', {id: 'done', role: 'status'}));
  byId('view').classList.add('stack');
  byId('view').append(...SECTIONS.map(([id, name]) => el('section', {
    class: 'card', id, 'aria-labelledby': `${id}-title`, tabindex: -1},
  el('h2', {id: `${id}-title`}, name))));
}

prepare();
const shell = new Shell({
  base: '/console/control', page: {
    title: 'Control', things: 'sections', links: SECTIONS,
    note: 'Log in with the account of the control API. Actions here '
      + 'change how the array behaves.',
    aside: ['/console/', 'Console']},
  path: () => 'feed', show,
  keys: Object.fromEntries(SECTIONS.map(([section], place) =>
    [String(place + 1), () => jump(section)]))});
shell.begin();
