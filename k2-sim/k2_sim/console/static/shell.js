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

// What both pages have: login, theme, connection, keys.

import {Api, Poller, Refusal} from './api.js';
import {byId, el, say} from './dom.js';

const THEMES = ['auto', 'light', 'dark'];
// What the keys do on both pages.
const KEYS = [['p', 'pause, or go on'], ['t', 'theme: auto, light, dark'],
              ['?', 'this help']];

function remembered(name, usual) {
  try {
    return localStorage.getItem(name) ?? usual;
  } catch {
    return usual;
  }
}

function remember(name, value) {
  try {
    localStorage.setItem(name, value);
  } catch {
    // Without storage, the browser keeps no settings.
  }
}

function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
  const text = `Theme: ${theme}`;
  byId('theme').setAttribute('aria-label', text);
  byId('theme').title = `${text} (t)`;
  say(byId('theme-name'), theme);
}

function nextTheme() {
  const now = document.documentElement.dataset.theme;
  const next = THEMES[(THEMES.indexOf(now) + 1) % THEMES.length];
  remember('k2-theme', next);
  setTheme(next);
}

// Fill the frame for one page. title, note: the texts of its login; things:
// what its parts are called ("views"); links: the hash and the name of each
// part; aside: the address and the name of the other page; help: more keys,
// and what they do.
function buildPage({title, note, things, links, aside, help = []}) {
  document.title = `K2 ${title.toLowerCase()}`;
  say(byId('gate-title'), title);
  say(byId('gate-note'), note);
  say(byId('title'), title);
  byId('views').setAttribute(
    'aria-label', things[0].toUpperCase() + things.slice(1));
  byId('links').append(...links.map(([hash, name], place) =>
    el('li', {}, el('a', {href: `#${hash}`},
      el('kbd', {'aria-hidden': 'true'}, place + 1), name))));
  const [href, words] = aside;
  byId('aside').href = href;
  say(byId('aside'), words);
  byId('keys').append(
    el('dt', {}, el('kbd', {}, 1), ' to ', el('kbd', {}, links.length)),
    el('dd', {}, `the ${things}, from ${links[0][1]} to ${links.at(-1)[1]}`),
    ...[...KEYS, ...help].flatMap(([keys, meaning]) => [
      el('dt', {}, keys.split(' ').flatMap((key) =>
        [el('kbd', {}, key), ' '])), el('dd', {}, meaning)]));
}

// A page behind a login. page: see buildPage(); path(): the path to poll now;
// show(value): called with each new reply; entered(who): called after a
// login; keys: more keys.
export class Shell {
  constructor({base, page, path, show, entered = () => {}, keys = {}}) {
    buildPage(page);
    this.api = new Api(base);
    this.show = show;
    this.entered = entered;
    this.keys = {t: nextTheme, p: () => this.pause(),
                 '?': () => this.help(), ...keys};
    this.poller = new Poller(this.api, path, {
      value: (value) => this.show(value), reached: () => this.reached(),
      failed: (error, delay) => this.failed(error, delay),
      ended: () => this.ask('Your session has ended. Log in again.')});
    this.wire();
  }

  wire() {
    setTheme(remembered('k2-theme', 'auto'));
    byId('theme').addEventListener('click', nextTheme);
    byId('login').addEventListener('submit', (event) => this.logIn(event));
    byId('logout').addEventListener('click', () => this.logOut());
    // Do not follow the link: the hash of the URL selects the view.
    byId('skip').addEventListener('click', (event) => {
      event.preventDefault();
      byId(byId('page').hidden ? 'login-name' : 'main').focus();
    });
    byId('live').addEventListener('click', () => this.pause());
    byId('help-button').addEventListener('click', () => this.help());
    const single = byId('single-keys');
    single.checked = remembered('k2-keys', 'on') === 'on';
    single.addEventListener('change', () =>
      remember('k2-keys', single.checked ? 'on' : 'off'));
    document.addEventListener('keydown', (event) => this.key(event));
  }

  async begin() {
    try {
      this.enter(await this.api.session());
    } catch (error) {
      if (error instanceof Refusal && error.status === 401) {
        this.ask('');
      } else {
        this.failed(error, 2000);
        setTimeout(() => this.begin(), 2000);
      }
    }
  }

  enter(who) {
    byId('gate').hidden = true;
    byId('page').hidden = false;
    byId('banner').hidden = true;
    say(byId('who'), who.login);
    byId('who').title = `role ${who.role}`;
    this.entered(who);
    this.poller.start();
  }

  ask(text) {
    byId('page').hidden = true;
    byId('gate').hidden = false;
    say(byId('login-error'), text);
    for (const dialog of document.querySelectorAll('dialog[open]')) {
      dialog.close();
    }
    byId('login-name').focus();
  }

  async logIn(event) {
    event.preventDefault();
    const button = byId('login').querySelector('button');
    say(byId('login-error'), '');
    button.disabled = true;
    try {
      const who = await this.api.logIn(
        byId('login-name').value, byId('login-password').value);
      byId('login-password').value = '';
      this.enter(who);
      byId('main').focus();
    } catch (error) {
      say(byId('login-error'), error instanceof Refusal
        ? error.message : 'The array cannot be reached. Try again.');
      byId('login-password').select();
    } finally {
      button.disabled = false;
    }
  }

  async logOut() {
    this.poller.stop();
    try {
      await this.api.logOut();
    } catch {
      // The session expires by itself.
    }
    this.ask('');
  }

  reached() {
    byId('banner').hidden = true;
    this.tell(this.poller.paused ? 'paused' : 'live');
  }

  failed(error, delay) {
    const why = error instanceof Refusal
      ? error.message : 'The array cannot be reached.';
    say(byId('banner'), `${why} Trying again in ${
      Math.round(delay / 1000)} s. What you see may be old.`);
    byId('banner').hidden = false;
    this.tell('lost');
  }

  tell(state) {
    const button = byId('live');
    button.dataset.state = state;
    button.setAttribute('aria-pressed', state === 'paused');
    say(byId('live-name'), {live: 'Live', paused: 'Paused',
                            lost: 'Not connected'}[state]);
  }

  pause() {
    this.poller.pause(!this.poller.paused);
    this.tell(this.poller.paused ? 'paused' : 'live');
  }

  help() {
    byId('help').showModal();
  }

  key(event) {
    const typing = event.target.closest?.(
      'input:not([type=checkbox]), select, textarea, dialog');
    if (event.ctrlKey || event.metaKey || event.altKey || typing
        || !byId('single-keys').checked || byId('page').hidden) return;
    const action = this.keys[event.key];
    if (action) {
      event.preventDefault();
      action();
    }
  }
}

// Announce a text to screen readers, once.
export function announce(text) {
  byId('announcements').replaceChildren(el('span', {}, text));
}
