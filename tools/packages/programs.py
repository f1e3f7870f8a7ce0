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

"""Programs that build packages."""

from collections.abc import Mapping
import os
import pathlib
import shutil
import subprocess  # nosec B404

from tools.releases import table

SECONDS = 1200.0
# Number of characters to show of a failed program's output.
_SHOWN = 4000


class PackageError(Exception):
    """A package cannot be built; the text says why."""


def run(*command: str | pathlib.Path, cwd: pathlib.Path = table.ROOT,
        variables: Mapping[str, str] | None = None,
        seconds: float = SECONDS) -> str:
    """Run a program; return what it printed.

    New files are readable by all, whatever the umask of the caller.

    :param variables: in addition to our environment
    :raises PackageError: it fails, or does not end in time
    """
    words = [str(word) for word in command]
    try:
        done = subprocess.run(  # nosec B603
            words, cwd=cwd, env={**os.environ, **(variables or {})},
            umask=0o022, timeout=seconds, text=True, errors='replace',
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT)
    except subprocess.TimeoutExpired:
        raise PackageError(
            f'{words[0]} did not end within {seconds:.0f} s') from None
    if done.returncode:
        raise PackageError(
            f'{" ".join(words)} failed:\n{done.stdout[-_SHOWN:]}')
    return done.stdout


def missing(packages: Mapping[str, str]) -> str:
    """Return how to install missing programs; '' if all are there.

    :param packages: Debian's package of each program
    """
    wanted = sorted({package for program, package in packages.items()
                     if not shutil.which(program)})
    if not wanted:
        return ''
    return ('programs are missing; on Debian or Ubuntu: apt-get install '
            + ' '.join(wanted))
