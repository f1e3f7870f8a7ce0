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

# Limit of one test; the longest takes two minutes on two idle processors.
TEST_SECONDS = 400
# Seconds before the limit at which the stacks of all threads are printed.
_TELL_SECONDS = 10
_SYSRQ = pathlib.Path('/proc/sysrq-trigger')
_FORMAT = '%(asctime)s %(threadName)s %(name)s %(levelname)s %(message)s'


@functools.cache
def array(letter):
    """Return the guest's array of that letter, started on first use."""
    transports.CURRENT.prepare()
    node.start()
    made = arrays.Array(letter)
    made.start()
    transports.CURRENT.connect(made)
    return made


@functools.cache
def authorities():
    """Return the path of a file with the CA certificates of both arrays."""
    path = node.OUT / 'authorities.crt'
    path.write_text(''.join(array(letter).authority.read_text()
                            for letter in 'ab'))
    return str(path)


@functools.cache
def cinder():
    """Return the guest's Cinder, started on first use."""
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
    """Return the back end with these options, started on first use."""
    served = array(letter)
    cinder()
    made = functional_backend.Backend(
        served.address, served.port, transports.CURRENT.protocol,
        **{**served.options(), **options})
    if not made.start():
        raise AssertionError('the back end does not start; see cinder.log')
    return made


class Attached:
    """A volume that is attached to this guest as a disk.

    :ivar path: the path of the device
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
        """Disconnect the disk and end the attachment, unless that was done."""
        if self._is_attached:
            self._is_attached = False
            self.disk.disconnect()
            self._backend.detach(self.row)


class Deadline(fixtures.Fixture):
    """Makes a test that hangs fail, after printing the stacks of its threads.

    The kernel then also logs the stacks of its blocked tasks.
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

    :cvar options: options of the back end
    :ivar array: the array that the back end is on
    :ivar other: a second host, whose disks os-brick does not see
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
        # Cinder's own host attaches without multipath.
        self.transport.have_multipath(False)
        self.other = self.transport.other(self.array)

    def use(self, letter, **options):
        """Return a back end, which is emptied when the test ends."""
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
        """Attach a volume to this guest; return it as ``Attached``."""
        found = Attached(place or self.backend, volume, multipath)
        self.addCleanup(found.detach)
        return found

    def attach_to_other(self, volume):
        """Attach a volume to the other host; return attachment and paths."""
        row = self.backend.attach(volume, self.other.connector())
        return row, self.other.paths(row.connection_info)

    # Bytes

    def fill(self, path, *places):
        """Write 1 MiB of a different pattern at each place, in MiB."""
        for place in places:
            disk.write(path, place * disk.MIB, disk.pattern(place))

    def assert_filled(self, path, *places):
        """Check that these places have what ``fill`` has written."""
        for place in places:
            self.assert_bytes(disk.pattern(place), path, place)

    def assert_bytes(self, expected, path, place):
        """Check that these bytes are at a place, in MiB."""
        found = disk.read(path, place * disk.MIB, len(expected))
        self.assertEqual(disk.checksum(expected), disk.checksum(found),
                         f'{path}, at {place} MiB: {found[:16]!r}')

    def assert_zeros(self, path, place):
        """Check that the MiB at a place, in MiB, is all zeros."""
        self.assert_bytes(bytes(disk.MIB), path, place)
