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

"""Renaming a volume and its group."""

from cinder_k2.array import Array
from cinder_k2.array import ArrayVolume
from cinder_k2.flows import undo


def rename(array: Array, backing: ArrayVolume, *, name: str, group_name: str,
           old_name: str, old_group_name: str) -> None:
    """Rename a volume and its own group. Two calls.

    If one is refused, both get their old names back.
    """
    group, volume = backing.group, backing.volume_ref.id

    def name_group_back() -> None:
        if array.volumes.find_group(group_name) == group:
            array.names.set_group(group, old_group_name, group_name)

    def name_volume_back() -> None:
        if array.volumes.find_volume(name) == volume:
            array.names.set_volume(volume, old_name, name)

    with undo.Undo(array) as steps:
        with steps.step('rename volume group', name_group_back):
            array.names.set_group(group, group_name, old_group_name)
        steps.on_failure('rename volume group', name_group_back)
        with steps.step('rename volume', name_volume_back):
            array.names.set_volume(volume, name, old_name)
