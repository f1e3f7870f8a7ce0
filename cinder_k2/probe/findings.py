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

"""What a check of a rule came to."""

from collections.abc import Callable
import dataclasses
from typing import Any
from typing import TypeVar

from cinder_k2.rest import raw

CONFIRMED = 'confirmed'
CONTRADICTED = 'contradicted'
NOT_SEEN = 'not seen'

# Of the user, of load, or of an object that is gone already.
_BUSY = (401, 403, 429)
F = TypeVar('F', bound=Callable[..., Any])


@dataclasses.dataclass(frozen=True)
class Finding:
    """What was seen of a rule.

    :ivar seen: in a line
    """

    result: str
    seen: str


class Skip(Exception):
    """A check cannot be made; the text says why."""


def confirmed(seen: str) -> Finding:
    """The array does as the rule says."""
    return Finding(CONFIRMED, seen)


def contradicted(seen: str) -> Finding:
    """The array does something else."""
    return Finding(CONTRADICTED, seen)


def not_seen(seen: str) -> Finding:
    """The array did not show."""
    return Finding(NOT_SEEN, seen)


def that(holds: bool, seen: str) -> Finding:
    """The array does as the rule says if something holds."""
    return Finding(CONFIRMED if holds else CONTRADICTED, seen)


def refused(answer: raw.Answer) -> Finding:
    """The rule says that the request is refused."""
    if answer.ok:
        return contradicted(f'carried out: {answer.words}')
    if _tells(answer) and answer.status != 404:
        return confirmed(f'refused: {answer.words}')
    return not_seen(answer.words)


def done(answer: raw.Answer) -> Finding:
    """The rule says that the request is carried out."""
    if answer.ok:
        return confirmed(answer.words)
    return (contradicted if _tells(answer) else not_seen)(answer.words)


def _tells(answer: raw.Answer) -> bool:
    """Whether a refusal is about the request, not about load or the user."""
    return (answer.status is not None and answer.status < 500
            and answer.status not in _BUSY
            and getattr(answer.error, 'code', None) is None)


def checks(*rules: str) -> Callable[[F], F]:
    """Mark a check with the rules that it is about."""
    def mark(check: F) -> F:
        check.rules = rules  # type: ignore[attr-defined]
        return check
    return mark


def merged(found: list[Finding]) -> Finding:
    """One finding of several checks of a rule."""
    for result in (CONTRADICTED, CONFIRMED, NOT_SEEN):
        seen = [each.seen for each in found if each.result == result]
        if seen:
            return Finding(result, '; '.join(dict.fromkeys(seen)))
    return not_seen('not tested')
