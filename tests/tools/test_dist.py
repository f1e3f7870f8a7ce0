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

import contextlib
import io
import os
import pathlib
import tarfile
import tempfile
import unittest
from unittest import mock

from tools.packages import dist
from tools.packages import programs

EPOCH = 1700000000
MEMBERS = (('a-1', tarfile.DIRTYPE, 0o700, b''),
           ('a-1/link', tarfile.SYMTYPE, 0o777, b''),
           ('a-1/program', tarfile.REGTYPE, 0o700, b'#!/bin/sh'),
           ('a-1/text', tarfile.REGTYPE, 0o600, b'words'))


class FolderTestCase(unittest.TestCase):

    def setUp(self):
        super().setUp()
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.folder = pathlib.Path(directory.name)

    def write_sdist(self, version):
        """Write an sdist of the driver, with one file."""
        path = self.folder / f'cinder_k2-{version}.tar.gz'
        with tarfile.open(path, 'w:gz') as archive:
            archive.addfile(tarfile.TarInfo(f'cinder_k2-{version}/setup.py'))
        return path


class ProgramsTest(FolderTestCase):

    def test_output(self):
        said = programs.run('sh', '-c', 'pwd; echo $A >&2; umask',
                            cwd=self.folder, variables={'A': 'b'})
        self.assertEqual(f'{self.folder}\nb\n0022\n', said)

    def test_failure(self):
        with self.assertRaisesRegex(programs.PackageError,
                                    'sh -c .* failed:\nwhy'):
            programs.run('sh', '-c', 'echo why >&2; exit 3')

    def test_too_long(self):
        with self.assertRaisesRegex(programs.PackageError, 'within 0 s'):
            programs.run('sleep', '60', seconds=0.1)

    def test_missing(self):
        self.assertEqual('', programs.missing({'sh': 'dash'}))
        self.assertTrue(programs.missing(
            {'sh': 'dash', 'no-such-1': 'b', 'no-such-2': 'a',
             'no-such-3': 'b'}).endswith(': apt-get install a b'))

    def test_umask_of_the_caller(self):
        self.addCleanup(os.umask, os.umask(0o077))
        self.assertEqual('0022\n', programs.run('sh', '-c', 'umask'))


class RepackTest(FolderTestCase):

    def sdist(self, place, **settings):
        """Write an archive whose members have these attributes."""
        path = self.folder / place / 'a-1.tar.gz'
        path.parent.mkdir()
        with tarfile.open(path, 'w:gz') as archive:
            for name, kind, mode, data in sorted(
                    MEMBERS, reverse=settings.pop('reverse', False)):
                member = tarfile.TarInfo(name)
                member.type, member.mode, member.size = kind, mode, len(data)
                if kind == tarfile.SYMTYPE:
                    member.linkname = 'text'
                for key, value in settings.items():
                    setattr(member, key, value)
                archive.addfile(member, io.BytesIO(data))
        return path

    def test_same_bytes(self):
        first = self.sdist('1', mtime=1.5, uid=1000, uname='me', gname='us')
        second = self.sdist('2', mtime=2, gid=7, reverse=True)
        self.assertNotEqual(first.read_bytes(), second.read_bytes())
        with mock.patch('time.time', lambda: 7.0):
            dist.repack(first, EPOCH)
        dist.repack(second, EPOCH)
        self.assertEqual(first.read_bytes(), second.read_bytes())
        self.assertEqual([first], list(first.parent.iterdir()))

    def test_content(self):
        path = self.sdist('1', uid=1000, uname='me')
        dist.repack(path, EPOCH)
        with tarfile.open(path) as archive:
            self.assertEqual(
                [('a-1', 0o755), ('a-1/link', 0o755), ('a-1/program', 0o755),
                 ('a-1/text', 0o644)],
                [(member.name, member.mode) for member in archive])
            self.assertEqual(
                {(EPOCH, 0, 0, '', '')},
                {(member.mtime, member.uid, member.gid, member.uname,
                  member.gname) for member in archive})
            self.assertEqual('text', archive.getmember('a-1/link').linkname)
            self.assertTrue(archive.getmember('a-1').isdir())
            for name, data in (('program', b'#!/bin/sh'), ('link', b'words')):
                self.assertEqual(
                    data, archive.extractfile(f'a-1/{name}').read())


class DistTest(FolderTestCase):

    def setUp(self):
        super().setUp()
        self.commands = []

    def fake(self, *command, cwd=None, variables=None):
        """Act like git and like uv, which writes a file."""
        words = [str(word) for word in command]
        self.commands.append((words, variables))
        if words[0] == 'git':
            return f'{EPOCH}\n'
        made = pathlib.Path(words[words.index('--out-dir') + 1])
        made.mkdir(exist_ok=True)
        source = pathlib.Path(words[-1]).name
        name = ('k2_sim-2' if source.startswith(('k2-sim', 'k2_sim'))
                else 'cinder_k2-1')
        if '--sdist' in words:
            tarfile.open(made / f'{name}.tar.gz', 'w:gz').close()
        else:
            self.assertTrue(pathlib.Path(words[-1]).is_file())
            (made / f'{name}-py3-none-any.whl').write_text('wheel')
        return ''

    def build(self):
        with mock.patch.object(programs, 'run', self.fake):
            return dist.build(self.folder)

    def test_replaces_older_files(self):
        for name in ('cinder_k2-0.tar.gz', 'k2_sim-1-py3-none-any.whl',
                     'cinder-k2_1.charm', 'cinder_k2-0.txt'):
            (self.folder / name).write_text('old')
        built = self.build()
        self.assertEqual(
            ['cinder_k2-1-py3-none-any.whl', 'cinder_k2-1.tar.gz',
             'k2_sim-2-py3-none-any.whl', 'k2_sim-2.tar.gz'],
            [path.name for path in built])
        self.assertEqual(
            {*built, self.folder / 'cinder-k2_1.charm',
             self.folder / 'cinder_k2-0.txt'}, {*self.folder.iterdir()})

    def test_driver_alone(self):
        with mock.patch.object(programs, 'run', self.fake):
            sdist = dist.build_driver(self.folder)
        self.assertEqual(self.folder / 'cinder_k2-1.tar.gz', sdist)
        self.assertEqual([sdist], list(self.folder.iterdir()))

    def test_date_of_the_commit(self):
        self.build()
        epochs = {variables['SOURCE_DATE_EPOCH'] for words, variables
                  in self.commands if 'build' in words}
        self.assertEqual({str(EPOCH)}, epochs)

    def test_pinned_tools(self):
        self.build()
        builds = [words for words, _ in self.commands if 'build' in words]
        self.assertEqual(4, len(builds))
        for words in builds:
            self.assertIn(str(dist.CONSTRAINTS), words)
        pinned = dist.CONSTRAINTS.read_text()
        for name in ('setuptools', 'pbr', 'hatchling'):
            self.assertRegex(pinned, rf'(?m)^{name}==\d')


class VersionTest(unittest.TestCase):

    def test_before_a_release(self):
        for version, wanted in (('1.0.0', '1.0.0'),
                                ('1.0.0.dev719', '1.0.0~dev719'),
                                ('1.0.0.0rc2', '1.0.0.0~rc2'),
                                ('2.1.0b1', '2.1.0~b1')):
            path = pathlib.Path('dist', f'cinder_k2-{version}.tar.gz')
            self.assertEqual(version, dist.version_of(path))
            self.assertEqual(wanted, dist.distribution_version(path))


class CommandTest(FolderTestCase):

    def run_command(self, *arguments, contents=('a', 'a')):
        """Run with builds that write these contents."""
        contents = iter(contents)

        def build(folder):
            path = folder / 'k2_sim-1.tar.gz'
            path.write_text(next(contents))
            return [path]

        with mock.patch.object(dist, 'DIST', self.folder), \
                mock.patch.object(dist, 'build', build), \
                mock.patch('sys.argv', ['dist', *arguments]), \
                contextlib.redirect_stdout(io.StringIO()) as out, \
                contextlib.redirect_stderr(io.StringIO()) as error:
            return dist.main(), out.getvalue(), error.getvalue()

    def test_digests(self):
        # sha256sum of "a"
        self.assertEqual((0, 'ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e7'
                          '2b9807785afee48bb  dist/k2_sim-1.tar.gz\n', ''),
                         self.run_command())

    def test_equal_builds(self):
        self.assertEqual(0, self.run_command('--check')[0])

    def test_different_builds(self):
        self.assertEqual(0, self.run_command(contents='ab')[0])
        status, _, error = self.run_command('--check', contents='ab')
        self.assertEqual((1, 'A second build differs in k2_sim-1.tar.gz\n'),
                         (status, error))

    def test_a_file_that_only_one_build_has(self):
        self.assertEqual(['b', 'c'], dist.differences(
            {'a': '1', 'b': '2'}, {'a': '1', 'c': '2'}))

    def test_failure(self):
        def build(folder):
            raise programs.PackageError('git failed')

        with mock.patch.object(dist, 'build', build), \
                mock.patch('sys.argv', ['dist']), \
                contextlib.redirect_stderr(io.StringIO()) as error:
            self.assertEqual(1, dist.main())
        self.assertEqual('git failed\n', error.getvalue())
