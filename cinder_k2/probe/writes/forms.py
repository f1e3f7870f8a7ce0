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

"""Forms of requests that serve as controls for other requests."""

from cinder_k2.rest import raw

# Forms that every array supports.
RENAME = raw.form('PATCH', 'volume_groups', 1, ['name'])
RENAME_VOLUME = raw.form('PATCH', 'volumes', 1, ['name'])
SNAPSHOT = raw.form('POST', 'snapshots', '', [
    'is_auto_deleteable', 'retention_policy', 'short_name', 'source'])
GROUP = raw.form('POST', 'volume_groups', '', ['is_dedup', 'name', 'quota'])
VOLUME = raw.form('POST', 'volumes', '', ['name', 'size', 'volume_group'])
MAPPING = raw.form('POST', 'mappings', '', ['host', 'volume'])
# Forms that an array may not support.
QUOTA = raw.form('PATCH', 'volume_groups', 1, ['quota'])
READ_ONLY = raw.form('PATCH', 'volumes', 1, ['read_only'])
JOIN = raw.form('PATCH', 'hosts', 1, ['host_group'])
