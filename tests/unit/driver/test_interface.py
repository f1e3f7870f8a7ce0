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

"""Compliance of the drivers with Cinder's driver interface.

Methods are compared with cinder.interface, with Cinder's base classes, and
with every call in Cinder's source.
"""

import functools
import importlib
import inspect
import pkgutil
import unittest

from cinder import interface
from cinder.interface import base as interface_base
from cinder.interface import volume_consistencygroup_driver
from cinder.interface import volume_driver
from cinder.volume import driver as cinder_driver
from cinder.volume.flows import manager as flows
from cinder.volume import manager
import ddt
from oslo_config import cfg

from cinder_k2 import driver
from cinder_k2 import options
from tests.unit.driver import signatures

DRIVERS = (driver.K2ISCSIDriver, driver.K2FCDriver)
CORE = volume_driver.VolumeDriverCore

# Replaced by the interface for generic groups: Cinder only calls these methods
# of a driver without create_group.
SUPERSEDED = {volume_consistencygroup_driver.VolumeConsistencyGroupDriver}

# Methods that must all be implemented, without a class in cinder.interface.
TOGETHER = {
    'attached snapshots': (
        'create_export_snapshot', 'remove_export_snapshot',
        'initialize_connection_snapshot', 'terminate_connection_snapshot',
        'backup_use_temp_snapshot'),
    'replication': ('failover_host', 'failover', 'failover_completed'),
    'replication of groups': (
        'enable_replication', 'disable_replication', 'failover_replication',
        'get_replication_error_status'),
}

# Methods whose implementation in Cinder's base class must be overridden.
OURS = ('create_volume', 'delete_volume', 'extend_volume', 'create_snapshot',
        'delete_snapshot', 'create_volume_from_snapshot',
        'create_cloned_volume', 'initialize_connection',
        'terminate_connection', 'validate_connector', 'ensure_export',
        'create_export', 'remove_export', 'check_for_setup_error',
        'do_setup', 'get_driver_options', '_update_volume_stats',
        '_init_vendor_properties', 'retype', 'migrate_volume',
        'update_migrated_volume', 'clean_volume_file_locks')


def volume_interfaces():
    """Return Cinder's interfaces for volume drivers except the core."""
    for module in pkgutil.iter_modules(interface.__path__):
        importlib.import_module(f'cinder.interface.{module.name}')
    waiting = interface_base.CinderInterface.__subclasses__()
    while waiting:
        cls = waiting.pop()
        waiting += cls.__subclasses__()
        if (cls.__module__.startswith('cinder.interface.volume_')
                and cls not in {CORE, *SUPERSEDED}):
            yield cls


INTERFACES = {cls.__name__: cls for cls in volume_interfaces()}


@functools.cache
def all_calls():
    """Return every call of a driver method in Cinder's source."""
    return sorted({
        *signatures.calls_in(manager, 'self.driver'),
        *[call for module in pkgutil.iter_modules(flows.__path__)
          for call in signatures.calls_in(importlib.import_module(
              f'{flows.__name__}.{module.name}'), 'self.driver', 'driver')],
        *[call for call in signatures.calls_in(cinder_driver, 'self')
          if hasattr(cinder_driver.VolumeDriver, call.method)],
    }, key=str)


def asked_by(asked):
    """Return the methods that an interface requires."""
    return [name for name in signatures.methods_of(asked)
            if not hasattr(interface_base.CinderInterface, name)]


def is_ours(cls, name):
    """Return whether this project implements a method of a driver."""
    return (hasattr(cls, name) and signatures.owner(cls, name)
            .__module__.startswith('cinder_k2.'))


def core_complaints(cls):
    """Return where a class violates the core; it may inherit methods."""
    result = []
    for name in asked_by(CORE):
        found = signatures.complaints(cls, CORE, name)
        if not found and signatures.refuses(cls, name):
            found = [f'{cls.__name__}.{name} only refuses']
        result += found
    return result


def optional_complaints(cls, asked):
    """Return where a class violates an interface that it must implement."""
    result = []
    for name in asked_by(asked):
        if not is_ours(cls, name):
            result.append(f'{cls.__name__} has no {name} of its own')
        result += signatures.complaints(cls, asked, name)
    return result


@ddt.ddt
class InterfaceTest(unittest.TestCase):

    @ddt.data(*DRIVERS)
    def test_core(self, cls):
        self.assertEqual([], core_complaints(cls))

    @ddt.data(*sorted(INTERFACES))
    def test_interface(self, name):
        for cls in DRIVERS:
            self.assertEqual([], optional_complaints(cls, INTERFACES[name]))

    @ddt.data(*sorted(TOGETHER))
    def test_methods_that_belong_together(self, name):
        for cls in DRIVERS:
            ours = [m for m in TOGETHER[name] if is_ours(cls, m)]
            self.assertCountEqual(TOGETHER[name], ours, cls)

    @ddt.data(*DRIVERS)
    def test_overridden_methods(self, cls):
        """Methods that we override keep their signature in Cinder."""
        names = [name for name in signatures.methods_of(
            cinder_driver.VolumeDriver) if is_ours(cls, name)]
        self.assertGreater(len(names), 15)
        self.assertEqual([], [text for name in names
                              for text in signatures.complaints(
                                  cls, cinder_driver.VolumeDriver, name)])

    @ddt.data(*DRIVERS)
    def test_calls(self, cls):
        """Our methods accept every call in Cinder's source."""
        ours = [call for call in all_calls() if is_ours(cls, call.method)]
        self.assertGreater(len({call.method for call in ours}), 15)
        self.assertEqual([], [call for call in ours
                              if not signatures.takes(cls, call)])

    @ddt.data(*OURS)
    def test_required_overrides(self, name):
        for cls in DRIVERS:
            self.assertTrue(is_ours(cls, name), cls)

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
    def test_is_a_concrete_volume_driver(self, cls):
        self.assertTrue(issubclass(cls, cinder_driver.VolumeDriver))
        self.assertFalse(inspect.isabstract(cls))


class Empty:
    """A class that Cinder's own check accepts as a driver."""


class Bare(cinder_driver.VolumeDriver):
    """A driver with only what it inherits from Cinder's base class."""


class Incompatible(Bare):
    """Methods with one error each in their signature."""

    def create_volume_from_snapshot(self, snapshot, volume):
        pass

    def extend_volume(self, volume):
        pass

    def delete_volume(self, volume, cascade):
        pass

    def get_volume_stats(self, refresh):
        pass

    def terminate_connection(self, volume, connector):
        pass

    def create_volume(self, *, volume):
        pass

    # This one is correct.

    def delete_snapshot(self, snapshot, force=False, **kwargs):
        pass


class ComparisonTest(unittest.TestCase):
    """The comparisons above detect violations."""

    def test_cinders_own_check_accepts_an_empty_class(self):
        self.assertTrue(issubclass(Empty, CORE))

    def test_empty_class(self):
        found = core_complaints(Empty)
        self.assertEqual(len(asked_by(CORE)), len(found))
        self.assertGreater(len(found), 10)
        for asked in INTERFACES.values():
            self.assertTrue(optional_complaints(Empty, asked))

    def test_class_with_inherited_methods_only(self):
        found = ' '.join(core_complaints(Bare))
        for name in ('create_volume', 'delete_snapshot',
                     'create_volume_from_snapshot', 'extend_volume'):
            self.assertIn(f'Bare.{name} only refuses', found)
        self.assertNotIn('clone_image', found)
        for asked in INTERFACES.values():
            self.assertTrue(optional_complaints(Bare, asked))

    def test_wrong_parameters(self):
        for name, what in {
                'create_volume_from_snapshot': 'elsewhere',
                'extend_volume': 'new_size is missing',
                'delete_volume': 'nobody passes cascade',
                'get_volume_stats': 'refresh has no default',
                'create_volume': 'volume stands elsewhere'}.items():
            found = signatures.complaints(Incompatible, CORE, name)
            self.assertIn(what, ' '.join(found), name)
        self.assertIn('kwargs is missing', ' '.join(signatures.complaints(
            Incompatible, cinder_driver.VolumeDriver, 'terminate_connection')))
        self.assertEqual([], signatures.complaints(Incompatible, CORE,
                                                   'delete_snapshot'))

    def test_calls_with_wrong_arguments(self):
        refused = {call.method for call in all_calls()
                   if not signatures.takes(Incompatible, call)}
        self.assertEqual(
            {'extend_volume', 'delete_volume', 'create_volume',
             'terminate_connection'}, refused)
        self.assertTrue(all(signatures.takes(Bare, c) for c in all_calls()))

    def test_interfaces_are_found(self):
        self.assertLessEqual(
            {'VolumeGroupDriver', 'VolumeManagementDriver',
             'VolumeListManageableDriver', 'VolumeSnapshotManagementDriver',
             'VolumeSnapshotRevertDriver'}, set(INTERFACES))
