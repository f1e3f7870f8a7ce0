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

"""What oslo.config makes of a text in cinder.conf, and how to have it whole.

A text is carried exactly as it is, or refused with the reason. Cinder's charm
prints ``key = value`` as it gets it, so what escaping there is happens here.
"""

from collections.abc import Mapping
import re
import unicodedata

#: Sections of cinder.conf that are not back ends, in small letters.
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
    """A text cannot stand in cinder.conf; the message says why.

    The message never quotes the text, which may be a password.
    """


def value(text: str) -> str:
    """Write a text so that a string option reads it back exactly.

    :raises InvalidText: it has a character that no line can hold
    """
    for character in text:
        if unicodedata.category(character) in ('Cc', 'Cs'):
            raise InvalidText('line breaks and other control characters '
                              'cannot stand in cinder.conf; take them out')
    # A doubled dollar would not do: behind a backslash it reads otherwise.
    written = text.replace('$', r'\$')
    if written != written.strip() or _is_quoted(written):
        return f'"{written}"'
    return written


def device(fields: Mapping[str, str]) -> str:
    """Write a ``replication_device`` so that its fields read back exactly.

    :raises InvalidText: one of them ends early there
    """
    for key, text in fields.items():
        if not fits_device(text):
            raise InvalidText(f'{key} has a comma, a blank at an end, or '
                              'nothing in it, which replication_device '
                              'cannot hold')
    return value(','.join(f'{key}:{text}' for key, text in fields.items()))


def fits_device(text: str) -> bool:
    """Whether a text can be one of the fields of ``replication_device``."""
    return bool(text) and ',' not in text and text == text.strip()


def section(name: str) -> str:
    """Check the name of a back end, which is that of its section.

    It also stands in ``enabled_backends`` and, behind an @ and before a #, in
    the host of each volume.

    :raises InvalidText: it would not be found there again
    """
    if not _NAME.fullmatch(name) or len(name) > _LONGEST_NAME:
        raise InvalidText('use at most 100 letters, digits, dots, dashes and '
                          'underscores, the first one a letter or digit')
    if name.lower() in RESERVED or name.lower().startswith('oslo_'):
        raise InvalidText('cinder.conf has a section of this name already; '
                          'choose another one')
    return name


def _is_quoted(text: str) -> bool:
    """Whether oslo.config would take the first and last character off."""
    return text[:1] == text[-1:] and text[:1] in _QUOTES
