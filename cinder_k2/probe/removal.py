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

"""Removing the objects of probes, by exact names."""

from collections.abc import Callable
from collections.abc import Iterator
import dataclasses

from cinder_k2.probe import asking
from cinder_k2.probe import tokens
from cinder_k2.rest import raw

_PASSES = 4
# By resource.
_Failed = dict[str, asking.Unseen]


@dataclasses.dataclass(frozen=True)
class Left:
    """What may still be on the array.

    :ivar names: of objects that the array does not delete
    :ivar unseen: why objects of a resource cannot be searched for, by
        resource; of types that an array may lack
    """

    names: list[str]
    unseen: dict[str, str]


def remove(writer: asking.Writer) -> Left:
    """Remove all that the token names.

    There are several passes, until one finds nothing: the effect of a write
    whose reply was lost may show late.

    :raises rest.RestError: objects that every array shows cannot be searched
        for
    """
    for _ in range(_PASSES):
        names, failed = _pass(writer)
        if not names and not failed:
            break
    for each in failed.values():
        if each.is_known:
            raise each.error
    return Left(names, {each.resource: str(each) for each in failed.values()})


def _pass(writer: asking.Writer) -> tuple[list[str], _Failed]:
    """Remove what can be removed; returns all objects found.

    The name of each object is checked right before it is removed (OBJ-7): some
    may be deleted along with others.
    """
    names: list[str] = []
    failed: _Failed = {}
    for resource, name, act in _steps(writer.token):
        if resource in failed:
            continue
        try:
            id = writer.find(resource, name)
            if id is not None:
                names.append(name)
                act(writer, resource, id)
        except asking.Unseen as unseen:
            failed[resource] = failed[unseen.resource] = unseen
    return list(dict.fromkeys(names)), failed


def _steps(token: tokens.Token
           ) -> Iterator[tuple[str, str, Callable[..., None]]]:
    """What to do in a pass, in order: resource, name, and the act.

    A clone is deleted before its snapshot, a volume after it (SNP-9, VOL-7).
    """
    for resource in ('hosts', 'host_groups'):
        for name in token.names[resource]:
            yield resource, name, _unmap
    clones = [*map(token.name, tokens.CLONES)]
    for name in clones:
        yield 'volumes', name, _remove
    for resource, names in token.names.items():
        for name in names:
            if name not in clones:
                yield resource, name, _remove


def _remove(writer: asking.Writer, resource: str, id: int) -> None:
    answer = writer.remove(resource, id, leaf=True)
    if resource == 'hosts' and answer.status == 400:
        writer.change('hosts', id, {'host_group': None})
        writer.change('hosts', id, {'map_auth_profiles_names': None})
        writer.remove('hosts', id, leaf=True)


def _unmap(writer: asking.Writer, resource: str, id: int) -> None:
    """Remove the mappings of a host or host group.

    Entries of volsnaps are deleted with those of their views (MAP-4).
    """
    for hit in writer.mappings(f'/{resource}/{id}'):
        mapping = raw.id_of(hit)
        if mapping is not None and not asking.ref_of(
                hit, 'volume').startswith('/volsnaps/'):
            writer.remove('mappings', mapping, leaf=True)
