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

"""Initiators of hosts."""

from cinder_k2.probe.findings import checks
from cinder_k2.probe.findings import done
from cinder_k2.probe.findings import Finding
from cinder_k2.probe.findings import refused
from cinder_k2.probe.writes import base


class Initiators(base.Checks):
    """Initiators of hosts."""

    @checks('INI-3')
    def of_another_host(self) -> Finding:
        """An initiator of another host is refused."""
        self._made.initiator()
        return refused(self._make('host_iqns', self._made.initiator_body(
            'i1', 'h2')))

    @checks('INI-5')
    def in_another_case(self) -> Finding:
        """An initiator of another host is also refused in different case."""
        self._made.initiator()
        return refused(self._make('host_iqns', self._made.initiator_body(
            'I1', 'h2')))

    @checks('HST-3')
    def with_initiators(self) -> Finding:
        """A host with initiators cannot be deleted."""
        self._made.initiator()
        answer = self._remove('hosts', self._made.host('h4'))
        if answer.ok:
            self._made.forget('h4')
        return refused(answer)

    @checks('INI-6')
    def last_initiator(self) -> Finding:
        """The last initiator of a mapped host can be deleted."""
        self._made.mapping('m8', self._made.host('h4'), 'volumes',
                           self._made.volume('v3', 'g6'))
        answer = self._remove('host_iqns', self._made.initiator(), leaf=True)
        if answer.ok:
            self._made.forget('i1')
        return done(answer)
