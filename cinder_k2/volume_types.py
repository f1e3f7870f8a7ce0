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

"""The extra specs of volume types: one table.

``parse`` reads them, and ``cinder get-capabilities`` shows them.
"""

from collections.abc import Callable
from collections.abc import Mapping
import dataclasses
import functools
import re
import typing

from oslo_log import log as logging

LOG = logging.getLogger(__name__)

PREFIX = 'kaminario'
STRATEGIES = ('thin', 'view', 'copy')

#: Values of the deduplication spec.
DEDUP_WORDS = {True: 'dedup', False: 'nodedup'}

# Cinder's filters accept these before a value; they change nothing here.
_OPERATORS = ('<is>', '<in>', 's==')
# Used by Cinder's scheduler and its group replication.
_CINDERS_WORD = 'replication_enabled'
_MOST_WARNINGS = 256


class InvalidExtraSpec(ValueError):
    """An extra spec has an unknown value."""


@dataclasses.dataclass(frozen=True)
class ExtraSpec:
    """One extra spec.

    :param values: its possible values, in lower case; empty if they cannot be
        listed
    :param allowed: a description of the possible values, if they are not
        listed
    :param valid: whether a text is a possible value, if they are not listed
    :param several: whether it may have several values, separated by commas
    :param default: its default; None: the back end decides
    :param synonyms: synonyms of some values
    """

    key: str
    title: str
    description: str
    values: tuple[str, ...] = ()
    default: str | None = None
    several: bool = False
    synonyms: Mapping[str, str] = dataclasses.field(default_factory=dict)
    allowed: str = ''
    valid: Callable[[str], bool] = bool

    def read(self, value: str | None) -> tuple[str, ...]:
        """Its values in a type; none when it is not set.

        :raises InvalidExtraSpec: unknown value; the text names those allowed
        """
        if value is None:
            return ()
        words = tuple(self._normal(word) for word in self._split(value))
        if not words or not all(map(self._accepts, words)):
            raise InvalidExtraSpec(
                f'{self.key} is "{value}"; use {self._allowed()}.')
        return words

    def _accepts(self, word: str) -> bool:
        return word in self.values if self.values else self.valid(word)

    def _split(self, value: str) -> list[str]:
        if not self.several:
            return [value]
        return [word for word in value.split(',') if word.strip()]

    def _normal(self, word: str) -> str:
        first, _, rest_of_it = word.strip().partition(' ')
        plain = (rest_of_it if first.lower() in _OPERATORS
                 else f'{first} {rest_of_it}').strip()
        if self.values:
            plain = plain.lower()
        return self.synonyms.get(plain, plain)

    def _allowed(self) -> str:
        if not self.values:
            return self.allowed
        if self.several:
            return f'any of: {", ".join(self.values)}, separated by commas'
        return ' or '.join(f'"{value}"' for value in self.values)


def is_rpo(text: str) -> bool:
    """Whether a number of seconds is a valid rpo (REP-4)."""
    if not re.fullmatch('[0-9]{1,9}', text):
        return False
    seconds = int(text)
    return seconds == 60 or seconds > 0 == seconds % 300


#: The rule of ``is_rpo`` in words.
RPO_RULE = '60 or a multiple of 300'

DEDUP = ExtraSpec(
    f'{PREFIX}:thin_prov_type', 'Deduplication',
    'Whether the array deduplicates the volume. Fixed when it is made.',
    ('dedup', 'nodedup'), default='dedup')
STRATEGY = ExtraSpec(
    f'{PREFIX}:clone_strategy', 'Clone strategies',
    'How to make clones and volumes from snapshots: one or several, '
    'separated by commas, in the order in which to try.',
    STRATEGIES, several=True)
REPLICATION = ExtraSpec(
    f'{PREFIX}:replication', 'Replication',
    'Whether the volume is replicated to another array. Without it, '
    'replication_enabled decides.',
    ('enabled', 'disabled'), default='disabled',
    # The in-tree driver treats everything but "enabled" as disabled.
    synonyms={**dict.fromkeys(('true', 'yes', 'on', '1'), 'enabled'),
              **dict.fromkeys(('false', 'no', 'off', '0', 'none', ''),
                              'disabled')})
RPO = ExtraSpec(
    f'{PREFIX}:replication_rpo', 'Replication interval',
    'Seconds between two copies to the other array: 60 or a multiple of '
    '300. By default the rpo of the replication_device.',
    allowed=RPO_RULE, valid=is_rpo)
TARGET = ExtraSpec(
    f'{PREFIX}:replication_target', 'Replication target',
    'The backend_id of the replication_device to replicate to. By default '
    'the first one.',
    allowed='the backend_id of a replication_device')
EXTRA_SPECS = (DEDUP, STRATEGY, REPLICATION, RPO, TARGET)


@dataclasses.dataclass(frozen=True)
class TypeSpec:
    """The part of a volume type that the driver acts on.

    ``clone_strategies`` is empty where the type leaves the choice to the
    back end (option ``k2_clone_strategies``). ``rpo`` in seconds and
    ``target``, a backend_id, are for those that are ``replicated``, and None
    where the type leaves them to the back end (``replication_device``).
    """

    dedup: bool = True
    clone_strategies: tuple[str, ...] = ()
    replicated: bool = False
    rpo: int | None = None
    target: str | None = None


def parse(extra_specs: Mapping[str, str]) -> TypeSpec:
    """Read the extra specs of a volume type.

    An unknown key with the driver's prefix is no error: the in-tree driver has
    always ignored such keys, and types that have one must keep working.

    :raises InvalidExtraSpec: unknown value; the text names those allowed
    """
    for key in extra_specs:
        if key.startswith(f'{PREFIX}:'):
            _warn_of_unknown(key)
    found = {spec.key: spec.read(extra_specs.get(spec.key))
             for spec in EXTRA_SPECS}
    return TypeSpec(
        dedup=dedup_of(extra_specs),
        clone_strategies=found[STRATEGY.key],
        replicated=_is_replicated(found[REPLICATION.key], extra_specs),
        rpo=next(map(int, found[RPO.key]), None),
        target=next(iter(found[TARGET.key]), None))


def of(row: typing.Any) -> TypeSpec:
    """The spec of a volume's or snapshot's type.

    :param row: Cinder's row of the volume or snapshot
    :raises InvalidExtraSpec: unknown value
    """
    kind = row.volume_type
    return parse((kind and kind.extra_specs) or {})


def dedup_of(extra_specs: Mapping[str, str]) -> bool:
    """Whether a volume type requests deduplication, whatever its other specs.

    :raises InvalidExtraSpec: this spec has an unknown value
    """
    return 'nodedup' not in DEDUP.read(extra_specs.get(DEDUP.key))


def _is_replicated(words: tuple[str, ...],
                   extra_specs: Mapping[str, str]) -> bool:
    """Whether a type requests replication: by our key, else by Cinder's."""
    if words:
        return 'enabled' in words
    return extra_specs.get(_CINDERS_WORD, '').lower() == '<is> true'


@functools.lru_cache(_MOST_WARNINGS)
def _warn_of_unknown(key: str) -> None:
    """Warn of an unknown key, once in the life of the service."""
    known = [spec.key for spec in EXTRA_SPECS]
    if key not in known:
        LOG.warning('Extra spec %(key)s of a volume type is unknown and has '
                    'no effect. Known are: %(known)s.',
                    {'key': key, 'known': ', '.join(known)})
