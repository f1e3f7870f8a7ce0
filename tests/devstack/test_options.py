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

"""Options of back ends, from local.conf to Cinder, with any characters."""

import importlib.util
import shlex
import tempfile
import unittest

import hypothesis
from hypothesis import strategies
from oslo_config import cfg
from oslo_config import types

from tests.devstack import harness

# Texts with a special meaning to bash, sed or oslo.config.
TEXTS = (' leading and trailing ', '"quoted"', "'quoted'", '"', 'a = b', '#c',
         '; c', 'a # b, c', '$HOME', '$$', '\\$x', 'a\\nb', 'a\\', '&', '*',
         '-n', '%s', '`id`', '!!', 'two  blanks', '\N{SNOWMAN}', '[a]', ',')


def load():
    """Import the plugin's program, which is not in a package."""
    path = harness.ROOT / 'devstack' / 'tools' / 'back_ends.py'
    spec = importlib.util.spec_from_file_location('back_ends', path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


back_ends = load()


def read_back(text):
    """Return a value as oslo.config reads it from a written section."""
    with tempfile.NamedTemporaryFile('w', encoding='utf-8') as file:
        file.write(back_ends.section('k2', [('value', text)]))
        file.flush()
        conf = cfg.ConfigOpts()
        conf(['--config-file', file.name], default_config_files=[],
             default_config_dirs=[])
        conf.register_opt(cfg.StrOpt('value'), group='k2')
        return conf.k2.value


class EscapeTest(unittest.TestCase):

    def test_special_characters(self):
        for text in TEXTS:
            self.assertEqual(text, read_back(text))

    @hypothesis.given(strategies.text(strategies.characters(
        exclude_categories=('C', 'Z'), include_characters=' \t')))
    def test_any_text(self, text):
        self.assertEqual(text, read_back(text))


class SectionsTest(unittest.TestCase):
    """A file that also has other sections."""

    def test_a_section_replaces_the_previous_one(self):
        text = '[DEFAULT]\na = 1\n\n[k2]\nold = 1\n\n[k2-b]\nb = 1\n'
        self.assertEqual(
            '[DEFAULT]\na = 1\n\n[k2-b]\nb = 1\n\n[k2]\nnew = 1\n',
            back_ends.replace_section(text, 'k2', '[k2]\nnew = 1\n'))

    def test_no_section_without_secrets(self):
        self.assertEqual('', back_ends.section('k2', []))


class ChecksTest(unittest.TestCase):

    known = {option.dest: option for option in (
        cfg.StrOpt('plain'), cfg.StrOpt('pass', secret=True),
        cfg.PortOpt('pin', secret=True),
        cfg.MultiOpt('device', item_type=types.Dict()))}

    def error(self, **options):
        with self.assertRaises(back_ends.InvalidOption) as caught:
            back_ends.validate({'k2': options}, self.known)
        return str(caught.exception)

    def test_line_breaks(self):
        for text in ('a\nb', 'a\rb', 'a\0b', 'a\x85b', 'a\x1bb'):
            self.assertIn('control character', self.error(plain=text))

    def test_an_option_with_several_values(self):
        lines = back_ends.validate(
            {'k2': {'device': 'a:1,b:2\na:3\n'}}, self.known)
        self.assertEqual({'k2': [('device', 'a:1,b:2'), ('device', 'a:3')]},
                         lines)

    def test_the_last_value_is_used(self):
        """This includes an option and the option that names its file."""
        with tempfile.NamedTemporaryFile('w') as file:
            file.write('from file')
            file.flush()
            lines = [('a', 'pass', 'x'), ('a', 'pass_file', file.name),
                     ('b', 'pass_file', file.name), ('b', 'pass', 'x'),
                     ('c', 'pass', 'x'), ('c', 'pass_file', file.name),
                     ('c', 'pass', 'y')]
            found = back_ends.validate(back_ends.read(''.join(
                f'{word}\0' for line in lines for word in line).encode()),
                self.known)
        self.assertEqual({'a': [('pass', 'from file')], 'b': [('pass', 'x')],
                          'c': [('pass', 'y')]}, found)

    def test_no_secret_in_an_error(self):
        for name in ('pass', 'pin'):
            self.assertNotIn('Sesame', self.error(**{name: 'Sesame\n'}))
        self.assertIn('pin has an invalid value', self.error(pin='Sesame'))
        self.assertNotIn('Sesame', self.error(pin='Sesame'))

    def test_secret_options(self):
        known = back_ends.known_options()
        secret = {name for name, option in known.items() if option.secret}
        self.assertLessEqual(
            {'san_password', 'k2_app_token', 'k2_replication_password',
             'replication_device'}, secret)

    def test_options_of_cinder_and_of_the_driver(self):
        known = back_ends.known_options()
        for name in ('san_ip', 'k2_read_timeout', 'filter_function',
                     'volume_driver', 'image_volume_cache_enabled',
                     'use_multipath_for_image_xfer', 'unique_fqdn_network',
                     'backend_availability_zone', 'use_chap_auth'):
            self.assertIn(name, known)


class ShellTest(harness.Case, unittest.TestCase):
    """From local.conf, through bash, to the files that Cinder reads."""

    def test_any_characters(self):
        names = sorted(
            name for name, option in back_ends.known_options().items()
            if type(option) is cfg.StrOpt and option.type == types.String()
            and name not in ('san_ip', 'volume_backend_name', 'volume_driver',
                             'protocol'))
        self.assertGreater(len(names), len(TEXTS))
        self.assertIn('san_password', names)
        pairs = list(zip(names, TEXTS * 5))
        self.stack.local(
            'K2_SIMULATOR=False', 'K2_CHECK=False', 'K2_ALL_san_ip=192.0.2.1',
            *(f'K2_BACKEND_k2_iscsi_{name}={shlex.quote(text)}'
              for name, text in pairs))
        self.stack.check_run('stack')
        for name, text in pairs:
            self.assertEqual(text, self.stack.option('k2-iscsi', name), name)

    def test_precedence(self):
        """This includes two back ends whose names have the same prefix."""
        password = self.stack.dest / 'password'
        password.write_text('d')
        self.stack.local(
            'CINDER_ENABLED_BACKENDS=k2:k2-fc,k2:k2',
            'K2_SIMULATOR=False', 'K2_CHECK=False', 'K2_ALL_san_ip=192.0.2.1',
            'K2_ALL_san_password=a', 'K2_BACKEND_k2_san_login=b',
            'K2_BACKEND_k2_fc_san_login=c',
            f'K2_BACKEND_k2_fc_san_password_file={password}')
        self.stack.check_run('stack')
        self.assertEqual(['b', 'a', 'c', 'd'], [
            self.stack.option(back_end, name) for back_end in ('k2', 'k2-fc')
            for name in ('san_login', 'san_password')])
        self.assertEqual('192.0.2.1', self.stack.option('k2-fc', 'san_ip'))

    def test_a_real_array_that_is_replicated(self):
        """With TLS and two replication targets."""
        self.stack.local(
            'K2_ALL_san_ip=k2.example.com', 'K2_CHECK=False',
            'K2_ALL_san_password=Geheim', 'K2_ALL_driver_ssl_cert_verify=True',
            'K2_ALL_driver_ssl_cert_path=/etc/ssl/k2.pem',
            "K2_ALL_replication_device='backend_id:dr,password:Sesame,rpo:60\n"
            "backend_id:dr2,password:Zitrone,rpo:60'")
        self.stack.check_run('stack')
        self.assertEqual(
            ['backend_id:dr,password:Sesame,rpo:60',
             'backend_id:dr2,password:Zitrone,rpo:60'],
            self.stack.option('k2-iscsi', 'replication_device',
                              cfg.MultiStrOpt))
        self.assertEqual([], self.stack.arrays())
        self.assertIn('k2-iscsi-replicated', self.stack.log('openstack'))
        self.check_trace('Sesame', 'Zitrone', 'Geheim')
        self.stack.check_run('unstack')
        self.check_trace('Sesame', 'Zitrone', 'Geheim')

    def check_trace(self, *secrets):
        """Check that no secret is traced after local.conf was read."""
        trace = self.stack.output.partition('plugin_override_defaults')[2]
        self.assertGreater(trace.count('k2_'), 5)
        for secret in secrets:
            self.assertEqual(0, trace.count(secret), 'it is traced')
