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

"""The objects that checks with writes share, created when first needed."""

from collections.abc import Mapping
import secrets
from typing import Any

from cinder_k2 import naming
from cinder_k2.probe import asking
from cinder_k2.probe import findings
from cinder_k2.probe import words
from cinder_k2.rest import raw

GIB = 1 << 20


def ref(resource: str, id: int) -> dict[str, str]:
    """A reference as it is sent (OBJ-8)."""
    return {'ref': f'/{resource}/{id}'}


class Made:
    """Objects of a probe; refused ones are requested only once.

    :param policy: id of the retention policy to use
    """

    def __init__(self, writer: asking.Writer, policy: int) -> None:
        self.writer = writer
        self.policy = ref('retention_policies', policy)
        self.answers: dict[str, raw.Answer] = {}
        self._ids: dict[str, int] = {}
        self._removed: set[str] = set()

    def name(self, part: str) -> str:
        """The name of an object."""
        return self.writer.token.name(part)

    def group(self, part: str = 'g1') -> int:
        """A volume group."""
        return self.made('volume_groups', part, {
            'name': self.name(part), 'quota': 0, 'is_dedup': True})

    def volume(self, part: str = 'v1', group: str = 'g1') -> int:
        """A volume of 1 GiB."""
        return self.made('volumes', part, {
            'name': self.name(part), 'size': GIB,
            'volume_group': ref('volume_groups', self.group(group))})

    def snapshot(self, part: str = 's1', group: str = 'g1',
                 volume: str = 'v1') -> int:
        """A snapshot of a volume group that has a volume."""
        self.volume(volume, group)
        return self.made('snapshots', part, self.snapshot_body(part, group))

    def snapshot_body(self, part: str, group: str) -> dict[str, Any]:
        """What a POST of a snapshot sends."""
        return {'short_name': self.name(part), 'is_auto_deleteable': False,
                'source': ref('volume_groups', self.group(group)),
                'retention_policy': self.policy}

    def view(self, part: str = 'w1') -> int:
        """A view of the snapshot."""
        return self.made('snapshots', part, {
            'short_name': self.name(part), 'is_exposable': True,
            'source': ref('snapshots', self.snapshot()),
            'retention_policy': self.policy})

    def host(self, part: str = 'h1') -> int:
        """A host without initiators."""
        return self.made('hosts', part, {
            'name': self.name(part), 'type': 'Linux'})

    def initiator(self, host: str = 'h4') -> int:
        """An initiator of a host."""
        return self.made('host_iqns', 'i1', self.initiator_body('i1', host))

    def initiator_body(self, part: str, host: str) -> dict[str, Any]:
        """What a POST of an initiator sends."""
        return {'iqn': naming.probe_iqn(self.writer.token.token, part),
                'host': ref('hosts', self.host(host))}

    def profile(self) -> int:
        """A CHAP profile."""
        return self.made('host_auth_profiles', 'p1', self.profile_body('p1'))

    def profile_body(self, part: str) -> dict[str, Any]:
        """What a POST of a CHAP profile sends."""
        return {'name': self.name(part), 'type': 'CHAP',
                'username': self.name(part),
                'password': secrets.token_hex(7)}

    def mapping(self, part: str, host: int, resource: str, id: int) -> int:
        """A mapping of a volume or view."""
        return self.made('mappings', part, {
            'host': ref('hosts', host), 'volume': ref(resource, id)})

    def thin_clone(self) -> int:
        """A thin clone.

        :raises findings.Skip: the array does not offer them
        """
        return self.made('volumes', 'c1', self.clone_body('c1'))

    def clone_body(self, part: str) -> dict[str, Any]:
        """What a POST of a thin clone sends."""
        snapshot, volume = self.snapshot('s4'), self.volume()
        return {'name': self.name(part), 'is_thin_clone': 'true',
                'volume_group': ref('volume_groups', self.group()),
                'source_snapshot': ref('snapshots', snapshot),
                'source_volume': ref('volumes', volume)}

    def made(self, resource: str, part: str, body: Mapping[str, Any]
             ) -> int:
        """The id of an object.

        :raises findings.Skip: it was not made
        """
        if part not in self.answers:
            answer = self.answers[part] = self.writer.make(resource, body)
            if answer.ok:
                id = answer.id or self.writer.adopt(resource, answer, body)
                if id is not None:
                    self._ids[part] = id
        if part in self._removed:
            raise findings.Skip(f'{resource} {part} was removed before')
        if part not in self._ids:
            raise findings.Skip(
                f'{resource} {part} was not made: '
                f'{words.said(self.answers[part])}')
        return self._ids[part]

    def forget(self, part: str) -> None:
        """Record that it was removed."""
        self._ids.pop(part, None)
        self._removed.add(part)
