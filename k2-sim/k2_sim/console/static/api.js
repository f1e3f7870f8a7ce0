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

// Requests to the array, and the loop that keeps a page up to date.

const EVERY = 1000;
const LONGEST = 30000;
const TIMEOUT = 15000;

export class Refusal extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

// The requests of one page; base is /console or /console/control.
export class Api {
  constructor(base) {
    this.base = base;
    this.proof = '';
  }

  async request(method, path, {body, tag, signal} = {}) {
    const headers = {'X-Console-Proof': this.proof};
    if (body !== undefined) headers['Content-Type'] = 'application/json';
    if (tag) headers['If-None-Match'] = tag;
    const reply = await fetch(`${this.base}/${path}`, {
      method, headers, signal, cache: 'no-store', redirect: 'error',
      body: body === undefined ? undefined : JSON.stringify(body)});
    if (reply.status === 304) return {same: true};
    const text = await reply.text();
    const value = text ? JSON.parse(text) : null;
    if (!reply.ok) {
      throw new Refusal(reply.status, value?.error_msg ?? reply.statusText);
    }
    return {value, tag: reply.headers.get('ETag')};
  }

  async act(method, path, body) {
    return (await this.request(method, path, {body})).value;
  }

  async enter(value) {
    this.proof = value.proof;
    return value;
  }

  async session() {
    return this.enter(await this.act('GET', 'session'));
  }

  async logIn(login, password) {
    return this.enter(await this.act('POST', 'session', {login, password}));
  }

  async logOut() {
    await this.act('DELETE', 'session');
    this.proof = '';
  }
}

// Polls one path. path() may return another one at any time; then call
// wake(). Does not poll while the page is hidden or paused.
export class Poller {
  constructor(api, path, heard) {
    this.api = api;
    this.path = path;
    this.heard = heard;
    this.delay = EVERY;
    this.on = false;
    this.paused = false;
    document.addEventListener('visibilitychange', () => this.wake());
    window.addEventListener('online', () => this.wake());
  }

  start() {
    this.on = true;
    this.wake();
  }

  stop() {
    this.on = false;
    this.abort?.abort();
    this.abort = null;
    clearTimeout(this.timer);
  }

  pause(paused) {
    this.paused = paused;
    if (!paused) this.wake();
  }

  // Poll now, and abandon the request in progress. A paused page polls once,
  // as its user has just asked for something.
  wake() {
    this.abort?.abort();
    clearTimeout(this.timer);
    this.tag = null;
    if (this.on && !document.hidden) this.ask();
  }

  async ask() {
    const abort = new AbortController();
    const timeout = setTimeout(() => abort.abort('timeout'), TIMEOUT);
    this.abort = abort;
    try {
      const path = this.path();
      const tag = path === this.asked ? this.tag : null;
      this.asked = path;
      const reply = await this.api.request(
        'GET', path, {tag, signal: abort.signal});
      if (this.abort !== abort) return;
      this.delay = EVERY;
      if (!reply.same) {
        this.tag = reply.tag;
        this.heard.value(reply.value);
      }
      this.heard.reached();
    } catch (error) {
      if (this.abort !== abort) return;
      this.failed(error);
    } finally {
      clearTimeout(timeout);
    }
    if (this.abort === abort && this.on) this.rest();
  }

  failed(error) {
    if (error instanceof Refusal && error.status === 401) {
      this.stop();
      this.heard.ended();
      return;
    }
    this.delay = Math.min(LONGEST, this.delay * 2);
    this.heard.failed(error, this.delay);
  }

  rest() {
    this.timer = setTimeout(() => {
      if (!document.hidden && !this.paused) this.ask();
    }, this.delay);
  }
}
