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

"""Parses YAML in an option to mappings, lists and strings, nothing else.

A scalar stays a string as written, so ``yes``, ``0123`` and ``12:30`` are not
converted; validation.py checks its type. Only null is different: it is the
same as no value after the colon.
"""

from typing import Any

import yaml

# Deeper than the nesting of any option.
_DEPTH = 6
_NULL = 'tag:yaml.org,2002:null'


class InvalidYaml(ValueError):
    """The text is not valid YAML for an option; the message says where."""


def parse(text: str) -> Any:
    """Parse a YAML text into dicts, lists and strings.

    :raises InvalidYaml: it is not YAML, or has a duplicate key
    """
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except (yaml.YAMLError, RecursionError) as error:
        # Not its own message, which quotes the line and so maybe a secret.
        mark = getattr(error, 'problem_mark', None)
        where = f' in line {mark.line + 1}' if mark else ''
        raise InvalidYaml(f'it is not valid YAML{where}; check '
                          'indentation, colons and quotes') from None
    return '' if node is None else _value(node, _DEPTH)


def _value(node: yaml.Node, depth: int) -> Any:
    return '' if node.tag == _NULL else _plain(node, depth)


def _plain(node: yaml.Node, depth: int) -> Any:
    if isinstance(node, yaml.ScalarNode):
        return node.value
    if not depth:
        raise InvalidYaml('it is nested too deeply')
    if isinstance(node, yaml.SequenceNode):
        return [_value(item, depth - 1) for item in node.value]
    return _mapping(node, depth)


def _mapping(node: yaml.MappingNode, depth: int) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key_node, value_node in node.value:
        key = _plain(key_node, 0)
        if key in found:
            raise InvalidYaml(f'{key} is set twice; keep one')
        found[key] = _value(value_node, depth - 1)
    return found
