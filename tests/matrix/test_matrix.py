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

"""What works on an array that lacks one capability.

A script of operations runs twice: the driver learns in the first run, and in
the second its calls are counted and compared with those on an array that lacks
nothing. What the in-tree driver can do must work; anything else may be refused
with a message that names what the array lacks. Each test attaches its findings
to its result, for ``tools.capability_matrix``.
"""

import collections
from collections.abc import Callable
import json
import re
from typing import Any

import ddt
from testtools import content

from tests import arrays
from tests.functional import backend
from tests.functional import base
from tests.functional import disks
from tests.functional import learned
from tests.functional import replicated
from tests.matrix import rows

MIB = 1 << 20
# Parts of errors of the array, or of Cinder for dependent operations.
_REASONS = ('offer', 'HTTP', 'group_snapshot', 'existing snapshots')
Calls = collections.Counter[str]
_complete: dict[tuple[str, ...], dict[str, Calls]] = {}


def cases(script: str, protocol: str,
          profile: str = 'sdp') -> Callable[..., Any]:
    """Return a test for each row of a script and each kind of refusal."""
    def examine(test: 'MatrixTest', row: rows.Row, refusal: str) -> None:
        test.examine(row, refusal)

    found = []
    for row, refusal in rows.cases(script, protocol, profile):
        class Case(tuple):  # type: ignore[type-arg]
            __name__ = f'{row.name}_{refusal}'
        found.append(Case((row, refusal)))
    return ddt.data(*found)(ddt.unpack(examine))


class MatrixTest(base.FunctionalTest):
    """An array that lacks a capability, and a service that detects this."""

    profile = 'sdp'
    keeps_budgets = False
    has_learned = False
    script = 'volumes'
    # Operations of the in-tree driver; they must work.
    in_tree: frozenset[str] = frozenset()
    # Resources that may remain on an array that refuses to delete them.
    may_stay: tuple[str, ...] = ()

    def _shared(self, protocol: str, **options: Any) -> backend.Backend:
        learned.forget()
        return self.own(protocol, **options)

    def arrays(self) -> tuple[arrays.Served, ...]:
        """Return the arrays that lack the capability."""
        return (self.array,)

    def examine(self, row: rows.Row, refusal: str) -> None:
        """Run the script on an array that lacks a capability."""
        normal = self._normal()
        for array in self.arrays():
            behaviors = {'refuse_unlisted': refusal,
                         'refuse_only': list(row.features), **dict(row.more)}
            before = array.control.behaviors()
            self.addCleanup(array.control.set_behaviors, **{
                name: before[name] for name in behaviors})
            array.control.set_behaviors(**behaviors)
        learned.forget()
        self.own(self.protocol, **self.settings())
        outcomes = self._judged(normal)
        self.addDetail('matrix', content.text_content(json.dumps({
            'capability': row.name, 'script': self.script,
            'protocol': self.protocol, 'refusal': refusal,
            'outcomes': outcomes, 'left': self.stayed})))
        self.assertEqual({}, {
            name: text for name, text in outcomes.items()
            if text.startswith('refused') and name in self.in_tree})
        self.assertEqual([], [
            text for text in outcomes.values() if text.startswith('refused')
            and not any(word in text for word in _REASONS)])

    def settings(self) -> dict[str, Any]:
        """Options of each back end."""
        return self.options

    def _normal(self) -> dict[str, Calls]:
        """Return the calls by operation, on an array that lacks nothing."""
        key = (self.script, self.protocol, self.profile)
        if key not in _complete:
            self.own(self.protocol, **self.settings())
            self.run_script()
            _complete[key] = self.run_script()
            self.assertEqual(({}, {}), (self.errors, self.stayed))
        return _complete[key]

    def _judged(self, normal: dict[str, Calls]) -> dict[str, str]:
        self.run_script()
        first = self.errors
        found = self.run_script()
        return {name: self._verdict(name, normal, found, first)
                for name in normal}

    def _verdict(self, name: str, normal: dict[str, Calls],
                 found: dict[str, Calls], first: dict[str, str]) -> str:
        words = self.errors.get(name) or first.get(name)
        if words:
            return f'refused: {words}'
        if name not in found:
            return 'needs what was refused'
        if found[name] == normal[name]:
            return 'as fast'
        return f'{found[name].total()} calls, not {normal[name].total()}'

    # The script

    def run_script(self) -> dict[str, Calls]:
        """Run the script and clean up; return the calls by operation."""
        self.errors: dict[str, str] = {}
        self._done: dict[str, Calls] = {}
        self.operations()
        self.backend.delete_everything()
        self.stayed = {name: number for name, number in self.left().items()
                       if name in self.may_stay}
        for resource in self.stayed:
            for one in self.array.control.leftovers()[resource]:
                self.admin.delete(resource, one['id'])
        self.assertNothingLeft()
        return self._done

    def operations(self) -> None:
        """Run all operations, in an order that works."""
        raise NotImplementedError

    def do(self, name: str, call: Callable[..., Any], *args: Any,
           **kwargs: Any) -> Any:
        """Run an operation; return None if it fails or an argument is None."""
        if any(argument is None for argument in args):
            return None
        for array in self.arrays():
            array.control.clear_journal()
        try:
            result = call(*args, **kwargs)
        except Exception as error:
            self.errors[name] = _words(error)
            return None
        self._done[name] = self._asked()
        return True if result is None else result

    def _asked(self) -> Calls:
        return collections.Counter(
            f'{entry.method} {re.sub("/[0-9]+$", "/#", entry.path)}'
            for array in self.arrays() for entry in array.control.journal())


def _words(error: BaseException) -> str:
    cause = getattr(error, 'cause', None) or error
    text = ' '.join(str(cause).split())
    # Without ids, the same errors have the same text.
    text = re.sub(r'\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b', '*', text)
    return re.sub(r'127\.0\.0\.1:\d+', 'array', text)


class VolumesTest(MatrixTest, disks.DisksTest):
    """Volumes, snapshots, attachments and groups."""

    in_tree = frozenset((
        'create volume', 'extend', 'create snapshot', 'volume from snapshot',
        'clone', 'revert', 'attach', 'attach another', 'detach',
        'force detach', 'manage', 'unmanage', 'statistics',
        'delete snapshot', 'delete volume'))

    def setUp(self) -> None:
        super().setUp()
        self.disks.set_scale(64)

    def operations(self) -> None:
        volume = self.do('create volume', self.backend.create_volume, 1)
        other = self.backend.create_volume(1)
        self.disks.write(volume, 0, b'first')
        snapshot = self.do(
            'create snapshot', self.backend.create_snapshot, volume)
        copy = self.do('volume from snapshot',
                       self.backend.volume_from_snapshot, snapshot)
        clone = self.do('clone', self.backend.clone, volume)
        self.disks.write(volume, 0, b'later')
        self._see(copy, clone)
        self.do('delete volume', self.backend.delete_volume, copy)
        self.do('delete volume', self.backend.delete_volume, clone)
        if self.do('revert', self.backend.revert, volume, snapshot):
            self._see(volume)
        self.do('delete snapshot', self.backend.delete_snapshot, snapshot)
        self.do('extend', self.backend.extend_volume, other, 2)
        self._attachments(volume, other)
        self._managed()
        self._groups()
        # Statistics from the start are no longer cached by then.
        self.clock.sleep(600)
        self.do('statistics', self.backend.stats)
        self.do('list manageable volumes', self.backend.manageable)

    def _see(self, *volumes: Any) -> None:
        for volume in filter(None, volumes):
            self.assertEqual(b'first', self.disks.read(volume, 0, 5))

    def _attachments(self, volume: Any, other: Any) -> None:
        host = self.host()
        first = self.do('attach', self.backend.attach, volume, host)
        self.do('attach another', self.backend.attach, other, host)
        self.do('detach', self.backend.detach, first)
        self.do('force detach', self.backend.force_detach, other)
        self.assertNotIn('hosts', self.left())

    def _managed(self) -> None:
        group = self.admin.create('volume_groups', name='db', quota=0)
        made = self.admin.create(
            'volumes', name='db-data', size=MIB,
            volume_group={'ref': f'/volume_groups/{group["id"]}'})
        volume = self.do('manage', self.backend.manage,
                         {'source-name': 'db-data'})
        if volume is None:
            self.admin.delete('volumes', made['id'])
            self.admin.delete('volume_groups', group['id'])
            return
        self.do('unmanage', self.backend.unmanage, volume)
        name = self.admin.list('volumes', id=made['id'])[0]['name']
        self.backend.manage({'source-name': name})

    def _groups(self) -> None:
        group = self.do('create group', self.backend.create_group)
        if group is None:
            return
        member = self.do('create volume in group',
                         self.backend.create_volume, 1, group)
        self.backend.create_volume(1, group)
        self.do('leave a group', self.backend.update_group, group,
                remove=[member] if member else [])
        if self.backend.group(group.id).status != 'available':
            # Cinder accepts it only after an operator has reset its status.
            self.do('delete group', self.backend.delete_group, group)
            return
        taken = self.do('create group snapshot',
                        self.backend.create_group_snapshot, group)
        self.do('group from group snapshot', self.backend.group_from, taken)
        self.do('group from group', self.backend.group_from, group)
        self.do('delete group snapshot',
                self.backend.delete_group_snapshot, taken)
        self.do('delete group', self.backend.delete_group, group)


@ddt.ddt
class ISCSITest(VolumesTest):
    """Over iSCSI."""

    test = cases('volumes', 'iscsi')


@ddt.ddt
class ISCSIOnK2Test(VolumesTest):
    """Over iSCSI, on an array without thin clones."""

    profile = 'k2'

    test = cases('volumes', 'iscsi', 'k2')


@ddt.ddt
class FCTest(VolumesTest):
    """Over Fibre Channel."""

    protocol = 'fc'

    test = cases('volumes', 'fc')


@ddt.ddt
class CHAPTest(MatrixTest):
    """Attachments with CHAP, which in-tree Cinder does not have."""

    script = 'chap'
    may_stay = ('host_auth_profiles',)
    options = {'use_chap_auth': True}

    def operations(self) -> None:
        host = self.host()
        volume, other = (self.backend.create_volume(1) for _ in range(2))
        first = self.do('attach', self.backend.attach, volume, host)
        second = self.do('attach another', self.backend.attach, other, host)
        self.do('detach', self.backend.detach, first)
        self.do('detach the last', self.backend.detach, second)

    test = cases('chap', 'iscsi')


@ddt.ddt
class ReplicationTest(MatrixTest, replicated.ReplicatedTest):
    """Replicated volumes; hosts do not matter."""

    script = 'replication'
    in_tree = frozenset((
        'create volume', 'delete volume', 'start replication',
        'end replication', 'fail over', 'fail back'))

    def arrays(self) -> tuple[arrays.Served, ...]:
        return self.primary, self.secondary

    def settings(self) -> dict[str, Any]:
        return {'replication_device': self.device()}

    def operations(self) -> None:
        volume = self.do('create volume', self.replicated)
        other = self.backend.create_volume(1)
        self.do('start replication', self.backend.retype, other,
                **replicated.REPLICATED)
        self.do('end replication', self.backend.retype, other)
        self.write(volume, 'first')
        self.clock.sleep(120)
        if self.do('fail over', self.backend.fail_over, replicated.TARGET):
            self.assertEqual('first', self.read(volume))
            self.write(volume, 'second')
            self.do('fail back', self.backend.fail_back)
            self.assertEqual('second', self.read(volume))
            self.backend.enable()
        self.do('delete volume', self.backend.delete_volume, volume)

    test = cases('replication', 'iscsi')
