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

import json
import unittest

import ddt
from hypothesis import given
from hypothesis import strategies as st

from cinder_k2 import rest
from cinder_k2.rest import errors

PLACE = errors.Place('10.0.0.1', 'POST', '/volumes')


def made(status, body, place=PLACE):
    if not isinstance(body, bytes):
        body = json.dumps(body).encode()
    return errors.from_reply(status, body, place)


@ddt.ddt
class FromReplyTest(unittest.TestCase):

    @ddt.data((400, rest.Refused), (401, rest.AuthenticationFailed),
              (402, rest.Refused), (403, rest.Forbidden),
              (404, rest.NotFound), (405, rest.MethodNotAllowed),
              (409, errors.SequenceUsed), (418, rest.Refused),
              (429, rest.Busy), (500, rest.ServerError),
              (502, rest.ServerError), (503, rest.Busy),
              (504, rest.ServerError), (302, rest.BadReply),
              (101, rest.BadReply))
    @ddt.unpack
    def test_by_status(self, status, kind):
        error = made(status, {'error_msg': 'why'})
        self.assertIs(kind, type(error))
        self.assertEqual((status, None, 'why', 'POST', '/volumes'),
                         (error.status, error.code, error.message,
                          error.method, error.path))

    @ddt.data('MC_ERR_BUSY', 'MC_ERR_BUSY_SPECIFIC', 'MC_ERR_INPROGRESS',
              'MC_ERR_START_TIMEOUT')
    def test_busy_codes(self, code):
        """ERR-1: the bare code, or anywhere in the body."""
        for body in ({'error_msg': code}, {'error_msg': f'x ({code}).'},
                     {'detail': code}, code.encode()):
            error = made(400, body)
            self.assertIs(rest.Busy, type(error))
            self.assertEqual(code, error.code)

    def test_busy_code_counts_only_in_a_400(self):
        self.assertIs(rest.Forbidden,
                      type(made(403, {'error_msg': 'MC_ERR_BUSY'})))

    def test_409_to_a_read_is_a_plain_refusal(self):
        error = made(409, b'', errors.Place('a', 'GET', '/volumes'))
        self.assertIs(rest.Refused, type(error))

    @ddt.data(b'', b'   ', b'\xff\xfe', b'{', b'[]', b'null', b'"x"',
              b'{"error_msg": null}', b'<html>\n<b>no</b>', b'[' * 100000)
    def test_any_body_gives_a_one_line_message(self, body):
        line = str(made(400, body))
        self.assertNotIn('\n', line)
        self.assertTrue(line.startswith(
            'K2 array 10.0.0.1: POST /volumes: HTTP 400: '), line)
        self.assertLess(len(line), 500)

    @given(st.integers(100, 599).filter(lambda s: not 200 <= s < 300),
           st.binary(max_size=400))
    def test_every_failed_reply_is_a_rest_error(self, status, body):
        """ERR-7: whatever its text."""
        error = made(status, body)
        self.assertIsInstance(error, rest.RestError)
        self.assertEqual(1, len(str(error).splitlines()))

    def test_message_with_advice(self):
        self.assertEqual(
            'K2 array 10.0.0.1: POST /volumes: HTTP 401: no '
            '(check san_login and san_password)',
            str(made(401, {'error_msg': 'no'})))

    @ddt.data((401, 'check login and password (or k2_replication_password)'),
              (403, 'the user in login needs the role mgmt-app or admin'))
    @ddt.unpack
    def test_advice_for_a_replication_device(self, status, advice):
        place = errors.Place('10.0.0.2', 'GET', '/volumes', 'k2-b')
        self.assertEqual(
            f'K2 array 10.0.0.2: GET /volumes: HTTP {status}: no '
            f'(replication_device k2-b: {advice})',
            str(made(status, {'error_msg': 'no'}, place)))

    def test_without_a_place(self):
        self.assertIn('text', str(rest.NotFound('text')))

    def test_errors_with_unknown_outcome(self):
        doubtful = {kind for kind in vars(errors).values()
                    if isinstance(kind, type)
                    and issubclass(kind, errors.RestError)
                    and kind.outcome_unknown}
        self.assertEqual({rest.Unreachable, errors.NoReply, rest.ServerError,
                          rest.BadReply}, doubtful)

    def test_retryable_errors(self):
        again = {kind for kind in vars(errors).values()
                 if isinstance(kind, type)
                 and issubclass(kind, errors.RestError) and kind.retryable}
        self.assertEqual({
            rest.Unreachable, errors.NotConnected, errors.NoReply,
            errors.OutOfTime, rest.Busy, errors.NoTurn, rest.ServerError,
            rest.BadReply}, again)

    def test_long_text_is_truncated(self):
        error = made(400, {'error_msg': 'a  b\n' + 'c' * 500})
        self.assertEqual('a b ' + 'c' * 296, error.message)

    @ddt.data(b'', b' ', b'{"error_msg": " "}')
    def test_no_text(self, body):
        self.assertEqual('no explanation', made(400, body).message)

    def test_refused(self):
        error = errors.refused(made(409, {'error_msg': 'used'}))
        self.assertEqual((rest.Refused, 'used', PLACE, 409), (
            type(error), error.message, error.place, error.status))


@ddt.ddt
class MessageTest(unittest.TestCase):
    """Messages for operators."""

    def test_without_a_place(self):
        self.assertEqual(errors.Place('', '', '', ''), rest.NotFound(
            'text').place)
        self.assertEqual('K2 array : text', str(rest.NotFound('text')))

    def test_without_a_call(self):
        self.assertEqual('K2 array a: text', str(rest.RestError(
            'text', errors.Place('a', path='/volumes'))))

    @ddt.data(
        (rest.RestError, ''), (errors.OutOfTime, ''),
        (rest.Unreachable,
         'check san_ip, san_api_port and the network between this machine '
         'and the array'),
        (rest.CertificateError,
         'check driver_ssl_cert_path, or pin the certificate of the array '
         'with k2_tls_fingerprint'),
        (rest.AuthenticationFailed, 'check san_login and san_password'),
        (rest.Forbidden,
         'the user in san_login needs the role mgmt-app or admin'),
        (rest.Busy, 'the array has too much to do; try again later'),
        (rest.NotOffered, "'k2-admin capabilities' shows what the array "
         'offers'),
        (errors.Incomplete,
         'remove objects from the array, or ask for a version with paging; '
         "'k2-admin capabilities' shows what it offers"),
        (rest.ServerError, 'look at the events of the array'),
        (rest.BadReply, 'is san_ip the management address of a K2 array?'))
    @ddt.unpack
    def test_advice(self, kind, advice):
        self.assertEqual(advice, kind('text').advice)

    def test_other_advice(self):
        for hint in ('do this', ''):
            self.assertEqual(hint, rest.Busy('text', hint=hint).advice)
        self.assertEqual('K2 array : text', str(rest.Busy('text', hint='')))

    def test_option_names_of_a_device(self):
        self.assertEqual(
            'port, login, password (or k2_replication_password), '
            'tls_fingerprint and san_ip', errors.in_words_of_device(
                'san_api_port, san_login, san_password, k2_tls_fingerprint '
                'and san_ip'))

    def test_may_go_on_and_server_failures(self):
        slow = (errors.NoReply('x'), rest.ServerError('x', status=504))
        failed = (rest.Unreachable('x'), rest.ServerError('x', status=500))
        other = (errors.NotConnected('x'), rest.BadReply('x'),
                 rest.Busy('x', status=503), rest.Refused('x'))
        for error in (*slow, *failed, *other):
            self.assertIs(error in slow, errors.may_go_on(error))
            self.assertIs(error in failed, errors.is_server_failure(error))
