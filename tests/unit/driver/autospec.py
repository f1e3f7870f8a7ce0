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

"""Test doubles for the collaborators of a class of the driver.

They have the methods and signatures of what they replace, so a wrong call
raises. A ``Journal`` records the order of calls across several of them,
with the locks and deadlines that are in force meanwhile.
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
    """What happened, in order.

    :ivar events: a call is its name, a context that is entered has ``+``
        in front of it and its arguments behind it, one that is left ``-``
    """

    def __init__(self):
        self.events = []

    def context(self, name, value=None):
        """A function that returns a context manager which is recorded.

        :param value: what ``as`` gets
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
        """Record the calls of a double, which returns what it would.

        :param effect: an error to raise, or a function to call instead
        """
        def called(*args, **kwargs):
            self.events.append(name)
            if isinstance(effect, Exception):
                raise effect
            return effect(*args, **kwargs) if effect else mock.DEFAULT
        double.side_effect = called

    def recorded(self, name, values):
        """A function that returns these values, and records its calls."""
        results = iter(values)

        def called(*args, **kwargs):
            self.events.append(name)
            return next(results)
        return called

    def record_locks(self, test):
        """Replace Cinder's locks for the time of a test."""
        for name in ('flattening', 'group', 'hosts', 'host_groups',
                     'snapshot'):
            patched(test, locks, name, side_effect=self.context(name))


class Function(mock.Mock):
    """As create_autospec makes it of a function, in a tenth of the time.

    A call with wrong arguments raises TypeError. Calls are recorded with
    arguments by position wherever the function takes them so.

    :param function: what it stands for
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
    """As create_autospec makes it of a class, in a tenth of the time.

    A method is made when it is asked for first. Attributes that are no
    methods are to be set by the test.

    :param kind: the class that it stands for
    :param attributes: what it has besides methods
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
    """Replace a function for the time of a test; its double."""
    double = Function(getattr(target, name), **how)
    replace(test, target, name, double)
    return double


def replace(test, target, name, new):
    """Replace anything for the time of a test."""
    patcher = mock.patch.object(target, name, new)
    patcher.start()
    test.addCleanup(patcher.stop)


def array(journal, *parts, system_id=rows.SYSTEM):
    """An array with the parts of these names.

    Its deadlines are recorded; of two reads the first comes first.
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
    return ','.join(value) if isinstance(value, list) else str(value)
