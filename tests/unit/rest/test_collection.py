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

import itertools
import json
import threading
import unittest

import ddt
import requests

from cinder_k2 import rest
from cinder_k2.rest import query
import k2_sim
from tests.unit.rest import scripted

GIB = 1048576
LOST = requests.ConnectionError('Connection aborted')


def volume(id, **fields):
    return {'id': id, 'name': f'v{id}', 'size': GIB} | fields


class Case(unittest.TestCase):

    # How these are learned is tested elsewhere.
    WORKS = ('sequence', 'reads:volumes')
    # Capabilities under test; some tests start without them.
    BULK = ()

    def make(self, *script, without=(), **settings):
        self.client, self.array, self.clock = scripted.client(
            *script, works=(*self.WORKS, *(
                name for name in self.BULK if name not in without)),
            **settings)
        self.addCleanup(lambda: self.assertEqual([], self.array.script))
        return self.client


class UpdateTest(Case):

    WORKS = ('sequence', 'updates:volumes:volume_group')

    def test_ignored_field(self):
        """The reply is 200, but nothing has changed (OBJ-12)."""
        group = self._moved_to(14)
        with self.assertRaisesRegex(rest.Refused, 'not changed volume_group'):
            self.client.volumes.update(31, volume_group=group)

    def test_changed_field(self):
        group = self._moved_to(15)
        self.assertEqual(group, self.client.volumes.update(
            31, volume_group=group).volume_group)

    def test_ignored_description(self):
        """Null means no description; a missing field proves nothing."""
        for reply, taken in ((None, False), ('', False), ('b', False),
                             ('a', True), (..., True)):
            told = volume(31, description=reply)
            if reply is ...:
                del told['description']
            self.make(scripted.Reply(200, told))
            self.client.capabilities.found('updates:volumes:description')
            if taken:
                self.client.volumes.update(31, description='a')
            else:
                with self.assertRaisesRegex(rest.Refused,
                                            'not changed description'):
                    self.client.volumes.update(31, description='a')

    def test_cleared_description(self):
        for reply in None, '':
            self.make(scripted.Reply(200, volume(31, description=reply)))
            self.client.capabilities.found('updates:volumes:description')
            self.client.volumes.update(31, description=None)

    def _moved_to(self, number):
        self.make(scripted.Reply(200, volume(
            31, volume_group={'ref': f'/volume_groups/{number}'})))
        return self.client.volume_groups.ref(15)

    def test_error_names_the_call(self):
        group = self._moved_to(14)
        with self.assertRaises(rest.Refused) as caught:
            self.client.volumes.update(31, volume_group=group)
        self.assertEqual(('PATCH', '/volumes/31', 200), (
            caught.exception.method, caught.exception.path,
            caught.exception.status))

    def test_field_that_all_arrays_support(self):
        """The reply is not compared with the request."""
        self.make(scripted.Reply(200, volume(31, name='old')))
        self.assertEqual('old', self.client.volumes.update(
            31, name='new').name)
        self.assertEqual({'name': 'new'}, self.array.body(0))

    def test_slow_update_without_reply_is_not_repeated(self):
        self.make(requests.ReadTimeout('cut'))
        with self.assertRaises(rest.errors.NoReply):
            self.client.volumes.update(31,
                                       outcome=rest.OutcomeCheck(slow=True),
                                       size=5)

    def test_slow_update_need_not_show_in_the_reply(self):
        self.make(scripted.Reply(200, volume(31, volume_group={
            'ref': '/volume_groups/14'})))
        self.assertEqual(14, self.client.volumes.update(
            31, outcome=rest.OutcomeCheck(slow=True),
            volume_group=rest.Ref('volume_groups', 15)).volume_group.id)

    def test_slow_update_is_looked_up_after_a_500(self):
        self.make(scripted.refusal('crash', 500),
                  scripted.Reply(200, volume(31, size=5)))
        self.client.capabilities.found('reads:volumes')
        self.assertEqual(5, self.client.volumes.update(
            31, outcome=rest.OutcomeCheck(slow=True), size=5).size)


@ddt.ddt
class NovelFieldsTest(Case):
    """Fields that not every array supports."""

    NO = scripted.refusal('unknown field')
    STATE = scripted.Reply(200, {'id': 1})
    HOST = scripted.Reply(201, {'id': 1, 'name': 'h'})
    GROUP = scripted.Reply(200, {'id': 4, 'name': 'one', 'quota': 5})

    def state(self, name):
        return self.client.capabilities.verdict(name).state

    def create(self):
        return self.client.hosts.create(
            name='h', type='Linux', optional={'zone': 'z'}).id

    def test_optional_field(self):
        self.make(self.HOST, self.HOST)
        self.assertEqual([1, 1], [self.create(), self.create()])
        self.assertEqual([{'name': 'h', 'type': 'Linux', 'zone': 'z'}] * 2,
                         [self.array.body(0), self.array.body(1)])
        self.assertEqual('works', self.state('creations:hosts:zone'))

    def test_refused_optional_field(self):
        self.make(self.NO, self.HOST, self.HOST)
        self.assertEqual([1, 1], [self.create(), self.create()])
        self.assertEqual([{'name': 'h', 'type': 'Linux'}] * 2,
                         [self.array.body(1), self.array.body(2)])
        self.assertEqual('refused', self.state('creations:hosts:zone'))

    def test_new_name_is_tried_with_a_short_timeout(self):
        """The array creates at most one object of that name (ERR-8)."""
        self.make(requests.ReadTimeout('cut'), scripted.hits(), self.HOST)
        self.create()
        self.assertEqual([3, 3, 60], [
            round(read) for _, read in self.array.timeouts])

    def test_optional_field_of_an_update(self):
        new = scripted.Reply(200, volume(31, description='d'))
        self.make(new, self.NO, scripted.Reply(200, volume(31)))
        change = {'name': 'v31', 'optional': {'description': 'd'}}
        self.client.volumes.update(31, **change)
        self.assertEqual({'name': 'v31', 'description': 'd'},
                         self.array.body(0))
        self.assertEqual('works', self.state('updates:volumes:description'))
        with self.assertRaisesRegex(rest.Refused, 'unknown field'):
            self.client.volumes.update(31, **change)
        self.client.volumes.update(31, name='v31')

    def test_ignored_optional_field_of_an_update(self):
        """OBJ-12."""
        self.make(scripted.Reply(200, volume(31, description='old')),
                  scripted.Reply(200, volume(31)))
        self.client.volumes.update(
            31, name='v31', optional={'description': 'd'})
        self.assertEqual({'name': 'v31'}, self.array.body(1))
        self.assertEqual('refused', self.state('updates:volumes:description'))

    def test_required_field(self):
        """The capability is named after the new field."""
        self.make(self.HOST, scripted.Reply(201, volume(31)))
        self.client.hosts.create(name='h', type='Linux', zone='z')
        self.client.volumes.create(size=5, name='v31')
        self.assertEqual(['works', 'works'], [
            self.state('creations:hosts:zone'),
            self.state('creations:volumes:name')])

    @ddt.data((scripted.refusal('gone', 404), rest.NotFound),
              (GROUP, rest.NotOffered))
    @ddt.unpack
    def test_404_to_an_update(self, shown, kind):
        """Either the object is gone, or the field is not supported."""
        self.make(scripted.refusal('what?', 404), shown)
        with self.assertRaises(rest.RestError) as caught:
            self.client.volume_groups.update(4, quota=5)
        self.assertIs(kind, type(caught.exception))
        self.assertEqual(['PATCH /volume_groups/4', 'GET /volume_groups/4'],
                         self.array.calls)

    def test_404_to_an_update_of_an_unreadable_object(self):
        self.make(scripted.refusal('what?', 404), self.STATE,
                  scripted.refusal('no', 404), self.STATE)
        with self.assertRaisesRegex(rest.NotOffered, 'what'):
            self.client.host_iqns.update(4, alias='x')
        self.array.script.clear()

    def test_update_that_takes_effect(self):
        self.make(self.GROUP)
        self.assertEqual(4, self.client.volume_groups.update(
            4, quota=5, shows=lambda group: group.quota == 5).id)
        self.assertEqual('works', self.state('updates:volume_groups:quota'))

    def test_update_without_effect(self):
        self.make(self.GROUP, self.STATE)
        with self.assertRaisesRegex(
                rest.NotOffered, 'it has not changed alias, quota') as caught:
            self.client.volume_groups.update(
                4, quota=5, alias='x', shows=lambda group: False)
        self.assertEqual(('PATCH', '/volume_groups/4', 200), (
            caught.exception.__cause__.method,
            caught.exception.__cause__.path,
            caught.exception.__cause__.status))
        self.assertEqual('refused', self.state('updates:volume_groups:alias'))


class DeleteTest(Case):

    WORKS = ('sequence',)

    def delete_without_reply(self, *found):
        """Lose the reply to a DELETE; searches then find this."""
        self.make(requests.ReadTimeout('cut'), *found)
        return self.client.volume_groups.delete(4, names=['one', 'two'])

    def test_lost_reply_and_no_object_of_that_name(self):
        self.assertTrue(self.delete_without_reply(
            scripted.hits(), scripted.hits()))
        self.assertEqual(['one', 'two'], [
            self.array.query(number)['name'] for number in (1, 2)])

    def test_lost_reply_and_reused_id(self):
        """OBJ-7: the delete is not repeated."""
        self.assertTrue(self.delete_without_reply(
            scripted.hits(), scripted.hits({'id': 5, 'name': 'two'})))
        self.make(requests.ReadTimeout('cut'), scripted.hits(
            {'id': 4, 'short_name': 'new', 'volume_group': {
                'ref': '/volume_groups/2'}}))
        self.assertTrue(self.client.snapshots.delete(
            4, names=['old'],
            volume_group=self.client.volume_groups.ref(2)))

    def test_second_try_looks_the_object_up_first(self):
        """OBJ-7: the look-up after the first try of a trial failed."""
        self.make(LOST, scripted.refusal('crash', 500), scripted.Reply(
            200, {'id': 1}), scripted.hits())
        self.client.capabilities.found('searches:host_iqns:iqn')
        self.assertTrue(self.client.host_iqns.delete(9, iqn='iqn.x:a'))
        self.assertEqual(
            ['DELETE /host_iqns/9', 'GET /host_iqns', 'GET /system/state',
             'GET /host_iqns'], self.array.calls)

    def test_earlier_lost_reply_and_missing_object(self):
        """No object has the name any more, so no id is deleted."""
        self.make(scripted.hits({'id': 4, 'name': 'two'}))
        self.assertTrue(self.client.volume_groups.delete(
            4, name='one', outcome=rest.OutcomeCheck(unseen=True)))
        self.assertEqual(['GET /volume_groups'], self.array.calls)

    def test_earlier_lost_reply_and_existing_object(self):
        self.make(scripted.hits({'id': 4, 'name': 'one'}),
                  scripted.Reply(204))
        outcome = rest.OutcomeCheck(unseen=True)
        self.assertTrue(self.client.volume_groups.delete(
            4, name='one', outcome=outcome))
        self.assertFalse(outcome.open)

    def test_delete_many_of_one_with_lost_reply(self):
        """outcome.open is set even if the caller finds it deleted."""
        self.make(LOST)
        outcome = rest.OutcomeCheck()
        self.client.volumes.delete_many({4: {}}, outcome=outcome,
                                        find=lambda: {5})
        self.assertTrue(outcome.open)

    def test_delete_many_with_lost_reply(self):
        """Objects that the caller still finds are deleted again."""
        self.make(LOST, scripted.Reply(204))
        self.client.capabilities.found('bulk:volumes:delete')
        outcome = rest.OutcomeCheck()
        self.client.volumes.delete_many({4: {}, 5: {}}, outcome=outcome,
                                        find=lambda: {5, 6})
        self.assertEqual([{'id': 5}], self.array.body(1))
        self.assertTrue(outcome.open)

    def test_delete_many_with_reply(self):
        self.make(scripted.Reply(204))
        outcome = rest.OutcomeCheck()
        self.client.volumes.delete_many({4: {}}, outcome=outcome,
                                        find=self.fail)
        self.assertFalse(outcome.open)

    def test_only_remaining_mappings_are_deleted_again(self):
        """OBJ-7, BLK-4: the first id may be reused for another mapping."""
        made = self.make(
            requests.ReadTimeout('cut'), scripted.hits(),
            scripted.hits({'id': 8, 'host': {'ref': '/hosts/2'},
                           'volume': {'ref': '/volumes/4'}}),
            scripted.Reply(204))
        made.capabilities.found('bulk:mappings:delete')
        volume = made.volumes.ref(4)
        made.mappings.delete_many({
            number: {'host': made.hosts.ref(host), 'volume': volume}
            for number, host in ((7, 1), (8, 2))})
        self.assertEqual([{'id': 8}], self.array.body(3))

    def try_bulk_delete(self, *looks, then=()):
        """Try a bulk DELETE of mappings 7 and 8; return the verdict.

        :param looks: ids of the mappings that each search finds
        :param then: the replies after those
        """
        self.make(scripted.Reply(204), *[scripted.hits(*[{
            'id': number, 'host': {'ref': f'/hosts/{number - 6}'},
            'volume': {'ref': '/volumes/4'}} for number in look])
            for look in looks], *then)
        made = self.client
        made.mappings.delete_many({number: {
            'host': made.hosts.ref(number - 6), 'volume': made.volumes.ref(4)}
            for number in (7, 8)})
        return made.capabilities.verdict('bulk:mappings:delete').state

    def test_bulk_delete_is_verified_only_once(self):
        self.assertEqual('works', self.try_bulk_delete([]))
        self.array.script[:] = [scripted.Reply(204)]
        self.client.mappings.delete_many({
            9: {'host': self.client.hosts.ref(1)},
            10: {'host': self.client.hosts.ref(2)}})
        self.assertEqual('DELETE /mappings/__bulk', self.array.calls[-1])

    def test_bulk_delete_that_shows_late(self):
        """OBJ-6."""
        self.assertEqual('works', self.try_bulk_delete([7, 8], [8], []))
        self.assertEqual(1, len(self.array.sequences()))

    def test_ignored_bulk_delete(self):
        """OBJ-7: each mapping is looked up before a single DELETE."""
        self.assertEqual('refused', self.try_bulk_delete(
            *[[7, 8]] * 5, [], [8], then=[scripted.Reply(204)]))
        self.assertEqual(
            ['DELETE /mappings/__bulk', *['GET /mappings'] * 7,
             'DELETE /mappings/8'], self.array.calls)
        self.assertEqual(3.0, sum(self.clock.sleeps))

    def test_ignored_bulk_delete_and_failing_search(self):
        self.assertEqual('refused', self.try_bulk_delete(
            [7, 8], then=[scripted.refusal('no')] * 4 + [
                scripted.hits(), scripted.hits()]))
        self.assertEqual(1, len(self.array.sequences()))

    def test_bulk_delete_that_cannot_be_verified(self):
        """It proves nothing."""
        self.assertEqual('unknown', self.try_bulk_delete(
            then=[scripted.Reply(200, {})]))
        self.assertEqual(['DELETE /mappings/__bulk', 'GET /mappings'],
                         self.array.calls)
        self.make(scripted.Reply(204))

        def find():
            raise rest.OtherObject('cannot be looked up')
        self.client.volumes.delete_many({4: {}, 5: {}}, find=find)

    def test_lost_reply_and_object_still_there(self):
        self.assertTrue(self.delete_without_reply(
            scripted.hits({'id': 4, 'name': 'one'}), scripted.Reply(204)))

    def test_busy_replies_are_not_counted_as_tries(self):
        """ERR-2: neither in the trial nor in the known read."""
        busy, crash = scripted.Reply(503), scripted.refusal('no', 500)
        made, adapter, _ = scripted.client(
            busy, crash, busy, scripted.hits({'id': 1}), busy, crash,
            scripted.hits({'id': 1}), works=('sequence',))
        with self.assertRaises(rest.NotOffered):
            made.host_iqns.delete(4)
        self.assertEqual([], adapter.script)
        # A refusal counts once a host was deleted with its initiators.
        self.assertFalse(made.capabilities.refused('deletions:host_iqns'))
        with self.assertRaises(rest.NotOffered):
            made.host_iqns.delete(4)


@ddt.ddt
class VerifyTest(Case):
    """A write refers to ids that may have been reused (OBJ-7)."""

    CAPABILITIES = ('bulk:mappings:create',
                    'updates:hosts:map_auth_profiles_names')

    def setUp(self):
        super().setUp()
        self.asked = []
        self.failures = [rest.OtherObject('it is another\'s')]

    def verify(self):
        self.asked.append(len(self.array.requests))
        raise self.failures.pop(0)

    def create(self):
        return self.client.mappings.create(
            host=rest.Ref('hosts', 1), volume=rest.Ref('volumes', 2),
            verify=self.verify)

    def create_many(self):
        return self.client.mappings.create_many([
            {'host': rest.Ref('hosts', 1), 'volume': rest.Ref('volumes', 2)},
            {'host': rest.Ref('hosts', 1), 'volume': rest.Ref('volumes', 3)}],
            verify=self.verify)

    def update(self):
        return self.client.hosts.update(
            1, map_auth_profiles_names='p', verify=self.verify)

    @ddt.data(*itertools.product(('create', 'create_many', 'update'),
                                 (True, False)))
    @ddt.unpack
    def test_lost_reply(self, what, known):
        """The write is not repeated, in a trial or otherwise."""
        self.make(LOST)
        for name in self.CAPABILITIES if known else ():
            self.client.capabilities.found(name)
        with self.assertRaises(rest.OtherObject):
            getattr(self, what)()
        self.assertEqual([1], self.asked)

    def test_failed_verification(self):
        """The single requests that follow are verified as well."""
        self.failures[:0] = [rest.ServerError('crash', status=500)] * 2
        self.make(LOST, scripted.Reply(200, {'id': 1}))
        with self.assertRaises(rest.OtherObject):
            self.create_many()
        self.assertEqual([1, 2, 2], self.asked)

    @ddt.data(('create', {'id': 5, 'lun': 1}),
              ('update', {'id': 1, 'name': 'h'}))
    @ddt.unpack
    def test_no_verification_after_a_reply(self, what, made):
        self.make(scripted.Reply(200, made))
        self.assertEqual(made['id'], getattr(self, what)().id)
        self.assertEqual([], self.asked)


@ddt.ddt
class GetTest(Case):

    def test_bare_object(self):
        self.make(scripted.Reply(200, volume(31)))
        self.assertEqual(31, self.client.volumes.get(31).id)
        self.assertEqual(['GET /volumes/31'], self.array.calls)
        self.assertEqual({}, self.array.query(0))

    def test_envelope(self):
        """OBJ-2."""
        self.make(scripted.hits(volume(31)), scripted.hits())
        self.assertEqual(31, self.client.volumes.get(31).id)
        with self.assertRaises(rest.NotFound):
            self.client.volumes.get(32)

    @ddt.data([], 'x', None, {}, {'name': 'v'}, {'hits': 5}, {'hits': [5]})
    def test_reply_without_an_object(self, body):
        self.make(scripted.Reply(200, body))
        with self.assertRaises(rest.BadReply) as caught:
            self.client.volumes.get(31)
        self.assertEqual('/volumes/31', caught.exception.path)

    def test_ref(self):
        self.make()
        self.assertEqual('/system/net_ips/3', str(self.client.net_ips.ref(3)))

    def test_system(self):
        self.make(
            scripted.hits({'id': 1, 'state': 'ONLINE', 'system_id': 'a1b2',
                           'rest_api_version': '2.2.0'}),
            scripted.hits({'id': 1, 'total': 10, 'free': 5.0}))
        state = self.client.system_state()
        self.assertEqual(('ONLINE', '2.2.0', 'a1b2', None),
                         (state.state, state.rest_api_version,
                          state.system_id, state.current_user_role))
        self.assertEqual((10, 5), (lambda c: (c.total, c.free))(
            self.client.capacity()))
        self.assertEqual(['GET /system/state', 'GET /system/capacity'],
                         self.array.calls)

    def test_incomplete_version_does_not_clear_verdicts(self):
        told = {'id': 1, 'state': 'ONLINE', 'system_id': 'a1b2',
                'rest_api_version': '2.2', 'system_version': '7.0'}
        replies = (told, {**told, 'system_version': None},
                   {**told, 'system_id': None},
                   {**told, 'system_version': '8.0'})
        self.make(*map(scripted.hits, replies))
        self.client.capabilities.found('paging')
        works = []
        for _ in replies:
            self.client.system_state()
            works.append(self.client.capabilities.works('paging'))
        self.assertEqual([True, True, True, False], works)

    def test_no_system_state(self):
        self.make(scripted.hits())
        with self.assertRaises(rest.BadReply):
            self.client.system_state()


@ddt.ddt
class SearchTest(Case):

    @ddt.data({}, [], {'total': 1}, {'hits': {}, 'total': 1},
              {'hits': [{'name': 'v'}], 'total': 1},
              {'hits': [None], 'total': 1})
    def test_malformed_list(self, body):
        self.make(scripted.Reply(200, body))
        with self.assertRaises(rest.BadReply):
            self.client.volumes.search()

    def test_endless_pages_end_at_the_deadline(self):
        def page(request):
            self.clock.sleep(10)
            last = len(self.array.requests)
            # The third is the first one that follows a sorted page.
            first = last - 1 if last > 2 else last
            return scripted.hits(*map(volume, range(first, last + 1)),
                                 total=10 ** 9)
        self.make(*[page] * 1000)
        with self.assertRaises(rest.Unreachable):
            self.client.volumes.search()
        self.assertEqual(18, len(self.array.requests))
        self.array.script.clear()

    def test_deleted_objects_are_left_out(self):
        """QRY-10."""
        self.make(*[scripted.hits({'id': 1, 'is_deleted': True},
                                  {'id': 2, 'is_deleted': False})] * 2)
        self.assertEqual([2], [s.id for s in self.client.snapshots.search()])
        self.assertEqual(2, self.client.volsnaps.find().id)

    def test_equality_is_checked_by_the_client(self):
        """QRY-5: even if the array ignores case."""
        self.make(*[scripted.hits(volume(1, name='VOL'),
                                  volume(2, name='vol'))] * 2)
        self.assertEqual(2, self.client.volumes.find(name='vol').id)
        self.assertIsNone(self.client.volumes.find(name='Vol'))

    def test_empty_values(self):
        self.make()
        for value in ('', None):
            with self.assertRaises(ValueError):
                self.client.volumes.find(name=value)
            with self.assertRaises(ValueError):
                self.client.volumes.count(name=value)

    def test_one_of_no_values_sends_nothing(self):
        self.make()
        none = query.one_of('name', [])
        self.assertEqual([], self.client.volumes.search(none))
        self.assertEqual(0, self.client.volumes.count(none))


@ddt.ddt
class BulkTest(Case):

    CREATE, DELETE = BULK = ('bulk:snapshots:create', 'bulk:snapshots:delete')
    WORKS = (*Case.WORKS, 'creations:snapshots:short_name')

    ITEMS = [{'short_name': 's', 'source': rest.Ref('volume_groups', n)}
             for n in (14, 15)]
    MADE = [{'id': n, 'short_name': 's',
             'source': {'ref': f'/volume_groups/{n - 40}'}}
            for n in (54, 55)]
    NO = [scripted.refusal('no', status) for status in (400, 404, 405)]

    def _create(self, *script, **settings):
        self.make(*script, **settings)
        return [s.id for s in self.client.snapshots.create_many(self.ITEMS)]

    def _delete(self, *ids):
        self.client.snapshots.delete_many({id: {} for id in ids})

    def _verdict(self, name=CREATE):
        return self.client.capabilities.verdict(name).state

    def _one(self, number):
        return scripted.Reply(201, self.MADE[number])

    @ddt.data([], [CREATE])
    def test_one_call(self, without):
        self.assertEqual([54, 55], self._create(
            scripted.hits(*self.MADE), without=without))
        self.assertEqual(['POST /snapshots/__bulk'], self.array.calls)
        self.assertEqual(
            [{'short_name': 's', 'source': {'ref': '/volume_groups/14'}},
             {'short_name': 's', 'source': {'ref': '/volume_groups/15'}}],
            self.array.body(0))
        self.assertEqual(1, len(self.array.sequences()))
        self.assertEqual('works', self._verdict())

    def test_fewer_than_two_need_no_bulk_call(self):
        self.make(self._one(0), scripted.Reply(204))
        self.assertEqual([], self.client.snapshots.create_many([]))
        self.client.snapshots.create_many(self.ITEMS[:1])
        self._delete()
        self._delete(54)
        self.assertEqual(['POST /snapshots', 'DELETE /snapshots/54'],
                         self.array.calls)

    @ddt.data(*NO)
    def test_missing_bulk_create_is_remembered(self, refusal):
        looks = [scripted.hits()] * (2 if refusal is self.NO[0] else 0)
        self.assertEqual([54, 55], self._create(
            refusal, *looks, self._one(0), self._one(1),
            without=[self.CREATE]))
        self.assertEqual('refused', self._verdict())
        self.array.requests.clear()
        self.array.script[:] = [self._one(0), self._one(1)]
        self.client.snapshots.create_many(self.ITEMS)
        self.assertEqual(['POST /snapshots'] * 2, self.array.calls)

    def test_bad_item_if_bulk_is_known_to_work(self):
        with self.assertRaises(rest.Refused):
            self._create(self.NO[0])
        self.assertEqual('works', self._verdict())

    @ddt.data(*NO[1:])
    def test_bulk_create_is_no_longer_offered(self, refusal):
        """It counts as refused after three refusals in a row."""
        self.make(*[refusal, self._one(0), self._one(1)] * 3,
                  self._one(0), self._one(1))
        states = []
        for _ in range(4):
            made = self.client.snapshots.create_many(self.ITEMS)
            self.assertEqual([54, 55], [s.id for s in made])
            states.append(self._verdict())
        self.assertEqual(['works', 'works', 'refused', 'refused'], states)

    def test_bad_item_raises_its_own_error(self):
        with self.assertRaisesRegex(rest.Refused, 'the second'):
            self._create(self.NO[0], scripted.hits(), scripted.hits(),
                         self._one(0), scripted.refusal('the second'),
                         without=[self.CREATE])
        self.assertEqual('unknown', self._verdict())

    def test_refused_because_already_created(self):
        """The reply was lost, and the objects show late (OBJ-6)."""
        looks = [scripted.hits()] * 2
        state = scripted.Reply(200, {})
        self.assertEqual([54, 55], self._create(
            scripted.refusal('crash', 500), *looks, state,
            scripted.refusal('exists'), *looks,
            *[scripted.hits(made) for made in self.MADE],
            without=[self.CREATE]))
        self.assertEqual('works', self._verdict())

    def test_partly_created_is_not_a_refusal_of_bulk(self):
        self.assertEqual([54, 55], self._create(
            self.NO[0], scripted.hits(self.MADE[0]), scripted.hits(),
            self._one(1), without=[self.CREATE]))
        self.assertEqual('unknown', self._verdict())

    def test_lost_reply_carried_out(self):
        self.assertEqual([54, 55], self._create(
            LOST, scripted.hits(self.MADE[0]), scripted.hits(self.MADE[1])))

    def test_lost_reply_partly_carried_out(self):
        """BLK-4: if the repeat is refused, the missing ones are created."""
        part = scripted.hits(self.MADE[0]), scripted.hits()
        self.assertEqual([54, 55], self._create(
            LOST, *part, self.NO[0], *part * 5, *part, self._one(1)))
        self.assertEqual('works', self._verdict())

    def test_lost_reply_not_carried_out(self):
        self.assertEqual([54, 55], self._create(
            LOST, scripted.hits(), scripted.hits(),
            scripted.hits(*self.MADE)))
        self.assertEqual(1, len(set(self.array.sequences())))

    def test_too_few_objects_in_the_reply(self):
        self.assertEqual([54, 55], self._create(
            scripted.hits(self.MADE[0]),
            scripted.hits(self.MADE[0]), scripted.hits(self.MADE[1])))

    def test_bulk_delete(self):
        self.make(scripted.Reply(204))
        self._delete(54, 55)
        self.assertEqual(['DELETE /snapshots/__bulk'], self.array.calls)
        self.assertEqual([{'id': 54}, {'id': 55}], self.array.body(0))

    @ddt.data(*NO)
    def test_bulk_delete_with_one_gone(self, refusal):
        """The missing object may be the reason, so it proves nothing."""
        for without, expected in ([], 'works'), ([self.DELETE], 'unknown'):
            self.make(refusal, scripted.Reply(204), self.NO[1],
                      scripted.Reply(204), without=without)
            self._delete(54, 55)
            self.assertEqual(expected, self._verdict(self.DELETE))
            self._delete(56, 57)
            self.assertEqual('DELETE /snapshots/__bulk',
                             self.array.calls[-1])

    def test_bulk_deletes_with_one_gone_never_count(self):
        gone = self.NO[1]
        self.make(*[gone, scripted.Reply(204), gone] * 3)
        for _ in range(3):
            self._delete(54, 55)
        self.assertEqual('works', self._verdict(self.DELETE))

    @ddt.data(*NO)
    def test_missing_bulk_delete_is_remembered(self, refusal):
        self.make(refusal, *[scripted.Reply(204)] * 4,
                  without=[self.DELETE])
        self._delete(54, 55)
        self._delete(56, 57)
        self.assertEqual('DELETE /snapshots/57', self.array.calls[-1])

    def test_refused_delete_does_not_affect_bulk_create(self):
        self.make(scripted.hits(*self.MADE), self.NO[0],
                  scripted.Reply(204), scripted.Reply(204),
                  scripted.hits(*self.MADE))
        self.client.snapshots.create_many(self.ITEMS)
        self._delete(54, 55)
        self.client.snapshots.create_many(self.ITEMS)
        self.assertEqual('POST /snapshots/__bulk', self.array.calls[-1])

    def test_bulk_delete_with_lost_reply_then_404(self):
        """The 404 does not mean that the objects are gone."""
        self.make(LOST, scripted.refusal('no', 404),
                  *[scripted.Reply(204)] * 2)
        self._delete(54, 55)
        self.assertEqual(['DELETE /snapshots/54', 'DELETE /snapshots/55'],
                         self.array.calls[2:])

    def test_bulk_delete_with_one_in_use(self):
        self.make(self.NO[0], scripted.refusal('it is mapped'),
                  scripted.Reply(204))
        with self.assertRaisesRegex(rest.Refused, 'mapped'):
            self._delete(54, 55)
        self.array.script.clear()


@ddt.ddt
class BulkUpdateTest(Case):

    UPDATE, DELETE = 'bulk:volumes:update', 'bulk:volumes:delete'
    BULK = (UPDATE, DELETE, 'bulk:hosts:update',
            'bulk:replication/sessions:update')
    WORKS = (*Case.WORKS, 'searches:volumes:id',
             'value-lists:volumes:id__in', 'value-lists:volumes:name__in',
             'searches:replication/sessions:id',
             'value-lists:replication/sessions:id__in')

    NO = BulkTest.NO
    OK = scripted.Reply(200, volume(1))

    def _bulk(self, *ids):
        return scripted.hits(*[volume(id, size=5) for id in ids])

    def _update(self, number, *script, **settings):
        self.make(*script, **settings)
        return self.client.volumes.update_many(
            {id: {'size': 5} for id in range(1, number + 1)})

    def _sent_ids(self):
        """The ids in each PATCH request."""
        return [[item['id'] for item in self.array.body(n)]
                if request.url.endswith('__bulk')
                else [int(request.url.rpartition('/')[2])]
                for n, request in enumerate(self.array.requests)
                if request.method == 'PATCH']

    def test_one_call(self):
        self.assertEqual({}, self._update(3, self._bulk(1, 2, 3)))
        self.assertEqual(['PATCH /volumes/__bulk'], self.array.calls)
        self.assertEqual([{'id': id, 'size': 5} for id in (1, 2, 3)],
                         self.array.body(0))

    def test_references_and_null(self):
        self.make(scripted.hits({'id': 7, 'name': 'a'},
                                {'id': 8, 'name': 'b'}))
        self.client.hosts.update_many({
            7: {'host_group': rest.Ref('host_groups', 2)},
            8: {'host_group': None}})
        self.assertEqual([
            {'id': 7, 'host_group': {'ref': '/host_groups/2'}},
            {'id': 8, 'host_group': None}], self.array.body(0))

    def test_fewer_than_two_need_no_bulk_call(self):
        self.assertEqual({}, self._update(0))
        self.assertEqual({}, self._update(1, self.OK))
        self.assertEqual(['PATCH /volumes/1'], self.array.calls)

    def test_bad_object_is_found_by_bisection(self):
        no = scripted.refusal('not 6')
        bad = self._update(8, no, self._bulk(1, 2, 3, 4), no, no,
                           self.OK, no, scripted.Reply(200, volume(6)),
                           self._bulk(7, 8))
        self.assertEqual([6], list(bad))
        self.assertIn('not 6', str(bad[6]))
        self.assertEqual([
            [1, 2, 3, 4, 5, 6, 7, 8], [1, 2, 3, 4], [5, 6, 7, 8], [5, 6],
            [5], [6], [7, 8]], self._sent_ids())

    def test_all_objects_are_refused(self):
        no = scripted.refusal('no')
        bad = self._update(2, no, no, scripted.Reply(200, volume(1)),
                           no, scripted.Reply(200, volume(2)),
                           without=[self.UPDATE])
        self.assertEqual([1, 2], list(bad))
        self.assertEqual('unknown', self._verdict(self.UPDATE))

    def _verdict(self, name):
        return self.client.capabilities.verdict(name).state

    @ddt.data([], [UPDATE])
    def test_one_call_shows_that_bulk_works(self, without):
        self.assertEqual({}, self._update(
            3, self._bulk(1, 2, 3), without=without))
        self.assertEqual('works', self._verdict(self.UPDATE))

    def test_reply_without_the_change(self):
        """The objects are looked up until one update was verified."""
        self.assertEqual({}, self._update(
            2, scripted.hits(volume(1), volume(2)), self._bulk(1, 2),
            without=[self.UPDATE]))
        self.assertEqual('works', self._verdict(self.UPDATE))
        self.array.script[:] = [scripted.hits(volume(1), volume(2))]
        self.client.volumes.update_many({1: {'size': 5}, 2: {'size': 5}})
        self.assertEqual('PATCH /volumes/__bulk', self.array.calls[-1])

    def test_ignored_bulk_update(self):
        """The reply is 2xx, but repeated searches show no change."""
        before = scripted.hits(volume(1, size=5), volume(2))
        self.assertEqual({}, self._update(
            2, before, *[before] * 5, self.OK, self.OK,
            without=[self.UPDATE]))
        self.assertEqual([[1, 2], [1], [2]], self._sent_ids())
        verdict = self.client.capabilities.verdict(self.UPDATE)
        self.assertEqual(('refused', 'no error, but nothing was done'),
                         (verdict.state, verdict.words))

    def test_ignored_bulk_command(self):
        """OBJ-7: sessions that have changed meanwhile get no command."""
        def session(number, state):
            return {'id': number, 'name': f's{number}', 'state': state}
        name = 'bulk:replication/sessions:update'
        before = scripted.hits(session(1, 'in_sync'), session(2, 'in_sync'))
        done = scripted.Reply(200, session(1, 'failed_over'))
        self.make(*[before] * 6, scripted.Reply(200, session(1, 'in_sync')),
                  done, scripted.Reply(200, session(2, 'failed_over')),
                  without=[name])
        self.client.capabilities.found('value-lists:replication/sessions:'
                                       'name__in')
        self.assertEqual({}, self.client.replication_sessions.update_many(
            {id: {'state': 'failed_over'} for id in (1, 2)},
            {1: 's1', 2: 's2'}))
        self.assertEqual(
            ['GET /replication/sessions/1', 'PATCH /replication/sessions/1',
             'GET /replication/sessions/2'], self.array.calls[-3:])
        self.assertEqual('refused', self._verdict(name))

    @ddt.data({'id': 2, 'name': 'v2', 'size': '?'}, None)
    def test_bulk_update_that_cannot_be_verified(self, shown):
        """It proves nothing."""
        there = scripted.hits(volume(1, size=5), *[shown] * bool(shown))
        self.assertEqual({}, self._update(
            2, scripted.hits({}, {}), there, without=[self.UPDATE]))
        self.assertEqual('unknown', self._verdict(self.UPDATE))

    def test_ignored_bulk_delete_of_unheld_volumes(self):
        """An id that now has another name is not deleted (OBJ-7)."""
        left = scripted.hits(volume(2))
        self.make(scripted.Reply(204), *[left] * 5,
                  scripted.hits(volume(1, name='new')), left,
                  scripted.Reply(204), without=[self.DELETE])
        self.assertEqual({}, self.client.volumes.delete_unheld(
            {1: {}, 2: {}}, {1: 'v1', 2: 'v2'}))
        self.assertEqual(['DELETE /volumes/__bulk', 'DELETE /volumes/2'], [
            call for call in self.array.calls if 'DELETE' in call])
        self.assertEqual('refused', self._verdict(self.DELETE))

    def test_one_object_is_gone(self):
        gone = scripted.refusal('gone', 404)
        bad = self._update(2, gone, self.OK, gone)
        self.assertIsInstance(bad[2], rest.NotFound)

    def test_one_object_is_gone_when_looked_up(self):
        no = scripted.refusal('no')
        bad = self._update(2, no, self.OK, no, scripted.refusal('gone', 404))
        self.assertEqual('no', bad[2].message)

    def test_refused_but_carried_out(self):
        """BLK-4 (all or nothing) is only an assumption."""
        no = scripted.refusal('it is so already')
        self.assertEqual({}, self._update(
            2, no, no, scripted.Reply(200, volume(1, size=5)), self.OK))

    @ddt.data(*NO)
    def test_array_without_bulk_update(self, refusal):
        self.assertEqual({}, self._update(
            4, refusal, *[self.OK] * 4, without=[self.UPDATE]))
        self.assertEqual([[1, 2, 3, 4], [1], [2], [3], [4]], self._sent_ids())
        self.assertEqual('refused', self._verdict(self.UPDATE))
        self.array.script[:] = [self.OK] * 2
        self.client.volumes.update_many({5: {'size': 5}, 6: {'size': 5}})
        self.assertEqual([5], self._sent_ids()[-2])

    @ddt.data({'error_msg': 'MC_ERR_START_TIMEOUT'}, None)
    def test_one_object_stays_busy(self, code):
        """A busy code or 500 for one object hardly delays the others."""
        def reply(request):
            if b'"id": 3' in request.body or request.url.endswith('/3'):
                return scripted.Reply(400 if code else 500, code or b'')
            return scripted.hits(*[volume(n) for n in range(
                request.body.count(b'"id"') or 1)])

        self.make()
        self.array.script = _Endless(reply, scripted.hits())
        bad = self.client.volumes.update_many(
            {id: {'size': 5} for id in range(1, 9)})
        self.array.script = []
        self.assertEqual([3], list(bad))
        self.assertIn([5, 6, 7, 8], self._sent_ids())
        self.assertLess(self.clock.now - 1000, 60)

    def test_busy_array(self):
        """The array itself is busy, so the list is not split."""
        busy = scripted.refusal('slow down', 429)
        self.assertEqual({}, self._update(
            4, *[busy] * 12, self._bulk(1, 2, 3, 4)))

    def test_delete_unheld(self):
        no = scripted.refusal('it is mapped')
        self.make(no, scripted.Reply(204), no, no,
                  scripted.refusal('', 404))
        bad = self.client.volumes.delete_unheld(
            {id: {} for id in (1, 2, 3, 4)})
        self.assertEqual([3], list(bad))
        self.assertIn('it is mapped', str(bad[3]))
        self.assertEqual(
            ['__bulk', '__bulk', '__bulk', '3', '4'],
            [call.rpartition('/')[2] for call in self.array.calls])
        self.assertEqual([{'id': 1}, {'id': 2}], self.array.body(1))

    def test_delete_unheld_without_bulk_delete(self):
        self.make(*self.NO[:1], *[scripted.Reply(204)] * 4,
                  without=[self.DELETE])
        for ids in ([1, 2], [3, 4]):
            self.assertEqual({}, self.client.volumes.delete_unheld(
                {id: {} for id in ids}))
        self.assertEqual('DELETE /volumes/4', self.array.calls[-1])
        self.assertEqual('refused', self._verdict(self.DELETE))

    def test_delete_unheld_with_one_gone_proves_nothing(self):
        gone = self.NO[1]
        self.make(gone, scripted.Reply(204), gone, without=[self.DELETE])
        self.assertEqual({}, self.client.volumes.delete_unheld(
            {1: {}, 2: {}}))
        self.assertEqual('unknown', self._verdict(self.DELETE))

    def test_authentication_failure(self):
        """It concerns no single object, so the list is not split."""
        who = scripted.refusal('who?', 401)
        with self.assertRaises(rest.AuthenticationFailed):
            self._update(4, who)
        with self.assertRaises(rest.AuthenticationFailed):
            self._update(2, scripted.refusal('no'), who)

    def test_unreachable_array(self):
        with self.assertRaises(rest.Unreachable):
            self._update(4, scripted.refusal('no'),
                         *[requests.ConnectTimeout()] * 99, deadline=5)
        self.array.script.clear()

    def test_lost_reply_carried_out(self):
        self.assertEqual({}, self._update(2, LOST, self._bulk(1, 2)))
        self.assertEqual({'id__in': '1,2'}, {
            k: v for k, v in self.array.query(1).items()
            if not k.startswith('__')})

    @ddt.data([1], [])
    def test_lost_reply_not_carried_out(self, done):
        shown = scripted.hits(volume(1, size=5 if done else 1), volume(2))
        self.assertEqual({}, self._update(2, LOST, shown,
                                          self._bulk(1, 2)))
        self.assertEqual(1, len(set(self.array.sequences())))

    def test_lost_reply_then_409(self):
        """SEQ-1."""
        shown = scripted.hits(volume(1), volume(2))
        self.assertEqual({}, self._update(
            2, LOST, shown, scripted.refusal('seen', 409), shown,
            self._bulk(1, 2)))

    def test_lost_reply_then_409_without_effect(self):
        shown = scripted.hits(volume(1), volume(2))
        with self.assertRaisesRegex(rest.BadReply, 'does not show'):
            self._update(2, LOST, shown, scripted.refusal('seen', 409),
                         *[shown] * 5)

    def test_command_takes_effect_later(self):
        """REP-8."""
        shown = scripted.hits(*[{'id': id, 'name': 's', 'state': 'idle'}
                                for id in (1, 2)])
        self.make(LOST, shown, scripted.refusal('seen', 409), shown)
        self.assertEqual({}, self.client.replication_sessions.update_many(
            {id: {'state': 'in_sync'} for id in (1, 2)}))

    def test_lost_reply_then_404(self):
        """The 404 does not mean that it was carried out."""
        shown = scripted.hits(volume(1), volume(2))
        self.assertEqual({}, self._update(
            2, LOST, shown, scripted.refusal('no', 404), shown,
            self.OK, self.OK))
        self.assertEqual([[1, 2], [1, 2], [1], [2]], self._sent_ids())

    def test_empty_reply(self):
        self.assertEqual({}, self._update(2, scripted.Reply(200),
                                          self._bulk(1, 2)))

    def test_too_few_objects_in_the_reply(self):
        self.assertEqual({}, self._update(2, self._bulk(1),
                                          self._bulk(1, 2)))


@ddt.ddt
class NoIdTest(Case):
    """POST of an initiator is answered with 2xx, but not with its record."""

    WORKS = ()
    SENT = {'iqn': 'one', 'host': rest.Ref('hosts', 7)}
    MADE = scripted.Reply(201)
    STATE = scripted.hits({'id': 1})

    def create(self, *script, **options):
        self.make(*script)
        return self.client.host_iqns.create(**self.SENT, **options)

    @ddt.data(
        (scripted.refusal('unknown condition'), STATE),
        (scripted.refusal('', 404), STATE),
        (scripted.refusal('', 403), STATE),
        (scripted.refusal('', 500), STATE) * 2,
        # QRY-2: this search has not found anything so far.
        (scripted.hits(),))
    def test_record_cannot_be_looked_up(self, search):
        found = self.create(self.MADE, *search, needs_id=False)
        self.assertEqual((0, 'one', rest.Ref('hosts', 7)),
                         (found.id, found.iqn, found.host))
        self.assertEqual(1, self.array.calls.count('POST /host_iqns'))

    @ddt.data(None, {}, {'iqn': 'one', 'host': {'ref': '/hosts/7'}},
              {'iqn': 'one', 'id': None}, {'hits': [], 'total': 0})
    def test_reply_without_the_record(self, reply):
        found = self.create(scripted.Reply(201, json.dumps(reply).encode()),
                            scripted.hits(), needs_id=False)
        self.assertEqual((0, 'one'), (found.id, found.iqn))
        self.assertEqual(1, self.array.calls.count('POST /host_iqns'))

    def test_several_initiators(self):
        self.make(self.MADE, scripted.hits(), self.MADE, scripted.hits())
        for number in (1, 2):
            found, = self.client.host_iqns.create_many([
                {'iqn': f'iqn{number}', 'host': rest.Ref('hosts', 7)}],
                needs_ids=False)
            self.assertEqual(0, found.id)

    def test_record_is_found(self):
        self.assertEqual(4, self.create(self.MADE, scripted.hits(
            {'id': 4, 'iqn': 'one', 'host': {'ref': '/hosts/7'}}),
            needs_id=False).id)

    def test_record_shows_late(self):
        """OBJ-6."""
        self.make(self.MADE, scripted.hits(), scripted.hits(), scripted.hits(
            {'id': 4, 'iqn': 'one', 'host': {'ref': '/hosts/7'}}))
        self.client.capabilities.found('searches:host_iqns:host')
        self.assertEqual(4, self.client.host_iqns.create(
            **self.SENT, needs_id=False).id)

    def test_html_reply_is_retried(self):
        self.assertEqual(4, self.create(
            scripted.Reply(200, b'<html>'), scripted.hits(),
            scripted.Reply(201, {'id': 4}), needs_id=False).id)

    def test_lost_reply_is_retried(self):
        self.assertEqual(0, self.create(
            LOST, scripted.hits(), self.MADE, scripted.hits(),
            needs_id=False).id)

    def test_retried_if_the_id_is_needed(self):
        self.assertEqual(4, self.create(
            self.MADE, scripted.hits(), scripted.Reply(201, {'id': 4})).id)


class _Endless(list):
    """A script that answers writes with one reply, reads with another."""

    def __init__(self, write, read):
        super().__init__()
        self._write, self._read = write, read

    def pop(self, index=0):
        return lambda request: (
            self._read if request.method == 'GET' else self._write(request))


class SimulatedTest(unittest.TestCase):
    """The client on the simulated array."""

    def setUp(self):
        super().setUp()
        self.array = k2_sim.Array('sdp', clock=k2_sim.FakeClock())
        self.client = rest.Client(
            rest.Settings(address='k2', login='admin', password='admin'),
            k2_sim.RequestsAdapter(self.array), scripted.FakeClock())

    def _groups(self, number):
        return self.client.volume_groups.create_many(
            [{'name': f'g{n:04}', 'quota': 0} for n in range(number)])

    def test_many_pages(self):
        made = self._groups(1201)
        self.client.capabilities.found('fields:volume_groups')
        self.array.control.set_behaviors(unstable_pages=True)
        self.array.control.clear_journal()
        self.assertEqual(
            [g.id for g in made],
            [g.id for g in self.client.volume_groups.search(
                query.prefix('name', 'g'))])
        # The first pages, in a trial and after it, say that there are more.
        self.assertEqual(4, len(self.array.control.journal()))
        self.assertEqual(1201, self.client.volume_groups.count(
            query.prefix('name', 'g')))

    def test_names_of_any_kind(self):
        for name in ('a b', 'a+b', 'a%20b', 'a&b=c', '"a"', 'a,b', 'a"b',
                     'a/b', 'a#b', '\u00e4\u4e2d'):
            made = self.client.host_groups.create(name=name)
            self.assertEqual(made, self.client.host_groups.find(name=name),
                             name)
            self.assertEqual([made], self.client.host_groups.search(
                query.one_of('name', [name, 'other'])), name)

    def test_every_resource_can_be_read(self):
        for collection in ('volumes', 'volume_groups', 'snapshots',
                           'volsnaps', 'mappings', 'hosts', 'host_groups',
                           'host_iqns', 'host_fc_ports',
                           'retention_policies', 'net_ips', 'fc_ports'):
            resource = getattr(self.client, collection)
            for record in resource.search():
                self.assertEqual(record, resource.get(record.id))
                self.assertEqual(f'/{resource.path[1:]}/{record.id}',
                                 str(record.ref))
        self.assertEqual('ONLINE', self.client.system_state().state)
        self.assertGreater(self.client.capacity().total, 0)

    def test_single_envelope_and_status_200(self):
        self.array.control.set_behaviors(
            single_envelope=True, create_status=200)
        (group, _) = self._groups(2)
        self.assertEqual(group, self.client.volume_groups.get(group.id))

    def test_deleted_snapshots_that_linger(self):
        group = self.client.volume_groups.create(name='g', quota=0)
        self.client.volumes.create(
            name='v', size=GIB, volume_group=group.ref)
        snapshot = self.client.snapshots.create(
            short_name='s', source=group.ref, is_auto_deleteable=False,
            retention_policy=self.client.retention_policies.search()[0].ref)
        self.assertEqual(1, len(self.client.volsnaps.search(
            snapshot=snapshot.ref)))
        self.array.control.set_behaviors(linger_reads=3)
        self.assertTrue(self.client.snapshots.delete(snapshot.id))
        self.assertIsNone(self.client.snapshots.find(short_name='s'))

    def test_rate_limit(self):
        self.array.control.set_behaviors(rate_limit=1.0, rate_burst=1)
        client = rest.Client(
            rest.Settings(address='k2', login='admin', password='admin'),
            k2_sim.RequestsAdapter(self.array), self.array.clock)
        for _ in range(20):
            client.system_state()

    def test_many_threads(self):
        found = []

        def work(number):
            group = self.client.volume_groups.create(
                name=f'g{number}', quota=0)
            found.append(self.client.volume_groups.get(group.id) == group)

        threads = [threading.Thread(target=work, args=[n])
                   for n in range(40)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        self.assertEqual([True] * 40, found)
        self.assertEqual(40, self.client.volume_groups.count(
            query.prefix('name', 'g')))
