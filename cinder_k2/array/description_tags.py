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

"""Tags that the driver writes into descriptions of the array's objects.

They stay with the object whatever happens to Cinder's database, and every
service of a cluster reads them. A tag is ``[cinder <key>: <text>]``; the rest
of a description is not changed. The glossary calls a tag a note.
"""

import re


def read(description: str | None, key: str) -> str:
    """The text of a tag; empty if there is none."""
    found = _pattern(key).search(description or '')
    return found.group(1) if found else ''


def write(description: str | None, key: str, text: str) -> str:
    """The description with a tag added or changed; an empty text removes it.

    :param text: without square brackets
    """
    rest = _pattern(key).sub('', description or '').strip()
    note = f'[cinder {key}: {text}]' if text else ''
    return f'{rest} {note}'.strip()


def _pattern(key: str) -> re.Pattern[str]:
    return re.compile(rf'\s*\[cinder {re.escape(key)}: ([^\]]*)\]')
