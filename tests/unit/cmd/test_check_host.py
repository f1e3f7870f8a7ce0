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


"""k2-admin check-host, with fake programs and a fake root directory."""

import contextlib
import io
import json
import os
import pathlib
import shutil
import tempfile
import unittest
from unittest import mock

import cinder_k2
from cinder_k2.cmd import admin
from tests import contexts

FILES = pathlib.Path(cinder_k2.__file__).parent / 'host_files'
DEFAULTS = '''\
defaults {
\tfind_multipaths "strict"
\tuser_friendly_names "no"
\tpath_grouping_policy "failover"
\tskip_kpartx "no"
}
blacklist {
\tdevnode "!^(sd[a-z]|dasd[a-z]|nvme[0-9])"
}
devices {
\tdevice {
\t\tvendor "KMNRIO"
\t\tproduct "K2"
\t\tpath_grouping_policy "multibus"
\t}
}
'''
PRODUCTS = ('KMNRIO K2', 'KMNRIO KDP', 'SILK KDP', 'SILK SDP')


class HostCase(unittest.TestCase):
    """A host that passes all checks, unless a test changes it."""

    def setUp(self):
        super().setUp()
        self.place = pathlib.Path(contexts.enter(
            self, tempfile.TemporaryDirectory()))
        self.root, self.bin = self.place / 'root', self.place / 'bin'
        self.bin.mkdir()
        contexts.enter(self, mock.patch.dict(os.environ, PATH=str(self.bin)))
        # Do not run programs of the machine that runs the tests.
        contexts.enter(self, mock.patch(
            'cinder_k2.cmd.check_host._PATH', str(self.bin)))
        self.shipped = (FILES / 'multipath.conf').read_text()
        self.configure(DEFAULTS + self.shipped)
        self.program('systemctl', '[ "$1" = is-enabled ] && echo enabled ||'
                     ' echo active')
        self.write('etc/udev/rules.d/98-cinder-k2.rules',
                   (FILES / '98-cinder-k2.rules').read_text())
        self.write('etc/iscsi/iscsid.conf', (FILES / 'iscsid.conf')
                   .read_text())
        self.write('etc/iscsi/initiatorname.iscsi',
                   'InitiatorName=iqn.1993-08.org.debian:01:a\n')

    def write(self, name, text):
        """Write a file below the root directory of the host."""
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def program(self, name, script):
        """Install a shell script as a program of the host."""
        path = self.bin / name
        path.write_text(f'#!/bin/sh\n{script}\n')
        path.chmod(0o755)

    def configure(self, text):
        """Let "multipathd show config" print this text."""
        (self.place / 'config').write_text(text)
        self.program('multipathd', f'[ "$*" = "show config" ] && '
                     f'while read -r l; do echo "$l"; done <{self.place}'
                     '/config')

    def disk(self, name='sda', vendor='SILK    ', scheduler='[none] bfq'):
        """Attach a disk to the host."""
        self.write(f'sys/block/{name}/device/vendor', f'{vendor}\n')
        self.write(f'sys/block/{name}/queue/scheduler', f'{scheduler}\n')

    def run_check(self, *options):
        """Run check-host; return its exit status and its output."""
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            status = admin.main(['check-host', '--root', str(self.root),
                                 *options])
        return status, out.getvalue()

    def found(self, subject):
        """Return (state, text) of each finding about a subject."""
        status, out = self.run_check('--json')
        found = json.loads(out)['host']
        self.assertEqual(int(any(one['state'] == 'missing'
                                 for one in found)), status)
        return [(one['state'], one['text']) for one in found
                if one['subject'] == subject]

    def assert_one(self, subject, state, pattern):
        """There is one finding in this state, and its text matches."""
        texts = [text for found, text in self.found(subject)
                 if found == state]
        self.assertEqual(1, len(texts), texts)
        self.assertRegex(texts[0], pattern)


class TestCheckHost(HostCase):

    def test_all_checks_pass(self):
        """VOL-15, NET-4: each product name is checked; exit status 0."""
        self.disk()
        status, out = self.run_check()
        self.assertEqual(0, status, out)
        for product in PRODUCTS:
            self.assertRegex(out, f'(?m)^ok +multipath +{product}: ')
        self.assertEqual({'ok'}, {line.split()[0]
                                  for line in out.splitlines()})

    def test_no_device_entries_of_the_driver(self):
        """multipath's built-in entry is not sufficient either."""
        self.configure(DEFAULTS)
        found = self.found('multipath')
        self.assertEqual(['missing'] * 4, [state for state, _ in found])
        for product, (_, text) in zip(PRODUCTS, found):
            self.assertIn(f'{product}: ', text)
            self.assertIn('path_selector is not set, not queue-length 0',
                          text)
            self.assertIn('multipathd reconfigure', text)
        self.assertNotIn('path_grouping_policy', found[0][1])
        self.assertIn('path_grouping_policy is failover, not multibus',
                      found[3][1])

    def test_later_device_entry_overrides_the_drivers(self):
        self.configure(DEFAULTS + self.shipped + '''
devices {
    device {
        vendor "SILK"   # for all
        product ".*"
        path_grouping_policy "failover"
    }
}
''')
        self.assertEqual(['ok', 'ok', 'missing', 'missing'],
                         [state for state, _ in self.found('multipath')])

    def test_overrides_section(self):
        self.configure(DEFAULTS + self.shipped
                       + 'overrides {\nfast_io_fail_tmo 5\n}\n')
        self.assertEqual(['missing'] * 4, [
            state for state, text in self.found('multipath')
            if 'fast_io_fail_tmo is 5, not 2' in text])

    def test_other_no_path_retry_is_accepted(self):
        self.configure(DEFAULTS + self.shipped.replace('"fail"', '12'))
        for _, text in self.found('multipath'):
            self.assertIn('no_path_retry 12', text)

    def test_multipathd_not_running(self):
        """Use the configuration that multipath itself prints."""
        self.program('multipathd', 'exit 1')
        self.program('multipath', 'echo "defaults {"; echo "}"')
        self.assertEqual(['missing'] * 4,
                         [state for state, _ in self.found('multipath')])

    def test_multipath_requires_root(self):
        """Report that, and read the configuration files instead."""
        self.program('multipathd', 'exit 1')
        self.program('multipath', 'echo need to be root; exit 1')
        self.write('etc/multipath/conf.d/cinder-k2.conf', self.shipped)
        self.assert_one('multipath', 'unseen', 'run this as root')
        self.assertEqual(
            ['ok'] * 4, [state for state, _ in self.found('multipath')][1:])

    def test_multipath_tools_not_installed(self):
        (self.bin / 'multipathd').unlink()
        self.assert_one('multipath', 'missing', 'install it')

    def test_find_multipaths_over_fibre_channel(self):
        self.write('sys/class/fc_host/host1/port_name', '0x2\n')
        self.assert_one('multipath', 'missing', 'find_multipaths is strict')
        # With "no" multipathd claims all new devices, as with "greedy".
        for value in ('yes', 'no'):
            self.configure(DEFAULTS.replace('strict', value) + self.shipped)
            self.assertEqual({'ok'}, {state for state, _
                                      in self.found('multipath')})

    def test_user_friendly_names(self):
        self.configure(DEFAULTS.replace('names "no"', 'names "yes"')
                       + self.shipped)
        self.assert_one('multipath', 'note', 'user_friendly_names is on')

    def test_udev_rule(self):
        shutil.rmtree(self.root / 'etc/udev')
        self.assert_one('udev rule', 'missing', '98-cinder-k2.rules to /etc')
        self.write('lib/udev/rules.d/98-sdp-io.rules', (
            'ENV{ID_SERIAL}=="20024*", ATTR{queue/scheduler}="none"\n'))
        self.assert_one('udev rule', 'ok', 'lib/udev/rules.d/98-sdp-io.rules')

    def test_udev_rules_that_do_not_set_the_scheduler(self):
        """Comments, comparisons, and rules that set another scheduler."""
        shutil.rmtree(self.root / 'etc/udev')
        rule = 'ENV{ID_SERIAL}=="20024*", ATTR{queue/scheduler}="none"\n'
        for text in ('# ' + rule, rule.replace('}="', '}=="'),
                     rule.replace('none', 'mq-deadline')):
            self.write('etc/udev/rules.d/98-cinder-k2.rules', text)
            self.assert_one('udev rule', 'missing', 'no rule sets')
        self.write('etc/udev/rules.d/98-cinder-k2.rules', rule)
        self.assert_one('udev rule', 'ok', 'sets the I/O scheduler')

    def test_schedulers(self):
        """Check disks and multipath maps of the array, and no others."""
        self.disk('sdb', 'ATA     ', '[bfq] none')
        self.assert_one('scheduler', 'note', 'no volume')
        self.disk('sda', 'KMNRIO  ', 'noop [deadline]')
        self.write('sys/block/dm-1/dm/uuid', 'mpath-20024f400d5570001\n')
        self.write('sys/block/dm-1/queue/scheduler', '[mq-deadline] none\n')
        self.assert_one('scheduler', 'missing', '^dm-1, sda: ')
        self.disk('sda', 'KMNRIO  ', '[noop] deadline')
        self.write('sys/block/dm-1/queue/scheduler', '[none] mq-deadline\n')
        self.assert_one('scheduler', 'ok', '2 devices')

    def test_iscsi_sessions_per_portal(self):
        """NET-4: the vendor recommends more, but os-brick uses one."""
        for number in ('0', 'six'):
            self.write('etc/iscsi/iscsid.conf',
                       f'node.session.nr_sessions = {number}\n')
            self.assert_one('iSCSI', 'missing', 'no number of sessions')
        self.write('etc/iscsi/iscsid.conf', '# node.session.nr_sessions = 9\n')
        self.assert_one('iSCSI', 'note', 'nr_sessions is 1; .*recommends 6')

    def test_no_initiator_name(self):
        self.write('etc/iscsi/initiatorname.iscsi', 'GenerateName=yes\n')
        self.assert_one('iSCSI', 'missing', 'iscsi-iname')

    def test_open_iscsi_not_installed(self):
        """It is required only on a host without Fibre Channel."""
        shutil.rmtree(self.root / 'etc/iscsi')
        self.assertEqual(['missing'] * 2,
                         [state for state, _ in self.found('iSCSI')])
        self.write('sys/class/fc_host/host1/port_name', '0x2\n')
        self.assert_one('iSCSI', 'note', 'not needed')
        self.assertEqual(1, len(self.found('services')))

    def test_unreadable_files(self):
        """Ask to run as root, instead of reporting a failed check."""
        real = pathlib.Path.read_text

        def read(path, *args, **options):
            if 'iscsi' in path.parts:
                raise PermissionError
            return real(path, *args, **options)

        with mock.patch.object(pathlib.Path, 'read_text', read):
            found = self.found('iSCSI')
        self.assertEqual(['unseen'] * 2, [state for state, _ in found])
        self.assertIn('run this as root', found[0][1])

    def test_services_not_running(self):
        self.program('systemctl', 'echo disabled; exit 3')
        found = self.found('services')
        self.assertEqual(['missing'] * 2, [state for state, _ in found])
        self.assertIn('systemctl enable --now multipathd', found[0][1])

    def test_socket_activated_service(self):
        """On Debian, iscsid is started by its socket."""
        self.program('systemctl', '[ "$1" = is-enabled ] && '
                     'printf "disabled\\nenabled\\n" || '
                     'printf "inactive\\nactive\\n"')
        self.assertEqual({'ok'}, {state for state, _
                                  in self.found('services')})

    def test_systemd_not_installed(self):
        (self.bin / 'systemctl').unlink()
        self.assertEqual({'unseen'}, {state for state, _
                                      in self.found('services')})
