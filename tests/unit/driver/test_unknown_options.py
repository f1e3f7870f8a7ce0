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

"""Options in cinder.conf that nothing reads, by oslo.config's own parser."""

import itertools
import pathlib

from cinder.volume import configuration
from cinder.volume import driver
from cinder.volume import manager
import ddt
import fixtures
from oslo_config import cfg
from oslotest import base

from cinder_k2.driver import config
from cinder_k2.driver import unknown_options

_numbers = itertools.count()


@ddt.ddt
class UnknownOptionsTest(base.BaseTestCase):

    def setUp(self):
        super().setUp()
        self.folder = pathlib.Path(
            self.useFixture(fixtures.TempDir()).path)
        self.addCleanup(cfg.CONF.reset)
        self.section = f'unknown-{next(_numbers)}'

    def texts(self, *lines, more='', is_registered=True):
        """Return the warnings about a section with these lines.

        :param more: more lines of the section, in a file of cinder.conf.d
        :param is_registered: whether the options of the section are registered
        """
        file = self.folder / 'cinder.conf'
        file.write_text('\n'.join(['[DEFAULT]', 'debug = True',
                                   f'[{self.section}]', *lines]))
        directory = self.folder / 'cinder.conf.d'
        directory.mkdir()
        (directory / 'more.conf').write_text(f'[{self.section}]\n{more}')
        (directory / 'not-read').write_text(f'[{self.section}]\nnot_it = 1')
        cfg.CONF([], default_config_files=[str(file)],
                 default_config_dirs=[str(directory)])
        if is_registered:
            config.register(configuration.Configuration(
                [*manager.volume_backend_opts, *driver.volume_opts],
                self.section))
        return unknown_options.texts(self.section)

    @ddt.data(('san_pasword', 'san_password'),
              ('k2_clone_strategy', 'k2_clone_strategies'),
              ('volume-driver', 'volume_driver'),
              ('use_chap', 'use_chap_auth'))
    @ddt.unpack
    def test_nearest_name(self, given, nearest):
        self.assertEqual(
            [f'Option {given} in section [{self.section}] of cinder.conf is '
             f'unknown and ignored. Did you mean {nearest}?'],
            self.texts(f'{given} = secret'))

    def test_no_name_is_near(self):
        text, = self.texts('zebra = 1')
        self.assertTrue(text.endswith('unknown and ignored.'), text)

    def test_known_options(self):
        """Ours, Cinder's, a former name, and what cinder-volume reads."""
        self.assertEqual([], self.texts(
            'san_ip = 10.0.0.1', 'k2_retention_policy = Best_Effort',
            'volume_driver = x', 'iscsi_secondary_ip_addresses = 10.0.0.2',
            'backend_host = everywhere', 'filter_function = True'))

    def test_all_files_and_names_in_order(self):
        texts = self.texts('beta = 1', 'beta = 2', more='alpha = 1')
        self.assertEqual(['alpha', 'beta'],
                         [text.split()[1] for text in texts])

    def test_section_in_other_capitals(self):
        """oslo.config finds the section nevertheless."""
        self.section = f'K2-{next(_numbers)}'
        text, = self.texts('zebra = 1')
        self.assertIn('zebra', text)
        section = self.section.lower()
        config.register(configuration.Configuration(
            [*manager.volume_backend_opts, *driver.volume_opts], section))
        self.assertEqual(1, len(unknown_options.texts(section)))

    def test_a_file_that_has_changed(self):
        self.texts()
        (self.folder / 'cinder.conf').write_text('no section = 1')
        (self.folder / 'cinder.conf.d' / 'more.conf').unlink()
        self.assertEqual([], unknown_options.texts(self.section))

    def test_options_of_the_driver_are_not_registered_yet(self):
        self.assertEqual([], self.texts('zebra = 1', is_registered=False))
