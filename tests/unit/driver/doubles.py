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

"""Test doubles for the collaborators of the driver's classes.

Each accepts the calls of the class that it replaces, with their arguments, and
no others. All calls of a test are recorded in one log, in order.
"""

import contextlib
import functools
import inspect
import unittest
from unittest import mock

from cinder_k2.array import deferred_deletion
from cinder_k2.array import groups
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

SYSTEM = 'sys'

PARTS = {
    'mappings': mappings.Mappings, 'groups': groups.Groups,
    'deferred': deferred_deletion.DeferredDeletion,
    'identity': identity.Identity,
    'inventory': inventory.Inventory, 'names': names.Names,
    'original_names': original_names.OriginalNames,
    'replication': replication.Replication,
    'snapshots': snapshots.Snapshots, 'system': system.System,
    'volumes': volumes.Volumes}


class Row:
    """A database row with the given fields."""

    def __init__(self, **fields):
        self.__dict__.update(fields)

    def __repr__(self):
        return f'<row {self.id}>'


def a_volume(id='v1', **more):
    """Return a row of a detached volume without a type."""
    return Row(**{
        'id': id, 'name_id': id, 'name': f'volume-{id}', 'size': 1,
        'status': 'available', 'provider_id': None, 'launched_at': 'then',
        'group_id': None, 'group': None, 'snapshot_id': None,
        'volume_type': None, 'volume_type_id': None,
        'replication_status': None, 'migration_status': None,
        'volume_attachment': [], **more})


def a_snapshot(id='s1', **more):
    """Return a row of a snapshot."""
    return Row(**{
        'id': id, 'name': f'snapshot-{id}', 'provider_id': None,
        'created_at': None, 'group_snapshot_id': None, 'volume_id': 'v1',
        'volume_size': 1, **more})


class ArrayDouble:
    """An array whose parts are created on first access."""

    address = '198.51.100.7'

    def __init__(self, case, name='array', system_id=SYSTEM):
        self._case, self._name, self._system_id = case, name, system_id

    def __getattr__(self, name):
        if name not in PARTS:
            raise AttributeError(name)
        part = self._case.double(f'{self._name}.{name}', PARTS[name])
        if name == 'system':
            part.id = part.known_id = self._system_id
        setattr(self, name, part)
        return part

    @staticmethod
    def shown(find):
        """Search once."""
        return find()

    @contextlib.contextmanager
    def deadline(self, *, fresh=False):
        """Record that a deadline starts."""
        self._case.log.deadline(fresh=fresh)
        yield

    @contextlib.contextmanager
    def cleanup_deadline(self):
        """Record that a cleanup deadline starts."""
        self._case.log.cleanup_deadline()
        yield

    @staticmethod
    def concurrently(first, second):
        """Run two reads, one after the other."""
        return first(), second()


class Call:
    """A double of a function that checks the arguments of each call.

    It replaces unittest.mock's autospecced mocks, which need milliseconds
    each.

    :ivar return_value: what it returns
    :ivar side_effect: an exception to raise, a list with one result (or
        exception to raise) per call, or a function to call
    """

    def __init__(self, log, name, signature=None):
        self._log, self._signature = log, signature
        self._named = functools.reduce(getattr, name.split('.'), mock.call)
        self.return_value = None
        self.side_effect = None
        self.call_args_list = []

    def __call__(self, *args, **kwargs):
        if self._signature is not None:
            self._signature.bind(*args, **kwargs)
        self._log.mock_calls.append(self._named(*args, **kwargs))
        self.call_args_list.append(mock.call(*args, **kwargs))
        effect = self.side_effect
        if isinstance(effect, list):
            effect = effect[self.call_count - 1]
        elif callable(effect) and not isinstance(effect, type):
            return effect(*args, **kwargs)
        elif effect is None:
            return self.return_value
        if isinstance(effect, BaseException) or isinstance(effect, type):
            raise effect
        return effect

    @property
    def call_args(self):
        """The arguments of the last call."""
        return self.call_args_list[-1]

    @property
    def call_count(self):
        """The number of calls."""
        return len(self.call_args_list)

    def assert_called_once_with(self, *args, **kwargs):
        """Assert that there was one call, with these arguments."""
        found = self.call_args_list
        assert found == [mock.call(*args, **kwargs)], found


class Log:
    """The calls of a test; any attribute is a function that is recorded."""

    def __init__(self):
        self.mock_calls = []

    def __getattr__(self, name):
        return Call(self, name)


class Double:
    """A double of an instance, which records its calls in a log."""

    def __init__(self, log, name, spec):
        self._log, self._name, self._spec = log, name, spec

    def __getattr__(self, name):
        found = inspect.getattr_static(self._spec, name)
        if isinstance(found, property):
            raise AttributeError(f'no test said what {name} is')
        made = Call(self._log, f'{self._name}.{name}',
                    _signature(found.__get__(self, self._spec)))
        setattr(self, name, made)
        return made


@functools.cache
def _of_function(function):
    return inspect.signature(function)


def _signature(function):
    """Return the parameters of a function or bound method, without self."""
    if not inspect.ismethod(function):
        return _of_function(function)
    whole = _of_function(function.__func__)
    return whole.replace(parameters=list(whole.parameters.values())[1:])


class TestCase(unittest.TestCase):
    """A test with a log of calls, and locks that are only recorded."""

    def setUp(self):
        super().setUp()
        self.log = Log()
        self.array = ArrayDouble(self)
        self._record_locks()

    def double(self, name, spec):
        """Return a double of an instance; its calls are logged as name.x."""
        return Double(self.log, name, spec)

    def function(self, module, name, label=None):
        """Replace a function by a double, and return the double."""
        made = Call(self.log, label or name,
                    _signature(_original(module, name)))
        self.replace(module, name, made)
        return made

    def replace(self, target, name, new):
        """Replace an attribute during this test."""
        patcher = mock.patch.object(target, name, new)
        patcher.start()
        self.addCleanup(patcher.stop)

    def raised(self, expected, function, *args, **kwargs):
        """Return the exception of this class that a call raises."""
        with self.assertRaises(expected) as caught:
            function(*args, **kwargs)
        return caught.exception

    def calls(self, *names):
        """Return all calls in order, or only those of the named doubles."""
        return [each for each in self.log.mock_calls if not names or any(
            f'{each[0]}.'.startswith(f'{name}.') for name in names)]

    @contextlib.contextmanager
    def held(self, volume, timeout=None):
        """Stand in for ``Resolver.held``: record when the hold is released."""
        try:
            yield
        finally:
            self.log.released(volume)

    def _record_locks(self):
        @contextlib.contextmanager
        def group(system_id, group_id):
            assert system_id == SYSTEM
            self.log.hold(group_id)
            try:
                yield
            finally:
                self.log.free(group_id)

        @contextlib.contextmanager
        def group_on(array, group_id):
            assert array is self.array
            with group(SYSTEM, group_id):
                yield

        self.replace(locks, 'group', group)
        self.replace(locks, 'group_on', group_on)
        self.function(locks, 'forget_group')


@functools.cache
def _original(module, name):
    """Return a function as it was before any test replaced it."""
    return getattr(module, name)
