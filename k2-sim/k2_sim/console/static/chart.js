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

// Lines over time, drawn as SVG: axes with units, a legend, the value under
// the pointer or the arrow keys, and the same in words.

import {el, say, svg} from './dom.js';
import {clock, minute} from './format.js';

const HEIGHT = 150;
const LEFT = 58;
const RIGHT = 12;
const TOP = 10;
const BOTTOM = 22;
const SHORTEST = 600;
const STEPS = [60, 120, 300, 600, 900, 1800, 3600];

// The smallest round number that is not below a value.
function above(value, base) {
  if (value <= 0) return 1;
  const power = base ** Math.floor(Math.log(value) / Math.log(base));
  const factors = base === 1024
    ? [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024] : [1, 2, 4, 5, 8, 10];
  return power * factors.find((factor) => power * factor >= value * 0.999);
}

export class Chart {
  // series: [{name, value: sample => number or null}]. format: value => text.
  // base: 1024 for bytes. moved: called with the time under the pointer, or
  // null.
  constructor({title, series, format, base = 10, moved = () => {}}) {
    Object.assign(this, {title, series, format, base, moved});
    this.samples = [];
    this.at = null;
    this.active = false;
    this.build();
    new ResizeObserver(() => this.draw()).observe(this.plot);
  }

  build() {
    const id = `chart-${this.title.toLowerCase().replace(/[^a-z]+/g, '-')}`;
    this.values = this.series.map(() => el('b', {}, '–'));
    this.legend = el('ul', {class: 'legend'}, this.series.map(
      ({name}, place) => el('li', {class: `s${place}`},
        el('i', {'aria-hidden': 'true'}), el('span', {}, name),
        this.values[place])));
    this.words = el('p', {class: 'unseen', id: `${id}-words`});
    this.tip = el('div', {class: 'tip', hidden: true, 'aria-hidden': 'true'});
    this.drawing = svg('svg', {'aria-hidden': 'true', height: HEIGHT});
    this.plot = el('div', {
      class: 'plot', tabindex: 0, role: 'slider', 'aria-label': this.title,
      'aria-describedby': `${id}-words`, 'aria-orientation': 'horizontal',
      'aria-valuemin': 0, 'aria-valuemax': 0, 'aria-valuenow': 0,
      'aria-valuetext': 'Collecting data',
      onpointermove: (event) => this.follow(event),
      onpointerleave: () => this.leave(),
      onkeydown: (event) => this.key(event),
      onblur: () => this.leave()}, this.drawing, this.tip);
    this.element = el('figure', {class: 'card chart'},
      el('figcaption', {}, el('h2', {}, this.title), this.legend),
      this.plot, this.words);
  }

  update(samples) {
    this.samples = samples;
    this.describe();
    this.draw();
  }

  shown(value) {
    return value === null ? '–' : this.format(value);
  }

  describe() {
    if (!this.samples.length) return;
    const span = `from ${clock(this.samples[0].time)} to `
      + clock(this.samples.at(-1).time);
    say(this.words, this.series.map(({name, value}) => {
      const values = this.samples.map(value).filter((one) => one !== null);
      if (!values.length) return `${name}: no value yet.`;
      return `${name} ${span}: least ${this.format(Math.min(...values))}, `
        + `most ${this.format(Math.max(...values))}, `
        + `now ${this.shown(value(this.samples.at(-1)))}.`;
    }).join(' '));
    this.plot.setAttribute('aria-valuemax', this.samples.length - 1);
    this.tell(this.at === null ? this.samples.length - 1 : this.index());
  }

  tell(index) {
    const sample = this.samples[index];
    this.plot.setAttribute('aria-valuenow', index);
    this.plot.setAttribute('aria-valuetext', `${clock(sample.time)}: `
      + this.series.map(({name, value}) =>
        `${name} ${this.shown(value(sample))}`).join(', '));
  }

  draw() {
    const width = this.plot.clientWidth;
    if (!width) return;
    this.drawing.setAttribute('viewBox', `0 0 ${width} ${HEIGHT}`);
    this.scale(width);
    this.cursor = svg('g', {class: 'cursor'});
    this.drawing.replaceChildren(
      ...this.grid(width), ...this.series.flatMap(
        (series, place) => this.lines(series, place)), this.cursor);
    this.mark();
  }

  scale(width) {
    const last = this.samples.at(-1)?.time ?? 0;
    const first = Math.min(this.samples[0]?.time ?? 0, last - SHORTEST);
    const most = Math.max(0, ...this.samples.flatMap((sample) =>
      this.series.map(({value}) => value(sample) ?? 0)));
    this.top = above(most, this.base);
    this.span = [first, last];
    this.x = (time) => LEFT
      + (width - LEFT - RIGHT) * (time - first) / (last - first);
    this.y = (value) => HEIGHT - BOTTOM
      - (HEIGHT - TOP - BOTTOM) * value / this.top;
  }

  grid(width) {
    const parts = [];
    for (const part of [0, 0.25, 0.5, 0.75, 1]) {
      const y = this.y(part * this.top);
      parts.push(svg('line', {x1: LEFT, x2: width - RIGHT, y1: y, y2: y,
                              class: part ? 'rule' : 'axis'}));
      if (part % 0.5 === 0) {
        parts.push(svg('text', {x: LEFT - 8, y: y + 3.5, class: 'up'},
          this.format(part * this.top)));
      }
    }
    if (!this.samples.length) return parts;
    return parts.concat(this.times(width));
  }

  times(width) {
    const [first, last] = this.span;
    const room = Math.max(2, Math.floor((width - LEFT) / 64));
    const step = STEPS.find((one) => (last - first) / one <= room) ?? 7200;
    const parts = [];
    for (let time = Math.ceil(first / step) * step; time <= last;
      time += step) {
      const x = this.x(time);
      if (x > width - 16) break;
      parts.push(svg('line', {x1: x, x2: x, y1: HEIGHT - BOTTOM,
                              y2: HEIGHT - BOTTOM + 4, class: 'axis'}));
      parts.push(svg('text', {x, y: HEIGHT - 5, class: 'along'},
        minute(time)));
    }
    return parts;
  }

  // A line, broken where samples are missing, and the area below it.
  lines({value}, place) {
    let line = '';
    let area = '';
    let before = null;
    for (const sample of this.samples) {
      const found = value(sample);
      if (found === null) { before = null; continue; }
      const x = this.x(sample.time).toFixed(1);
      const y = this.y(found).toFixed(1);
      const joined = before && sample.time - before.time <= 30;
      if (!joined && before) area += this.foot(before.time);
      line += `${joined ? 'L' : 'M'}${x} ${y}`;
      area += joined ? `L${x} ${y}`
        : `M${x} ${this.y(0).toFixed(1)}L${x} ${y}`;
      before = sample;
    }
    if (before) area += this.foot(before.time);
    return [svg('path', {d: area, class: `area s${place}`}),
            svg('path', {d: line, class: `line s${place}`})];
  }

  foot(time) {
    return `L${this.x(time).toFixed(1)} ${this.y(0).toFixed(1)}Z`;
  }

  index() {
    let best = 0;
    this.samples.forEach((sample, place) => {
      if (Math.abs(sample.time - this.at)
          < Math.abs(this.samples[best].time - this.at)) best = place;
    });
    return best;
  }

  // Show the values at a time, or the latest ones for null. The chart under
  // the pointer or with the focus shows them beside the line, too.
  point(time) {
    this.at = time;
    this.mark();
  }

  mark() {
    this.cursor?.replaceChildren();
    this.tip.hidden = this.at === null || !this.active;
    const sample = this.at === null
      ? this.samples.at(-1) : this.samples[this.index()];
    this.series.forEach(({value}, place) => {
      say(this.values[place], sample ? this.shown(value(sample)) : '–');
    });
    if (!sample || this.at === null || !this.cursor) return;
    const x = this.x(sample.time);
    this.cursor.append(svg('line', {x1: x, x2: x, y1: TOP,
                                    y2: HEIGHT - BOTTOM}));
    this.series.forEach(({value}, place) => {
      const found = value(sample);
      if (found !== null) {
        this.cursor.append(svg('circle', {
          cx: x, cy: this.y(found), r: 3.5, class: `s${place}`}));
      }
    });
    this.label(sample, x);
  }

  label(sample, x) {
    this.tip.replaceChildren(el('time', {}, clock(sample.time)),
      ...this.series.map(({name, value}, place) =>
        el('span', {class: `s${place}`}, el('i'), `${name} `,
          el('b', {}, this.shown(value(sample))))));
    const width = this.plot.clientWidth;
    const left = x > width / 2;
    this.tip.style.left = left ? 'auto' : `${x + 10}px`;
    this.tip.style.right = left ? `${width - x + 10}px` : 'auto';
  }

  leave() {
    this.active = false;
    this.moved(null);
  }

  follow(event) {
    if (!this.samples.length) return;
    this.active = true;
    const {left, width} = this.plot.getBoundingClientRect();
    const [first, last] = this.span;
    const part = (event.clientX - left - LEFT) / (width - LEFT - RIGHT);
    this.moved(first + part * (last - first));
  }

  key(event) {
    const last = this.samples.length - 1;
    if (last < 0) return;
    const now = this.at === null ? last : this.index();
    const next = {ArrowLeft: now - 1, ArrowRight: now + 1, Home: 0,
                  ArrowDown: now - 1, ArrowUp: now + 1,
                  PageUp: now - 12, PageDown: now + 12, End: last}[event.key];
    if (event.key === 'Escape') this.leave();
    if (next === undefined) return;
    event.preventDefault();
    this.active = true;
    const index = Math.max(0, Math.min(last, next));
    this.moved(this.samples[index].time);
    this.tell(index);
  }
}

// A few numbers in a row, as bars; words: their description.
export function bars(values, words) {
  const width = 4 * Math.max(values.length, 1);
  const most = Math.max(1, ...values);
  return svg('svg', {class: 'bars', role: 'img', 'aria-label': words,
                     viewBox: `0 0 ${width} 24`, width, height: 24},
    svg('title', {}, words),
    values.map((value, place) => {
      const height = Math.max(1.5, 24 * value / most);
      return svg('rect', {x: 4 * place, y: 24 - height, width: 3, height});
    }));
}
