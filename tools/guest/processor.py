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


"""Support for processors that are newer than the kernel of the guest.

A processor with AMX has more state than that kernel knows. The host then
refuses to set it, with "ptrace set fp regs failed", and the guest panics at
boot.
"""

import pathlib
import subprocess  # nosec B404

#: The package of Debian that each program and file is in.
PROGRAMS = {'cc': 'gcc'}
FILES = {'/usr/include/*/sys/ptrace.h': 'libc6-dev'}
_SOURCE = pathlib.Path(__file__).with_name('xstate.c')
_INFO = pathlib.Path('/proc/cpuinfo')


class BuildError(Exception):
    """The library for the kernel cannot be built; the text says why."""


def is_newer(info: pathlib.Path = _INFO) -> bool:
    """Return whether the guest's kernel needs help on this processor."""
    return 'amx_tile' in info.read_text().split()


def environment(folder: pathlib.Path) -> dict[str, str]:
    """Build the library; return the variables that preload it for the kernel.

    :param folder: for the library, while the kernel runs
    :raises BuildError: the compiler fails
    """
    made = folder / 'xstate.so'
    done = subprocess.run(  # nosec B603 B607
        ['cc', '-O2', '-Wall', '-shared', '-fPIC', '-o', str(made),
         str(_SOURCE)], capture_output=True, text=True)
    if done.returncode:
        raise BuildError(f'cannot compile {_SOURCE}: {done.stderr.strip()}')
    return {'LD_PRELOAD': str(made)}
