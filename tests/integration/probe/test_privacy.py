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

"""The files of k2-admin probe do not identify the array."""

import io
import json
import pathlib

import ddt

from cinder_k2.probe import run
from cinder_k2 import rest
import k2_sim
from tests.integration.probe import test_probe

# Texts that an array could quote; names may have spaces or punctuation.
QUOTED = ('erp-finance-01', 'Payroll Backup', 'oraclehost', 'jdoe',
          '10.20.30.41', 'fd00:aa::17', '50024f4001dcba98', '00042f77',
          'iqn.1998-01.com.acme:esx7', '1234567', 'swordfish-and-more',
          'k2-mgmt.acme.example')
_TEXT = (f'Volume {QUOTED[0]} is mapped to "{QUOTED[1]}", host {QUOTED[2]}; '
         f'user={QUOTED[3]} at {QUOTED[4]}:443/[{QUOTED[5]}], '
         f'wwn {QUOTED[6]}, serial {QUOTED[7]} ({QUOTED[8]}), id '
         f'{QUOTED[9]}, password {QUOTED[10]}; see https://{QUOTED[11]}/x')


class Telling(test_probe.Adapter):
    """Lets each refusal quote what others have on the array."""

    def send(self, request, **kwargs):
        response = super().send(request, **kwargs)
        if response.status_code >= 400:
            text = b''.join(response.iter_content(1 << 16)) or b'{}'
            message = json.loads(text).get('error_msg')
            response._content = response._content_consumed = False
            response.raw = io.BytesIO(json.dumps({
                'error_msg': f'{_TEXT} {message}'}).encode())
        return response


@ddt.ddt
class PrivacyTest(test_probe.ProbeTest):

    def others(self, sim):
        """Create foreign objects; returns everything to be kept private."""
        client = rest.Client(
            rest.Settings(address='k2.example.org', login='admin',
                          password=test_probe._PASSWORD),
            k2_sim.RequestsAdapter(sim), sim.clock)
        self.addCleanup(client.close)
        group = client.volume_groups.create(
            name=QUOTED[0], quota=0, is_dedup=True)
        volume = client.volumes.create(
            name='oraclevolume', size=1 << 20, volume_group=group.ref)
        host = client.hosts.create(name=QUOTED[2], type='Linux')
        client.host_iqns.create(iqn=QUOTED[8], host=host.ref)
        client.mappings.create(host=host.ref, volume=volume.ref)
        state = client.system_state()
        addresses = client.raw.ask('GET', 'system/net_ips').hits
        serial = client.raw.ask('GET', 'volumes').hits[-1]['scsi_sn']
        return [*QUOTED, *QUOTED[1].split(), 'oraclevolume', serial,
                state.system_id, state.system_name,
                state.iscsi_qualified_target_name, 'k2.example.org',
                test_probe._PASSWORD,
                *(hit['ip_address'] for hit in addresses)]

    def told(self, sim):
        """Run a probe; return all it wrote as one text, and its report."""
        self.adapter = Telling(k2_sim.RequestsAdapter(sim))
        report = run.run(run.Target(rest.Settings(
            address='k2.example.org', login='admin',
            password=test_probe._PASSWORD, pause=0.5,
            verdicts=f'{self.directory}/verdicts'),
            f'{self.directory}/tokens', self.adapter, sim.clock), True)
        paths = run.save(report, self.directory, 'result')
        return '\n'.join([json.dumps(report), *(
            pathlib.Path(path).read_text() for path in paths)]), report

    @ddt.data(('sdp', 'none'), ('k2', 'none'), ('known', '400'),
              ('known', '404'), ('known', '500'), ('known', 'ignored'))
    @ddt.unpack
    def test_nothing_of_others_is_told(self, profile, way):
        self.profile = profile
        sim = self.array(refuse_unlisted=way)
        names = self.others(sim)
        told, report = self.told(sim)
        self.assertEqual([], [name for name in names
                              if name.lower() in told.lower()])
        self.assertIn('"', told)
        # Words that errors usually consist of are kept, and the status.
        self.assertIn(
            f'HTTP {"404" if way == "404" else "400"}: Volume <...> is '
            'mapped to', told)

    def test_names_of_arrays_do_not_spoil_the_result(self):
        """A word such as "HTTP" could be the name of an array."""
        sim = k2_sim.Array(
            'sdp', clock=k2_sim.FakeClock(), password='a', name='is')
        self.addCleanup(sim.close)
        report = run.run(run.Target(rest.Settings(
            address='k2.example.org', login='admin', password='a',
            pause=0.5), f'{self.directory}/tokens',
            k2_sim.RequestsAdapter(sim), sim.clock), False)
        self.assertEqual('Content-Type: application/json', self.rows(
            report)['CON-6']['seen'])
