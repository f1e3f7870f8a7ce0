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

"""Common parts of the tests in a guest: arrays, back ends, attached disks."""

import faulthandler
import functools
import logging
import pathlib
import threading

import fixtures
import testtools

from tests.functional import backend as functional_backend
from tests.functional import cinder_env
from tests.guest import arrays
from tests.guest import brick
from tests.guest import disk
from tests.guest import transports
from tools.guest import node

# For one test; the longest takes two minutes on two idle processors.
TEST_SECONDS = 400
# Before them: to tell where the test hangs.
_TELL_SECONDS = 10
_SYSRQ = pathlib.Path('/proc/sysrq-trigger')
_FORMAT = '%(asctime)s %(threadName)s %(name)s %(levelname)s %(message)s'


@functools.cache
def array(letter):
    """The guest's array, started on first use."""
    transports.CURRENT.prepare()
    node.start()
    made = arrays.Array(letter)
    made.start()
    transports.CURRENT.connect(made)
    return made


@functools.cache
def authorities():
    """A file with the certificates of both arrays."""
    path = node.OUT / 'authorities.crt'
    path.write_text(''.join(array(letter).authority.read_text()
                            for letter in 'ab'))
    return str(path)


@functools.cache
def cinder():
    """The guest's Cinder, started on first use."""
    logging.basicConfig(filename=node.OUT / 'cinder.log', format=_FORMAT,
                        level=logging.DEBUG, force=True)
    for noisy in ('sqlalchemy', 'oslo_db', 'stevedore',
                  'tests.functional.cinder_env._Pool'):
        logging.getLogger(noisy).setLevel(logging.WARNING)
    found = cinder_env.cinder()
    brick.install()
    return found


@functools.cache
def backend(letter='a', **options):
    """The guest's back end with these options, started likewise."""
    served = array(letter)
    cinder()
    made = functional_backend.Backend(
        served.address, served.port, transports.CURRENT.protocol,
        **{**served.options(), **options})
    if not made.start():
        raise AssertionError('the back end does not start; see cinder.log')
    return made


class Attached:
    """A volume that this guest's kernel has as a disk.

    :ivar path: of the device
    """

    def __init__(self, place, volume, multipath, instance=None):
        self._backend = place
        transports.CURRENT.have_multipath(multipath)
        self.row = place.attach(volume, brick.properties(multipath),
                                instance)
        self.disk = brick.Disk(dict(self.row.connection_info), multipath)
        self.path = self.disk.connect().path
        self._is_attached = True

    def detach(self):
        """Disconnect the disk, and end the attachment; once."""
        if self._is_attached:
            self._is_attached = False
            self.disk.disconnect()
            self._backend.detach(self.row)


class Deadline(fixtures.Fixture):
    """A test that hangs fails, and tells where its threads are.

    So does the kernel, of tasks that it does not let go.
    """

    def _setUp(self):
        timer = threading.Timer(TEST_SECONDS - _TELL_SECONDS, self._tell)
        timer.daemon = True
        timer.start()
        self.addCleanup(timer.cancel)
        self.useFixture(fixtures.Timeout(TEST_SECONDS, gentle=True))

    @staticmethod
    def _tell():
        faulthandler.dump_traceback()
        _SYSRQ.write_text('w')


class GuestTest(testtools.TestCase):
    """A test with a back end; nothing may be left when it ends.

    :cvar options: of the back end
    :ivar array: the array that the back end is on
    :ivar other: a host beside this guest, of which os-brick knows nothing
    """

    transport = transports.CURRENT
    letter = 'a'
    options = {}

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        if not node.is_guest():
            raise cls.skipException('runs in a guest: python -m tools.guest')

    def setUp(self):
        super().setUp()
        self.useFixture(Deadline())
        logging.info('== %s', self.id())
        self.used = []
        self.addCleanup(self._check_what_is_left)
        self.backend = self.use(self.letter, **self.options)
        self.array = array(self.letter)
        # Cinder's own host attaches without it.
        self.transport.have_multipath(False)
        self.other = self.transport.other(self.array)

    def use(self, letter, **options):
        """A back end, which is left clean when the test ends."""
        found = backend(letter, **options)
        self.used.append((found, array(letter)))
        return found

    def _check_what_is_left(self):
        for place, _ in self.used:
            place.delete_everything()
        self.transport.wait_for_the_end()
        node.wait_until(lambda: node.disks() == [], 'the end of disks')
        for _, served in self.used:
            self.assertEqual({}, served.leftovers())

    # Disks

    def attach(self, volume, multipath=False, place=None):
        """Give a volume to this guest's kernel."""
        found = Attached(place or self.backend, volume, multipath)
        self.addCleanup(found.detach)
        return found

    def attach_to_other(self, volume):
        """Give a volume to the other host; the attachment, and its paths."""
        row = self.backend.attach(volume, self.other.connector())
        return row, self.other.paths(row.connection_info)

    # Bytes

    def fill(self, path, *places):
        """Write a different pattern at each place, in MiB."""
        for place in places:
            disk.write(path, place * disk.MIB, disk.pattern(place))

    def assert_filled(self, path, *places):
        """What ``fill`` has written is there."""
        for place in places:
            self.assert_bytes(disk.pattern(place), path, place)

    def assert_bytes(self, expected, path, place):
        """These bytes are at a place, in MiB."""
        found = disk.read(path, place * disk.MIB, len(expected))
        self.assertEqual(disk.checksum(expected), disk.checksum(found),
                         f'{path}, at {place} MiB: {found[:16]!r}')

    def assert_zeros(self, path, place):
        """Nothing was written at a place, in MiB."""
        self.assert_bytes(bytes(disk.MIB), path, place)
