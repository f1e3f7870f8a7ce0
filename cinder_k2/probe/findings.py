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

"""Results of the checks of rules."""

from collections.abc import Callable
from collections.abc import Collection
import dataclasses
from typing import Any
from typing import TypeVar

from cinder_k2.probe import words
from cinder_k2.rest import raw

CONFIRMED = 'confirmed'
CONTRADICTED = 'contradicted'
NOT_SEEN = 'not seen'

# Statuses that are about the user or the load.
_BUSY = (401, 403, 429)
#: Errors caused by replies whose fields have unexpected types.
UNREADABLE = (ArithmeticError, AttributeError, LookupError, TypeError,
              ValueError)
F = TypeVar('F', bound=Callable[..., Any])


@dataclasses.dataclass(frozen=True)
class Finding:
    """The result of a check of a rule.

    :ivar seen: what was seen, in one line
    :ivar needs: forms of requests; if there is one of which the array carries
        out no request during the probe, the result may be about that form
    """

    result: str
    seen: str
    needs: tuple[str, ...] = ()

    def settled(self, carried_out: Collection[str]) -> 'Finding':
        """The final result, once all requests were sent.

        :param carried_out: forms of requests that the array carried out
        """
        missing = [form for form in self.needs if form not in carried_out]
        if missing:
            return not_seen(
                f'{self.seen}; nothing shows that it is about the rule, '
                'because the array carried out no ' + ', '.join(missing))
        if self.result == CONTRADICTED and self.needs:
            return contradicted(
                f'{self.seen}; it has carried out {", ".join(self.needs)}')
        return self


class Skip(Exception):
    """A check cannot be made; the text says why."""


def confirmed(seen: str) -> Finding:
    """The array does as the rule says."""
    return Finding(CONFIRMED, seen)


def contradicted(seen: str) -> Finding:
    """The array does something else."""
    return Finding(CONTRADICTED, seen)


def not_seen(seen: str) -> Finding:
    """The array did not show whether it follows the rule."""
    return Finding(NOT_SEEN, seen)


def that(holds: bool, seen: str) -> Finding:
    """The array does as the rule says if something holds."""
    return Finding(CONFIRMED if holds else CONTRADICTED, seen)


def refused(answer: raw.Answer, happened: Callable[[], bool] | None = None,
            control: str = '') -> Finding:
    """The finding if the rule says that the request is refused.

    :param happened: whether the request has had its effect; arrays may answer
        200 and ignore unknown fields
    :param control: form of a request that the array must carry out for the
        refusal to be about the rule; by default the form of the request itself
    """
    if answer.ok:
        if happened is not None and not happened():
            return not_seen(f'{words.said(answer)}, and nothing was changed: '
                            'the array ignores what it does not know')
        return contradicted(f'carried out: {words.said(answer)}')
    if _tells(answer) and answer.status != 404:
        return Finding(CONFIRMED, f'refused: {words.said(answer)}',
                       (control or answer.form,))
    return not_seen(words.said(answer))


def done(answer: raw.Answer, control: str = '') -> Finding:
    """The finding if the rule says that the request is carried out.

    :param control: form of a request that the array must carry out for a
        refusal to be about the rule; by default the form of the request itself
    """
    if answer.ok:
        return confirmed(words.said(answer))
    return Finding(CONTRADICTED if _tells(answer) else NOT_SEEN,
                   words.said(answer),
                   (control or answer.form,) if _tells(answer) else ())


def both(found: list[Finding]) -> Finding:
    """One finding of a rule that says several things.

    If one thing is contradicted, so is the rule; else it is not seen if one
    thing is not.
    """
    seen = '; '.join(each.seen for each in found)
    needs = tuple(form for each in found for form in each.needs)
    results = [each.result for each in found]
    return Finding(next(result for result in (
        CONTRADICTED, NOT_SEEN, CONFIRMED) if result in results), seen, needs)


def is_bare(answer: raw.Answer, id: int) -> Finding:
    """OBJ-2: a read by id gives the object itself."""
    if not answer.ok:
        return not_seen(words.said(answer))
    if answer.id == id:
        return confirmed('bare')
    return (contradicted('with an envelope') if answer.hits
            else not_seen('neither an object nor an envelope'))


def _tells(answer: raw.Answer) -> bool:
    """Whether a refusal is about the request, not about load or the user."""
    return (answer.status is not None and answer.status < 500
            and answer.status not in _BUSY
            and getattr(answer.error, 'code', None) is None)


def checks(*rules: str) -> Callable[[F], F]:
    """Mark a check with the rules that it covers."""
    def mark(check: F) -> F:
        check.rules = rules  # type: ignore[attr-defined]
        return check
    return mark


def merged(found: list[Finding]) -> Finding:
    """One finding of several checks of a rule.

    It is contradicted if one of them is, else confirmed if one of them is.
    """
    for result in (CONTRADICTED, CONFIRMED, NOT_SEEN):
        seen = [each.seen for each in found if each.result == result]
        if seen:
            return Finding(result, '; '.join(dict.fromkeys(seen)))
    return not_seen('not tested')
