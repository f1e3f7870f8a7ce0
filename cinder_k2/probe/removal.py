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

import dataclasses

from cinder_k2.probe import asking
from cinder_k2.probe import tokens
from cinder_k2.rest import raw

_PASSES = 4


@dataclasses.dataclass(frozen=True)
class Left:
    """What may be on the array still.

    :ivar names: of objects that the array does not delete
    :ivar unseen: why objects of a resource cannot be looked for, by
        resource; they are of kinds that the array need not have
    """

    names: list[str]
    unseen: dict[str, str]


def remove(writer: asking.Writer) -> Left:
    """Remove all that the token names.

    It ends with a pass that finds nothing: a write whose reply was lost may
    show late.

    :raises rest.RestError: what every array shows cannot be looked for
    """
    for _ in range(_PASSES):
        names: list[str] = []
        failed: list[asking.Unseen] = []
        try:
            names, failed = _pass(writer)
        except asking.Unseen as unseen:
            failed = [unseen]
        if not names and not failed:
            break
    for each in failed:
        if each.is_known:
            raise each.error
    return Left(names, {each.resource: str(each) for each in failed})


def _pass(writer: asking.Writer) -> tuple[list[str], list[asking.Unseen]]:
    """Remove what can be removed; gives all that was there."""
    found, failed = _look(writer)
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
    return [name for _, name, _ in found], failed


def _look(writer: asking.Writer
          ) -> tuple[list[tuple[str, str, int]], list[asking.Unseen]]:
    """What is there, and what cannot be looked for."""
    found: list[tuple[str, str, int]] = []
    failed: list[asking.Unseen] = []
    for resource, names in writer.token.names.items():
        try:
            found += [(resource, name, id) for name in names
                      if (id := writer.find(resource, name)) is not None]
        except asking.Unseen as error:
            failed.append(error)
    return found, failed


def _is_clone(token: tokens.Token, name: str) -> bool:
    return name in (token.name('c1'), token.name('c2'))


def _unmap(writer: asking.Writer, hosts: list[int]) -> None:
    """Remove the mappings of hosts, those of views first (MAP-4)."""
    for host in hosts:
        for hit in writer.mappings(f'/hosts/{host}'):
            id = raw.id_of(hit)
            if id is not None and not asking.ref_of(
                    hit, 'volume').startswith('/volsnaps/'):
                writer.remove('mappings', id)
