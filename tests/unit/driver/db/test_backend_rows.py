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

from unittest import mock

from cinder import context
import ddt

from cinder_k2.driver.db import backend_rows
from tests.unit.driver import doubles


@ddt.ddt
class BackendRowsTest(doubles.TestCase):

    def setUp(self):
        super().setUp()
        self.objects = mock.Mock()
        self.replace(backend_rows, 'objects', self.objects)
        admin = mock.patch.object(context, 'get_admin_context',
                                  return_value='admin', autospec=True)
        admin.start()
        self.addCleanup(admin.stop)
        self.driver = mock.Mock(host='host@k2', cluster_name=None)
        self.rows = backend_rows.BackendRows(self.driver)
        self.set_status('enabled')

    def set_status(self, status):
        """Set the replication status of the service and the cluster."""
        self.service = self.objects.Service.get_by_args
        self.cluster = self.objects.Cluster.get_by_id
        for read in (self.service, self.cluster):
            read.return_value.replication_status = status

    @ddt.data(('failing-over', True), ('failed-over', False),
              ('enabled', False), (None, False))
    @ddt.unpack
    def test_failover_of_a_service(self, status, expected):
        self.set_status(status)
        self.assertIs(expected, self.rows.is_failing_over())
        self.service.assert_called_once_with(
            'admin', 'host@k2', 'cinder-volume')
        self.assertFalse(self.cluster.called)

    @ddt.data(('failing-over', True), ('enabled', False))
    @ddt.unpack
    def test_failover_of_a_cluster(self, status, expected):
        self.driver.cluster_name = 'cluster@k2'
        self.set_status(status)
        self.assertIs(expected, self.rows.is_failing_over())
        self.cluster.assert_called_once_with(
            'admin', None, name='cluster@k2', binary='cinder-volume')
        self.assertFalse(self.service.called)

    @ddt.data((None, 'failing-over', False), ('g', 'failing-over', True),
              ('g', 'enabled', False))
    @ddt.unpack
    def test_failover_of_a_group(self, group_id, status, expected):
        """A volume without group_id may have a stale group."""
        self.assertIs(expected, self.rows.is_moving(doubles.a_volume(
            group_id=group_id,
            group=doubles.Row(replication_status=status))))

    def test_volumes_move_with_the_back_end(self):
        self.set_status('failing-over')
        self.assertIs(True, self.rows.is_moving(doubles.a_volume()))

    @ddt.data((None, {'host': 'host@k2'}),
              ('cluster@k2', {'cluster_name': 'cluster@k2'}))
    @ddt.unpack
    def test_volumes_of_the_back_end(self, cluster, expected):
        self.driver.cluster_name = cluster
        read = self.objects.VolumeList.get_all
        read.return_value = ('a', 'b')
        self.assertEqual(['a', 'b'], self.rows.volumes({'status': 'x'}))
        read.assert_called_once_with(
            'admin', filters={**expected, 'status': 'x'})
