#!/usr/bin/python3 -SE
# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#      http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.

"""Mocks of Juju's hook tools: a link to this file acts as the tool it names.

The JSON file that HOOK_MODEL names holds the state of the model and what the
charm has set. There is no Juju here: this file replaces the controller.
"""

import json
import os
import sys

MODEL = os.environ.get('HOOK_MODEL', '')


def main(tool, arguments):
    """Do what one hook tool does; return its exit status."""
    with open(MODEL, encoding='utf-8') as file:
        model = json.load(file)
    words = [word for word in arguments if not word.startswith('-')]
    options = [word for word in arguments if word.startswith('-')]
    answer = TOOLS[tool](model, words, options)
    with open(MODEL, 'w', encoding='utf-8') as file:
        json.dump(model, file)
    if answer is not None:
        print(json.dumps(answer))
    return 0


def relation_ids(model, words, options):
    return [number for number in model['relations']
            if number.partition(':')[0] == words[0]]


def relation_list(model, words, options):
    relation = the_relation(model)
    return relation['app'] if '--app' in options else sorted(
        relation['units'])


def relation_get(model, words, options):
    relation, member = the_relation(model), words[-1]
    if '--app' in options:
        return {}
    return (relation['said'] if member == os.environ['JUJU_UNIT_NAME']
            else relation['units'].get(member, {}))


def relation_set(model, words, options):
    said = the_relation(model)['said']
    for key, value in json.load(sys.stdin).items():
        said[key] = value
        if not value:
            del said[key]


def the_relation(model):
    """Return the relation of -r (ENDPOINT:ID or ID), or that of the hook."""
    wanted = (sys.argv[sys.argv.index('-r') + 1] if '-r' in sys.argv
              else os.environ['JUJU_RELATION_ID'])
    for number, relation in model['relations'].items():
        if wanted in (number, number.partition(':')[2]):
            return relation
    refuse(f'ERROR invalid value "{wanted}" for option -r: relation not found')


def secret_get(model, words, options):
    secret = next((word for word in words if word.startswith('secret:')),
                  words[0])
    if secret not in model['secrets']:
        refuse(f'ERROR secret "{secret}" not found')
    return model['secrets'][secret]


def resource_get(model, words, options):
    path = model['resources'].get(words[0])
    if path is None:
        refuse('ERROR resource not found')
    sys.stdout.write(path)


def status_set(model, words, options):
    model['status'] = [words[0], ' '.join(words[1:])]


def action_set(model, words, options):
    model['results'].update(word.split('=', 1) for word in words)


def action_fail(model, words, options):
    model['failure'] = ' '.join(words)


def note_version(model, words, options):
    model['version'] = words[0]


def log(model, words, options):
    model['log'].append(' '.join(words))


def refuse(text):
    """Print an error and exit with status 1, as a tool that fails does."""
    sys.stderr.write(text + '\n')
    sys.exit(1)


TOOLS = {
    'config-get': lambda model, words, options: model['config'],
    'is-leader': lambda model, words, options: True,
    'relation-ids': relation_ids, 'relation-list': relation_list,
    'relation-get': relation_get, 'relation-set': relation_set,
    'secret-get': secret_get, 'resource-get': resource_get,
    'status-set': status_set, 'juju-log': log,
    'application-version-set': note_version,
    'action-get': lambda model, words, options: model['parameters'],
    'action-set': action_set, 'action-fail': action_fail,
    'action-log': log}


if __name__ == '__main__':
    sys.exit(main(os.path.basename(sys.argv[0]), sys.argv[1:]))
