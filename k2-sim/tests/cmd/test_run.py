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
"""Arrays for a command, for pytest, and the files of the page about CI."""

import contextlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys

import ddt
import yaml

from k2_sim.cmd import arrays
from tests import base

ROOT = pathlib.Path(__file__).resolve().parents[3]
FILES = ROOT / 'doc' / 'source' / 'simulator' / 'ci'
# Seconds; a start takes one, if the machine is not loaded.
_LIMIT = 120
_PEERS = ('import os, sys, requests\n'
          'url = os.environ["K2_URL" + sys.argv[1]]\n'
          'reply = requests.get(f"{url}/api/v2/"\n'
          '    "replication/peer_k2arrays", verify=os.environ["K2_CA"],\n'
          '    auth=("admin", os.environ["K2_PASSWORD"]), timeout=60)\n'
          'print([(hit["name"], hit["mgmt_connectivity_state"])\n'
          '       for hit in reply.json()["hits"]])\n')


class Case(base.DirectoryTest):

    def setUp(self):
        super().setUp()
        programs = self.directory / 'bin'
        programs.mkdir()
        (self.directory / 'tmp').mkdir()
        for name, module in (('k2-sim', 'main'), ('k2-sim-ctl', 'ctl')):
            program = programs / name
            program.write_text(
                f'#!/bin/sh\nexec {sys.executable} -W ignore -m'
                f' k2_sim.cmd.{module} "$@"\n')
            program.chmod(0o755)
        self.environment = {
            **os.environ, 'PYTHONPATH': str(ROOT / 'k2-sim'),
            'PYTHONWARNINGS': 'ignore', 'TMPDIR': str(self.directory / 'tmp'),
            'PATH': f'{programs}:{os.environ["PATH"]}'}

    def call(self, *arguments):
        done = subprocess.run(
            arguments, capture_output=True, text=True, cwd=self.directory,
            timeout=_LIMIT, env=self.environment)
        self.assertEqual([], list((self.directory / 'tmp').iterdir()))
        return done

    def run_it(self, *arguments):
        return self.call('k2-sim', 'run', *arguments)


@ddt.ddt
class RunTest(Case):

    def test_a_job(self):
        """Ready when the command runs; its status; everything stored."""
        done = self.run_it(
            '--directory', 'k2', '--seed', 'volumes=2', '--random-seed', '5',
            '--', 'sh', '-c', 'cd / && k2-sim-ctl --url "$K2_URL" --ca'
            ' "$K2_CA" chance show && cat "$K2_PASSWORD_FILE" && exit 3')
        self.assertEqual((3, ''), (done.returncode, done.stderr))
        password = (self.directory / 'k2/admin.password').read_text()
        self.assertEqual(f'{{\n  "seed": 5\n}}\n{password}', done.stdout)
        self.assertGreater(len(password), 20)
        for name in ('run.har', 'leftovers.json'):
            self.assertNotIn(password.strip(),
                             (self.directory / 'k2' / name).read_text())
        left = json.loads((self.directory / 'k2/leftovers.json').read_text())
        self.assertEqual(2, len(left['volumes']))

    def test_once_more_in_the_same_directory(self):
        """The state is the previous one."""
        for before, after in (('0', '1'), ('1', '2')):
            done = self.run_it(
                '--directory', 'k2', '--', 'sh', '-c',
                'curl -s --cacert "$K2_CA" -u "$K2_LOGIN:$K2_PASSWORD"'
                ' -H "Content-Type: application/json" -d'
                f' \'{{"name": "g{after}", "quota": 0}}\''
                ' "$K2_URL/api/v2/volume_groups" | grep -c \'"id"\'')
            self.assertEqual((0, '1\n'), (done.returncode, done.stdout))
        left = json.loads((self.directory / 'k2/leftovers.json').read_text())
        self.assertEqual(2, len(left['volume_groups']))

    def test_a_pair(self):
        """Each has the other as its peer, and reaches it."""
        done = self.run_it(
            '--pair', '--directory', 'k2', '--', 'sh', '-c',
            f"sleep 2; {sys.executable} -c '{_PEERS}' '';"
            f" {sys.executable} -c '{_PEERS}' _2")
        self.assertEqual(
            (0, "[('sim-k2-b', 'ok')]\n[('sim-k2-a', 'ok')]\n", ''),
            (done.returncode, done.stdout, done.stderr))
        for name in ('run-2.har', 'leftovers-2.json'):
            self.assertTrue((self.directory / 'k2' / name).is_file())

    def test_a_pair_of_a_file(self):
        """The second is like the first, VLANs too, at other addresses."""
        file = self.directory / 'k2.yaml'
        file.write_text(
            'iscsi:\n'
            '- {node: 1, mtu: 9000, addresses: [192.0.2.11/28, 192.0.2.13]}\n'
            '- {node: 2, lag: true, vlans: [{tag: 7, addresses:'
            ' ["2001:db8::1"]}]}\n'
            'wan: [{node: 2, addresses: [192.0.2.14]}]\n'
            'fc_ports: ["50:02:4f:00:00:01:00:00"]\n')
        with arrays.arrays(['--config', str(file)], pair=True) as running:
            first, second = (one.array.store for one in running)
            for resource, field in (
                    ('system/net_vlans', 'name'),
                    ('system/net_portchannels', 'name'),
                    ('system/net_ips', 'network_mask')):
                self.assertEqual(*([row[field] for row in store.rows(resource)]
                                   for store in (first, second)))
            self.assertEqual(
                ['192.0.2.15', '192.0.2.17', '2001:db8::5', '192.0.2.18'],
                [row['ip_address'] for row in second.rows('system/net_ips')])
            names, others = ({row['pwwn'] for row in store.rows(
                'system/fc_ports')} for store in (first, second))
            self.assertEqual((1, set()), (len(names), names & others))

    @ddt.data(
        (1, ['--seed', 'volumes=1', '--listen', '127.0.0.1:1'],
         '--listen and --state-dir are not for k2-sim run'),
        (1, ['--state-dir', 'x'],
         '--listen and --state-dir are not for k2-sim run'),
        (1, ['--config', 'nowhere'], 'cannot read '),
        (2, ['--seed', 'cats=1'], 'argument --seed: must be one of'),
        (2, ['--colour', 'red'], 'unrecognized arguments: --colour red'))
    @ddt.unpack
    def test_an_array_that_does_not_start(self, status, options, message):
        done = self.run_it(*options, '--', 'touch', 'begun')
        self.assertEqual((status, ''), (done.returncode, done.stdout))
        self.assertIn(message, done.stderr)
        self.assertFalse((self.directory / 'begun').exists())

    @ddt.data((2, [], 'give a command after --'),
              (2, ['--'], 'give a command after --'),
              (2, ['true'], 'give a command after --'),
              (127, ['--', './none'], 'cannot run ./none: No such file'),
              (126, ['--', '/'], 'cannot run /: Permission denied'))
    @ddt.unpack
    def test_a_command_that_does_not_run(self, status, arguments, message):
        done = self.run_it(*arguments)
        self.assertEqual((status, ''), (done.returncode, done.stdout))
        self.assertIn(message, done.stderr)
        self.assertNotIn('Traceback', done.stderr)

    def test_help(self):
        done = self.run_it('--help')
        self.assertEqual((0, ''), (done.returncode, done.stderr))
        for word in ('--pair', '--directory', 'K2_URL', 'K2_SIM_PASSWORD'):
            self.assertIn(word, done.stdout)

    @ddt.data((signal.SIGTERM, 'trap "echo asked; exit 9" TERM', 9),
              (signal.SIGTERM, 'true', 128 + signal.SIGTERM),
              (signal.SIGINT, 'trap "echo asked; exit 9" INT', 9))
    @ddt.unpack
    def test_a_signal(self, number, trap, status):
        """The command decides; the array runs until it has ended."""
        process = subprocess.Popen(
            ['k2-sim', 'run', '--', 'sh', '-c',
             f'{trap}; echo ready; while true; do sleep 0.1; done'],
            stdout=subprocess.PIPE, text=True, env=self.environment,
            cwd=self.directory, start_new_session=True)
        self.addCleanup(process.communicate)
        self.addCleanup(self.kill_group, process.pid)
        self.assertEqual('ready\n', process.stdout.readline())
        if number == signal.SIGINT:
            # As a terminal does: to the whole process group.
            os.killpg(process.pid, number)
        else:
            process.send_signal(number)
        self.assertEqual(status, process.wait(_LIMIT))
        self.assertEqual([], list((self.directory / 'tmp').iterdir()))

    def kill_group(self, leader):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(leader, signal.SIGKILL)


class PytestTest(Case):

    def test_the_fixtures(self):
        """Found without an import, with the options of the ini file."""
        (self.directory / 'pytest.ini').write_text(
            '[pytest]\nk2_sim_options = --profile k2 --seed volumes=3\n')
        (self.directory / 'test_it.py').write_text(
            'import requests\n'
            'def volumes(array):\n'
            '    return requests.get(f"{array.url}/api/v2/volumes",\n'
            '        verify=array.ca, auth=(array.login, array.password),\n'
            '        timeout=60).json()["total"]\n'
            'def test_one(k2_array):\n'
            '    assert volumes(k2_array) == 4\n'
            '    assert k2_array.array.profile == "k2"\n'
            'def test_the_same(k2_array):\n'
            '    k2_array.array.control.reset()\n'
            '    assert volumes(k2_array) == 1\n'
            'def test_pair(k2_pair):\n'
            '    one, other = k2_pair\n'
            '    assert volumes(one) == volumes(other) == 4\n')
        done = self.call(sys.executable, '-m', 'pytest', '-q',
                         '-p', 'no:cacheprovider')
        self.assertIn('3 passed', done.stdout, done.stderr)
        self.assertEqual(0, done.returncode)


class PageTest(Case):

    def test_the_example(self):
        if shutil.which('curl') is None:
            self.skipTest('needs the package curl')
        done = self.run_it('--directory', 'k2', '--', 'sh',
                           str(FILES / 'storage-tests'))
        self.assertEqual(0, done.returncode, done.stderr)
        self.assertIn('The reply is lost.', done.stdout)
        self.assertEqual('{}\n', (
            self.directory / 'k2/leftovers.json').read_text())

    def test_files_of_other_systems(self):
        """They are YAML, and run what the page describes."""
        for name in ('github', 'gitlab', 'zuul'):
            text = (FILES / f'{name}.yaml').read_text()
            self.assertTrue(yaml.safe_load(text), name)
            self.assertIn('k2-sim run --directory ', text)
            self.assertIn('-- sh ci/storage-tests', text)
            self.assertIn('"k2-sim @ git+', text)
            self.assertIn('#subdirectory=k2-sim', text)
