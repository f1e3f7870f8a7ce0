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

"""A fake of the kernel target's configfs, as far as a data plane uses it."""

import contextlib
import pathlib
import shutil

from k2_sim.data_planes import base as data_planes
from k2_sim.data_planes import configfs

# What the kernel puts into a new directory, by the first pattern that matches
# its path. Names that end with / are directories.
_FILLINGS = (
    ('iscsi', ('discovery_auth/userid=', 'lio_version=v4')),
    ('fc', ('discovery_auth/', 'version=v1')),
    ('fc/*/tpgt_1', ('acls/', 'lun/', 'np/', 'attrib/', 'param/')),
    ('fc/*/tpgt_1/acls/*', (
        'node_name=', 'port_name=', 'fabric_statistics/')),
    ('fc/*', ('fabric_statistics/',)),
    ('iscsi/*/tpgt_1', (
        'acls/', 'lun/', 'np/', 'enable=0', 'param/TargetAlias=LIO Target',
        'param/MaxRecvDataSegmentLength=8192',
        'attrib/authentication=1', 'attrib/generate_node_acls=0',
        'attrib/demo_mode_discovery=1')),
    ('iscsi/*/tpgt_1/acls/*', (
        'attrib/authentication=-1', 'auth/userid=', 'auth/password=',
        'fabric_statistics/')),
    ('*/*/tpgt_1/acls/*/lun_*', ('write_protect=0', 'statistics/')),
    ('*/*/tpgt_1/lun/lun_*', ('alua_tg_pt_gp=', 'statistics/')),
    ('iscsi/*/tpgt_1/np/*', ('iser=0',)),
    ('iscsi/*', ('fabric_statistics/',)),
    ('core/iblock_*', ('hba_info=', 'hba_mode=0')),
    ('core/iblock_*/*', (
        'control=', 'enable=0', 'wwn/vendor_id=LIO-ORG', 'wwn/product_id=',
        'wwn/revision=', 'wwn/company_id=', 'wwn/vpd_unit_serial=',
        'attrib/emulate_tpu=0', 'attrib/emulate_tpws=0',
        'attrib/unmap_zeroes_data=0', 'statistics/')))


class FakeConfigfs(configfs.Tree):
    """Refuses what the kernel refuses, and fills new directories.

    failing: paths relative to the root whose next change fails. log: the
    operations, in order.
    """

    def __init__(self, root):
        self.root = pathlib.Path(root)
        (self.root / 'core').mkdir()
        self.failing = set()
        self.log = []

    def _note(self, what, path):
        name = str(path.relative_to(self.root))
        self.log.append(f'{what} {name}')
        if name in self.failing:
            self.failing.remove(name)
            raise data_planes.DataPlaneError(f'cannot {what} {name}')

    def make(self, path):
        if path.exists():
            return
        self._note('make', path)
        super().make(path)
        for item in self._filling(path):
            name, is_file, value = item.partition('=')
            if is_file:
                (path / name).parent.mkdir(exist_ok=True)
                (path / name).write_text(f'{value}\n')
            else:
                (path / name).mkdir()

    def _filling(self, path):
        relative = path.relative_to(self.root)
        for pattern, names in _FILLINGS:
            if len(relative.parts) == pattern.count('/') + 1 and \
                    relative.match(pattern):
                return names
        raise AssertionError(f'the kernel knows no {relative}')

    def write(self, path, value):
        self._note('write', path)
        assert path.is_file(), f'no attribute {path}'
        super().write(path, value)
        with open(path, 'r+') as file:
            file.truncate(len(str(value)))

    def link(self, path, target):
        super().link(path, target)
        self._note('link', path)
        if path.parent.name == 'lun':
            assert self.read(target / 'enable') == '1'
        else:
            assert self.linked(target), 'a LUN without a disk'

    def unlink(self, path):
        assert not self._users(path), f'{path} is in use'
        super().unlink(path)

    def _users(self, path):
        where = {'core': '*/*/tpgt_1/lun/lun_*/*',
                 'lun': '*/*/tpgt_1/acls/*/lun_*/*'}
        for name, pattern in where.items():
            if name in (path.parent.name, path.parent.parent.name):
                return [link for link in self.root.glob(pattern)
                        if link.is_symlink() and link.resolve() == path]
        return []

    def remove(self, path):
        self._note('remove', path)
        if self._users(path) or self._made(path):
            raise data_planes.DataPlaneError(f'{path} is in use')
        shutil.rmtree(path)

    def _made(self, path):
        """The entries of a directory that the kernel did not put there."""
        own = {item.partition('=')[0].partition('/')[0]
               for item in self._filling(path)}
        return {entry for entry in path.iterdir() if entry.name not in own
                } | {entry for name in ('acls', 'lun', 'np')
                     for entry in (path / name).glob('*')}

    def shown(self):
        """Attributes and links below the root, by path."""
        return {str(path.relative_to(self.root)):
                path.resolve().relative_to(self.root) if path.is_symlink()
                else path.read_text() for path in self.root.rglob('*')
                if path.is_symlink() or path.is_file()}


class FakeDisks:
    """Fake block devices.

    files: the path and the size in bytes, by name. counted: what counts()
    returns. is_held: whether writes are suspended; then no device may be
    changed.
    """

    def __init__(self):
        self.files = {}
        self.counted = {}
        self.is_held = False

    def names(self):
        return set(self.files)

    def counts(self):
        return self.counted

    def device(self, name):
        return pathlib.Path(f'/dev/{name}') if name in self.files else None

    def put(self, name, path, size):
        assert not self.is_held
        self.files[name] = path, size

    def remove(self, name):
        assert not self.is_held, 'what waits would wait for ever'
        del self.files[name]

    @contextlib.contextmanager
    def held(self):
        self.is_held = True
        yield
        self.release()

    def release(self):
        self.is_held = False
