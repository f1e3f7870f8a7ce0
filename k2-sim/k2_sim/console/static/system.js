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

// Ports, addresses, accounts, and the behaviors of the array.

import {card, el, keyed, pairs, pill, table} from './dom.js';

const IDENTITY = [
  ['Name', 'system_name'], ['State', 'state'], ['Version', 'system_version'],
  ['REST API', 'rest_api_version'], ['System id', 'system_id'],
  ['Connectivity', 'system_connectivity_type'], ['Time zone', 'system_tz'],
  ['iSCSI target', 'iscsi_qualified_target_name']];

function shown(value) {
  if (value === true) return 'on';
  if (value === false) return 'off';
  return Array.isArray(value) ? value.join(', ') : String(value);
}

export function system() {
  const facts = el('div');
  const ports = el('tbody');
  const addresses = el('tbody');
  const users = el('tbody');
  const behaviors = el('tbody');
  return {
    element: el('div', {class: 'columns'},
      card('Identity', facts),
      card('Ports', table('Ports', [['Port'], ['Kind'], ['Link']], ports)),
      card('Addresses', table('Addresses', [
        ['Address'], ['Service'], ['Interface']], addresses)),
      card('Accounts', table('Accounts', [['Login'], ['Role']], users)),
      card('Behavior', el('p', {class: 'summary'},
        'Choices where sources on the array disagree. The control page '
        + 'changes them.'), table('Behavior', [
        ['Name'], ['Value']], behaviors))),
    path: () => 'system',
    show(value) {
      facts.replaceChildren(pairs([
        ...IDENTITY.map(([name, field]) => [name, value.system[field]]),
        ['Profile', value.profile]]));
      keyed(ports, value.ports, ({port}) => port, (port) => el('tr', {},
        el('th', {scope: 'row'}, port.name),
        el('td', {}, port.port.includes('fc_ports') ? 'FC' : 'Ethernet'),
        el('td', {}, port.up ? pill('up', 'good') : pill('down', 'bad'))));
      keyed(addresses, value.addresses, ({address}) => address, (row) =>
        el('tr', {}, el('th', {scope: 'row', class: 'code'}, row.address),
          el('td', {}, row.service), el('td', {}, row.interface)));
      keyed(users, Object.entries(value.users), ([login]) => login,
        ([login, role]) => el('tr', {}, el('th', {scope: 'row'}, login),
          el('td', {}, role)));
      keyed(behaviors, Object.entries(value.behaviors), ([name]) => name,
        ([name, set]) => el('tr', {},
          el('th', {scope: 'row', class: 'code'}, name),
          el('td', {}, shown(set))));
    }};
}
