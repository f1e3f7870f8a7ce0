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

"""Runs programs that end by themselves."""

from collections.abc import Mapping
from collections.abc import Sequence
import subprocess  # nosec B404

from tools.cloud import errors

# Number of characters to show of a failed program's output.
_SHOWN = 2000


def run_all(commands: Sequence[Sequence[str]], seconds: float,
            variables: Mapping[str, str] | None = None) -> None:
    """Run commands, one after the other.

    :param seconds: for each of them
    :param variables: the environment of the commands; ours if none is given
    :raises CloudError: one fails; the text has its output
    """
    for command in commands:
        done = subprocess.run(  # nosec B603
            command, env=variables, stdin=subprocess.DEVNULL, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=seconds)
        if done.returncode:
            raise errors.CloudError(
                f'{" ".join(command)} failed:\n{done.stdout[-_SHOWN:]}')
