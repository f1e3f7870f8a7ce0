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

    def test_a_busy_code_counts_in_a_400_only(self):
        self.assertIs(rest.Forbidden,
                      type(made(403, {'error_msg': 'MC_ERR_BUSY'})))

    def test_409_of_a_read_is_no_sequence(self):
        error = made(409, b'', errors.Place('a', 'GET', '/volumes'))
        self.assertIs(rest.Refused, type(error))

    @ddt.data(b'', b'   ', b'\xff\xfe', b'{', b'[]', b'null', b'"x"',
              b'{"error_msg": null}', b'<html>\n<b>no</b>', b'[' * 100000)
    def test_any_body_makes_one_line(self, body):
        line = str(made(400, body))
        self.assertNotIn('\n', line)
        self.assertTrue(line.startswith(
            'K2 array 10.0.0.1: POST /volumes: HTTP 400: '), line)
        self.assertLess(len(line), 500)

    @given(st.integers(100, 599).filter(lambda s: not 200 <= s < 300),
           st.binary(max_size=400))
    def test_every_reply_is_some_error(self, status, body):
        """ERR-7: whatever its text is."""
        error = made(status, body)
        self.assertIsInstance(error, rest.RestError)
        self.assertEqual(1, len(str(error).splitlines()))

    def test_what_to_do(self):
        self.assertEqual(
            'K2 array 10.0.0.1: POST /volumes: HTTP 401: no '
            '(check san_login and san_password)',
            str(made(401, {'error_msg': 'no'})))

    @ddt.data((401, 'check login and password (or k2_replication_password)'),
              (403, 'the user in login needs the role mgmt-app or admin'))
    @ddt.unpack
    def test_what_to_do_about_a_replication_device(self, status, advice):
        place = errors.Place('10.0.0.2', 'GET', '/volumes', 'k2-b')
        self.assertEqual(
            f'K2 array 10.0.0.2: GET /volumes: HTTP {status}: no '
            f'(replication_device k2-b: {advice})',
            str(made(status, {'error_msg': 'no'}, place)))

    def test_without_a_place(self):
        self.assertIn('text', str(rest.NotFound('text')))

    def test_what_is_in_doubt(self):
        doubtful = {kind for kind in vars(errors).values()
                    if isinstance(kind, type)
                    and issubclass(kind, errors.RestError)
                    and kind.in_doubt}
        self.assertEqual({rest.Unreachable, errors.NoReply, rest.ServerError,
                          rest.BadReply}, doubtful)
