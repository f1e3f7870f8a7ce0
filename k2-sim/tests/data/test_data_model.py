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

"""Bytes after any order of events, compared with a model."""

import os
import pathlib
import tempfile

import hypothesis
from hypothesis import stateful
from hypothesis import strategies

import k2_sim
from k2_sim.state import schema
from tests import base
from tests.data import test_data

KIB = 1024
SIZE = 24
OFFSETS = strategies.sampled_from((0, 5, 4095, 4096, 12288, 20 * KIB))
LENGTHS = strategies.sampled_from((1, 100, 4096, 5000, 8192))
NUMBERS = strategies.integers(0, 30)


class Data(stateful.RuleBasedStateMachine):
    """held: what each volume and image holds, by its path."""

    def __init__(self):
        super().__init__()
        self.directory = tempfile.TemporaryDirectory()
        self.test = test_data.DataTest('open')
        self.test.clock = k2_sim.FakeClock()
        self.test.directory = pathlib.Path(self.directory.name)
        self.test.open()
        self.group = self.test.group()
        self.held = {}
        self.names = iter(range(10000))
        for _ in range(2):
            self.make(bytes(SIZE * KIB), name=f'v{next(self.names)}',
                      size=SIZE)

    def teardown(self):
        self.check_files()
        self.test.doCleanups()
        self.directory.cleanup()

    def make(self, data, **fields):
        reply = self.test.call('POST', 'volumes', {
            **fields, 'volume_group': base.ref(
                'volume_groups', self.group)})
        if reply.status == 201:
            self.held[f'volumes/{reply.json()["id"]}'] = bytearray(data)

    def some(self, number, kind='vol'):
        """A random place of a kind."""
        found = sorted(path for path in self.held if path.startswith(kind))
        return found[number % len(found)]

    def row(self, path):
        return self.test.array.store.get(*schema.split_ref(f'/{path}'))

    def is_writable(self, path):
        return self.row(path).get('is_exposable', True)

    def snapshot_at(self, number, **conditions):
        rows = [row for row in self.test.array.store.rows('snapshots')
                if all(row[name] == value
                       for name, value in conditions.items())]
        return rows[number % len(rows)] if rows else None

    def images(self, snapshot):
        return self.test.array.store.find(
            'volsnaps', 'snapshot', f'/snapshots/{snapshot["id"]}')

    def take(self, source, exposable):
        """Take a snapshot or view; it holds what its source does."""
        reply = self.test.call('POST', 'snapshots', self.test.snapshot_body(
            source, f's{next(self.names)}', is_exposable=exposable))
        if reply.status != 201:
            return
        before = {} if source['ref'].startswith('/volume_groups') else {
            row['source']: f'volsnaps/{row["id"]}' for row in self.images(
                {'id': source['ref'].rpartition('/')[2]})}
        for row in self.images(reply.json()):
            path = before.get(row['source'], row['source'].strip('/'))
            self.held[f'volsnaps/{row["id"]}'] = bytearray(self.held[path])

    @stateful.rule(number=NUMBERS, offset=OFFSETS, length=LENGTHS,
                   fill=strategies.integers(0, 255))
    def write(self, number, offset, length, fill):
        self.change(self.some(number), offset, bytes([fill]) * length,
                    self.test.write)

    @stateful.rule(number=NUMBERS, offset=OFFSETS, length=LENGTHS)
    def discard(self, number, offset, length):
        self.change(self.some(number), offset, bytes(length),
                    lambda path, offset, data: self.test.discard(
                        path, offset, len(data)))

    def change(self, path, offset, data, how):
        held = self.held[path]
        may = self.is_writable(path) and offset + len(data) <= len(held)
        try:
            how(path, offset, data)
        except k2_sim.ApiError:
            assert not may
            return
        assert may
        held[offset:offset + len(data)] = data

    @stateful.rule(number=NUMBERS, offset=OFFSETS, length=LENGTHS,
                   fill=strategies.integers(0, 255))
    def initiator(self, number, offset, length, fill):
        """Write to an exported file, bypassing the array."""
        live = sorted(path for path in self.held if self.row(path).get(
            'content') in self.test.contents.live)
        if not live:
            return
        path = live[number % len(live)]
        length = min(length, len(self.held[path]) - offset)
        with open(self.test.contents.path(
                self.row(path)['content']), 'r+b') as file:
            file.seek(offset)
            file.write(bytes([fill]) * length)
        self.held[path][offset:offset + length] = bytes([fill]) * length

    @stateful.rule(number=NUMBERS)
    def serve(self, number):
        path = self.some(number)
        if self.is_writable(path):
            token = self.test.own(path, live=True)
            size = self.test.contents.path(token).stat().st_size
            assert size == len(self.held[path])

    @stateful.rule()
    def serve_nothing(self):
        self.test.contents.live.clear()

    @stateful.rule()
    def snapshot(self):
        self.take(base.ref('volume_groups', self.group), False)

    @stateful.rule(number=NUMBERS, exposable=strategies.booleans())
    def further_snapshot(self, number, exposable):
        source = self.snapshot_at(number, is_exposable=not exposable)
        if source is not None:
            self.take(base.ref('snapshots', source), exposable)

    @stateful.rule(number=NUMBERS, other=NUMBERS)
    def clone(self, number, other):
        source = self.snapshot_at(number, is_exposable=False)
        images = [] if source is None else self.images(source)
        if images:
            image = images[other % len(images)]
            self.make(
                self.held[f'volsnaps/{image["id"]}'],
                name=f'v{next(self.names)}', is_thin_clone=True,
                source_snapshot=base.ref('snapshots', source),
                source_volume={'ref': image['source']})

    @stateful.rule(number=NUMBERS)
    def restore(self, number):
        source = self.snapshot_at(number, is_exposable=False)
        if source is None:
            return
        reply = self.test.call('PATCH', f'volume_groups/{self.group["id"]}', {
            'last_restored_from': base.ref('snapshots', source)})
        if reply.status != 200:
            return
        for row in self.images(source):
            self.held[row['source'].strip('/')] = bytearray(
                self.held[f'volsnaps/{row["id"]}'])

    @stateful.rule(number=NUMBERS)
    def delete_volume(self, number):
        path = self.some(number, 'volumes')
        if len(self.held) > 2 and self.test.call(
                'DELETE', path).status == 204:
            del self.held[path]
            if not any(path.startswith('volumes') for path in self.held):
                self.make(bytes(SIZE * KIB), name=f'v{next(self.names)}',
                          size=SIZE)

    @stateful.rule(number=NUMBERS)
    def delete_snapshot(self, number):
        source = self.snapshot_at(number)
        images = [] if source is None else self.images(source)
        if source is not None and self.test.call(
                'DELETE', f'snapshots/{source["id"]}').status == 204:
            for row in images:
                del self.held[f'volsnaps/{row["id"]}']

    @stateful.rule(number=NUMBERS)
    def grow(self, number):
        path = self.some(number, 'volumes')
        self.test.patch(path, {'size': len(self.held[path]) // KIB + 1})
        self.held[path] += bytes(KIB)

    @stateful.rule()
    def restart(self):
        self.test.array.close()
        self.test.contents.clone('')
        self.test.open()

    @stateful.rule()
    def check_files(self):
        """No file without a row, no row without a file."""
        self.test.control.tick()
        found = set(os.listdir(self.test.contents.directory))
        assert found == self.test.named()

    @stateful.invariant()
    def check_bytes(self):
        assert set(self.held) == {
            f'{name}/{row["id"]}' for name in ('volumes', 'volsnaps')
            for row in self.test.array.store.rows(name)} - {'volumes/1'}
        for path, held in self.held.items():
            assert self.test.read(path, 0, len(held)) == held, path


TestData = Data.TestCase
TestData.settings = hypothesis.settings(
    max_examples=hypothesis.settings.default.max_examples // 4,
    stateful_step_count=40,
    suppress_health_check=list(hypothesis.HealthCheck))
