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

"""On two simulated arrays, with trouble at every single call."""

import contextlib
import dataclasses
import itertools
import re
from unittest import mock

import ddt
from oslotest import base

from cinder_k2 import array
from cinder_k2.array import hidden
from cinder_k2 import exceptions
from cinder_k2.flows import replication
from cinder_k2 import naming
from cinder_k2 import rest
from cinder_k2 import simulator
from tests.unit import simulated

GIB = simulated.GIB
ID = '12345678-1234-1234-1234-123456789abc'
NAMES = naming.session_names(ID)
GROUP = naming.volume_group(ID)
VOLUME = naming.volume(ID)
COPY = naming.peer(VOLUME)
COPY_GROUP = naming.peer(GROUP)

REFUSED = {'kind': 'status', 'status': 400, 'times': 1}
FORBIDDEN = {'kind': 'status', 'status': 403, 'times': 1}
# Until the driver gives up.
BUSY = {'kind': 'busy', 'code': 'MC_ERR_BUSY'}
NO_START = {'kind': 'busy', 'code': 'MC_ERR_START_TIMEOUT'}
BUSY_ONCE = {'kind': 'busy', 'code': 'MC_ERR_INPROGRESS', 'times': 1}
LOST_REPLY = {'kind': 'reset', 'commit': 'after', 'times': 1}
BAD_GATEWAY = {'kind': 'status', 'status': 502, 'commit': 'after',
               'times': 1}
NEVER_A_REPLY = {'kind': 'reset', 'commit': 'after'}


FAULTS = {
    'refused': REFUSED, 'forbidden': FORBIDDEN, 'busy': BUSY,
    'no start': NO_START, 'busy once': BUSY_ONCE, 'lost reply': LOST_REPLY,
    'bad gateway': BAD_GATEWAY, 'never a reply': NEVER_A_REPLY}
ERRORS = (rest.RestError, exceptions.K2Error)


class Killed(BaseException):
    """The service dies: nobody handles this."""


class Wire(simulator.RequestsAdapter):
    """Counts the calls to both arrays together; there may be trouble."""

    def __init__(self, sim, letter, trouble):
        super().__init__(sim)
        self.sim = sim
        self.letter = letter
        self.trouble = trouble

    def send(self, request, **kwargs):
        self.trouble.begins(self.sim, self.letter, request)
        reply = super().send(request, **kwargs)
        self.trouble.ends()
        return reply


class Trouble:
    """At the call of that number, to whichever array that is.

    :ivar fault: for the array; other calls like this one may meet it, too
    :ivar kill: the service dies "before" the call or "after" it
    :ivar calls: those so far, each with the letter of the array
    """

    def __init__(self):
        self.plan()

    def plan(self, at=0, fault=None, kill=None):
        self.at, self.fault, self.kill = at, fault, kill
        self.calls = []

    @property
    def came(self):
        return 0 < self.at <= len(self.calls)

    @property
    def place(self):
        return self.calls[self.at - 1]

    def begins(self, sim, letter, request):
        path = request.path_url.partition('?')[0]
        path = path.removeprefix('/api/v2/')
        self.calls.append(
            f'{letter} {request.method} ' + re.sub(r'/\d+\Z', '/*', path))
        if len(self.calls) != self.at:
            return
        if self.fault is not None:
            sim.control.add_fault(method=request.method, path=path,
                                  **self.fault)
        if self.kill == 'before':
            raise Killed

    def ends(self):
        if len(self.calls) == self.at and self.kill == 'after':
            raise Killed


class PairTest(base.BaseTestCase):
    """A volume on one of two arrays that know each other."""

    def setUp(self):
        super().setUp()
        self.build()

    def build(self):
        """Everything anew."""
        self.clock = simulator.FakeClock()
        self.trouble = Trouble()
        self.a = simulator.Array(clock=self.clock, name='a')
        self.b = simulator.Array(clock=self.clock, name='b')
        for sim in (self.a, self.b):
            self.addCleanup(sim.close)
        simulator.connect(self.a, self.b)
        self.here = self.make_array(self.a, 'a')
        self.there = self.make_array(self.b, 'b')
        self.link = replication.Link(
            here=self.here, there=self.there, peer_address='b.example.org',
            backend_id='b', rpo=300)
        self.group = self.here.volumes.create_group(GROUP, True)
        self.members = [self.make_member(VOLUME)]
        self.write('mine')
        self.trouble.plan()

    def make_member(self, name):
        return replication.Member(self.here.volumes.create(
            name, GIB, self.group), name, GIB)

    def make_array(self, sim, letter):
        client = rest.Client(
            rest.Settings(address=f'{letter}.example.org', login='admin',
                          password='admin'),
            adapter=Wire(sim, letter, self.trouble), clock=self.clock)
        self.addCleanup(client.close)
        made = array.Array(client, 'Best_Effort_Retention')
        made.client, made.sim = client, sim
        return made

    # What happens

    def protect(self, release=None):
        replication.protect(replication.Order(
            self.link, NAMES[0], self.group, GROUP, self.members), release)

    def unprotect(self, reachable=True, release=None):
        replication.unprotect(
            self.here, self.link if reachable else None, NAMES,
            group=self.group, group_name=GROUP,
            volume_names=[member.name for member in self.members],
            release=release)

    def write(self, token):
        """What a host writes."""
        self.here.sim.control.write(self.members[0].volume, token)

    def extend(self, gib=2):
        replication.extend(
            self.here, self.link, NAMES, group=self.group,
            member=dataclasses.replace(self.members[0], size=gib * GIB))

    def wait(self):
        """Let the first copy arrive, and some more."""
        self.clock.advance(3600)
        self.a.control.look()

    def swap(self):
        """Cinder has failed over: it has the volumes on the other array."""
        self.here, self.there = self.there, self.here
        self.link = dataclasses.replace(
            self.link, here=self.here, there=self.there,
            peer_address=self.there.address)
        found = self.here.replication.volumes_of(
            [naming.peer(member.name) for member in self.members])
        self.members = [dataclasses.replace(
            member, volume=found[naming.peer(member.name)][0])
            for member in self.members]
        self.group = found[COPY][1]

    def tell(self, array, state):
        """Give a session a command, as somebody else might."""
        found = array.replication.find(*NAMES)
        array.replication.command(found.id, state)

    # What came of it

    def halves(self):
        """State and role of the session on either array."""
        return [found and (found.state, found.role)
                for found in (self.here.replication.find(*NAMES),
                              self.there.replication.find(*NAMES))]

    def sizes(self):
        """GiB of the volume and its copy."""
        return [side.client.volumes.search(
            rest.query.one_of('name', [VOLUME, COPY]))[0].size // GIB
            for side in (self.here, self.there)]

    def assert_replicated(self, gib=1):
        """It runs, and nothing is there beside it."""
        self.assertEqual([('in_sync', 'source'), ('in_sync', 'target')],
                         self.halves())
        self.assertEqual([gib, gib], self.sizes())
        self.assert_just(self.here)
        self.assert_just(self.there)

    def assert_bare(self):
        """What was there before replication is there, and nothing else."""
        self.assertEqual({}, leftovers(self.there.sim))
        self.assert_just(self.here)
        self.assertEqual({'volume_groups', 'volumes'},
                         leftovers(self.here.sim).keys())
        for member in self.members:
            self.assertFalse(
                self.here.client.volumes.get(member.volume).read_only)

    def assert_just(self, array):
        """One group with all volumes; those here are as they were."""
        found, made = leftovers(array.sim), array.sim is self.a
        self.assertEqual([GROUP if made else COPY_GROUP],
                         found['volume_groups'])
        self.assertEqual(
            sorted(member.name if made else naming.peer(member.name)
                   for member in self.members), found['volumes'])
        if array is self.here:
            volume, = array.replication.volumes_of(
                [VOLUME, COPY]).values()
            self.assertEqual((self.members[0].volume, self.group), volume)
            self.assertEqual('mine', array.sim.control.read(volume[0]))

    def each(self, action, **plan):
        """Do it again and again, with trouble at another call each time.

        :returns: each time what it raised; the caller tidies up
        """
        for at in itertools.count(1):
            self.trouble.plan(at, **plan)
            try:
                action()
                error = None
            except (*ERRORS, Killed) as caught:
                error = caught
            came = self.trouble.came
            self.clear_faults()
            if not came:
                self.assertIsNone(error)
                break
            yield error

    def clear_faults(self):
        self.trouble.plan()
        for sim in (self.a, self.b):
            sim.control.clear_faults()


@ddt.ddt
class ProtectTest(PairTest):

    def test_calls(self):
        self.protect()
        cold = self.trouble.calls[:]
        self.unprotect()
        self.trouble.plan()
        self.protect()
        self.assertEqual(
            ['a POST replication/sessions', 'a POST replication/peer_volumes',
             'a PATCH replication/sessions/*'], self.trouble.calls)
        self.assertEqual(['a GET replication/peer_k2arrays',
                          'a GET retention_policies', *self.trouble.calls],
                         cold)

    def test_all_there(self):
        self.protect()
        self.assert_replicated()

    def test_again(self):
        for _ in range(2):
            self.protect()
            self.assert_replicated()

    @ddt.data(*FAULTS)
    def test_trouble_at_each_call(self, fault):
        for error in self.each(self.protect, fault=FAULTS[fault]):
            if error:
                self.assert_bare()
            else:
                self.assert_replicated()
                self.unprotect()

    def test_several(self):
        self.members += [self.make_member(f'cv-{n}') for n in range(2)]
        for error in self.each(self.protect, fault=FORBIDDEN):
            self.assertIsNotNone(error)
            self.assert_bare()
        self.assert_replicated()
        self.unprotect()
        self.assert_bare()

    @ddt.data('before', 'after')
    def test_killed_at_each_call(self, when):
        for _ in self.each(self.protect, kill=when):
            self.protect()
            self.assert_replicated()
            self.unprotect()
            self.assert_bare()

    @ddt.data('before', 'after')
    def test_killed_and_given_up(self, when):
        for _ in self.each(self.protect, kill=when):
            self.unprotect()
            self.assert_bare()

    @ddt.data({'start_seconds': 20}, {'copy_seconds': 1e6},
              {'session_policies_required': True}, {'repeat_commands': True})
    def test_other_arrays(self, switches):
        """Whatever they are like, it begins and ends."""
        for sim in (self.a, self.b):
            sim.control.set_switches(**switches)
        self.protect()
        self.assert_replicated()
        for _ in range(2):
            self.unprotect()
            self.assert_bare()

    def test_no_start(self):
        """REP-6."""
        self.a.control.set_switches(start_seconds=120)
        error = self.assertRaises(rest.Busy, self.protect)
        self.assertIn('MC_ERR_START_TIMEOUT', str(error))
        self.assert_bare()

    def test_the_array_is_lost_after_it_made_the_session(self):
        """What is on the peer goes nevertheless."""
        self.a.control.add_fault(method='POST', path='*', **NEVER_A_REPLY)
        self.a.control.add_fault(kind='reset', path='*', after=2)
        self.assertRaises(rest.Unreachable, self.protect)
        self.assertEqual({}, leftovers(self.b))
        self.clear_faults()
        self.unprotect()
        self.assert_bare()

    def test_nobody_knows_whether_it_started(self):
        """It did, and the array tells nobody."""
        path = 'replication/sessions/*'
        self.a.control.add_fault(method='PATCH', path=path, **LOST_REPLY)
        self.a.control.add_fault(method='GET', path=path, **FORBIDDEN)
        self.assertRaises(rest.Forbidden, self.protect)
        self.assert_bare()

    def test_ended_while_it_starts(self):
        self.a.control.set_switches(start_seconds=20)
        self.trouble.plan(5, kill='after')
        self.assertRaises(Killed, self.protect)
        self.unprotect()
        self.wait()
        self.assert_bare()

    def test_arrays_out_of_touch(self):
        """REP-19."""
        self.b.control.cut_link()
        error = self.assertRaises(exceptions.PeerUnreachable, self.protect)
        self.assertIn('a.example.org', str(error))
        self.assert_bare()

    def test_the_group_has_another_session(self):
        """It is nothing that may be cleared away."""
        self.here.replication.create_session(
            'other', peer=1, group=self.group, rpo=300,
            peer_group_name=COPY_GROUP, peer_session_name=NAMES[1])
        self.assertRaises(rest.Refused, self.protect)
        self.assertEqual([COPY_GROUP], leftovers(self.b)['volume_groups'])
        self.assertEqual('other', self.here.replication.of_group(
            self.group).name)

    def test_no_peers(self):
        self.link = dataclasses.replace(
            self.link, peer_address='elsewhere', backend_id='nobody')
        self.assertRaises(exceptions.ArrayUnsuitable, self.protect)
        self.assert_bare()


class Tidy:
    """Tests of what goes on once a volume is replicated."""

    def build(self):
        super().build()
        self.protect()
        self.wait()
        self.trouble.plan()


@ddt.ddt
class UnprotectTest(Tidy, PairTest):

    def test_calls(self):
        self.unprotect()
        self.assertEqual([
            'a GET replication/sessions', 'a GET snapshots',
            'b GET volumes', 'b GET snapshots', 'b GET mappings',
            'a PATCH replication/sessions/*',
            'b GET replication/sessions/*',
            'a PATCH replication/sessions/*',
            'b GET replication/sessions/*',
            'b DELETE replication/sessions/*',
            'a DELETE replication/sessions/*',
            'a GET snapshots', 'a DELETE snapshots/*',
            'b GET snapshots', 'b DELETE snapshots/*',
            'b DELETE volumes/*', 'b DELETE volume_groups/*',
        ], self.trouble.calls)

    @ddt.data(*FAULTS)
    def test_trouble_at_each_call(self, fault):
        for error in self.each(self.unprotect, fault=FAULTS[fault]):
            self.unprotect()
            self.assert_bare()
            self.protect()
            self.wait()

    @ddt.data('before', 'after')
    def test_killed_at_each_call(self, when):
        for _ in self.each(self.unprotect, kill=when):
            self.unprotect()
            self.assert_bare()
            self.protect()
            self.wait()

    @ddt.data('here', 'there')
    def test_snapshots_of_others_stay(self, place):
        """Those that Cinder took, on whichever array it took them."""
        array, name = getattr(self, place), VOLUME
        if place == 'there':
            self.tell(array, 'failed_over')
            name = COPY
        array.snapshots.create('cs-1', array.volumes.find(name))
        if place == 'here':
            self.unprotect()
            self.assertEqual(['cs-1'], leftovers(self.a)['snapshots'])
            self.assertEqual({}, leftovers(self.b))
            return
        before = leftovers(self.a), leftovers(self.b), self.halves()
        error = self.assertRaises(exceptions.ObjectInUse, self.unprotect)
        self.assertEqual(
            f'Volume group {COPY_GROUP}, the copy on the array at '
            f'b.example.org, has snapshots or views: {COPY_GROUP}:cs-1. '
            'Delete them first, and what was made from them, in Cinder if it '
            'has them.', str(error))
        self.assertEqual(before, (leftovers(self.a), leftovers(self.b),
                                  self.halves()))

    def test_clones_of_the_copy_stay(self):
        """Cinder has deleted the snapshot; a volume needs it still."""
        self.tell(self.there, 'failed_over')
        copy = self.there.volumes.find(COPY)
        taken = self.there.snapshots.create('cs-1', copy)
        self.there.snapshots.create_view('cv-2', taken)
        self.there.hidden.keep(copy.group, hidden.Marks(
            snapshots=frozenset({taken.snapshot})))
        before = leftovers(self.a), leftovers(self.b), self.halves()
        error = self.assertRaises(exceptions.ObjectInUse, self.unprotect)
        self.assertIn('cv-2. Delete them first, and what was made from them',
                      str(error))
        self.assertEqual(before, (leftovers(self.a), leftovers(self.b),
                                  self.halves()))

    @ddt.data('here', 'there')
    def test_a_view_of_what_replication_took(self, place):
        """SNP-9: it would hold the snapshot when the session is gone."""
        self.view(getattr(self, place),
                  GROUP if place == 'here' else COPY_GROUP)
        before = leftovers(self.a), leftovers(self.b), self.halves()
        error = self.assertRaises(exceptions.ObjectInUse, self.unprotect)
        self.assertIn('has snapshots or views: ', str(error))
        self.assertIn(':look. Delete them first', str(error))
        self.assertEqual(before, (leftovers(self.a), leftovers(self.b),
                                  self.halves()))

    def test_snapshots_of_replication_go(self):
        """REP-13: a failback takes them, and may be cut short."""
        self.here.replication.take_snapshots(
            [self.here.replication.find(*NAMES)])
        self.wait()
        self.assertEqual(2, len(leftovers(self.b)['snapshots']))
        self.unprotect()
        self.assert_bare()

    def test_a_copy_that_is_mapped(self):
        self.tell(self.there, 'failed_over')
        self.map_copy()
        before = leftovers(self.a), leftovers(self.b)
        error = self.assertRaises(exceptions.StillMapped, self.unprotect)
        self.assertEqual(f'Volume {COPY}, the copy on the array at '
                         'b.example.org, is mapped to host h.', str(error))
        self.assertEqual(before, (leftovers(self.a), leftovers(self.b)))

    def test_a_mapping_that_nobody_needs(self):
        self.tell(self.there, 'failed_over')
        self.map_copy()
        self.unprotect(release=self.unmap)
        self.there.client.hosts.delete(
            self.there.client.hosts.find(name='h').id)
        self.assert_bare()

    def test_a_mapping_that_has_to_stay(self):
        self.tell(self.there, 'failed_over')
        self.map_copy()
        before = leftovers(self.a), leftovers(self.b), self.halves()
        release = mock.Mock()
        self.assertRaises(exceptions.StillMapped, self.unprotect,
                          release=release)
        release.assert_called_once_with(
            self.there, [self.there.volumes.find(COPY).volume])
        self.assertEqual(before, (leftovers(self.a), leftovers(self.b),
                                  self.halves()))

    def test_nothing_is_unmapped_for_what_stays(self):
        self.tell(self.there, 'failed_over')
        self.map_copy()
        self.there.snapshots.create('cs-1', self.there.volumes.find(COPY))
        release = mock.Mock()
        self.assertRaises(exceptions.ObjectInUse, self.unprotect,
                          release=release)
        release.assert_not_called()

    def unmap(self, array, volumes):
        for mapping in array.client.mappings.search():
            self.assertIn(mapping.volume.id, volumes)
            array.client.mappings.delete(mapping.id)

    def test_a_copy_that_is_mapped_in_between(self):
        self.tell(self.there, 'failed_over')
        look = replication._Copies.look

        def map_after(*args):
            copies = look(*args)
            self.map_copy()
            return copies

        with mock.patch.object(replication._Copies, 'look', map_after):
            self.assertRaises(exceptions.StillMapped, self.unprotect)
        self.assertEqual([COPY], leftovers(self.b)['volumes'])

    def map_copy(self):
        client = self.there.client
        host = client.hosts.create(name='h', type='Linux')
        client.mappings.create(
            host=host.ref, volume=client.volumes.find(name=COPY).ref)

    def test_a_view_that_comes_during_it(self):
        """SNP-13: somebody looks at the copy when nobody expects it."""
        look = replication._Copies.look

        def view_after(*args):
            copies = look(*args)
            self.view(self.there, COPY_GROUP)
            return copies

        with mock.patch.object(replication._Copies, 'look', view_after):
            error = self.assertRaises(exceptions.ReplicationError,
                                      self.unprotect)
        self.assertIn('b.example.org keeps snapshots', str(error))
        snapshots = self.there.client.snapshots
        snapshots.delete(snapshots.find(short_name='look').id)
        self.unprotect()
        self.assert_bare()

    def view(self, array, group):
        """Somebody makes a view of what replication took."""
        client = array.client
        taken = client.snapshots.search(volume_group=client.volume_groups.ref(
            array.volumes.find_group(group)))[0]
        client.snapshots.create(
            short_name='look', source=taken.ref, is_exposable=True,
            retention_policy=client.retention_policies.search()[0].ref)

    def test_others_are_left_alone(self):
        """What is in the copy's group, and has another name."""
        self.tell(self.here, 'suspended')
        self.tell(self.here, 'idle')
        for side in (self.here, self.there):
            side.replication.delete(side.replication.find(*NAMES).id)
        group = self.there.volumes.find_group(COPY_GROUP)
        self.there.volumes.create('theirs', GIB, group)
        self.unprotect()
        self.assertEqual({'volumes': ['theirs'],
                          'volume_groups': [COPY_GROUP]}, leftovers(self.b))

    @ddt.data('here', 'there')
    def test_the_peer_is_lost(self, source):
        self.tell_more(source)
        self.lose_peer()
        with self.assertLogs(replication.__name__, 'WARNING') as caught:
            self.unprotect()
        for word in ('b.example.org' if source == 'here' else
                     'a.example.org', *self.left(source)):
            self.assertIn(word, caught.output[0])
        self.assertEqual({'volume_groups', 'volumes'},
                         leftovers(self.here.sim).keys())
        self.assert_just(self.here)

    def tell_more(self, source):
        if source == 'there':
            self.tell(self.there, 'failed_over')
            self.swap()

    def left(self, source):
        return [f' {name if source == "there" else naming.peer(name)}'
                for name in (NAMES[0], VOLUME, GROUP)]

    def lose_peer(self):
        self.there.sim.control.cut_link()
        self.there.sim.control.add_fault(kind='reset', path='*')

    @ddt.data('here', 'there')
    def test_the_peer_is_known_to_be_lost(self, source):
        self.tell_more(source)
        self.lose_peer()
        self.trouble.plan()
        self.unprotect(reachable=False)
        self.assert_just(self.here)
        letter = 'a' if source == 'here' else 'b'
        self.assertEqual({letter}, {call[0] for call in self.trouble.calls})

    def test_the_peer_is_lost_in_between(self):
        for _ in self.each(self.unprotect, fault={
                'kind': 'status', 'status': 500}):
            self.unprotect()
            self.assert_bare()
            self.protect()

    @ddt.data('here', 'there')
    def test_what_a_lost_peer_kept_goes_later(self, source):
        self.tell_more(source)
        self.lose_peer()
        self.unprotect()
        self.there.sim.control.clear_faults()
        self.there.sim.control.mend_link()
        self.assertNotEqual({}, leftovers(self.there.sim))
        made, copy = (NAMES if source == 'here' else reversed(NAMES))
        replication.protect(replication.Order(
            self.link, made, self.group, GROUP, self.members))
        self.assert_replicated()
        self.unprotect()
        self.assert_bare()

    def test_what_a_lost_peer_kept_may_be_in_use(self):
        self.tell(self.there, 'failed_over')
        self.map_copy()
        self.unprotect(reachable=False)
        error = self.assertRaises(exceptions.StillMapped, self.protect)
        self.assertIn(f'Volume {COPY}, the copy on the array at '
                      'b.example.org, is mapped to host h', str(error))
        self.assertEqual([COPY], leftovers(self.b)['volumes'])
        self.assert_just(self.here)
        self.protect(release=self.unmap)
        self.there.client.hosts.delete(
            self.there.client.hosts.find(name='h').id)
        self.assert_replicated()

    def test_whether_it_has_ended(self):
        self.assertFalse(self.has_ended(self.here))
        self.tell(self.there, 'failed_over')
        self.assertFalse(self.has_ended(self.here))
        self.tell(self.here, 'suspended')
        self.assertFalse(self.has_ended(self.here))
        self.tell(self.here, 'idle')
        self.assertTrue(self.has_ended(self.here))
        self.unprotect()
        self.assertTrue(self.has_ended(self.here))

    def has_ended(self, array):
        return replication.has_ended(array, NAMES, self.group)

    def test_what_fails_leaves_it_running_or_gone(self):
        for error in self.each(self.unprotect, fault=FORBIDDEN):
            self.assertIn(self.halves(), (
                [('in_sync', 'source'), ('in_sync', 'target')],
                [None, ('idle', 'target')], [('idle', 'source'), None],
                [None, None]))
            self.unprotect()
            self.protect()
            self.wait()


class States:
    """How a replication may be found. All but the first go through Tidy."""

    def running(self):
        self.write('mine')

    def suspended(self):
        self.tell(self.here, 'suspended')

    def stopped(self):
        self.suspended()
        self.tell(self.here, 'idle')

    def far_gone(self):
        self.stopped()
        self.drop(self.there)

    def near_gone(self):
        self.stopped()
        self.drop(self.here)

    def both_gone(self):
        self.far_gone()
        self.drop(self.here)

    def group_left(self):
        self.both_gone()
        group = self.there.volumes.find_group(COPY_GROUP)
        self.there.replication.delete_snapshots(group)
        self.there.volumes.delete(self.there.volumes.find_volume(COPY))

    def failed_over_there(self):
        """A failover was cut short before Cinder knew."""
        self.tell(self.there, 'failed_over')

    def stopped_there(self):
        self.failed_over_there()
        self.tell(self.there, 'idle')

    def taken_over(self):
        """After a failover."""
        self.tell(self.there, 'failed_over')
        self.swap()

    def taken_over_and_stopped(self):
        self.taken_over()
        self.tell(self.here, 'idle')

    def taken_over_all_stopped(self):
        self.taken_over_and_stopped()
        self.tell(self.there, 'idle')

    def taken_over_near_gone(self):
        self.taken_over_and_stopped()
        self.drop(self.here)

    def taken_over_far_gone(self):
        self.taken_over()
        self.tell(self.there, 'idle')
        self.drop(self.there)

    def taken_over_both_gone(self):
        self.taken_over_all_stopped()
        self.drop(self.here)
        self.drop(self.there)

    def reversed(self):
        """The other way round, as at the beginning of a failback."""
        self.taken_over()
        self.tell(self.here, 'in_sync')

    def reversed_suspended(self):
        self.reversed()
        self.tell(self.here, 'suspended')

    def going_back(self):
        """A failback was cut short before Cinder knew: here is a target."""
        self.reversed()
        self.tell(self.there, 'failed_over')

    def gone_back(self):
        self.going_back()
        self.tell(self.there, 'in_sync')

    def gone_back_suspended(self):
        self.gone_back()
        self.tell(self.there, 'suspended')


ALL_STATES = [name for name in vars(States) if name[0] != '_']


@ddt.ddt
class StatesTest(States, Tidy, PairTest):

    def drop(self, array):
        """Delete a session, as somebody else might."""
        array.replication.delete(array.replication.find(*NAMES).id)

    @ddt.data(*ALL_STATES)
    def test_ends(self, state):
        getattr(self, state)()
        self.unprotect()
        self.assert_bare()

    @ddt.data(*ALL_STATES)
    def test_followers_take_their_time(self, state):
        """REP-8."""
        getattr(self, state)()
        for sim in (self.a, self.b):
            sim.control.set_switches(follow_seconds=5)
        self.unprotect()
        self.assert_bare()

    # On their ways they come through the other ones.
    @ddt.data('running', 'failed_over_there', 'taken_over', 'reversed',
              'going_back', 'gone_back')
    def test_killed_at_each_call(self, state):
        done = 0
        while True:
            getattr(self, state)()
            self.trouble.plan(done + 1, kill='after')
            with contextlib.suppress(Killed):
                self.unprotect()
            came = self.trouble.came
            self.clear_faults()
            self.unprotect()
            self.assert_bare()
            if not came:
                break
            self.build()
            done += 1
        self.assertGreater(done, 3)


@ddt.ddt
class OwnPeerTest(PairTest):
    """REP-21: one array has both, and Cinder's may be the copy."""

    def build(self):
        super().build()
        simulator.connect(self.a)
        self.there = self.here
        self.link = dataclasses.replace(
            self.link, there=self.here, peer_address='a.example.org')

    def take_over(self):
        """Cinder has failed over to the copy."""
        session = self.here.replication.find(NAMES[1])
        self.here.replication.command(session.id, 'failed_over')
        self.swap()

    def assert_one(self, volume, group):
        found = leftovers(self.a)
        self.assertEqual(([volume], [group]), (
            found.pop('volumes'), found.pop('volume_groups')))
        self.assertEqual({}, found)

    @ddt.data(False, True)
    def test_ends(self, taken_over):
        self.protect()
        if taken_over:
            self.take_over()
        self.unprotect()
        self.assert_one(*((COPY, COPY_GROUP) if taken_over
                          else (VOLUME, GROUP)))

    @ddt.data(False, True)
    def test_killed_at_each_call(self, taken_over):
        for at in range(1, 16):
            self.build()
            self.protect()
            if taken_over:
                self.take_over()
            self.trouble.plan(at, kill='after')
            with contextlib.suppress(Killed):
                self.unprotect()
            self.trouble.kill = None
            self.unprotect()
            self.assert_one(*((COPY, COPY_GROUP) if taken_over
                              else (VOLUME, GROUP)))

    def test_the_copy_is_no_leftover(self):
        """Cinder has it; the original would be made again beside it."""
        self.protect()
        self.take_over()
        self.unprotect()
        self.assertRaises(rest.Refused, self.protect)
        self.assert_one(COPY, COPY_GROUP)

    def test_the_copy_is_in_the_way(self):
        self.protect()
        self.take_over()
        self.unprotect()
        error = self.assertRaises(
            rest.Refused, replication.protect, replication.Order(
                self.link, 'ssn-9', self.group, 'ccg-9', self.members))
        self.assertIn('peer_volumes', str(error))
        self.assert_one(COPY, COPY_GROUP)

    def test_extend(self):
        self.protect()
        self.extend()
        self.assertEqual([2, 2], [
            self.here.client.volumes.find(name=name).size // GIB
            for name in (VOLUME, COPY)])


@ddt.ddt
class ExtendTest(Tidy, PairTest):

    CALLS = ['a GET replication/sessions', 'b GET volumes',
             'a PATCH replication/sessions/*',
             'b GET replication/sessions/*', 'b PATCH volumes/*',
             'a PATCH volumes/*', 'a PATCH replication/sessions/*']

    def test_calls(self):
        self.extend()
        self.assertEqual(self.CALLS, self.trouble.calls)
        self.assert_replicated(2)

    @ddt.data('before', 'after')
    def test_killed_at_each_call(self, when):
        for _ in self.each(self.extend_more, kill=when):
            self.extend(self.gib)
            self.assert_replicated(self.gib)

    gib = 1

    def extend_more(self):
        self.gib += 1
        self.extend(self.gib)

    @ddt.data(*FAULTS)
    def test_trouble_at_each_call(self, fault):
        for error in self.each(self.extend_more, fault=FAULTS[fault]):
            if self.halves()[0] != ('in_sync', 'source'):
                self.assertIn('is not replicated until it is extended',
                              str(error))
            else:
                self.assert_replicated(self.gib - bool(error))
            self.extend(self.gib)
            self.assert_replicated(self.gib)

    @ddt.data('b', 'a')
    def test_an_array_that_wants_it_idle(self, letter):
        """VOL-4 to the letter, on either array."""
        getattr(self, letter).control.set_switches(grow_suspended=False)
        for _ in self.each(self.extend_more, kill='after'):
            self.extend(self.gib)
            self.assert_replicated(self.gib)

    def test_the_copy_cannot_grow(self):
        """Nothing has changed then."""
        self.there.client.volume_groups.update(
            self.there.volumes.find_group(COPY_GROUP), quota=GIB)
        self.assertRaises(rest.Refused, self.extend)
        self.assert_replicated(1)

    def test_the_volume_cannot_grow(self):
        self.here.client.volume_groups.update(self.group, quota=GIB)
        error = self.assertRaises(exceptions.ReplicationError, self.extend)
        self.assertIn(f'Volume {VOLUME} is not replicated until it is '
                      f'extended to {2 * GIB} KiB', str(error))
        self.assertIn('a.example.org is idle', str(error))
        self.assertEqual([1, 2], self.sizes())
        self.here.client.volume_groups.update(self.group, quota=0)
        self.extend()
        self.assert_replicated(2)

    def test_the_peer_is_lost(self):
        self.b.control.add_fault(kind='reset', path='*')
        self.assertRaises(rest.Unreachable, self.extend)
        self.clear_faults()
        self.assert_replicated(1)

    def test_the_copy_is_missing(self):
        with mock.patch.object(self.there.volumes, 'find_volume',
                               lambda name: None):
            error = self.assertRaises(exceptions.ReplicationError,
                                      self.extend)
        self.assertIn(COPY, str(error))
        self.assert_replicated(1)

    def test_suspended(self):
        """By an extension that was cut short, for example."""
        self.tell(self.here, 'suspended')
        self.extend()
        self.assert_replicated(2)

    def test_without_a_session(self):
        self.unprotect()
        self.extend()
        self.assertEqual(
            2 * GIB, self.here.volumes.size(self.members[0].volume))

    @ddt.data(True, False)
    def test_after_a_failover(self, reachable):
        self.tell(self.there, 'failed_over')
        self.swap()
        if not reachable:
            self.a.control.add_fault(kind='reset', path='*')
        self.extend()
        self.clear_faults()
        self.assertEqual([2, 2 if reachable else 1], self.sizes())
        self.assertEqual([('failed_over', 'target'),
                          ('suspended', 'source')], self.halves())

    @ddt.data('failed over', 'the other way')
    def test_not_to_a_peer_that_took_over(self, how):
        """A failover that was cut short: nothing is copied over it."""
        self.tell(self.there, 'failed_over')
        if how == 'the other way':
            self.tell(self.there, 'in_sync')
        before = self.halves()
        error = self.assertRaises(exceptions.ReplicationError, self.extend)
        self.assertIn(f'{before[0][0]} as {before[0][1]} on the array at '
                      f'a.example.org and {before[1][0]} as', str(error))
        self.assertEqual((before, [1, 1]), (self.halves(), self.sizes()))


def leftovers(sim):
    """Names of all that is on an array, by resource."""
    return {kind: sorted(str(o.get('short_name') or o.get('name')
                             or o['id']) for o in objects)
            for kind, objects in sim.control.leftovers().items()}
