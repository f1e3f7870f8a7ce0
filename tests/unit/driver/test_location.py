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

from cinder_k2.driver import location


@ddt.ddt
class LocationTest(unittest.TestCase):

    def test_info(self):
        self.assertEqual('K2:a1b2:iSCSI', location.info('a1b2', 'iSCSI'))

    @ddt.data(('K2:a1b2:iSCSI', 'a1b2'), ('K2:a1:b2:FC', 'a1:b2'),
              ('K2::FC', None), ('K2:a1b2', None), ('K2', None),
              ('LVM:a1b2:iSCSI', None), ('', None), (None, None), (5, None))
    @ddt.unpack
    def test_system_of(self, text, system):
        self.assertEqual(system, location.system_of(text))
