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

"""Doubles of what the classes of the driver work with.

Each takes the calls of the class that it stands for, with its arguments, and
no others. All calls of a test are in one log, in order.
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
    """A row of Cinder's, with the fields that are given."""

    def __init__(self, **fields):
        self.__dict__.update(fields)

    def __repr__(self):
        return f'<row {self.id}>'


def a_volume(id='v1', **more):
    """A row of a detached volume without a type."""
    return Row(**{
        'id': id, 'name_id': id, 'name': f'volume-{id}', 'size': 1,
        'status': 'available', 'provider_id': None, 'launched_at': 'then',
        'group_id': None, 'group': None, 'snapshot_id': None,
        'volume_type': None, 'volume_type_id': None,
        'replication_status': None, 'migration_status': None,
        'volume_attachment': [], **more})


def a_snapshot(id='s1', **more):
    """A row of a snapshot."""
    return Row(**{
        'id': id, 'name': f'snapshot-{id}', 'provider_id': None,
        'created_at': None, 'group_snapshot_id': None, 'volume_id': 'v1',
        'volume_size': 1, **more})


class ArrayDouble:
    """An array; its parts are made when a test asks for them."""

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

    @contextlib.contextmanager
    def deadline(self, *, fresh=False):
        """Record that the time for the array begins."""
        self._case.log.deadline(fresh=fresh)
        yield

    @contextlib.contextmanager
    def cleanup_deadline(self):
        """Record that there is time for clearing up."""
        self._case.log.cleanup_deadline()
        yield

    @staticmethod
    def concurrently(first, second):
        """Carry out two reads."""
        return first(), second()


class Call:
    """A double of a function, which takes its arguments and no others.

    It is used as a mock. Those of unittest.mock that check arguments need
    milliseconds each.

    :ivar return_value: what it returns
    :ivar side_effect: an exception to raise, what to return call by call
        (exceptions are raised), or a function to call
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
        """How many calls there were."""
        return len(self.call_args_list)

    def assert_called_once_with(self, *args, **kwargs):
        """See that there was one call, with these arguments."""
        found = self.call_args_list
        assert found == [mock.call(*args, **kwargs)], found


class Log:
    """All calls of a test; what it has no double of is just recorded."""

    def __init__(self):
        self.mock_calls = []

    def __getattr__(self, name):
        return Call(self, name)


class Double:
    """An instance of a class, whose calls go to a log."""

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
    """The arguments of a function or bound method."""
    if not inspect.ismethod(function):
        return _of_function(function)
    whole = _of_function(function.__func__)
    return whole.replace(parameters=list(whole.parameters.values())[1:])


class TestCase(unittest.TestCase):
    """A test with a log of calls, and locks that only tell it."""

    def setUp(self):
        super().setUp()
        self.log = Log()
        self.array = ArrayDouble(self)
        self._record_locks()

    def double(self, name, spec):
        """A double of an instance; the log has its calls below a name."""
        return Double(self.log, name, spec)

    def function(self, module, name, label=None):
        """Put a double in place of a function."""
        made = Call(self.log, label or name,
                    _signature(_original(module, name)))
        self.replace(module, name, made)
        return made

    def replace(self, target, name, new):
        """Put something in place of an attribute, for this test."""
        patcher = mock.patch.object(target, name, new)
        patcher.start()
        self.addCleanup(patcher.stop)

    def raised(self, expected, function, *args, **kwargs):
        """What a call raises, which has to be of that class."""
        with self.assertRaises(expected) as caught:
            function(*args, **kwargs)
        return caught.exception

    def calls(self, *names):
        """Calls in order: all, or those of some doubles."""
        return [each for each in self.log.mock_calls if not names or any(
            f'{each[0]}.'.startswith(f'{name}.') for name in names)]

    @contextlib.contextmanager
    def held(self, volume, timeout=None):
        """For ``Resolver.held`` of a double: record when it is let go."""
        try:
            yield
        finally:
            self.log.let_go(volume)

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
    """A function as it was before any test."""
    return getattr(module, name)
