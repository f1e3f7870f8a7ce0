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


"""A fake kernel for guests: a shell script."""

import os
import pathlib
import tempfile
import time
from unittest import mock

from tools.guest import machine
from tools.guest import processor

# It reads only the directory from the kernel's command line.
_BEGIN = """\
#!/bin/sh
for word; do
    case $word in GUEST_WORK=*) work=${word#*=} ;; esac
done
"""
# Seconds; only a hang takes so long.
_LIMIT = 60


class Kernels:
    """Guests of one test, in a separate directory.

    :ivar place: the directory of the test
    """

    def __init__(self, test):
        self._test = test
        place = tempfile.TemporaryDirectory()
        test.addCleanup(place.cleanup)
        self.place = pathlib.Path(place.name)
        self._temporary = self.place / 'tmp'
        self._temporary.mkdir()
        for patch in (
                mock.patch.object(tempfile, 'tempdir', str(self._temporary)),
                mock.patch.object(processor, 'is_newer', lambda: False),
                mock.patch.dict(os.environ, {
                    'TMPDIR': str(self._temporary),
                    'PATH': f'{self.place}:{os.environ["PATH"]}'})):
            test.enterContext(patch)

    def kernel(self, text):
        """Write the script that replaces the kernel; it can use $work.

        The test is skipped if guests cannot run here.
        """
        reason = machine.refused()
        if reason:
            self._test.skipTest(reason)
        program = self.place / 'linux.uml'
        program.write_text(_BEGIN + text)
        program.chmod(0o755)

    def left(self):
        """Return the entries of the directory for temporary files."""
        return sorted(path.name for path in self._temporary.iterdir())

    def wait_for(self, path):
        """Wait until a guest has written a file."""
        deadline = time.monotonic() + _LIMIT
        while not path.exists():
            if time.monotonic() > deadline:
                raise AssertionError(f'not in time: {path}')
            time.sleep(0.01)
