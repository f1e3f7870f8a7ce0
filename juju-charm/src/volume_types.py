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

"""Commands that create volume types for the back ends, ready to paste."""

from collections.abc import Iterator
import shlex

import backend as backends

# Extra specs by which Cinder's scheduler chooses a back end.
_REPLICATED = ('replication_enabled', '<is> True')
_MULTIATTACH = ('multiattach', '<is> True')


def commands(all_backends: tuple[backends.Backend, ...]) -> str:
    """Return one command per line, grouped by back end."""
    return '\n\n'.join('\n'.join(_of_backend(one)) for one in all_backends)


def _of_backend(one: backends.Backend) -> Iterator[str]:
    pool = ('volume_backend_name', one.values['volume_backend_name'])
    yield _create(one.name, pool)
    yield _create(f'{one.name}-nodedup', pool,
                  ('kaminario:thin_prov_type', 'nodedup'))
    yield _create(f'{one.name}-multiattach', pool, _MULTIATTACH)
    for device in one.devices:
        yield _create(f'{one.name}-to-{device.backend_id}', pool, _REPLICATED,
                      ('kaminario:replication', 'enabled'),
                      ('kaminario:replication_target', device.backend_id),
                      ('kaminario:replication_rpo', device.rpo))


def _create(name: str, *properties: tuple[str, str]) -> str:
    words = ['openstack', 'volume', 'type', 'create', name]
    for key, value in properties:
        words += ['--property', f'{key}={value}']
    return shlex.join(words)
