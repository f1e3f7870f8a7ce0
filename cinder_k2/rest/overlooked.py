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

"""Warnings about fields that an array sends in an unexpected form."""

from typing import Any

from oslo_log import log as logging

from cinder_k2 import once
from cinder_k2.rest import records

LOG = logging.getLogger(__name__)

#: Warnings already logged: address of the array, resource, field.
TOLD = once.Once()


def warn(address: str, kind: type[records.Record], name: str, value: Any
         ) -> None:
    """Warn of a field that reads as absent, once per field and array."""
    if TOLD.is_first((address, kind.RESOURCE, name)):
        LOG.warning(
            'The array at %(address)s sends field %(name)s of %(resource)s '
            'as %(value)s, which cannot be read; it counts as absent.',
            {'address': address, 'name': name, 'resource': kind.RESOURCE,
             'value': _shown(kind, value)})


def _shown(kind: type[records.Record], value: Any) -> str:
    """At most 60 characters of the value; for a secret only its type."""
    if kind.SECRET:
        return f'a value of type {type(value).__name__}'
    return f'{value!r:.60}'
