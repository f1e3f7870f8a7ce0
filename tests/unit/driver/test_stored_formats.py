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

"""Values stored by earlier versions stay readable.

These are copies of stored values. Do not change them with the code: they exist
in databases and on arrays.
"""

import dataclasses
import json
import pathlib
import tempfile
import unittest
from unittest import mock

import ddt

from cinder_k2.array import ArraySnapshot
from cinder_k2.array import ArrayVolume
from cinder_k2.array import deferred_deletion
from cinder_k2.array import description_tags
from cinder_k2.driver.db import chap_secrets
from cinder_k2.driver.db import provider_id
from cinder_k2 import naming
from cinder_k2.rest import verdicts

ID = '11111111-aaaa-4aaa-8aaa-111111111111'
THIN_CLONE = (
    '{"system":"s1","group":1,"volume":2,"parent":3,"parent_group":4,'
    '"hidden_parent":true,"has_clones":true,"shared":true,"moving":true,'
    '"replicated":true,"reserved":true,"target":"s2","of":"11111111"}')
VIEW = ('{"system":"s1","group":1,"view":2,"volsnap":3,"origin":4,'
        '"parent":5,"unfinished":true,"of":"11111111"}')
SNAPSHOT = ('{"system":"s1","snapshot":1,"group":2,"volume":3,"view":4,'
            '"has_clones":true,"shared":true,"named":"0a1b2c3d"}')


@ddt.ddt
class ProviderIdTest(unittest.TestCase):

    @ddt.data(
        (THIN_CLONE, ID, ArrayVolume(
            group=1, volume=2, parent=3, parent_group=4, hidden_parent=True,
            has_clones=True, shared=True, regrouping=True, replicated=True,
            failback_in_progress=True, target='s2')),
        (VIEW, ID, ArrayVolume(
            group=1, view=2, volsnap=3, origin=4, parent=5,
            flattening=True)),
        (SNAPSHOT, '', ArraySnapshot(
            snapshot=1, group=2, volume=3, view=4, has_clones=True,
            shared=True, named='0a1b2c3d')))
    @ddt.unpack
    def test_decode_and_encode(self, text, name_id, backing):
        self.assertEqual(backing, provider_id.decode(
            type(backing), 's1', text, name_id))
        self.assertEqual(text, provider_id.encode('s1', backing, name_id))

    def test_samples_contain_every_field(self):
        """Except the time and source, which come from the row."""
        for kind, texts, unseen in (
                (ArrayVolume, (THIN_CLONE, VIEW), set()),
                (ArraySnapshot, (SNAPSHOT,), {'since', 'source'})):
            read = [provider_id.decode(kind, 's1', text, ID)
                    for text in texts]
            self.assertEqual(unseen, {
                field.name for field in dataclasses.fields(kind)
                if all(getattr(one, field.name) == field.default
                       for one in read)})

    def test_queries_on_the_stored_text(self):
        self.assertEqual('s1', provider_id.system_of(VIEW))
        self.assertTrue(provider_id.is_replicated(THIN_CLONE))
        self.assertFalse(provider_id.is_replicated(VIEW))
        self.assertIn(provider_id.fragment('system', 's1'), VIEW)
        self.assertIn(provider_id.fragment('volume', 2), THIN_CLONE)


class DescriptionsTest(unittest.TestCase):
    """Tags in descriptions on the array."""

    def test_deferred_deletion_tag(self):
        text = 'of a user [cinder deleted: v5 v6 s7 s8=0a1b2c3d g9]'
        marks = deferred_deletion.DeferredIds.parse(
            description_tags.read(text, deferred_deletion.TAG))
        self.assertEqual(deferred_deletion.DeferredIds(
            volumes=frozenset({5, 6}), snapshots=frozenset({7, 8}),
            source_groups=frozenset({9}), digests=frozenset({(8,
                                                              '0a1b2c3d')})),
                         marks)
        self.assertEqual(text, description_tags.write('of a user',
                                                      deferred_deletion.TAG,
                                                      str(marks)))

    def test_original_name_tag(self):
        self.assertEqual('was mine', description_tags.read(
            'text [cinder original name: was mine]', 'original name'))


class NamesTest(unittest.TestCase):
    """Names of objects on the array, including the in-tree driver's."""

    def test_object_names(self):
        self.assertEqual(
            [f'{kind}-{ID}' for kind in (
                'cv', 'cvg', 'ccg', 'cs', 'cgs', 'ccs', 'cview', 'cnew',
                'ssn', 'rcv')],
            [naming.volume(ID), naming.volume_group(ID),
             naming.consistency_group(ID), naming.snapshot(ID),
             naming.group_snapshot(ID), naming.clone_source(ID),
             naming.temporary_view(ID), naming.unfinished_volume(ID),
             naming.session(ID), naming.peer(naming.volume(ID))])
        self.assertEqual('cdel-7', naming.kept_volume(7))

    def test_host_name(self):
        self.assertEqual('cinder-node-1-fe504b5b', naming.host(
            'node-1', ['iqn.2024-05.org.example:one']))

    def test_digest(self):
        self.assertEqual('2c26b46b', naming.digest('foo'))


class VerdictsTest(unittest.TestCase):
    """Capabilities of an array, cached below Cinder's state_path."""

    def test_read_file(self):
        with tempfile.TemporaryDirectory() as place:
            pathlib.Path(place, '10.0.0.1.json').write_text(json.dumps({
                'version': '6.0.5', 'verdicts': {
                    'lists:sort': {'state': 'works', 'words': '',
                                   'time': 1716000000.5},
                    'sequence': {'state': 'refused', 'words': '400: no',
                                 'time': 1716000001.0}}}))
            version, found = verdicts.File(place, '10.0.0.1').load()
        self.assertEqual('6.0.5', version)
        self.assertEqual({
            'lists:sort': verdicts.Verdict('works', '', 1716000000.5),
            'sequence': verdicts.Verdict('refused', '400: no',
                                         1716000001.0)}, found)


class ChapTest(unittest.TestCase):
    """Passwords in Cinder's driver_initiator_data table."""

    def test_find_password(self):
        database = mock.Mock()
        array = mock.Mock()
        array.system.id = 's1'
        database.driver_initiator_data_get.return_value = [
            {'key': 'chap_password', 'value': 'secret'}]
        self.assertEqual('secret', chap_secrets.Secrets(
            database, array).find('IQN.1'))
        _, initiator, namespace = (
            database.driver_initiator_data_get.call_args.args)
        self.assertEqual(('iqn.1', 'k2-s1'), (initiator, namespace))
