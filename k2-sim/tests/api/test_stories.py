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

"""Requests of the main flows, and the format of their replies.

stories.yaml has the requests in order and, for each, the status, the envelope
and the names and types of the reply's fields, as the API has them. None of it
comes from the simulator. What is marked there as missing must not fit: once it
does, the mark must be removed.
"""

import pathlib

import ddt
import testtools
from testtools import content
import yaml

import k2_sim
from tests import base
from tests import pairs

DATA = yaml.load(
    pathlib.Path(__file__).with_name('stories.yaml').read_text(),
    yaml.CSafeLoader)
TYPES = {'int': int, 'number': (int, float), 'string': str, 'bool': bool}


def fits(kind, value):
    """Whether a value is of a type: 'int', 'int?', 'ref hosts volumes'."""
    name, *targets = kind.split()
    if value is None:
        return name.endswith('?')
    name = name.rstrip('?')
    if name == 'ref':
        return (isinstance(value, dict) and list(value) == ['ref'] and
                value['ref'][1:].rpartition('/')[0] in targets)
    return (isinstance(value, TYPES[name]) and
            isinstance(value, bool) == (name == 'bool'))


@ddt.ddt
class TestStories(testtools.TestCase):
    """The stories on array a, and on its peer b in those that have peers."""

    @ddt.data(*DATA['stories'])
    def test_story(self, name):
        self.play(DATA['stories'][name])

    def play(self, story):
        clock = k2_sim.FakeClock()
        self.sides = {name: self.make(name, clock, story.get('profile', 'k2'))
                      for name in 'ab'}
        if story.get('peers'):
            k2_sim.connect(
                *(side.array for side in self.sides.values()),
                hosts=pairs.HOSTS)
        for name in story.get('given', ()):
            self.prepare(name)
        for exchange in story['exchanges']:
            for name in exchange.get('before', ()):
                self.prepare(name)
            self.addDetail('exchange', content.text_content(exchange['send']))
            if 'missing' in exchange:
                self.check_missing(exchange)
            else:
                self.check(exchange)

    def make(self, name, clock, profile):
        array = k2_sim.Array(profile, clock=clock, name=f'sim-k2-{name}')
        self.addCleanup(array.close)
        return pairs.talk(array)

    def prepare(self, name):
        """Changes before a story, or between two requests."""
        step = DATA['preparations'][name]
        if 'control' in step:
            control = self.sides[step.get('side', 'a')].control
            getattr(control, step['control'])(**step['with'])
        else:
            response = self.send(step)
            self.assertLess(response.status, 300, response.body)

    def send(self, step):
        method, path = step['send'].split()
        return self.sides[step.get('side', 'a')].call(
            method, path, step.get('body'), **step.get('headers', {}))

    def check_missing(self, exchange):
        try:
            self.check(exchange)
        except AssertionError:
            return
        self.fail(f'{exchange["send"]} is served now: take "missing" away '
                  'from it in stories.yaml')

    def check(self, exchange):
        response = self.send(exchange)
        self.assertEqual(exchange['status'], response.status, response.body)
        if exchange['reply'] == 'nothing':
            self.assertEqual(b'', response.body)
            return
        self.assertEqual({'Content-Type': base.JSON}, response.headers)
        envelope, *shape = exchange['reply'].split()
        check = getattr(self, f'check_{envelope}')
        check(response.json(), exchange, *shape)

    def check_error(self, reply, exchange):
        self.assertEqual(['error_msg'], list(reply))
        self.assertTrue(fits('string', reply['error_msg']))
        if 'text' in exchange:
            self.assertEqual(exchange['text'], reply['error_msg'])

    def check_index(self, reply, exchange):
        self.assertEqual(['resources'], list(reply))
        for name in exchange['names']:
            self.assertEqual({'url': f'/{name}'}, reply['resources'][name])

    def check_page(self, reply, exchange, shape):
        """The long envelope; all results are on the page unless stated."""
        hits = reply['hits']
        envelope = {name: value for name, value in reply.items()
                    if name != 'hits'}
        self.assertEqual(
            {'limit': 100, 'offset': 0, 'total': len(hits),
             **exchange.get('envelope', {})}, envelope)
        self.check_hits(hits, exchange, shape)

    def check_rows(self, reply, exchange, shape):
        """The short envelope."""
        self.assertEqual({'hits', 'total'}, set(reply))
        self.assertEqual(len(reply['hits']), reply['total'])
        self.check_hits(reply['hits'], exchange, shape)

    def check_hits(self, hits, exchange, shape):
        """The number of results, or what a new array has."""
        self.assertTrue(hits or 'hits' in exchange)
        self.assertEqual(exchange.get('hits', len(hits)), len(hits))
        for hit in hits:
            self.check_one(hit, exchange, shape)

    def check_one(self, reply, exchange, shape):
        kinds = DATA['shapes'][shape]
        self.assertEqual(set(exchange.get('fields', kinds)), set(reply))
        for name, value in reply.items():
            self.assertTrue(fits(kinds[name], value), (name, value))
        for name, value in exchange.get('shows', {}).items():
            self.assertEqual(value, reply[name], name)


@ddt.ddt
class TestFits(testtools.TestCase):

    @ddt.data(('int', 5), ('int?', None), ('number', 5), ('number', 0.5),
              ('string', ''), ('bool', False),
              ('ref hosts system/state', {'ref': '/system/state/1'}),
              ('ref? hosts', None))
    @ddt.unpack
    def test_good(self, kind, value):
        self.assertTrue(fits(kind, value))

    @ddt.data(('int', 5.0), ('int', True), ('int', None), ('number', '5'),
              ('number', False), ('string', 5), ('bool', 0), ('bool?', ''),
              ('ref hosts', '/hosts/1'), ('ref hosts', {'ref': '/volumes/1'}),
              ('ref hosts', {'ref': '/hosts/1', 'id': 1}),
              ('ref hosts', None))
    @ddt.unpack
    def test_bad(self, kind, value):
        self.assertFalse(fits(kind, value))
