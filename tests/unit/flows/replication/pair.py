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

"""Two simulated arrays, with faults at any call."""

import contextlib
import dataclasses
import itertools
import re
from unittest import mock

from oslotest import base

from cinder_k2 import array
from cinder_k2 import exceptions
from cinder_k2.flows import replication
from cinder_k2 import naming
from cinder_k2 import rest
import k2_sim
from tests import offered
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
# Lasts until the driver gives up.
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
# One of each kind: refused, carried out, unknown. The other faults are tested
# in tests/integration.
TYPICAL = ('refused', 'forbidden', 'lost reply', 'never a reply')
ERRORS = (rest.RestError, exceptions.K2Error)


class Killed(BaseException):
    """The service is killed: this is not handled."""


class Wire(k2_sim.RequestsAdapter):
    """Counts the calls to both arrays, and causes the planned trouble."""

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
    """A fault or a kill at the call number ``at`` to either array.

    :ivar fault: fault rule for the array; similar calls may match it, too
    :ivar kill: whether the service is killed "before" or "after" the call
    :ivar calls: the calls so far, each with the letter of its array
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
    """A volume on one of two connected arrays."""

    def setUp(self):
        super().setUp()
        self.build()

    def build(self):
        """Create arrays, groups and volumes anew."""
        self.clock = k2_sim.FakeClock()
        self.trouble = Trouble()
        self.a, self.b = (
            k2_sim.Array(clock=self.clock, name=name,
                         behaviors={'grow_suspended': True})
            for name in 'ab')
        for sim in (self.a, self.b):
            self.addCleanup(sim.close)
        k2_sim.connect(self.a, self.b)
        self.here = self.make_array(self.a, 'a')
        self.there = self.make_array(self.b, 'b')
        self.link = replication.Link(
            source_array=self.here, target_array=self.there,
            peer_address='b.example.org',
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
                          password='admin', deadline=20),
            adapter=Wire(sim, letter, self.trouble), clock=self.clock)
        self.addCleanup(client.close)
        for capability in offered.names('sdp'):
            client.capabilities.found(capability)
        made = array.Array(client, 'Best_Effort_Retention')
        made.client, made.sim = client, sim
        return made

    # Actions

    def protect(self, release=None):
        replication.protect(replication.SessionRequest(
            self.link, NAMES[0], self.group, GROUP, self.members), release)

    def unprotect(self, reachable=True, release=None):
        replication.unprotect(
            self.here, self.link if reachable else None, NAMES,
            group=self.group, group_name=GROUP,
            volume_names=[member.name for member in self.members],
            release=release)

    def write(self, token):
        """Write to the first volume, as a host would."""
        self.here.sim.control.write(self.members[0].volume, token)

    def extend(self, gib=2):
        replication.extend(
            self.here, self.link, NAMES, group=self.group,
            member=dataclasses.replace(self.members[0], size=gib * GIB))

    def wait(self):
        """Wait until the initial copy, and some more, has arrived."""
        self.clock.advance(3600)
        self.a.control.tick()

    def swap(self):
        """As after a failover, use the volumes on the other array."""
        self.here, self.there = self.there, self.here
        self.link = dataclasses.replace(
            self.link, source_array=self.here, target_array=self.there,
            peer_address=self.there.address)
        found = self.here.replication.volumes_of(
            [naming.peer(member.name) for member in self.members])
        self.members = [dataclasses.replace(
            member, volume=found[naming.peer(member.name)][0])
            for member in self.members]
        self.group = found[COPY][1]

    def tell(self, array, state):
        """Send a command to a session, as an administrator might."""
        found = array.replication.find(*NAMES)
        array.replication.command(found.id, state)

    # Results

    def sessions(self):
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
        """Replication runs, and nothing else is on the arrays."""
        self.assertEqual([('in_sync', 'source'), ('in_sync', 'target')],
                         self.sessions())
        self.assertEqual([gib, gib], self.sizes())
        self.assert_just(self.here)
        self.assert_just(self.there)

    def assert_bare(self):
        """There is only what was there before replication."""
        self.assertEqual({}, leftovers(self.there.sim))
        self.assert_just(self.here)
        self.assertEqual({'volume_groups', 'volumes'},
                         leftovers(self.here.sim).keys())
        for member in self.members:
            self.assertFalse(
                self.here.client.volumes.get(member.volume).read_only)

    def assert_just(self, array):
        """Assert that there is one group, with all volumes and their data."""
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
        """Repeat the action, with trouble at each of its calls in turn.

        :returns: what it raised each time; the caller cleans up
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

    def protect_with(self, fault):
        """Protect with this fault at each call; expect all or nothing."""
        for error in self.each(self.protect, fault=FAULTS[fault]):
            if error:
                self.assert_bare()
            else:
                self.assert_replicated()
                self.unprotect()

    def clear_faults(self):
        self.trouble.plan()
        for sim in (self.a, self.b):
            sim.control.clear_faults()


class Tidy:
    """Mixin of tests that begin with a replicated volume."""

    def build(self):
        super().build()
        self.protect()
        self.wait()
        self.trouble.plan()


def leftovers(sim):
    """Names of all objects on an array, by resource."""
    return {kind: sorted(str(o.get('short_name') or o.get('name')
                             or o['id']) for o in objects)
            for kind, objects in sim.control.leftovers().items()}


@contextlib.contextmanager
def without(kind, field):
    """Leave a field out of each object of a kind that is read."""
    def read(cls, data, *args):
        return rest.records.Record.from_json.__func__(
            cls, {name: data[name] for name in data if name != field}, *args)

    with mock.patch.object(getattr(rest, kind), 'from_json',
                           classmethod(read)):
        yield
