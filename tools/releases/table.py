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

"""The table of releases, ``releases.yaml``."""

import dataclasses
import importlib.metadata
import pathlib
import re

import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
TABLE = pathlib.Path(__file__).with_name('releases.yaml')
UBUNTU = pathlib.Path(__file__).with_name('ubuntu.yaml')
# The upstream part of a Debian version.
_UPSTREAM = re.compile(r'(?:\d+:)?([\d.]+)')


class UnknownReleaseError(Exception):
    """The table has no release with this name."""


@dataclasses.dataclass(frozen=True)
class Release:
    """A release of OpenStack; see the comments in the table."""

    name: str
    cinder: str
    glance: str
    keystone: str
    tempest: str
    tempest_plugin: str
    python: list[str]
    also: list[str]

    @property
    def constraints(self) -> pathlib.Path:
        """The file with the versions of all other packages."""
        return ROOT / 'constraints' / f'{self.name}.txt'


def load(path: pathlib.Path = TABLE) -> list[Release]:
    """Read all releases, oldest first."""
    with path.open(encoding='utf-8') as stream:
        return [Release(**row) for row in yaml.safe_load(stream)]


def find(name: str) -> Release:
    """Return a release by its name.

    :raises UnknownReleaseError: there is none
    """
    for release in load():
        if release.name == name:
            return release
    known = ', '.join(release.name for release in load())
    raise UnknownReleaseError(
        f"{name} is not a supported release. Choose one of {known}.")


@dataclasses.dataclass(frozen=True)
class Ubuntu:
    """What Ubuntu 24.04 has; see the comments in ``ubuntu.yaml``."""

    release: str
    python: str
    packages: dict[str, str]

    @property
    def versions(self) -> dict[str, str]:
        """The versions of its packages on PyPI, by their names on PyPI."""
        found = {name: _UPSTREAM.match(version)
                 for name, version in self.packages.items()}
        return {name: match[1] for name, match in found.items() if match}


def ubuntu() -> Ubuntu:
    """Read the versions of Ubuntu 24.04."""
    with UBUNTU.open(encoding='utf-8') as stream:
        return Ubuntu(**yaml.safe_load(stream))


def installed() -> Release:
    """Return the release whose Cinder this interpreter has.

    :raises UnknownReleaseError: there is none
    """
    version = importlib.metadata.version('cinder')
    for release in load():
        if release.cinder == version:
            return release
    raise UnknownReleaseError(
        f'Cinder {version} is installed, which {TABLE.name} does not list.')
