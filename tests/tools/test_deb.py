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

import configparser
import contextlib
import fcntl
import io
import os
from unittest import mock

from tests.tools import test_dist
from tools.cloud import settings
from tools.packages import deb
from tools.packages import dist
from tools.packages import programs
from tools.packages import tree
from tools.packages import trial
from tools.releases import table


class SourceTest(test_dist.FolderTestCase):

    def test_version(self):
        """The changelog begins with the next release."""
        setup = configparser.ConfigParser()
        setup.read(table.ROOT / 'setup.cfg')
        self.assertTrue((deb.OURS / 'changelog').read_text().startswith(
            f'cinder-k2 ({setup["metadata"]["version"]}-1) '))
        self.assertIn('packaging/debian/changelog',
                      (table.ROOT / 'RELEASING.rst').read_text())

    def test_source(self):
        sdist = self.write_sdist('1.2.0.dev3')
        place = self.folder / 'build'
        place.mkdir()
        source = deb.unpack(sdist, place)
        self.assertEqual(place / 'cinder_k2-1.2.0.dev3', source)
        self.assertEqual(
            sdist.read_bytes(),
            (place / 'cinder-k2_1.2.0~dev3.orig.tar.gz').read_bytes())
        self.assertTrue((source / 'setup.py').exists())
        self.assertTrue(os.access(source / 'debian' / 'rules', os.X_OK))
        first, *others = (source / 'debian' / 'changelog'
                          ).read_text().splitlines()
        self.assertEqual('cinder-k2 (1.2.0~dev3-1) unstable; urgency=medium',
                         first)
        self.assertEqual((deb.OURS / 'changelog').read_text().splitlines()[1:],
                         others)


class DebTest(test_dist.FolderTestCase):

    def run_command(self, user=0, **settings):
        with mock.patch('os.geteuid', lambda: user), \
                mock.patch.object(tree, 'FOLDER', self.folder), \
                mock.patch.multiple(
                    deb, **{'WORK': self.folder / 'work', **settings}), \
                contextlib.redirect_stderr(io.StringIO()) as error, \
                contextlib.redirect_stdout(io.StringIO()):
            return deb.main(), error.getvalue()

    def test_needs_root(self):
        self.assertEqual(
            (1, 'make deb: root is needed, for chroot and mounts\n'),
            self.run_command(1000))

    def test_needs_programs(self):
        with mock.patch('shutil.which', lambda name: None):
            status, error = self.run_command()
        self.assertEqual(1, status)
        self.assertTrue(error.endswith(
            ': apt-get install apt mmdebstrap util-linux\n'), error)

    def test_package_that_fails(self):
        with mock.patch('shutil.which', lambda name: name), \
                mock.patch.object(tree, 'make', autospec=True,
                                  return_value=self.folder), \
                mock.patch.object(dist, 'build_driver', autospec=True), \
                mock.patch('subprocess.run', lambda *_, **__: mock.Mock(
                    returncode=1, spec_set=['returncode'])):
            status, error = self.run_command(
                unpack=lambda sdist, folder: self.folder)
        self.assertEqual((1, 'make deb: the package was not accepted, see '
                          'above\n'), (status, error))

    def test_one_at_a_time(self):
        with mock.patch('shutil.which', lambda name: name), \
                (self.folder / 'lock').open('a') as stream:
            fcntl.flock(stream, fcntl.LOCK_EX)
            self.assertEqual(
                (1, 'make deb: another make deb is running in '
                 f'{self.folder}\n'), self.run_command())

    def test_replaces_older_packages(self):
        built, results = self.folder / 'build', self.folder / 'dist'
        for folder, version in ((built, 2), (results, 1)):
            folder.mkdir()
            for name in (f'cinder-k2_{version}-1.dsc',
                         f'python3-cinder-k2_{version}-1_all.deb'):
                (folder / name).write_text('')
        (results / 'cinder-k2_amd64.charm').write_text('')
        with mock.patch.object(deb, 'WORK', self.folder), \
                mock.patch.object(dist, 'DIST', results):
            copied = deb.collect()
        self.assertEqual(['cinder-k2_2-1.dsc',
                          'python3-cinder-k2_2-1_all.deb'],
                         [path.name for path in copied])
        self.assertEqual({*copied, results / 'cinder-k2_amd64.charm'},
                         {*results.iterdir()})


class TreeTest(test_dist.FolderTestCase):

    def setUp(self):
        super().setUp()
        self.commands = []
        self.mirror = 'http://mirror.example/debian/\n'
        self.enter_context(mock.patch.multiple(
            tree, FOLDER=self.folder, BASE=self.folder / 'tree'))
        self.enter_context(mock.patch.object(programs, 'run', self.fake))

    def enter_context(self, context):
        context.__enter__()
        self.addCleanup(context.__exit__, None, None, None)

    def fake(self, *command, seconds=None):
        """Act like apt, and like mmdebstrap, which creates the tree."""
        if command[0] == 'apt-get':
            return self.mirror
        if command[0] == 'apt-config':
            return ('APT "";\nAcquire::http "";\n'
                    'Acquire::http::Proxy "http://proxy.example";\n'
                    'Acquire::Languages "none";\n'
                    'Acquire::Check-Date "false";\n')
        self.commands.append([str(word) for word in command])
        command[-2].mkdir()
        return ''

    def test_from_the_mirror_of_this_machine(self):
        self.assertEqual(self.folder / 'tree', tree.make())
        command, = self.commands
        self.assertEqual(['trixie', str(self.folder / 'tree.new'),
                          'http://mirror.example/debian/'], command[-3:])
        self.assertEqual('unshare', command[0])
        self.assertIn('--mount', command[:command.index('--')])
        self.assertTrue((self.folder / 'tree').is_dir())

    def test_settings_of_apt(self):
        self.assertEqual('Acquire::http::Proxy "http://proxy.example";\n'
                         'Acquire::Check-Date "false";\n',
                         tree.apt_settings())

    def test_made_once(self):
        tree.make()
        (self.folder / 'tree' / 'old').write_text('')
        tree.make()
        self.assertEqual(1, len(self.commands))
        with mock.patch.object(tree, 'PACKAGES', ('other',)):
            tree.make()
        self.assertEqual(2, len(self.commands))
        self.assertFalse((self.folder / 'tree' / 'old').exists())

    def test_made_again_after_a_failure(self):
        tree.make()
        with mock.patch.object(tree, 'PACKAGES', ('other',)), \
                mock.patch.object(programs, 'run', self.fails), \
                self.assertRaises(programs.PackageError):
            tree.make()
        tree.make()
        self.assertEqual(2, len(self.commands))

    def fails(self, *command, seconds=None):
        if command[0] == 'unshare':
            raise programs.PackageError('no network')
        return self.fake(*command)

    def test_no_mirror(self):
        self.mirror = ''
        with self.assertRaisesRegex(programs.PackageError, 'no mirror'):
            tree.make()

    def test_mounted(self):
        """What is mounted in a tree is not removed with it."""
        place = self.folder / 'tree' / 'dev'
        place.mkdir(parents=True)
        mounts = self.folder / 'mounts'
        with mock.patch.object(tree, 'MOUNTS', mounts):
            mounts.write_text(f'udev {place} devtmpfs rw 0 0\n')
            for folder in (place, place.parent):
                with self.assertRaisesRegex(
                        programs.PackageError,
                        f'umount --recursive {place}$'):
                    tree.remove(folder)
            self.assertTrue(place.exists())
            mounts.write_text(f'udev {self.folder} devtmpfs rw 0 0\n')
            tree.remove(place.parent)
        self.assertFalse(place.exists())


class SystemTest(test_dist.FolderTestCase):

    def test_command(self):
        command = trial.System(self.folder).command(
            'k2-admin', 'check', user='cinder')
        self.assertEqual(['chroot', '--userspec=cinder:cinder',
                          str(self.folder), 'env'], command[:4])
        self.assertEqual(['k2-admin', 'check'], command[-2:])
        self.assertIn('--ignore-environment', command)

    def test_configuration(self):
        """Back ends of the package are replaced, its other values stay."""
        run = settings.Settings(
            root=self.folder, state=self.folder / 'state', cinder_port=1,
            sim_port=8555)
        run.state.mkdir()
        run.ca_file.write_text('certificate')
        run.password_file.write_text('word\n')
        path = self.folder / 'etc' / 'cinder' / 'cinder.conf'
        path.parent.mkdir(parents=True)
        path.write_text('[DEFAULT]\nauth_strategy = keystone\n'
                        'enabled_backends = lvm\nlock_path = /run\n')
        with mock.patch.object(programs, 'run', autospec=True) as called, \
                contextlib.redirect_stdout(io.StringIO()):
            trial.configure(trial.System(self.folder), run, 'key')
        self.assertEqual(('cinder-manage', 'db', 'sync'),
                         called.call_args.args[-3:])
        self.assertIn('--userspec=cinder:cinder', called.call_args.args)
        text = path.read_text()
        for line in ('#auth_strategy = keystone', '#enabled_backends = lvm',
                     'enabled_backends = k2-iscsi,k2-fc', 'lock_path = /run',
                     'volume_driver = cinder_k2.driver.K2FCDriver',
                     'san_api_port = 8555', 'san_password = word'):
            self.assertIn(f'\n{line}\n', text)
        self.assertIn('://cinder:key@127.0.0.1:3306/cinder\n', text)
        ca_file = self.folder / 'etc' / 'cinder' / 'k2-ca.pem'
        self.assertEqual('certificate', ca_file.read_text())
