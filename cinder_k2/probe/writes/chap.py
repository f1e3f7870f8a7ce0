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

"""CHAP profiles."""

import secrets

from cinder_k2.probe import findings
from cinder_k2.probe.findings import checks
from cinder_k2.probe.findings import Finding
from cinder_k2.probe.findings import refused
from cinder_k2.probe.findings import that
from cinder_k2.probe.words import names
from cinder_k2.probe.words import said
from cinder_k2.probe.writes import base


class Chap(base.Checks):
    """CHAP profiles."""

    @checks('CHP-2')
    def chap(self) -> Finding:
        """CHAP profiles are assigned by map_auth_profiles_names alone."""
        host = self._made.host('h2')
        self._made.profile()
        older, given, unknown = (self._change('hosts', host, {
            field: self._name('p1')}) for field in (
                'host_auth_profile', 'map_auth_profiles_names',
                'k2probe_field'))
        self._take(host)
        seen = (f'map_auth_profiles_names: {said(given)}; '
                f'host_auth_profile: {said(older)}')
        if unknown.ok or not given.ok and not older.ok:
            return findings.not_seen(
                f'{seen}; an unknown field: {said(unknown)}')
        return that(given.ok and not older.ok, seen)

    @checks('CHP-4')
    def profile_name(self) -> Finding:
        """Names of CHAP profiles are unique."""
        self._made.profile()
        return refused(self._make('host_auth_profiles',
                                  self._made.profile_body('p1')))

    @checks('CHP-5')
    def short_password(self) -> Finding:
        """A password of 11 characters is refused."""
        self._made.profile()
        return refused(self._make('host_auth_profiles', {
            **self._made.profile_body('p3'),
            'password': secrets.token_hex(6)[:11]}))

    @checks('CHP-6')
    def shown_profile(self) -> Finding:
        """No field of a host shows its profile."""
        host = self._given()
        one = self._read('hosts', 'h2')
        self._take(host)
        found = [key for key, value in one.items()
                 if self._name('p1') in str(value)]
        return that(not found, f'fields: {names(found) or "none"}')

    @checks('CHP-4')
    def profile_in_use(self) -> Finding:
        """A profile in use cannot be deleted."""
        host, profile = self._given(), self._made.profile()
        answer = self._remove('host_auth_profiles', profile)
        if answer.ok:
            self._made.forget('p1')
        self._take(host)
        return refused(answer)

    def _given(self) -> int:
        """A host whose profile the array has confirmed."""
        host = self._made.host('h2')
        self._made.profile()
        answer = self._change('hosts', host, {
            'map_auth_profiles_names': self._name('p1')})
        if not base.same(self._read('host_auth_profiles', 'p1').get(
                'hosts_count'), 1):
            self._take(host)
            raise findings.Skip(f'no host has the profile: {said(answer)}')
        return host

    def _take(self, host: int) -> None:
        self._change('hosts', host, {'map_auth_profiles_names': None})
