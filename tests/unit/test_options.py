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

import io
import unittest

from oslo_config import cfg
from oslo_config import generator

from cinder_k2 import options


class OptionsTest(unittest.TestCase):

    def test_config_generator_prints_every_option(self):
        conf = cfg.ConfigOpts()
        generator.register_cli_opts(conf)
        conf(['--namespace', 'cinder_k2'])
        output = io.StringIO()
        generator.generate(conf, output_file=output)
        text = output.getvalue()
        self.assertIn('[backend_defaults]', text)
        for option in options.k2_opts + options.shared_opts:
            self.assertIn(f'#{option.name} =', text)

    def test_names_of_new_options_begin_with_k2(self):
        for option in options.k2_opts:
            self.assertTrue(option.name.startswith('k2_'), option.name)

    def test_every_option_has_help(self):
        for option in options.k2_opts + options.shared_opts:
            self.assertGreater(len(option.help or ''), 40, option.name)

    def test_clone_strategies_are_checked(self):
        conf = cfg.ConfigOpts()
        conf.register_opts(options.k2_opts)
        conf([])
        self.assertEqual(['thin', 'view', 'copy'], conf.k2_clone_strategies)
        conf.set_override('k2_clone_strategies', ['view'])
        self.assertEqual(['view'], conf.k2_clone_strategies)
        with self.assertRaises(ValueError):
            conf.set_override('k2_clone_strategies', ['magic'])
