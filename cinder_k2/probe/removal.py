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

"""Removing what probes have made, by exact names."""

from cinder_k2.probe import asking
from cinder_k2.probe import tokens

_PASSES = 4


def remove(writer: asking.Writer) -> list[str]:
    """Remove all that the token names.

    It ends with a pass that finds nothing: a write whose reply was lost may
    show late.

    :returns: the names of what is left
    :raises rest.RestError: the array cannot be reached
    """
    left: list[str] = []
    for _ in range(_PASSES):
        left = _pass(writer)
        if not left:
            break
    return left


def _pass(writer: asking.Writer) -> list[str]:
    """Remove what can be removed; gives all that was there."""
    found = [(resource, name, id) for resource, names
             in writer.token.names.items() for name in names
             if (id := writer.find(resource, name)) is not None]
    _unmap(writer, [id for resource, _, id in found if resource == 'hosts'])
    # A clone goes before its snapshot, a volume after it (SNP-9, VOL-7).
    clones = [each for each in found if _is_clone(writer.token, each[1])]
    for resource, _, id in clones + [
            each for each in found if each not in clones]:
        answer = writer.remove(resource, id)
        if resource == 'hosts' and answer.status == 400:
            writer.change('hosts', id, {'host_group': None})
            writer.change('hosts', id, {'map_auth_profiles_names': None})
            writer.remove('hosts', id)
    return [name for _, name, _ in found]


def _is_clone(token: tokens.Token, name: str) -> bool:
    return name in (token.name('c1'), token.name('c2'))


def _unmap(writer: asking.Writer, hosts: list[int]) -> None:
    """Remove the mappings of hosts, those of views first (MAP-4)."""
    for host in hosts:
        for hit in writer.mappings(f'/hosts/{host}'):
            kind = str((hit.get('volume') or {}).get('ref', ''))
            if not kind.startswith('/volsnaps/'):
                writer.remove('mappings', int(hit['id']))
