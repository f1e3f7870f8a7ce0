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

"""Translation of the driver's exceptions to Cinder's."""

import ddt
import testtools

from cinder import exception

from cinder_k2.driver import errors
from cinder_k2 import exceptions
from cinder_k2 import polling
from cinder_k2 import rest
from cinder_k2 import transport
from cinder_k2 import volume_types
from tests.unit.driver import replicated

LOG = errors.LOG.logger
BELOW = (rest.Refused('no'), exceptions.ConcurrentUpdate('busy'),
         polling.WaitTimeout('a session', 60))


@ddt.ddt
class TranslatedTest(testtools.TestCase):

    def raised(self, error, expected, edge=None):
        edge = edge or errors.translated
        with self.assertRaises(expected) as found, edge():
            raise error
        self.assertIs(expected, type(found.exception))
        if error is not found.exception:
            self.assertIs(error, found.exception.__cause__)
        return found.exception

    def test_connector_without_initiators(self):
        found = self.raised(transport.NoInitiators('wwpns'),
                            exception.InvalidConnectorException)
        self.assertEqual("Connector doesn't have required information: wwpns",
                         str(found))

    def test_invalid_extra_spec(self):
        found = self.raised(volume_types.InvalidExtraSpec('dedup is odd'),
                            exception.InvalidVolumeType)
        self.assertIn('dedup is odd', str(found))

    def test_unsupported_group(self):
        found = self.raised(exceptions.GroupNotSupported('full'),
                            exception.InvalidGroup)
        self.assertIn('full', str(found))

    @ddt.data(*BELOW)
    def test_other_errors_of_the_driver(self, error):
        found = self.raised(error, exception.VolumeBackendAPIException)
        self.assertIn(str(error), str(found))

    @ddt.data(KeyError('mistake'), exception.InvalidInput(reason='option'),
              ValueError('other'))
    def test_other_exceptions_are_not_translated(self, error):
        self.assertIs(error, self.raised(error, type(error)))

    def test_operation(self):
        """All calls of an operation share one deadline."""
        array = replicated.array()

        def edge():
            return errors.operation(array)
        with edge():
            self.assertEqual(['deadline'], array.inside)
        self.assertEqual([], array.inside)
        self.raised(BELOW[0], exception.VolumeBackendAPIException, edge)
        self.assertEqual([], array.inside)


@ddt.ddt
class StartupTest(testtools.TestCase):

    def start(self, outcome):
        @errors.reported_at_start
        def do_setup(context, *, more=None):
            """Set up."""
            if isinstance(outcome, Exception):
                raise outcome
            return outcome, context, more
        self.assertEqual('do_setup', do_setup.__name__)
        return do_setup('context', more='more')

    def test_successful_start(self):
        with self.assertNoLogs(LOG):
            self.assertEqual(('up', 'context', 'more'), self.start('up'))

    def test_invalid_option(self):
        wrong = exception.InvalidInput(reason='san_ip is missing')
        with self.assertLogs(LOG, 'ERROR') as logs:
            self.assertIs(wrong, self.assertRaises(
                exception.InvalidInput, self.start, wrong))
        text, = logs.output
        self.assertIn('The back end cannot start. ', text)
        self.assertIn('san_ip is missing', text)

    @ddt.data(*BELOW)
    def test_unusable_array(self, error):
        with self.assertLogs(LOG, 'ERROR') as logs:
            found = self.assertRaises(exception.VolumeBackendAPIException,
                                      self.start, error)
        self.assertIn(str(error), str(found))
        # Cinder logs the traceback: it must not include the HTTP library's.
        self.assertIsNone(found.__cause__)
        self.assertIsNone(found.__context__)
        text, = logs.output
        self.assertIn(str(error), text)

    def test_unexpected_error(self):
        with self.assertNoLogs(LOG):
            self.assertRaises(KeyError, self.start, KeyError('mistake'))


@ddt.ddt
class ManagingTest(testtools.TestCase):

    @ddt.data(
        (exceptions.AlreadyManaged('v1'),
         exception.ManageExistingAlreadyManaged, 'v1'),
        (exceptions.VolumeTypeMismatch('no dedup'),
         exception.ManageExistingVolumeTypeMismatch, 'no dedup'),
        (exceptions.NotManageable('it is mapped'),
         exception.ManageExistingInvalidReference, 'it is mapped'))
    @ddt.unpack
    def test_object_that_cannot_be_managed(self, error, expected, part):
        with self.assertLogs(LOG, 'ERROR') as logs, \
                self.assertRaises(expected) as found, \
                errors.managing('Volume v9', {'source-name': 'x'}):
            raise error
        self.assertIs(expected, type(found.exception))
        self.assertIs(error, found.exception.__cause__)
        self.assertIn(part, str(found.exception))
        text, = logs.output
        self.assertIn(f"Volume v9 cannot be managed, reference "
                      f"{{'source-name': 'x'}}: {error}", text)

    def test_message_contains_the_reference(self):
        with self.assertRaises(
                exception.ManageExistingInvalidReference) as found, \
                errors.managing('Volume v9', {'source-name': 'x'}):
            raise exceptions.NotManageable('it is mapped')
        self.assertIn("{'source-name': 'x'}", str(found.exception))

    def test_other_errors_are_not_translated(self):
        with self.assertNoLogs(LOG), self.assertRaises(rest.Refused), \
                errors.managing('Volume v9', {}):
            raise rest.Refused('no')

    def test_no_error(self):
        with self.assertNoLogs(LOG), errors.managing('Volume v9', {}):
            pass


class BusyTest(testtools.TestCase):

    def test_busy_volume(self):
        found = errors.busy_volume(
            exceptions.ObjectInUse('cv-v1', 'is mapped'), 'volume-v1')
        self.assertIs(exception.VolumeIsBusy, type(found))
        self.assertEqual('Volume volume-v1 cannot be deleted yet: cv-v1 is '
                         'mapped', str(found))

    def test_busy_snapshot(self):
        found = errors.busy_snapshot(
            exceptions.ObjectInUse('cs-s1', 'has clones'), 'snapshot-s1')
        self.assertIs(exception.SnapshotIsBusy, type(found))
        self.assertEqual('Snapshot snapshot-s1 cannot be deleted yet: cs-s1 '
                         'has clones', str(found))
