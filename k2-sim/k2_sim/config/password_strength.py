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

"""Detects easily guessed passwords, for an array that others can reach.

As in NIST SP 800-63B, it checks the length, a list of what is tried first, the
names of the service and its accounts, repetitions and sequences, but not the
kinds of characters.
"""

from collections.abc import Iterable
import re

SHORTEST = 8
_FEWEST_DIFFERENT = 5
# Each also with digits and signs around it, and with digits for letters.
_WORDS = frozenset((
    'access', 'admin', 'administrator', 'array', 'backend', 'changeit',
    'changeme', 'charm', 'cinder', 'cloud', 'control', 'debian', 'default',
    'demo', 'devstack', 'dragon', 'example', 'flex', 'football', 'geheim',
    'guest', 'hello', 'iloveyou', 'insecure', 'iscsi', 'juju', 'k',
    'kaminario', 'letmein', 'login', 'manager', 'master', 'monkey',
    'nopassword', 'nosecret', 'openstack', 'operator', 'pass', 'passphrase',
    'passwd', 'password', 'passwort', 'princess', 'root', 'secret',
    'secrete', 'service', 'shadow', 'silk', 'sim', 'simulator', 'stack',
    'storage', 'sunshine', 'superman', 'superuser', 'supervisor', 'support',
    'system', 'temp', 'tempest', 'test', 'testing', 'token', 'toor',
    'trustno', 'ubuntu', 'user', 'username', 'vagrant', 'volume',
    'welcome'))
_LOOKALIKES = str.maketrans('01345789@$!', 'oleastbgasi')
# Sequences of letters, digits and keys, used from any place and backwards.
_ROWS = ('abcdefghijklmnopqrstuvwxyz', '01234567890', '!@#$%^&*()',
         '1qaz2wsx3edc4rfv5tgb6yhn', 'qwertyuiopasdfghjklzxcvbnm',
         'qwertzuiopasdfghjklyxcvbnm')
_SHORTEST_ROW = 4


def flaw(password: str, names: Iterable[str] = ()) -> str:
    """Why a password is easily guessed, or ''.

    names: of accounts, which are tried, too.
    """
    if len(password) < SHORTEST:
        return f'has fewer than {SHORTEST} characters'
    if len(set(password)) < _FEWEST_DIFFERENT:
        return f'has fewer than {_FEWEST_DIFFERENT} different characters'
    tried = {*_WORDS, *map(_letters, names)} - {''}
    if any(_is_made_of(form, tried) for form in _forms(password)):
        return 'is one that everybody tries first'
    return ''


def _forms(password: str) -> set[str]:
    """A password, its letters, and those with lookalikes read as letters."""
    text = password.lower()
    cores = [re.sub(f'^{around}+|{around}+$', '', text)
             for around in (r'[\W_]', r'[\W\d_]')]
    return {text, *map(_letters, (text, *(
        part.translate(_LOOKALIKES) for part in (text, *cores))))} - {''}


def _letters(text: str) -> str:
    return ''.join(filter(str.isalpha, text.lower()))


def _is_made_of(text: str, words: set[str]) -> bool:
    """Whether a text consists of words only, or is a sequence."""
    if len(text) >= _SHORTEST_ROW and any(
            text in row * 2 or text in row[::-1] * 2 for row in _ROWS):
        return True
    ends = {0}
    for end in range(1, len(text) + 1):
        if any(text[start:end] in words for start in ends):
            ends.add(end)
    return len(text) in ends
