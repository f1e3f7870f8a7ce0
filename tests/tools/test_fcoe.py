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

"""The build of the Fibre Channel module, with scripts as compilers."""

import concurrent.futures
import contextlib
import fcntl
import gzip
import io
import os
import pathlib
import tempfile
import unittest
from unittest import mock

from tools.guest import fcoe
from tools.guest import packages
from tools.guest import tcm_fc

SOURCE = """\
#include <linux/netdevice.h>
#include "fcoe.h"
if (ops->ndo_fcoe_enable(netdev) && netdev->fcoe_ddp_xid)
    done = netdev->netdev_ops->ndo_fcoe_ddp_done(netdev, xid);
"""
HEADER = """\
struct other {
};
struct netdev_fcoe_hbainfo {
    char model[8];
};
struct another {
};
"""
# The parts of the target's source that are edited.
TARGET = {
    'tfc_cmd.c': """\
#include "tcm_fc.h"

int ft_queue_status(struct se_cmd *se_cmd)
{
\tif (cmd->aborted)
\t\treturn 0;
\trc = fc_seq_send(lport, cmd->seq, fp);
\treturn 0;
}
int ft_write_pending(struct se_cmd *se_cmd)
{
\tif (cmd->aborted)
\t\treturn 0;
\tfc_seq_send(lport, cmd->seq, fp);
\treturn 0;
}
static void ft_recv_seq(void)
{
\tcmd->aborted = true;
}
void ft_queue_tm_resp(struct se_cmd *se_cmd)
{
\tif (cmd->aborted)
\t\treturn;
}
""",
    'tfc_io.c': """\
#include "tcm_fc.h"
int ft_queue_data_in(struct se_cmd *se_cmd)
{
\tif (cmd->aborted)
\t\treturn 0;
}
""",
    'tfc_sess.c': """\
\tsess = ft_sess_delete(tport, rdata->ids.port_id);
"""}
# Fake programs; each also records that it ran. make copies the source to the
# files that it would be compiled to.
PROGRAMS = {
    'dpkg-query': 'case $2 in *Built*) echo "linux (= $VERSION)";;'
                  ' *) printf %s "$INSTALLED";; esac',
    'apt-get': 'touch source.deb',
    'dpkg-deb': 'mkdir -p usr/src',
    'tar': 'for word; do case $word in --file=*)'
           ' echo "tar ${word#--file=}" >>"$NOTES";; esac; done\n'
           'mkdir linux-source-6.1 && cp -r "$TREE/." linux-source-6.1',
    'make': 'case " $* " in *" modules "*)'
            ' for word; do case $word in M=*) cd "${word#M=}";; esac; done;'
            ' cp fcoe.c fcoe.ko; cat tfc_*.c >tcm_fc.ko;;'
            ' *) mkdir -p include/config;'
            ' echo "$RELEASE" >include/config/kernel.release;; esac'}


class FcoeTest(unittest.TestCase):

    def setUp(self):
        super().setUp()
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.place = pathlib.Path(place.name)
        self.cache, self.notes = self.place / 'cache', self.place / 'notes'
        self.tree = self.place / 'tree'
        self.make_tree()
        (self.place / 'bin').mkdir()
        for name, text in PROGRAMS.items():
            self.program(name, text)
        configuration = self.place / 'config.gz'
        configuration.write_bytes(gzip.compress(b'CONFIG_X=y\n'))
        for patch in (
                mock.patch.object(fcoe, '_CONFIGURATION', configuration),
                mock.patch.object(packages, 'missing', lambda *_: ''),
                mock.patch.dict(os.environ, {
                    'PATH': f'{self.place}/bin:{os.environ["PATH"]}',
                    'NOTES': str(self.notes), 'TREE': str(self.tree),
                    'VERSION': '6.1.9-2', 'RELEASE': '6.1.9',
                    'INSTALLED': '', 'MAKEFLAGS': 'w'})):
            self.enterContext(patch)

    def make_tree(self):
        """Create the source of the kernel."""
        for name, text in (('drivers/scsi/fcoe/fcoe.c', SOURCE),
                           ('drivers/scsi/fcoe/fcoe.h', ''),
                           ('drivers/scsi/fcoe/libfcoe.h', ''),
                           ('include/linux/netdevice.h', HEADER),
                           *((f'drivers/target/tcm_fc/{part}',
                              TARGET.get(part, ''))
                             for part in tcm_fc.PARTS)):
            (self.tree / name).parent.mkdir(parents=True, exist_ok=True)
            (self.tree / name).write_text(text)

    def program(self, name, text):
        path = self.place / 'bin' / name
        path.write_text(f'#!/bin/sh\necho {name} >>"$NOTES"\n{text}\n')
        path.chmod(0o755)

    def module(self, **options):
        return fcoe.module(self.cache, **options)

    def count(self, name):
        """Return how often a program ran."""
        ran = self.notes.read_text().splitlines() \
            if self.notes.exists() else []
        return ran.count(name)

    def refusal(self, **options):
        """Return the one-line error; check that no files are left."""
        with self.assertRaises(fcoe.BuildError) as caught:
            self.module(**options)
        self.assertEqual([], list(self.cache.glob('*/work-*')))
        self.assertNotIn('\n', str(caught.exception))
        return str(caught.exception)

    def test_once(self):
        found = self.module()
        self.assertIn('no_hooks.ndo_fcoe_enable(netdev)', found.read_text())
        self.assertEqual(found, self.module())
        self.assertEqual(1, self.count('apt-get'))
        self.assertEqual({'fcoe.ko', 'tcm_fc.ko', 'lock', 'build.log'},
                         set(os.listdir(found.parent)))
        target = found.with_name(fcoe.TARGET_MODULE).read_text()
        self.assertIn('exch_mgr_reset', target)

    def test_other_kernel(self):
        found = self.module()
        with mock.patch.dict(os.environ, VERSION='6.1.10-1',
                             RELEASE='6.1.10'):
            self.assertNotEqual(found, self.module())
        self.assertEqual(2, self.count('apt-get'))

    def test_concurrent_builds(self):
        with concurrent.futures.ThreadPoolExecutor() as pool:
            first, second = [pool.submit(self.module) for _ in range(2)]
            self.assertEqual(first.result(), second.result())
        self.assertEqual(1, self.count('apt-get'))

    def test_another_build_that_does_not_end(self):
        found = self.module()
        with open(found.parent / 'lock', 'w') as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            self.assertIn('another process', self.refusal(seconds=0))

    def test_installed_source(self):
        """Used if it matches the kernel, without a download."""
        with mock.patch.dict(os.environ, INSTALLED='6.1.9-2'):
            self.module()
        self.assertEqual(0, self.count('apt-get'))
        self.assertEqual(1, self.count(
            'tar /usr/src/linux-source-6.1.tar.xz'))

    def test_installed_source_of_another_kernel(self):
        with mock.patch.dict(os.environ, INSTALLED='6.1.10-1'):
            self.module()
        self.assertEqual(1, self.count('apt-get'))

    def test_program_that_fails(self):
        """The next call tries again."""
        self.program('apt-get', 'echo E: not found >&2; exit 100')
        text = self.refusal()
        self.assertIn('apt-get linux-source-6.1=6.1.9-2 ends with status'
                      ' 100', text)
        log = pathlib.Path(text.rpartition('see ')[2])
        self.assertEqual('E: not found\n', log.read_text())
        self.program('apt-get', PROGRAMS['apt-get'])
        self.module()

    def test_program_that_does_not_end(self):
        self.program('apt-get', 'exec sleep 1000')
        self.assertIn('does not end in time', self.refusal(seconds=0))

    def test_program_below_another_make(self):
        self.program('tar', 'test -z "$MAKEFLAGS" || exit 1\n'
                     + PROGRAMS['tar'])
        self.module()

    def test_source_of_another_release(self):
        with mock.patch.dict(os.environ, RELEASE='6.1.8'):
            self.assertIn('for a kernel 6.1.8', self.refusal())

    def test_target_that_differs(self):
        """The kernel's own module would hang, so it is not used."""
        with mock.patch.dict(TARGET, {'tfc_io.c': ''}):
            self.make_tree()
            self.assertIn('tcm_fc.ko cannot be built', self.refusal())

    def test_kernel_of_unknown_source(self):
        self.program('dpkg-query', '')
        self.assertIn('does not say', self.refusal())

    def test_cache_directory_cannot_be_created(self):
        """One suite is skipped, and the others run."""
        self.cache.parent.mkdir(parents=True, exist_ok=True)
        self.cache.write_text('a file')
        self.assertIn(f'{fcoe.MODULE} cannot be built: ', self.refusal())

    def test_no_packages(self):
        with mock.patch.object(packages, 'missing', lambda *_: 'needs x'):
            self.assertEqual('fcoe.ko needs x', self.refusal())

    def test_command(self):
        with mock.patch.dict(os.environ, XDG_CACHE_HOME=str(self.cache)), \
                contextlib.redirect_stdout(io.StringIO()) as output:
            self.assertEqual(0, fcoe.main())
        self.assertTrue(output.getvalue().startswith(
            f'{self.cache}/cinder-k2/fcoe/6.1.9-2-'))

    def test_command_that_fails(self):
        with mock.patch.object(packages, 'missing', lambda *_: 'needs x'), \
                contextlib.redirect_stderr(io.StringIO()) as error:
            self.assertEqual(1, fcoe.main())
        self.assertEqual('fcoe.ko needs x\n', error.getvalue())


class TargetTest(unittest.TestCase):
    """The edits of tcm_fc."""

    def test_no_command_is_leaked(self):
        fixed = tcm_fc.fixed('tfc_cmd.c', TARGET['tfc_cmd.c'])
        self.assertNotIn('aborted)\n\t\treturn 0', fixed)
        self.assertEqual(3, fixed.count('target_put_sess_cmd(se_cmd)'))
        self.assertEqual(2, fixed.count('-EIO'))
        self.assertLess(fixed.index('ft_fail_work(struct'),
                        fixed.index('INIT_WORK(&cmd->work, ft_fail_work)'))

    def test_exchanges_are_closed_with_the_session(self):
        fixed = tcm_fc.fixed('tfc_sess.c', TARGET['tfc_sess.c'])
        self.assertEqual(2, fixed.count('exch_mgr_reset('))

    def test_other_files_stay(self):
        self.assertEqual('x', tcm_fc.fixed('tcm_fc.h', 'x'))

    def test_unknown_source(self):
        for name in TARGET:
            with self.assertRaises(tcm_fc.UnknownSource):
                tcm_fc.fixed(name, TARGET[name] * 2)


class HooksTest(unittest.TestCase):

    def test_hooks_are_removed(self):
        edited = fcoe.without_hooks(SOURCE, HEADER)
        self.assertNotIn('->', edited)
        self.assertIn('no_hooks.ndo_fcoe_ddp_done(netdev, xid)', edited)
        self.assertEqual(1, edited.count('struct netdev_fcoe_hbainfo {'))
        self.assertNotIn('another', edited)

    def test_unknown_source(self):
        for source, header in (('', HEADER), (SOURCE, ''),
                               (SOURCE.replace('fcoe.h', ''), HEADER)):
            with self.assertRaises(fcoe.BuildError):
                fcoe.without_hooks(source, header)
