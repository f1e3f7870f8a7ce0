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

"""Escapes values for cinder.conf so that oslo.config reads them unchanged.

A text is either preserved exactly or refused with the reason. The cinder charm
writes ``key = value`` without escaping, so all escaping is done here.
"""

from collections.abc import Mapping
import re
import unicodedata

#: Sections of cinder.conf that are not back ends, in lower case.
RESERVED = frozenset((
    'default', 'backend_defaults', 'backend', 'audit_middleware_notifications',
    'barbican', 'brcd_fabric_example', 'cache', 'castellan',
    'cisco_fabric_example', 'client', 'coordination', 'cors',
    'custom_actions', 'database', 'fc-zone-manager', 'glance', 'global',
    'healthcheck', 'key_manager', 'keymgr', 'keystone_authtoken',
    'matchmaker_redis', 'notifications', 'nova', 'path_keywords',
    'placement', 'privsep', 'profiler', 'sample_castellan_source',
    'sample_remote_file_source', 'service_endpoints', 'service_user', 'ssl',
    'vault'))
_NAME = re.compile(r'[A-Za-z0-9][A-Za-z0-9._-]*')
_LONGEST_NAME = 100
_QUOTES = ('"', "'")


class InvalidText(ValueError):
    """A text cannot be written to cinder.conf; the message says why.

    The message never quotes the text, which may be a password.
    """


def value(text: str) -> str:
    """Escape a text so that a string option reads it back exactly.

    :raises InvalidText: it has a control character
    """
    for character in text:
        if unicodedata.category(character) in ('Cc', 'Cs'):
            raise InvalidText('line breaks and other control characters '
                              'cannot be written to cinder.conf; remove them')
    # Not a doubled dollar sign, which is read differently after a backslash.
    written = text.replace('$', r'\$')
    if written != written.strip() or _is_quoted(written):
        return f'"{written}"'
    return written


def device(fields: Mapping[str, str]) -> str:
    """Format a ``replication_device`` so that its fields read back exactly.

    :raises InvalidText: a field cannot be represented
    """
    for key, text in fields.items():
        if not fits_device(text):
            raise InvalidText(f'{key} is empty, or has a comma or a leading '
                              'or trailing space, which replication_device '
                              'cannot hold')
    return value(','.join(f'{key}:{text}' for key, text in fields.items()))


def fits_device(text: str) -> bool:
    """Return whether ``replication_device`` can hold a text as a field."""
    return bool(text) and ',' not in text and text == text.strip()


def section(name: str) -> str:
    """Validate the name of a back end, which is also that of its section.

    It is also used in ``enabled_backends`` and, between @ and #, in the host
    of each volume.

    :raises InvalidText: one of these would not accept it
    """
    if not _NAME.fullmatch(name) or len(name) > _LONGEST_NAME:
        raise InvalidText('use at most 100 letters, digits, dots, dashes and '
                          'underscores, the first one a letter or digit')
    if name.lower() in RESERVED or name.lower().startswith('oslo_'):
        raise InvalidText('this name is reserved for another section of '
                          'cinder.conf; choose another one')
    return name


def _is_quoted(text: str) -> bool:
    """Return whether oslo.config would strip the first and last character."""
    return text[:1] == text[-1:] and text[:1] in _QUOTES
