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

"""Requirements of this machine for booting guests that attach disks."""

from collections.abc import Mapping
import glob
import os
import shutil

from tools.guest import processor

#: The package of Debian that each program is in.
PROGRAMS = {
    'dmsetup': 'dmsetup', 'ip': 'iproute2', 'iscsi-ls': 'libiscsi-bin',
    'iscsiadm': 'open-iscsi', 'linux.uml': 'user-mode-linux',
    'lsscsi': 'lsscsi', 'mkfs.ext4': 'e2fsprogs', 'modprobe': 'kmod',
    'multipathd': 'multipath-tools', 'qemu-io': 'qemu-utils',
    'tgtd': 'tgt', 'udevadm': 'udev'}
#: The package of Debian that each file is in.
FILES = {'/usr/lib/*/qemu/block-iscsi.so': 'qemu-block-extra'}


def path() -> str:
    """Return the PATH for programs, including root's directories."""
    return f'{os.environ.get("PATH", os.defpath)}:/usr/sbin:/sbin'


if processor.is_newer():
    PROGRAMS.update(processor.PROGRAMS)
    FILES.update(processor.FILES)


def missing(programs: Mapping[str, str] = PROGRAMS,
            files: Mapping[str, str] = FILES) -> str:
    """Return which packages must be installed to boot guests, or ''."""
    lacking = {package for program, package in programs.items()
               if shutil.which(program, path=path()) is None}
    lacking |= {package for pattern, package in files.items()
                if not glob.glob(pattern)}
    if not lacking:
        return ''
    names = ' '.join(sorted(lacking))
    return f'needs packages, as with: apt-get install {names}'
