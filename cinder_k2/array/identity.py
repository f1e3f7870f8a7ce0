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

"""Whether stored ids still belong to what they were stored for (OBJ-7).

The array may reuse the id of a deleted object. So an id is only a hint, and
the name decides: it is checked before an operation changes the object or shows
it to a user.
"""

from collections.abc import Iterable
from collections.abc import Sequence
import dataclasses

from oslo_log import log as logging

from cinder_k2.array import objects
from cinder_k2.array import volumes
from cinder_k2 import exceptions
from cinder_k2 import naming
from cinder_k2 import rest

LOG = logging.getLogger(__name__)


class Identity:
    """Finds by name the current objects for stored ids."""

    def __init__(self, client: rest.Client) -> None:
        self._client = client

    def volume(self, stored: objects.ArrayVolume, names: Sequence[str]
               ) -> objects.ArrayVolume | None:
        """Find the current volume or view. One call if it has the first name.

        :param names: names that its volume or view may have
        :returns: ``stored`` if its ids are right, else the object with the
            name; None if there is none
        """
        for name in names:
            found = (self._view(stored, name) if stored.view is not None
                     else self._volume(stored, name))
            if found is not None:
                return found
        return None

    def is_current(self, named: objects.NamedVolume) -> bool:
        """Whether the ids of a volume or view are still its own (OBJ-7).

        A new object may show late (OBJ-6). One call if it shows at once. An
        id that does not show is not its own: the array may give it to the
        next object.
        """
        found = volumes.shown(self._client, lambda: self.volume(
            named.backing, named.names))
        return found is not None and found.mappable == named.backing.mappable

    def snapshot(self, stored: objects.ArraySnapshot,
                 names: Sequence[str]) -> objects.ArraySnapshot | None:
        """The current snapshot of a Cinder snapshot. Usually one call.

        A managed snapshot keeps its original name, of which a digest was
        stored; it is looked for in its group.

        :param names: short names that a snapshot created by Cinder may have
        :returns: as for ``volume``; the digest is added if none was stored
        :raises ObjectRenamed: it cannot be identified
        """
        if not stored.named:
            for name in names:
                found = self._client.snapshots.find(short_name=name)
                if found is not None:
                    return self._as_found(stored, found)
        return self._adopted(stored, self._client.snapshots.search(
            volume_group=self._client.volume_groups.ref(stored.group)))

    def snapshot_among(self, stored: objects.ArraySnapshot,
                       names: Sequence[str], siblings: list[rest.Snapshot]
                       ) -> objects.ArraySnapshot | None:
        """As ``snapshot``, in a list of its group. Usually no call.

        :param siblings: all snapshots and views of its group
        """
        for found in siblings if not stored.named else ():
            if found.short_name in names:
                return self._as_found(stored, found)
        return self._adopted(stored, siblings)

    @staticmethod
    def is_view_among(stored: objects.ArrayVolume, names: Sequence[str],
                      siblings: Iterable[rest.Snapshot]) -> bool:
        """Whether a stored view has one of its names in a list. No call.

        :param names: names that it may have
        :param siblings: all snapshots and views of its group
        """
        return any(s.id == stored.view and s.short_name in names
                   for s in siblings)

    def name_now(self, stored: objects.ArrayVolume) -> tuple[str, str]:
        """The current names of objects with stored ids. Two calls.

        :returns: that of the volume or view, and that of the group; '' for a
            deleted object
        """
        ref = self._client.volume_groups.ref(stored.group)
        objects: Sequence[rest.Volume | rest.Snapshot] = (
            self._client.volumes.search(volume_group=ref)
            if stored.view is None
            else self._client.snapshots.search(volume_group=ref))
        key = stored.volume if stored.view is None else stored.view
        name = next((_name(each) for each in objects if each.id == key), '')
        try:
            return name, self._client.volume_groups.get(stored.group).name
        except rest.NotFound:
            return name, ''

    def _volume(self, stored: objects.ArrayVolume, name: str
                ) -> objects.ArrayVolume | None:
        found = self._client.volumes.find(name=name)
        if found is None:
            return None
        group = found.volume_group.id if found.volume_group else stored.group
        if (found.id, group) == (stored.volume, stored.group):
            return stored
        _log(name, stored, found.id, group)
        return dataclasses.replace(stored, volume=found.id, group=group,
                                   shared=True, has_clones=True)

    def _view(self, stored: objects.ArrayVolume, name: str
              ) -> objects.ArrayVolume | None:
        found = self._client.snapshots.find(short_name=name)
        if found is None or found.id == stored.view:
            return stored if found else None
        _log(name, stored, found.id, stored.group)
        view = volumes.view_backing(
            self._client, found, volume=stored.origin, group=stored.group,
            parent=stored.parent)
        return dataclasses.replace(
            stored, group=view.group, view=view.view, volsnap=view.volsnap,
            origin=view.origin, parent=view.parent, has_clones=True,
            hidden_parent=(stored.hidden_parent
                           and view.parent == stored.parent))

    def _adopted(self, stored: objects.ArraySnapshot,
                 siblings: list[rest.Snapshot]
                 ) -> objects.ArraySnapshot | None:
        """A managed snapshot, whose name is not Cinder's."""
        for found in siblings:
            if found.id != stored.snapshot:
                continue
            if stored.named:
                is_it = (naming.digest(_name(found)) == stored.named
                         and self._is_of_source(stored, found, siblings))
                return stored if is_it else None
            # Before digests were stored, every managed snapshot was marked as
            # having clones, like all that have some.
            if stored.has_clones and not naming.is_snapshot(found.short_name):
                return self._undigested(stored, found)
        return None

    def _is_of_source(self, stored: objects.ArraySnapshot,
                      found: rest.Snapshot, siblings: list[rest.Snapshot]
                      ) -> bool:
        """Whether a found snapshot was taken of the stored one's source.

        By now, another volume or view of the group may have a snapshot with
        the same short name and id (OBJ-7), or the group may be another's. No
        call if its full name begins with a name of the group (SNP-1, VG-9);
        otherwise the volume is looked up.
        """
        if found.source not in (None, stored.taken_of):
            return False
        source = stored.source
        if stored.view is not None:
            return any(each.id == stored.view
                       and each.short_name in source.volumes
                       for each in siblings)
        return found.name in [f'{group}:{found.short_name}'
                              for group in source.groups] or any(
            self._is_in_group(stored, name) for name in source.volumes)

    def _is_in_group(self, stored: objects.ArraySnapshot, name: str) -> bool:
        """Whether a snapshot's group has the volume of a name. One call."""
        found = self._client.volumes.find(name=name)
        if found is None:
            return False
        if found.volume_group is None:
            # The array does not show the group.
            return found.id == stored.volume
        return found.volume_group.id == stored.group

    def _undigested(self, stored: objects.ArraySnapshot,
                    found: rest.Snapshot) -> objects.ArraySnapshot:
        """A managed snapshot without a stored digest; adds the digest.

        An object that existed when the row was created has had its id ever
        since; one that got the id later is younger than the row.

        :raises ObjectRenamed: it is younger, or its age is not known
        """
        if None in (stored.since, found.creation_time) or (
                found.creation_time or 0) > (stored.since or 0):
            raise exceptions.ObjectRenamed(
                f'Snapshot {stored.snapshot} on the array at '
                f'{self._client.address} is called {_name(found)}, and '
                'Cinder has no note of the name of the snapshot that had '
                'this ID. Nothing was done. Look at the snapshot on the '
                'array. Unmanage it in Cinder, after its state was reset, '
                'which changes nothing on the array; if it is the right one, '
                'manage it again.')
        return dataclasses.replace(stored, named=naming.digest(_name(found)))

    def _as_found(self, stored: objects.ArraySnapshot,
                  found: rest.Snapshot) -> objects.ArraySnapshot:
        group = found.volume_group.id if found.volume_group else stored.group
        if (found.id, group) == (stored.snapshot, stored.group):
            return stored
        LOG.warning('Snapshot %(name)s on the array has id %(found)s, not '
                    '%(stored)s as Cinder\'s row says; the name counts.',
                    {'name': found.short_name, 'found': found.id,
                     'stored': stored.snapshot})
        return dataclasses.replace(stored, snapshot=found.id, group=group,
                                   has_clones=True)


def _name(found: rest.Volume | rest.Snapshot) -> str:
    if isinstance(found, rest.Volume):
        return found.name
    return found.short_name or ''


def _log(name: str, stored: objects.ArrayVolume, id: int, group: int) -> None:
    LOG.warning('%(name)s on the array has id %(id)s in volume group '
                '%(group)s, not %(stored)s in %(stored_group)s as Cinder\'s '
                'row says; the name counts.', {
                    'name': name, 'id': id, 'group': group,
                    'stored': stored.volume or stored.view,
                    'stored_group': stored.group})
