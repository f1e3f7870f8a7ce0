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


import unittest

import ddt

from cinder_k2 import rest
from cinder_k2.rest import writes
from tests.unit.rest import scripted

GROUP = {'id': 4, 'name': 'one', 'quota': 5}
GONE = scripted.refusal('no such object', 404)


class Case(unittest.TestCase):

    WORKS = ('reads:volumes', 'reads:host_iqns', 'reads:snapshots')

    def make(self, *script):
        self.client, self.array, _ = scripted.client(
            *script, works=self.WORKS)
        self.addCleanup(lambda: self.assertEqual([], self.array.script))
        return self.client

    def run_steps(self, steps):
        return self.client.volumes.session.run(steps)

    def look(self, write, certain=False):
        return self.run_steps(write.look(certain))

    def query(self, number=0):
        """The conditions of a search, without what selects the fields."""
        return {key: value for key, value in self.array.query(number).items()
                if not key.startswith('__')}


@ddt.ddt
class IsNamedTest(unittest.TestCase):
    """ERR-8, SNP-1: named objects are unique."""

    @ddt.data((rest.VolumeGroup, 'name', True),
              (rest.VolumeGroup, 'quota', False),
              (rest.Snapshot, 'short_name source', True),
              (rest.Snapshot, 'short_name', False),
              (rest.HostIqn, 'iqn name', False),
              (rest.Mapping, 'host volume', False),
              (rest.PeerVolume, 'local_volume', False))
    @ddt.unpack
    def test_is_named(self, kind, fields, named):
        self.assertIs(named, writes.is_named(
            kind, dict.fromkeys(fields.split(), 1)))


class CreateTest(Case):

    def create(self, *script, find=None, **fields):
        made = self.make(*script)
        return writes.Create(made.volume_groups, fields, find)

    def test_request(self):
        request = self.create(name='one', quota=None, is_dedup=True).request
        self.assertEqual(('POST', '/volume_groups',
                          {'name': 'one', 'is_dedup': True}),
                         (request.method, request.path, request.body))

    def test_reply(self):
        write = self.create(name='one')
        self.assertEqual(4, self.run_steps(write.accept(b'{"id": 4}')).id)
        for reply in (b'', b'{"name": "one"}', b'<html>'):
            with self.assertRaises(rest.BadReply) as caught:
                self.run_steps(write.accept(reply))
            self.assertEqual('/volume_groups', caught.exception.path)

    def test_look_by_name(self):
        write = self.create(scripted.hits(GROUP), name='one', quota=7)
        self.assertEqual(4, self.look(write).id)
        self.assertEqual({'name': 'one'}, self.query())

    def test_look_finds_nothing(self):
        self.assertIsNone(self.look(self.create(
            scripted.hits(), name='one')))

    def test_look_without_a_key(self):
        self.assertIsNone(self.look(self.create(quota=7)))

    def test_look_with_find_of_the_caller(self):
        found = rest.VolumeGroup(id=9)
        self.assertIs(found, self.look(self.create(
            find=lambda: found, name='one')))

    def test_look_by_key_and_parents(self):
        """A reference that records do not have is not compared."""
        made = self.make(scripted.hits(*[
            {'id': id, 'name': 'v', 'volume_group': {
                'ref': f'/volume_groups/{group}'}}
            for id, group in ((5, 3), (6, 2))]))
        write = writes.Create(made.volumes, {
            'name': 'v', 'size': 3, 'volume_group': rest.Ref(
                'volume_groups', 2), 'no_field': rest.Ref('hosts', 1)})
        self.assertEqual(6, self.look(write).id)
        self.assertEqual({'name': 'v'}, self.query())

    def test_look_without_a_readable_parent(self):
        """VOL-1: there is only one volume of that name."""
        group = rest.Ref('volume_groups', 2)
        for told, found in (({}, 5), ({'volume_group': None}, 5),
                            ({'volume_group': 'odd'}, 5),
                            ({'volume_group': group.to_json()}, 5),
                            ({'volume_group': '/volume_groups/3'}, None)):
            made = self.make(scripted.hits({'id': 5, 'name': 'v', **told}))
            self.assertEqual(found, getattr(self.look(writes.Create(
                made.volumes, {'name': 'v', 'size': 3, 'volume_group': group}
            )), 'id', None), str(told))

    def test_initiators_are_compared_by_the_client(self):
        """INI-4: the array may have the port in another form."""
        made = self.make(scripted.hits(
            {'id': 5, 'pwwn': '50:01', 'host': {'ref': '/hosts/2'}},
            {'id': 6, 'pwwn': '50:02', 'host': {'ref': '/hosts/2'}}))
        write = writes.Create(made.host_fc_ports, {
            'pwwn': '5002', 'host': rest.Ref('hosts', 2)})
        self.assertEqual(6, self.look(write).id)
        self.assertEqual({'host.ref': '/hosts/2'}, self.query())


@ddt.ddt
class UpdateTest(Case):

    def update(self, *script, names=(), **fields):
        made = self.make(*script)
        return writes.Update(made.volume_groups, 4, fields, names)

    def accept(self, write, reply):
        return self.run_steps(write.accept(reply))

    def test_request(self):
        """OBJ-9: None clears a field."""
        request = self.update(quota=None, name='a').request
        self.assertEqual(('PATCH', '/volume_groups/4',
                          {'quota': None, 'name': 'a'}),
                         (request.method, request.path, request.body))

    def test_reply(self):
        """It is not compared: the change may show later."""
        write = self.update(name='two')
        self.assertEqual('one', self.accept(
            write, b'{"id": 4, "name": "one"}').name)
        with self.assertRaises(rest.BadReply) as caught:
            self.accept(write, b'[]')
        self.assertEqual('/volume_groups/4', caught.exception.path)

    @ddt.data(b'', b' \n')
    def test_an_empty_reply(self, reply):
        write = self.update(scripted.Reply(200, GROUP), name='one')
        self.assertEqual(5, self.accept(write, reply).quota)
        self.assertEqual(['GET /volume_groups/4'], self.array.calls)

    def test_an_empty_reply_and_no_change(self):
        write = self.update(scripted.Reply(200, GROUP), name='two')
        with self.assertRaisesRegex(rest.BadReply,
                                    'nothing has changed') as caught:
            self.accept(write, b'')
        self.assertEqual('PATCH', caught.exception.method)

    @ddt.data(('one', True), ('two', False))
    @ddt.unpack
    def test_look(self, name, changed):
        found = self.look(self.update(scripted.Reply(200, GROUP), name=name))
        self.assertEqual(4 if changed else None, getattr(found, 'id', None))

    def test_look_at_missing_object(self):
        with self.assertRaises(rest.NotFound):
            self.look(self.update(GONE, name='one'))

    def test_look_at_reused_id(self):
        """OBJ-7."""
        write = self.update(scripted.Reply(200, GROUP),
                            names=['two', 'three'], name='one')
        with self.assertRaisesRegex(
                rest.OtherObject,
                'that of one now, not of two or three any more') as caught:
            self.look(write)
        self.assertEqual('/volume_groups/4', caught.exception.path)

    def test_look_at_one_of_several_names(self):
        self.assertEqual(4, self.look(self.update(
            scripted.Reply(200, GROUP), names=['two', 'one'],
            quota=5)).id)

    @ddt.data((False, None), (True, 4))
    @ddt.unpack
    def test_look_for_unreadable_field(self, certain, found):
        """One that no record has, and one that the reply lacks."""
        for fields in ({'iops_limit': 3}, {'description': 'x'}):
            write = self.update(scripted.Reply(200, GROUP), **fields)
            self.assertEqual(found, getattr(self.look(write, certain), 'id',
                                            None))

    def test_certain_look_compares_readable_fields(self):
        self.assertIsNone(self.look(self.update(
            scripted.Reply(200, GROUP), name='two', iops_limit=3),
            certain=True))

    @ddt.data((False, None), (True, 7))
    @ddt.unpack
    def test_command_takes_effect_later(self, certain, found):
        """REP-8."""
        made = self.make(scripted.Reply(200, {'id': 7, 'state': 'idle'}))
        write = writes.Update(made.replication_sessions, 7,
                              {'state': 'in_sync'})
        self.assertEqual(found, getattr(self.look(write, certain), 'id',
                                        None))


@ddt.ddt
class DeleteTest(Case):

    def delete(self, *script, names=(), find=None, **identity):
        made = self.make(*script)
        return writes.Delete(made.volume_groups, 4, identity, names, find)

    def test_request(self):
        request = self.delete(name='one').request
        self.assertEqual(('DELETE', '/volume_groups/4', None),
                         (request.method, request.path, request.body))

    @ddt.data(b'', b' \n', b'{}', b'null')
    def test_reply(self, reply):
        """OBJ-5."""
        self.assertIs(True, self.delete().accept(reply))

    def test_html_reply(self):
        with self.assertRaises(rest.BadReply) as caught:
            self.delete().accept(b'<html>')
        self.assertEqual(('DELETE', '/volume_groups/4'),
                         (caught.exception.method, caught.exception.path))

    @ddt.data(({4, 5}, None), ({5}, True), (set(), True))
    @ddt.unpack
    def test_look_with_find_of_the_caller(self, there, gone):
        self.assertIs(gone, self.look(self.delete(
            find=lambda: there, names=['one'])))

    def test_look_without_names(self):
        """The id may have been reused, so it proves nothing (OBJ-7)."""
        self.assertIsNone(self.look(self.delete(names=[''], name=None)))

    def test_certain_look_without_names(self):
        self.assertIs(True, self.look(self.delete(GONE), certain=True))
        self.assertIsNone(self.look(self.delete(
            scripted.Reply(200, GROUP)), certain=True))

    @ddt.data((4, 'one', None), (4, None, None), (5, 'one', True))
    @ddt.unpack
    def test_look_by_name(self, id, name, gone):
        write = self.delete(scripted.hits({'id': id, 'name': 'one'}),
                            names=['', 'one'])
        self.assertIs(gone, self.look(write))
        self.assertEqual({'name': 'one'}, self.query())

    def test_look_by_identity(self):
        """The names show whether the id still belongs to the object."""
        for name, gone in (('one', None), ('new', True)):
            self.make(scripted.hits(
                {'id': 4, 'short_name': name, 'volume_group': {
                    'ref': '/volume_groups/2'}}))
            write = writes.Delete(self.client.snapshots, 4, {
                'volume_group': rest.Ref('volume_groups', 2)}, ['one'])
            self.assertIs(gone, self.look(write))


class BulkDeleteTest(Case):

    WORKS = (*Case.WORKS, 'value-lists:volume_groups:name__in')

    def delete(self, *script, **options):
        made = self.make(*script)
        return writes.BulkDelete(made.volume_groups, {4: {}, 5: {}},
                                 **options)

    def test_request(self):
        request = self.delete().request
        self.assertEqual(('DELETE', '/volume_groups/__bulk',
                          [{'id': 4}, {'id': 5}]),
                         (request.method, request.path, request.body))

    def test_reply(self):
        write = self.delete()
        self.assertIs(True, write.accept(b' '))
        self.assertIs(True, write.accept(b'{}'))
        with self.assertRaises(rest.BadReply):
            write.accept(b'<html>')

    def test_look_with_find_of_the_caller(self):
        there = {5, 6}
        write = self.delete(find=lambda: there)
        self.assertIsNone(self.look(write))
        self.assertEqual({5: {}}, write.left)
        there.clear()
        self.assertIs(True, self.look(write))
        self.assertEqual({}, write.left)

    def test_look_by_name(self):
        write = self.delete(
            scripted.hits(), scripted.hits({'id': 5, 'name': 'two'}),
            scripted.hits(), names={4: 'one', 5: 'two'})
        self.assertIsNone(self.look(write))
        self.assertEqual([{'id': 5}], write.request.body)
        self.assertIs(True, self.look(write))
        self.assertEqual({}, write.left)

    def is_done(self, *script, **options):
        self.write = self.delete(*script, **options)
        return self.run_steps(self.write.is_done())

    def test_done(self):
        """One search by name; ids may have been reused (OBJ-7)."""
        names = {4: 'one', 5: 'two'}
        self.assertIs(True, self.is_done(scripted.hits(), names=names))
        self.assertEqual({'name__in': 'one,two'}, self.query())
        self.assertIs(True, self.is_done(scripted.hits(
            {'id': 4, 'name': 'two'}), names=names))
        self.assertIs(False, self.is_done(scripted.hits(
            {'id': 6, 'name': 'one'}, {'id': 5, 'name': 'two'}),
            names=names))
        self.assertEqual({5: {}}, self.write.left)

    def test_done_by_a_shared_reference(self):
        for hosts, query in (((1, 2), {'volume.ref': '/volumes/7'}),
                             ((1, 1), {'host.ref': '/hosts/1'})):
            there = [{'id': id, 'host': {'ref': f'/hosts/{host}'},
                      'volume': {'ref': '/volumes/7'}}
                     for id, host in zip((4, 6), hosts)]
            self.make(scripted.hits(*there))
            write = writes.BulkDelete(self.client.mappings, {
                id: {'host': rest.Ref('hosts', host),
                     'volume': rest.Ref('volumes', 7)}
                for id, host in zip((4, 5), hosts)})
            self.assertIs(False, self.run_steps(write.is_done()))
            self.assertEqual([4], list(write.left))
            self.assertEqual(query, self.query())

    def test_done_without_another_search(self):
        write = self.delete(scripted.hits(), scripted.hits(),
                            names={4: 'one', 5: 'two'})
        self.look(write)
        self.assertIs(True, self.run_steps(write.is_done()))

    def test_done_cannot_be_determined(self):
        """Names are missing, the search fails, or the list is incomplete."""
        names = {4: 'one', 5: 'two'}
        self.assertIsNone(self.is_done())
        self.assertIsNone(self.is_done(names={4: 'one'}))
        self.assertIsNone(self.is_done(scripted.refusal('no', 401),
                                       names=names))
        self.assertIsNone(self.is_done(scripted.hits({'id': 4}), names=names))
        for there, done in (([], None), ([{'id': 4, 'name': 'one'}], False)):
            self.assertIs(done, self.is_done(
                scripted.hits(*there, total=2), scripted.refusal('no'),
                scripted.hits(*there, total=2), names=names))
            self.assertEqual([4, 5], list(self.write.left))

    def test_done_with_find_of_the_caller(self):
        self.assertIs(True, self.is_done(find=lambda: {6}))
        self.assertIs(False, self.is_done(find=lambda: {5, 6}))
        self.assertEqual({5: {}}, self.write.left)

    def test_certain_look(self):
        write = self.delete(GONE, scripted.Reply(200, {'id': 5}))
        self.assertIsNone(self.look(write, certain=True))
        self.assertEqual({5: {}}, write.left)

    def test_look_without_names(self):
        write = self.delete()
        self.assertIsNone(self.look(write))
        self.assertEqual([4, 5], list(write.left))


class BulkCreateTest(Case):

    ITEMS = ({'name': 'one', 'quota': None}, {'name': 'two'})

    def create(self, *script, finds=(None, None)):
        made = self.make(*script)
        return writes.BulkCreate(made.volume_groups, self.ITEMS, finds)

    def test_request(self):
        request = self.create().request
        self.assertEqual(('POST', '/volume_groups/__bulk',
                          [{'name': 'one'}, {'name': 'two'}]),
                         (request.method, request.path, request.body))

    def test_one_find_for_each(self):
        with self.assertRaises(ValueError):
            self.create(finds=[None])

    def test_reply(self):
        """BLK-2: in the order of the request."""
        self.assertEqual([7, 3], [
            group.id for group in self.create().accept(
                b'{"hits": [{"id": 7}, {"id": 3}]}')])

    def test_too_few_objects_in_the_reply(self):
        with self.assertRaisesRegex(
                rest.BadReply, '2 objects sent, 1 in the reply') as caught:
            self.create().accept(b'{"hits": [{"id": 7}]}')
        self.assertEqual('/volume_groups/__bulk', caught.exception.path)

    def test_look(self):
        """All of them, or nothing (BLK-4)."""
        two = scripted.hits({'id': 5, 'name': 'two'})
        write = self.create(scripted.hits(GROUP), two,
                            scripted.hits(), two)
        self.assertEqual([4, 5], [group.id for group in self.look(write)])
        self.assertIsNone(self.look(write))

    def test_look_with_find_of_the_caller(self):
        found = rest.VolumeGroup(id=9)
        write = self.create(scripted.hits(GROUP),
                            finds=[None, lambda: found])
        self.assertEqual([4, 9], [
            group.id for group in self.run_steps(
                write.look_each())])


@ddt.ddt
class BulkUpdateTest(Case):

    WORKS = (*Case.WORKS, 'searches:volumes:id',
             'value-lists:volumes:id__in')

    def update(self, *script):
        made = self.make(*script)
        return writes.BulkUpdate(made.volumes, [
            (1, {'size': 5}), (2, {'size': 6})])

    def accept(self, write, reply):
        return self.run_steps(write.accept(reply))

    @staticmethod
    def shown(*sizes):
        return scripted.hits(*[
            {'id': id, 'name': f'v{id}', 'size': size}
            for id, size in enumerate(sizes, 1)])

    def test_request(self):
        request = self.update().request
        self.assertEqual(('PATCH', '/volumes/__bulk',
                          [{'id': 1, 'size': 5}, {'id': 2, 'size': 6}]),
                         (request.method, request.path, request.body))

    def test_reply(self):
        """BLK-2: what is in it need not show the change yet."""
        self.assertIs(True, self.accept(self.update(),
                                        b'{"hits": [{}, {}]}'))

    @ddt.data((b'{"hits": [{}]}', '2 objects sent, 1 in the reply'),
              (b'{"hits": [{}, {}, {}]}', '2 objects sent, 3 in the reply'),
              (b'{}', 'no hits'))
    @ddt.unpack
    def test_a_bad_reply(self, reply, words):
        with self.assertRaisesRegex(rest.BadReply, words) as caught:
            self.accept(self.update(), reply)
        self.assertEqual('/volumes/__bulk', caught.exception.path)

    def test_an_empty_reply(self):
        self.assertIs(True, self.accept(self.update(self.shown(5, 6)),
                                        b' '))

    def test_an_empty_reply_and_no_change(self):
        with self.assertRaisesRegex(rest.BadReply,
                                    'not all have changed') as caught:
            self.accept(self.update(self.shown(5, 5)), b'')
        self.assertEqual('PATCH', caught.exception.method)

    def is_done(self, reply, *script):
        write = self.update(*script)
        self.accept(write, reply)
        return self.run_steps(write.is_done())

    def test_done_shown_by_the_reply(self):
        self.assertIs(True, self.is_done(self.shown(5, 6).body))

    @ddt.data(b'{"hits": [{}, {"id": 2, "size": 6}]}',
              b'{"hits": [{"id": 2, "size": 5}, {"id": 1, "size": 6}]}',
              b'{"hits": [{"id": 1, "size": 5}, {"id": 2}]}')
    def test_reply_without_the_change(self, reply):
        for sizes, done in (((5, 6), True), ((5, 1), False), ((5,), None),
                            ((5, None), None)):
            self.assertIs(done, self.is_done(reply, self.shown(*sizes)))

    def test_empty_reply_needs_only_one_search(self):
        self.assertIs(True, self.is_done(b'', self.shown(5, 6)))

    def test_certain_look_is_no_proof(self):
        """SEQ-1: a missing field proves nothing."""
        write = self.update(*[self.shown(5, None)] * 2)
        self.assertIs(True, self.look(write, certain=True))
        self.assertIsNone(self.run_steps(write.is_done()))

    @ddt.data(((5, 6), True), ((5, 5), None), ((5,), None))
    @ddt.unpack
    def test_look(self, sizes, changed):
        self.assertIs(changed, self.look(self.update(self.shown(*sizes))))
        self.assertEqual({'id__in': '1,2'}, self.query())


class ToJsonTest(unittest.TestCase):

    def test_values(self):
        """OBJ-8, OBJ-9."""
        self.assertEqual(
            {'host': {'ref': '/hosts/3'}, 'lun': 0, 'name': None},
            writes.to_json({'host': rest.Ref('hosts', 3), 'lun': 0,
                            'name': None}))
