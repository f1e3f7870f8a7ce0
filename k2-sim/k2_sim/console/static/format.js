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

// Numbers and times as people read them. Times are UTC, as the array's.

const UNITS = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'];

function scaled(bytes) {
  let place = 0;
  let value = bytes;
  while (Math.abs(value) >= 1024 && place < UNITS.length - 1) {
    value /= 1024;
    place += 1;
  }
  return [value, UNITS[place]];
}

function digits(value) {
  if (value === 0 || Number.isInteger(value)) return 0;
  if (Math.abs(value) >= 100) return 0;
  return Math.abs(value) >= 10 ? 1 : 2;
}

export function number(value, most = null) {
  return value.toLocaleString('en-US', {
    maximumFractionDigits: most ?? digits(value)});
}

export function bytes(value) {
  const [amount, unit] = scaled(value);
  return `${number(amount)} ${unit}`;
}

// The API's sizes are in KiB.
export function size(kib) {
  return bytes(kib * 1024);
}

export function rate(value) {
  return `${bytes(value)}/s`;
}

export function milliseconds(value) {
  return `${number(value)} ms`;
}

export function ratio(value) {
  return value === null ? '–' : `${value.toFixed(2)} : 1`;
}

export function percent(part, whole) {
  return whole ? `${number(100 * part / whole, 1)} %` : '–';
}

export function duration(seconds) {
  if (seconds < 120) return `${seconds} s`;
  if (seconds < 7200) return `${Math.round(seconds / 60)} min`;
  if (seconds < 172800) return `${number(seconds / 3600, 1)} h`;
  return `${number(seconds / 86400, 1)} d`;
}

export function clock(seconds) {
  return new Date(seconds * 1000).toISOString().slice(11, 19);
}

export function minute(seconds) {
  return clock(seconds).slice(0, 5);
}

export function moment(seconds) {
  return new Date(seconds * 1000).toISOString().slice(0, 19)
    .replace('T', ' ');
}

export function count(value, one, many = `${one}s`) {
  return `${number(value)} ${value === 1 ? one : many}`;
}
