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

"""The Zuul jobs refer to existing jobs, playbooks and variables."""

import re
import unittest

import yaml

from tests.devstack import harness
from tests.devstack import test_options

# Parents that other projects define.
FOREIGN = {'devstack-tempest', 'openstack-tox'}
# Names of Tempest tests, and whether they should run.
TESTS = {
    'tempest.api.volume.test_volumes_get.VolumesGetTest.test_volume': True,
    'tempest.api.volume.admin.test_groups.GroupsTest.test_group': True,
    'tempest.api.compute.volumes.test_attach_volume.AttachTest.test_a': True,
    'tempest.api.compute.admin.test_volume_swap.SwapTest.test_swap': True,
    'tempest.scenario.test_volume_boot_pattern.TestBoot.test_boot': True,
    'tempest.scenario.test_snapshot_pattern.TestSnapshot.test_it': True,
    'cinder_tempest_plugin.api.volume.test_volume_revert.T.test_it': True,
    'cinder_tempest_plugin.rbac.v3.test_volumes.T.test_it': False,
    'tempest.api.identity.v3.test_users.IdentityTest.test_password': False,
    'tempest.api.compute.servers.test_create_server.T.test_list': False,
}


class ZuulTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        found = yaml.safe_load((harness.ROOT / '.zuul.yaml').read_text())
        cls.jobs = {item['job']['name']: item['job'] for item in found
                    if 'job' in item}
        cls.project, = [item['project'] for item in found
                        if 'project' in item]

    def chain(self, job):
        """Return the job and its ancestors, the topmost parent first."""
        parent = job['parent']
        return (self.chain(self.jobs[parent]) if parent in self.jobs
                else []) + [job]

    def localrc(self, job):
        """Return the DevStack variables; children override parents."""
        found = {}
        for one in self.chain(job):
            found.update(one.get('vars', {}).get('devstack_localrc', {}))
        return found

    def concrete(self):
        """Return the jobs that are not abstract and need DevStack."""
        found = [job for job in self.jobs.values() if not job.get('abstract')
                 and 'devstack-tempest' == self.chain(job)[0]['parent']]
        self.assertEqual(4, len(found))
        return found

    def test_parents_and_playbooks_exist(self):
        for job in self.jobs.values():
            self.assertIn(job['parent'], self.jobs.keys() | FOREIGN)
            for kind in ('pre-run', 'run', 'post-run'):
                if kind in job:
                    path = harness.ROOT / job[kind]
                    self.assertTrue(yaml.safe_load(path.read_text()), path)

    def test_jobs_of_the_project_exist(self):
        named = [name for pipeline in self.project.values()
                 for item in pipeline['jobs']
                 for name in ([item] if isinstance(item, str) else item)]
        tempest = {name for name in named if '-tox-' not in name}
        self.assertLessEqual(tempest, {
            job['name'] for job in self.concrete()})
        # Others need a real array.
        for name in tempest:
            self.assertIn('simulator', name)

    def test_requirements_of_cinder(self):
        """Changes of os-brick are tested, with both protocols and suites."""
        base = self.jobs['cinder-k2-tempest-base']
        self.assertLessEqual(
            {'opendev.org/openstack/cinder', 'opendev.org/openstack/os-brick',
             'opendev.org/openstack/cinder-tempest-plugin', 'cinder-k2'},
            set(base['required-projects']))
        self.assertEqual(['cinder-tempest-plugin'],
                         base['vars']['tempest_plugins'])
        self.assertEqual({'iSCSI', 'FC'}, {
            self.localrc(job).get('K2_ALL_protocol', 'iSCSI')
            for job in self.concrete() if 'simulator' not in job['name']})

    def test_choice_of_tests(self):
        names = self.jobs['cinder-k2-tempest-base']['vars']
        for name, chosen in TESTS.items():
            self.assertEqual(
                chosen,
                bool(re.search(names['tempest_test_regex'], name)) and
                not re.search(names['tempest_exclude_regex'], name), name)

    def test_irrelevant_files(self):
        patterns = self.jobs['cinder-k2-tempest-base']['irrelevant-files']
        for path, irrelevant in {
                'cinder/volume/manager.py': False, 'setup.cfg': False,
                'os_brick/initiator/connectors/iscsi.py': False,
                'doc/source/index.rst': True, 'README.rst': True,
                'cinder/tests/unit/test_db.py': True}.items():
            self.assertEqual(irrelevant, any(
                re.search(pattern, path) for pattern in patterns), path)

    def test_the_plugin_accepts_the_variables(self):
        harness.require_curl(self)
        for job in self.concrete():
            with self.subTest(job['name']):
                self.check_job(job)

    def check_job(self, job):
        """Run stack.sh with the variables of a job."""
        machine = harness.DevStack()
        self.addCleanup(machine.close)
        password = machine.dest / 'password'
        password.write_text('Sesame')
        values = {'{{ array_address }}': '192.0.2.1',
                  '{{ array_fingerprint }}': 'ab' * 32}
        lines = []
        for name, value in self.localrc(job).items():
            text = values.get(value, str(value))
            if name.endswith('_file'):
                self.assertIn('/etc/cinder-k2-ci/password', text)
                text = str(password)
            if '{{' in text:
                text = re.search(r'default\("(.*)"\)', text).group(1)
            lines.append(f'{name}={text}')
        machine.local('K2_CHECK=False', *lines, 'K2_DATA_PLANE=none')
        machine.check_run('stack')
        if 'simulator' not in job['name']:
            back_end = machine.default('enabled_backends')
            self.assertEqual('192.0.2.1', machine.option(back_end, 'san_ip'))
            self.assertEqual('Sesame',
                             machine.option(back_end, 'san_password'))

    def test_the_plugin_is_the_one_that_was_checked_out(self):
        url = self.jobs['cinder-k2-tempest-base']['vars']['devstack_plugins']
        self.assertEqual({'cinder-k2': 'file:///opt/stack/cinder-k2'}, url)

    def test_logs(self):
        """Reports are copied by Zuul, and use installed commands."""
        play, = yaml.safe_load(
            (harness.ROOT / 'playbooks' / 'collect-k2-logs.yaml').read_text())
        copied = self.jobs['cinder-k2-tempest-base']['vars'][
            'zuul_copy_output']
        self.assertIn(play['vars']['k2_logs'], copied)
        commands = ' '.join(play['vars']['k2_reports'].values())
        for name in re.findall(r'k2_bin \}\}/([\w-]+)', commands):
            self.assertTrue((harness.BIN / name).exists(), name)
        # Secrets are never copied.
        self.assertNotIn('.cinder', str(play) + str(copied))


class DocumentTest(unittest.TestCase):
    """doc/source/contributor has all variables, and only existing ones."""

    PAGES = harness.ROOT / 'doc' / 'source' / 'contributor'

    def test_every_variable(self):
        settings = (harness.ROOT / 'devstack' / 'settings').read_text()
        known = set(re.search(r'_K2_VARIABLES="([^"]*)"', settings)
                    .group(1).split())
        given = set(re.findall(r'(?m)^(K2_\w+)=', settings))
        self.assertEqual(known, given)
        page = (self.PAGES / 'devstack.rst').read_text()
        rows = set(re.findall(r'(?m)^   \* - ``(K2_\w+)``', page))
        self.assertEqual(known, rows)

    def test_every_option(self):
        """Options in recipes are options of the driver."""
        known = {*test_options.back_ends.known_options(), 'protocol',
                 'replication'}
        found = []
        for path in [*self.PAGES.glob('*.rst'),
                     harness.ROOT / 'devstack' / 'README.rst']:
            found += re.findall(r'(?m)^ +K2_(?:ALL|BACKEND_k2_[a-z0-9]+)_'
                                r'(\w+)=', path.read_text())
        self.assertGreater(len(found), 8)
        for name in found:
            self.assertTrue(
                name in known or name.removesuffix('_file') in known, name)

    def test_every_job(self):
        page = (self.PAGES / 'third-party-ci.rst').read_text()
        found = yaml.safe_load((harness.ROOT / '.zuul.yaml').read_text())
        for item in found:
            if 'job' in item and not item['job'].get('abstract'):
                self.assertIn(f'``{item["job"]["name"]}``', page)
