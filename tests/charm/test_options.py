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

"""Options of the charm: what is accepted, and how errors are reported."""

import unittest

import ddt
import hypothesis
from hypothesis import strategies as st

import backend
import credentials
import options
import sections
from tests import charm
from tests.charm import cinder_conf
from tests.charm import fakes
from tests.charm import test_oslo
import validation
import yaml

META = yaml.safe_load((charm.CHARM / 'charmcraft.yaml').read_text())
DEFAULTS = {name: option['default']
            for name, option in META['config']['options'].items()
            if 'default' in option}
ENOUGH = {'san_ip': '10.0.0.5', 'credentials': 'secret:abc'}
PEM = fakes.PEM
CUT = '\n'.join(line for line in PEM.split('\n') if not line.startswith('BA'))


def read(**config):
    """Read options, given with underscores instead of dashes."""
    named = {name.replace('_', '-') if name.replace('_', '-') in
             META['config']['options'] else name: value
             for name, value in config.items()}
    return options.read({**DEFAULTS, **ENOUGH, **named}, 'cinder-k2')


class Case(unittest.TestCase):

    def errors(self, **config):
        with self.assertRaises(options.InvalidOptions) as caught:
            read(**config)
        return caught.exception.texts


class HistoricalTest(Case):
    """The six options of the original charm work as before."""

    def test_all_six(self):
        settings = options.read(
            {'san_ip': '10.0.0.5', 'san_user': 'me', 'san_password': 'pw',
             'backend_name': 'K2_iSCSI', 'protocol': 'iscsi',
             'is_multipath_enabled': True}, 'kaminario-cinder')
        one, = settings.backends
        self.assertEqual(('K2_iSCSI', 'iSCSI'), (one.name, one.protocol))
        self.assertEqual('10.0.0.5', one.values['san_ip'])
        self.assertEqual('True', one.values['use_multipath_for_image_xfer'])
        self.assertEqual('K2_iSCSI', one.values['volume_backend_name'])
        self.assertEqual(('me', 'pw'),
                         (settings.san_user, settings.san_password))

    def test_protocols_in_any_case(self):
        for written in ('iscsi', 'iSCSI', 'ISCSI'):
            self.assertEqual(backend.ISCSI,
                             read(protocol=written).backends[0].protocol)
        for written in ('fc', 'FC', 'Fibre Channel', 'fibre-channel'):
            self.assertEqual(backend.FC,
                             read(protocol=written).backends[0].protocol)

    def test_a_comma_makes_several_back_ends(self):
        settings = read(backend_name='k2a, k2b')
        self.assertEqual(['k2a', 'k2b'],
                         [one.name for one in settings.backends])
        self.assertEqual(['k2a', 'k2b'],
                         [one.values['volume_backend_name']
                          for one in settings.backends])

    def test_the_default_name_is_that_of_the_application(self):
        self.assertEqual('cinder-k2', read().backends[0].name)

    def test_a_password_in_the_model_causes_a_warning(self):
        settings = read(credentials='', san_user='me', san_password='pw')
        self.assertRegex(settings.warnings[0], 'use a secret in credentials')
        self.assertEqual(settings.warnings, read(san_password='pw').warnings)
        self.assertEqual((), read().warnings)


class BackendsTest(Case):

    YAML = """
        k2a:
          san_ip: 10.0.0.6
          protocol: fc
          credentials: secret:own
        k2b:
        """

    def test_own_and_shared_options(self):
        first, second = read(backends=self.YAML,
                             retention_policy='Gold').backends
        self.assertEqual(('k2a', 'FC', 'secret:own', '10.0.0.6', 'Gold'), (
            first.name, first.protocol, first.credentials,
            first.values['san_ip'], first.values['k2_retention_policy']))
        self.assertEqual(('k2b', 'iSCSI', 'secret:abc', '10.0.0.5', 'Gold'), (
            second.name, second.protocol, second.credentials,
            second.values['san_ip'], second.values['k2_retention_policy']))

    def test_back_ends_of_backend_name_are_included(self):
        names = [one.name for one in read(
            backends=self.YAML, backend_name='old,k2a').backends]
        self.assertEqual(['old', 'k2a', 'k2b'], names)

    def test_types_are_not_guessed_from_yaml(self):
        one, = read(backends='no:\n  retention-policy: 0123\n'
                             '  use-chap-auth: yes').backends
        self.assertEqual(('no', '0123', 'True'), (
            one.name, one.values['k2_retention_policy'],
            one.values['use_chap_auth']))

    def test_an_empty_value_unsets_a_shared_option(self):
        first, second = read(
            filter_function='a < b',
            backends='k2a: {filter-function: ""}\nk2b:').backends
        self.assertNotIn('filter_function', first.values)
        self.assertEqual('a < b', second.values['filter_function'])

    def test_null_is_an_empty_value(self):
        for null in ('null', '~', 'NULL', ''):
            first, second = read(
                filter_function='a < b', replication_devices=null, backends=(
                    f'k2a: {{filter-function: {null}}}\nk2b: {null}')
            ).backends
            self.assertNotIn('filter_function', first.values)
            self.assertEqual(((), 'a < b'), (
                second.devices, second.values['filter_function']))
            self.assertEqual(['backends: k2a: san_ip is not set; give the '
                              'management address of the array'],
                             self.errors(
                                 backends=f'k2a: {{san_ip: {null}}}'))

    def test_null_in_quotes_or_as_a_name_is_text(self):
        one, = read(
            backends='null: {retention-policy: "null"}').backends
        self.assertEqual(('null', 'null'), (
            one.name, one.values['k2_retention_policy']))

    def test_only_false_turns_verification_off(self):
        for written, expected in (('""', 'True'), ('yes', 'True'),
                                  ('False', 'False')):
            one, = read(backends=f'k2a: {{tls-verify: {written}}}').backends
            self.assertEqual(expected, one.values['driver_ssl_cert_verify'])

    def test_one_array_can_be_pinned_while_others_use_an_authority(self):
        pinned, other = read(tls_ca=PEM, backends=(
            f'a: {{tls-fingerprint: {"AB:" * 31}AB}}\nb:')).backends
        self.assertEqual('ab' * 32, pinned.values['k2_tls_fingerprint'])
        self.assertNotIn('k2_tls_fingerprint', other.values)
        self.assertEqual((PEM, PEM), (pinned.tls_ca, other.tls_ca))

    def test_iscsi_options_are_omitted_for_fc(self):
        fc, iscsi = read(use_chap_auth=True, iscsi_cidrs='10.0.0.0/8',
                         backends='f: {protocol: fc}\ni:').backends
        keys = {'use_chap_auth', 'k2_iscsi_cidrs'}
        self.assertFalse(keys & set(fc.values))
        self.assertLessEqual(keys, set(iscsi.values))


@ddt.ddt
class InvalidOptionsTest(Case):

    @ddt.data(
        ({'san_ip': ''}, 'san_ip is not set; give the management address of '
         'the array'),
        # Cinder would log in as its own default, admin.
        ({'credentials': '', 'san_password': 'hush'}, 'credentials is not'),
        ({'credentials': ''}, 'credentials is not set; give a secret with '
         'the keys username and password'),
        ({'san_ip': 'https://k2'}, 'san_ip is "https://k2": use a name or'),
        ({'san_ip': 'https://me:hush@k2'}, 'san_ip is "https://***@k2": use'),
        ({'san_ip': 'https://me:hush/@1@k2'}, 'san_ip is "https://***@k2"'),
        ({'san_ip': '10.0.0'}, 'san_ip is "10.0.0": use a name'),
        ({'san_ip': 'fe80::1%eth0'}, 'san_ip is "fe80::1%eth0": use a name'),
        ({'san_ip': 'k2:0'}, 'san_ip is "k2:0": use 1 to 65535'),
        ({'san_api_port': 65536}, 'san-api-port is "65536": use 1 to 65535'),
        ({'protocol': 'nfs'}, 'protocol is "nfs": use iscsi or fc'),
        ({'backend_name': 'a b'}, 'back end "a b": use at most 100 letters'),
        ({'backend_name': 'DEFAULT'}, 'back end "DEFAULT": this name is'),
        ({'backend_name': 'k2,K2'}, 'back end "K2": another one has this'),
        ({'iscsi_cidrs': '10.0.0.1/8'}, 'iscsi-cidrs is "10.0.0.1/8": '
         '10.0.0.1/8 has host bits set; use networks'),
        ({'clone_strategies': 'thin,magic'}, 'clone-strategies is '
         '"thin,magic": use thin, view, copy, each at most once'),
        ({'max_over_subscription_ratio': '0.5'}, 'max-over-subscription-ratio '
         'is "0.5": use auto, or a number of at least 1'),
        ({'reserved_percentage': 101}, 'reserved-percentage is "101": use 0 '
         'to 100'),
        ({'image_volume_cache_max_count': -1}, 'image-volume-cache-max-count '
         'is "-1": use a whole number'),
        ({'tls_fingerprint': 'AB:CD'}, 'tls-fingerprint is "AB:CD": use 64'),
        ({'tls_ca': 'none'}, 'tls-ca is "none": use certificates in PEM'),
        ({'tls_ca': ' \n'}, 'tls-ca is "": use certificates in PEM'),
        ({'tls_ca': CUT}, 'tls-ca is "-----BEGIN CERTIFICATE----- MIIBLDCB36AD'
         '...": a certificate is damaged'),
        ({'tls_ca': PEM + CUT}, 'tls-ca is "-----BEGIN'),
        ({'tls_ca': PEM.replace('\n', '\xa0\n')}, 'tls-ca is "-----BEGIN'),
        ({'filter_function': 'a\nb'}, 'filter-function is "a b": line breaks'),
        ({'volume_backend_name': 'a#b'}, 'volume-backend-name is "a#b": do '
         'not use # or @'),
        ({'cluster': 'c'}, 'cluster needs coordination-url'),
        ({'cluster': 'a b'}, 'cluster is "a b": use at most 100 letters'),
        ({'cluster': 'c', 'coordination_url': 'etcd3://x', 'stateless': True},
         'cluster and stateless exclude each other'),
        ({'coordination_url': 'hush'}, 'coordination-url: use an address'),
        ({'driver_source': 'http://x'}, 'driver-source is "http://x": use'),
        ({'driver_source': 'deb https://me:hush/1@x'}, 'driver-source is "deb '
         'https://***@x": use'),
        ({'driver_source': 'deb https://x noble main'},
         'driver-source needs driver-key'),
        ({'driver_key': 'hush'}, 'driver-key: use a public key'),
        ({'san_password': 'hush\nhush'}, 'san_password: line breaks'),
        ({'backends': 'k2a: {sanip: 1}'}, 'backends: k2a: sanip is unknown'),
        ({'backends': 'k2a: {san_password: hush}'}, 'backends: k2a: '
         'san_password is not allowed here; use a secret'),
        ({'backends': 'k2a: {credentials: hush}'}, 'backends: k2a: '
         'credentials: use the id of a Juju secret'),
        ({'backends': 'k2a: {protocol: nfs}'}, 'backends: k2a: protocol is '
         '"nfs": use iscsi or fc'),
        ({'backends': 'k2a: {san_ip: [1]}'}, 'backends: k2a: san_ip: write '
         'one value after the colon'),
        ({'backends': 'k2a: 5'}, 'backends: k2a: write its options below it'),
        ({'backends': '- k2a'}, 'backends: begin each back end with its name'),
        ({'backends': 'a: {}\na: {}'}, 'backends: a is set twice'),
        ({'backends': 'a: "'}, 'backends: it is not valid YAML in line'),
        ({'backends': '&a [*a]'}, 'backends: it is nested too deeply'),
        ({'backends': '[' * 9999}, 'backends: it is not valid YAML;'),
    )
    @ddt.unpack
    def test_each_error_has_option_and_rule(self, config, expected):
        texts = self.errors(**config)
        self.assertTrue(any(text.startswith(expected) for text in texts),
                        texts)
        self.assertNotIn('hush', ' '.join(texts))

    def test_all_are_reported_at_once_and_each_once(self):
        texts = self.errors(protocol='nfs', san_ip='',
                            backend_name='k2a,k2b')
        self.assertEqual(2, len(texts), texts)

    @hypothesis.given(st.sampled_from(sorted(DEFAULTS)), test_oslo.TEXTS)
    def test_any_text_in_any_option_is_carried_or_refused(self, option, text):
        self.assertCarriedOrRefused(option, text)

    def test_a_cluster_can_have_a_name_that_is_reserved_for_arrays(self):
        self.assertEqual('default', read(
            cluster='default', coordination_url='etcd3://x').cluster)

    def test_special_texts_in_every_option(self):
        for option in DEFAULTS:
            for text in test_oslo.EDGES:
                with self.subTest(option, text=text):
                    self.assertCarriedOrRefused(option, text)

    def assertCarriedOrRefused(self, option, text):
        try:
            settings = options.read(
                {**DEFAULTS, **ENOUGH, 'backend_name': 'k2a', option: text},
                'cinder-k2')
        except options.InvalidOptions as error:
            self.assertRegex(str(error), f'{option}|back end "')
            return
        for one in settings.backends:
            found = cinder_conf.section(cinder_conf.render(
                sections.public(settings, {})), one.name)
            for key, value in one.values.items():
                self.assertEqual(_typed(value), _typed(getattr(found, key)))


def _typed(value):
    """Return a value as a string, for any type of option."""
    return ','.join(value) if isinstance(value, list) else str(value)


@ddt.ddt
class ReplicationTest(Case):

    DEVICES = """
        - backend-id: dr-site
          san-ip: 10.9.0.5
        - backend-id: west
          san-ip: "[fd00::1]:8443"
          rpo: 60
          credentials: secret:west
        """

    def test_devices(self):
        one, = read(replication_devices=self.DEVICES,
                    replication_credentials='secret:dr').backends
        first, second = one.devices
        self.assertEqual(('dr-site', '10.9.0.5', '300', ''), (
            first.backend_id, first.san_ip, first.rpo, first.credentials))
        self.assertEqual(('60', 'secret:west'),
                         (second.rpo, second.credentials))
        self.assertEqual('secret:dr', one.replication_credentials)

    @ddt.data(
        ('- backend-id: x', 'replication-devices: number 1: san-ip is not'),
        ('- san-ip: 10.9.0.5', 'replication-devices: number 1: backend-id is'),
        ('- x', 'replication-devices: number 1: write it as "option: value"'),
        ('x: y', 'replication-devices: begin each array with "- "'),
        ('- {backend-id: default, san-ip: 10.9.0.5}', 'replication-devices: '
         'number 1: backend-id is "default": this is reserved for'),
        ('- {backend-id: x, san-ip: 10.9.0.5, password: hush}',
         'replication-devices: number 1: password is not allowed here'),
        ('- {backend-id: x, san-ip: 10.0.0.5}', 'replication-devices: an '
         'array is listed twice, or is the one at san_ip'),
        ('- {backend-id: x, san-ip: 10.9.0.5}\n'
         '- {backend-id: x, san-ip: 10.9.0.6}',
         'replication-devices: two arrays have the same backend-id'),
        ('- {backend-id: x, san-ip: 10.9.0.5}', 'replication-devices: x has '
         'no credentials; set replication-credentials'),
    )
    @ddt.unpack
    def test_errors(self, text, expected):
        texts = self.errors(replication_devices=text)
        self.assertTrue(any(text.startswith(expected) for text in texts),
                        texts)
        self.assertNotIn('hush', ' '.join(texts))

    def test_rpo_values_of_the_array(self):
        for rpo in ('60', '300', '600', '86400'):
            self.assertEqual(rpo, validation.rpo(rpo))
        for rpo in ('0', '-60', '61', '120', '299', '5m', ''):
            with self.assertRaises(validation.InvalidValue):
                validation.rpo(rpo)

    def test_units_that_share_a_host_get_a_warning_about_failovers(self):
        settings = read(replication_devices=self.DEVICES, stateless=True,
                        replication_credentials='secret:dr')
        self.assertRegex(settings.warnings[0], '^stateless: a failover')
        self.assertEqual((), read(stateless=True).warnings)


class SectionsTest(Case):

    def devices(self, *logins):
        """Return the secret section of a replicated back end, as read."""
        text = '\n'.join(f'- {{backend-id: t{number}, san-ip: 10.9.0.{number}'
                         '}' for number in range(len(logins)))
        settings = read(backend_name='k2a', replication_devices=text,
                        replication_credentials='secret:dr')
        found = credentials.Logins(credentials.Login('me', 'own'), {
            f't{number}': credentials.Login(*login)
            for number, login in enumerate(logins)})
        return cinder_conf.section(sections.render(
            sections.secret(settings, {'k2a': found})), 'k2a')

    @hypothesis.given(st.text(min_size=1), st.text(min_size=1))
    def test_passwords_reach_their_arrays_or_are_refused(self, one, other):
        try:
            found = self.devices(('a', one), ('b', other))
        except ValueError:
            return
        self.assertEqual([one, other], [
            device.get('password', found.k2_replication_password)
            for device in found.replication_device])
        self.assertEqual(['a', 'b'], [
            device['login'] for device in found.replication_device])

    def test_a_password_with_a_comma_is_carried(self):
        found = self.devices(('a', 'plain'), ('b', ' with, comma$'))
        self.assertEqual(' with, comma$', found.k2_replication_password)
        self.assertEqual(['plain', None], [
            device.get('password') for device in found.replication_device])

    def test_two_with_commas_are_refused(self):
        with self.assertRaisesRegex(
                sections.TooManyPasswords, 'k2a: the passwords of two arrays'):
            self.devices(('a', 'hush,1'), ('b', 'hush,2'))

    def test_no_key_is_both_public_and_secret(self):
        settings = read(
            replication_devices='- {backend-id: x, san-ip: 10.9.0.5}',
            replication_credentials='secret:dr', use_chap_auth=True,
            cluster='c', coordination_url='etcd3+http://u:p@10.0.0.9')
        login = credentials.Login('me', 'pw')
        secret = sections.secret(settings, {'cinder-k2': credentials.Logins(
            login, {'x': login})})
        public = sections.public(settings, {})
        for name, pairs in secret.items():
            self.assertFalse({key for key, _ in pairs} & {
                key for key, _ in public.get(name, [])})
        self.assertEqual([('cluster', 'c')], public['DEFAULT'])
        self.assertEqual([('backend_url', 'etcd3+http://u:p@10.0.0.9')],
                         secret['coordination'])
        self.assertNotIn('u:p', repr(settings))
