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

"""The drivers against Cinder's own description of a driver.

Cinder's compliance test passes any class on Python 3, so the signatures
are compared here.
"""

import inspect
import unittest

from cinder import interface
from cinder.interface import volume_driver
from cinder.volume import driver as cinder_driver
import ddt
from oslo_config import cfg

from cinder_k2 import driver
from cinder_k2 import options

DRIVERS = (driver.K2ISCSIDriver, driver.K2FCDriver)
CORE = [name for name, member in vars(volume_driver.VolumeDriverCore).items()
        if inspect.isfunction(member)
        and inspect.isfunction(getattr(cinder_driver.VolumeDriver, name))]

# What Cinder's base class would refuse or do in a way of its own.
OURS = ('create_volume', 'delete_volume', 'extend_volume', 'create_snapshot',
        'delete_snapshot', 'create_volume_from_snapshot',
        'create_cloned_volume', 'initialize_connection',
        'terminate_connection', 'validate_connector', 'ensure_export',
        'create_export', 'remove_export', 'check_for_setup_error',
        'do_setup', 'get_driver_options', '_update_volume_stats',
        'clean_volume_file_locks')


@ddt.ddt
class InterfaceTest(unittest.TestCase):

    @ddt.data(*DRIVERS)
    def test_cinder_finds_the_driver(self, cls):
        self.assertIn(cls, interface._volume_register)
        self.assertTrue(cls.SUPPORTED)
        self.assertRegex(cls.VERSION, r'^\d+\.\d+\.\d+$')
        self.assertTrue(cls.CI_WIKI_NAME)
        self.assertIn(cls.VERSION, cls.__doc__)

    @ddt.data(*CORE)
    def test_every_core_method_takes_what_cinder_gives(self, name):
        asked = inspect.signature(getattr(volume_driver.VolumeDriverCore,
                                          name)).parameters
        for cls in DRIVERS:
            given = inspect.signature(getattr(cls, name))
            # Nobody passes initiator_data any more.
            given.bind(*[None for parameter in asked
                         if parameter != 'initiator_data'])

    @ddt.data(*OURS)
    def test_the_driver_brings_its_own(self, name):
        for cls in DRIVERS:
            owner = next(c for c in cls.__mro__ if name in vars(c))
            self.assertTrue(owner.__module__.startswith('cinder_k2.'),
                            f'{name} comes from {owner}')

    @ddt.data(*DRIVERS)
    def test_detach_takes_what_the_manager_adds(self, cls):
        inspect.signature(cls.terminate_connection).bind(
            None, None, None, force=True)

    @ddt.data(*DRIVERS)
    def test_driver_options_are_complete(self, cls):
        found = cls.get_driver_options()
        self.assertTrue(all(isinstance(o, cfg.Opt) for o in found))
        names = {o.name for o in found}
        self.assertLessEqual(
            {o.name for o in options.k2_opts + options.shared_opts}
            | {'san_ip', 'san_login', 'san_password', 'san_api_port',
               'driver_ssl_cert_verify', 'driver_ssl_cert_path'}, names)

    @ddt.data(*DRIVERS)
    def test_is_a_full_volume_driver(self, cls):
        self.assertTrue(issubclass(cls, cinder_driver.VolumeDriver))
        self.assertFalse(getattr(cls, '__abstractmethods__', None))
