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

"""uv, which builds environments and distributions."""

import ast
import functools
import os
import pathlib
import subprocess  # nosec B404
import sys

PROGRAM = pathlib.Path(sys.executable).with_name('uv')
# Settings of pip, and the equivalent variables of uv.
_SAME = {'cert': 'SSL_CERT_FILE', 'index-url': 'UV_DEFAULT_INDEX',
         'extra-index-url': 'UV_INDEX', 'find-links': 'UV_FIND_LINKS',
         'trusted-host': 'UV_INSECURE_HOST'}
# Separators of lists for uv, if not a space; pip has one item per line.
_SEPARATORS = {'find-links': ','}
# In ascending precedence: all commands, "pip install" only, the environment.
_SECTIONS = ('global', 'install', ':env:')
# Where pip looks for its files.
_PLACES = ('HOME', 'XDG_CONFIG_HOME', 'XDG_CONFIG_DIRS')


def variables() -> dict[str, str]:
    """Return the environment for uv: ours, and the settings of pip.

    uv does not download interpreters, unless our environment says so.
    """
    told = {_SAME[name]: value for name, value in _pip_settings().items()
            if name in _SAME}
    if 'UV_INDEX' in told:
        # As pip does: the newest of all indexes, not of the first.
        told['UV_INDEX_STRATEGY'] = 'unsafe-best-match'
    found = {'UV_SYSTEM_CERTS': 'true', 'UV_PYTHON_DOWNLOADS': 'never',
             **told, **os.environ}
    return {name: value for name, value in found.items() if value}


def _pip_settings() -> dict[str, str]:
    """Return the settings in the files and the environment of pip, by name."""
    told: dict[str, dict[str, str]] = {section: {} for section in _SECTIONS}
    for line in _pip_config(tuple(
            item for item in os.environ.items() if item[0] in _PLACES
            or item[0].startswith('PIP_'))).splitlines():
        key, _, value = line.partition('=')
        section, _, name = key.rpartition('.')
        if section in told:
            told[section][name] = _SEPARATORS.get(name, ' ').join(
                ast.literal_eval(value).split())
    return {name: value for section in _SECTIONS
            for name, value in told[section].items()}


@functools.cache
def _pip_config(environment: tuple[tuple[str, str], ...]) -> str:
    """Return the output of "pip config list" in an environment."""
    return subprocess.run(  # nosec B603
        [sys.executable, '-m', 'pip', 'config', 'list'], check=False,
        env=dict(environment), stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL, text=True, timeout=60).stdout
