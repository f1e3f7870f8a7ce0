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


"""Reads and writes of disks, from cumulative counters."""

#: Reads, bytes read, writes, bytes written.
Counts = tuple[int, int, int, int]


def grown(before: Counts | None, after: Counts) -> Counts:
    """The increase since before; all of it, if the counters were reset."""
    if before is None or any(new < old for old, new in zip(before, after)):
        return after
    reads, read, writes, written = (
        new - old for old, new in zip(before, after))
    return reads, read, writes, written
