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


"""The syntax trees of this project's sources, parsed once per process."""

import ast
import collections
import functools
import pathlib

ROOT = pathlib.Path(__file__).resolve().parents[2]


def paths(folder):
    """The Python files below a folder of the repository, in order."""
    return sorted((ROOT / folder).rglob('*.py'))


@functools.cache
def tree(path):
    """The tree of a file. Tests share it, so do not change it."""
    return ast.parse(path.read_text())


def nodes(path, kinds):
    """All nodes of a kind in a file; kinds may be a tuple."""
    return [node for kind, found in _by_kind(path).items()
            if issubclass(kind, kinds) for node in found]


@functools.cache
def source(node):
    """The source of a node, cached as several tests need the same."""
    return ast.unparse(node)


@functools.cache
def _by_kind(path):
    found = collections.defaultdict(list)
    for node in ast.walk(tree(path)):
        found[type(node)].append(node)
    return found
