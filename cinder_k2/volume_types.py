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

"""What a volume type's extra specs ask of the array."""

from collections.abc import Mapping
import dataclasses

_DEDUP = 'kaminario:thin_prov_type'
_STRATEGY = 'kaminario:clone_strategy'
_REPLICATION = 'kaminario:replication'

STRATEGIES = ('thin', 'view')


class InvalidExtraSpec(ValueError):
    """An extra spec has a value that the driver does not know."""


@dataclasses.dataclass(frozen=True)
class TypeSpec:
    """The part of a volume type that the driver acts on.

    ``clone_strategies`` is empty where the type leaves the choice to the
    back end (option ``k2_clone_strategies``).
    """

    dedup: bool = True
    clone_strategies: tuple[str, ...] = ()


def parse(extra_specs: Mapping[str, str]) -> TypeSpec:
    """Read the extra specs of a volume type.

    :raises InvalidExtraSpec: unknown value; the text names those allowed
    """
    if extra_specs.get(_REPLICATION, '').strip().lower() == 'enabled':
        # Better no volume than one that its owner believes replicated.
        raise InvalidExtraSpec(
            f'{_REPLICATION} is "enabled", but this version of the driver '
            'does not replicate volumes; use a type without it.')
    return TypeSpec(dedup=_dedup(extra_specs.get(_DEDUP, 'dedup')),
                    clone_strategies=_strategies(extra_specs.get(_STRATEGY)))


def _dedup(value: str) -> bool:
    word = value.strip().lower()
    if word not in ('dedup', 'nodedup'):
        raise InvalidExtraSpec(
            f'{_DEDUP} is "{value}"; use "dedup" or "nodedup".')
    return word == 'dedup'


def _strategies(value: str | None) -> tuple[str, ...]:
    if value is None:
        return ()
    words = tuple(w.strip().lower() for w in value.split(',') if w.strip())
    unknown = [w for w in words if w not in STRATEGIES]
    if unknown or not words:
        raise InvalidExtraSpec(
            f'{_STRATEGY} is "{value}"; use any of: '
            f'{", ".join(STRATEGIES)}, separated by commas.')
    return words
