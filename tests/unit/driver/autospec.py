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

"""Fast autospecced doubles for the collaborators of the driver's classes.

They have the methods and signatures of what they replace, so an invalid call
raises. A ``Journal`` records the order of calls across several doubles, and
the locks and deadlines in force during these calls.
"""

import contextlib
import functools
import inspect
import types
from unittest import mock

from cinder_k2 import array as arrays
from cinder_k2.array import deferred_deletion
from cinder_k2.array import groups
from cinder_k2.array import hosts
from cinder_k2.array import identity
from cinder_k2.array import inventory
from cinder_k2.array import mappings
from cinder_k2.array import names
from cinder_k2.array import original_names
from cinder_k2.array import replication
from cinder_k2.array import snapshots
from cinder_k2.array import system
from cinder_k2.array import volumes
from cinder_k2.driver import locks
from cinder_k2.driver.operations import host_holds
from tests.unit.driver import rows

_PARTS = {
    'mappings': mappings.Mappings, 'fc_hosts': hosts.Hosts,
    'groups': groups.Groups, 'deferred': deferred_deletion.DeferredDeletion,
    'identity': identity.Identity, 'inventory': inventory.Inventory,
    'iscsi_hosts': hosts.Hosts, 'names': names.Names,
    'original_names': original_names.OriginalNames,
    'replication': replication.Replication,
    'snapshots': snapshots.Snapshots, 'volumes': volumes.Volumes}


class Journal:
    """Calls and context managers, in order.

    :ivar events: the name of each call; for a context manager, ``+name
        arguments`` on entry and ``-name`` on exit
    """

    def __init__(self):
        self.events = []

    def context(self, name, value=None):
        """Return a function whose context manager is recorded.

        :param value: the value bound by ``as``
        """
        @contextlib.contextmanager
        def entered(*args, **kwargs):
            self.events.append(' '.join([
                f'+{name}', *map(_text, args),
                *(f'{key}={_text(each)}' for key, each in kwargs.items())]))
            try:
                yield value
            finally:
                self.events.append(f'-{name}')
        return entered

    def record(self, double, name, effect=None):
        """Record the calls of a double and keep its return value.

        :param effect: an error to raise, or a function to call instead
        """
        def called(*args, **kwargs):
            self.events.append(name)
            if isinstance(effect, Exception):
                raise effect
            return effect(*args, **kwargs) if effect else mock.DEFAULT
        double.side_effect = called

    def recorded(self, name, values):
        """Return a function that returns these values in turn, recorded."""
        results = iter(values)

        def called(*args, **kwargs):
            self.events.append(name)
            return next(results)
        return called

    def record_locks(self, test):
        """Replace the functions of ``locks`` during a test."""
        for name in ('flattening', 'group', 'host', 'host_groups', 'mapping',
                     'snapshot'):
            patched(test, locks, name, side_effect=self.context(name))


class Function(mock.Mock):
    """A mock of a function, ten times as fast as create_autospec.

    A call with wrong arguments raises TypeError. Calls are recorded with
    positional arguments wherever the function accepts them.

    :param function: the function it replaces
    """

    def __init__(self, function, **how):
        super().__init__(**how)
        self._bind = _signature(function).bind

    def __call__(self, *args, **kwargs):
        bound = self._bind(*args, **kwargs)
        return super().__call__(*bound.args, **bound.kwargs)

    def _get_child_mock(self, **how):
        return mock.Mock(**how)


class Double:
    """A mock of a class, ten times as fast as create_autospec.

    Methods are created on first access. The test must set attributes that are
    not methods.

    :param kind: the class it replaces
    :param attributes: its attributes other than methods
    """

    def __init__(self, kind, **attributes):
        self.__dict__.update(attributes, _kind=kind)

    def __getattr__(self, name):
        found = inspect.getattr_static(self._kind, name)
        if isinstance(found, staticmethod):
            method = found.__func__
        elif inspect.isfunction(found):
            method = types.MethodType(found, self._kind)
        else:
            raise AttributeError(f'{self._kind.__name__}.{name} is not set')
        double = Function(method)
        setattr(self, name, double)
        return double


def patched(test, target, name, **how):
    """Replace a function during a test and return its double."""
    double = Function(getattr(target, name), **how)
    replace(test, target, name, double)
    return double


def replace(test, target, name, new):
    """Replace an attribute during a test."""
    patcher = mock.patch.object(target, name, new)
    patcher.start()
    test.addCleanup(patcher.stop)


def array(journal, *parts, system_id=rows.SYSTEM):
    """Return a double of an array with the named parts.

    Its deadlines are recorded. Concurrent reads run in the given order.
    """
    double = Double(arrays.Array)
    double.address = f'{system_id}.example.org'
    double.system = Double(system.System)
    double.system.id = double.system.known_id = system_id
    for part in parts:
        setattr(double, part, Double(_PARTS[part]))
    for name in ('deadline', 'probe_deadline', 'cleanup_deadline'):
        getattr(double, name).side_effect = journal.context(name)
    double.concurrently.side_effect = lambda first, second: (first(), second())
    return double


@functools.cache
def _signature(function):
    return inspect.signature(function)


def _text(value):
    if isinstance(value, host_holds.Subject):
        return value.name
    return ','.join(value) if isinstance(value, list) else str(value)
