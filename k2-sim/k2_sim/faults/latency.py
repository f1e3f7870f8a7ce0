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

"""How long replies take: a constant, or drawn from a distribution."""

from collections.abc import Mapping
import dataclasses
import math
import random
from typing import Any

from k2_sim import errors

#: The parameters of each kind, in milliseconds except for sigma and shape.
KINDS = {
    'constant': ('ms',),
    'normal': ('mean', 'deviation'),
    'lognormal': ('median', 'sigma'),
    'pareto': ('minimum', 'shape')}
_LARGEST = 86400000.0


@dataclasses.dataclass(frozen=True)
class Latency:
    """A distribution of latencies; without arguments, no latency.

    kind: constant; normal, truncated at 0; lognormal, given by its median
    and the standard deviation of its logarithm; or pareto, given by its
    minimum and its shape. The last two have long tails. parameters: in the
    order of KINDS. longest: the upper limit of samples, in milliseconds,
    except for the kind constant.
    """

    kind: str = 'constant'
    parameters: tuple[float, ...] = (0.0,)
    longest: float = 60000.0

    def shown(self) -> dict[str, Any]:
        """The distribution in the format that read() accepts."""
        named = dict(zip(KINDS[self.kind], self.parameters, strict=True))
        if self.kind == 'constant':
            return {'kind': self.kind, **named}
        return {'kind': self.kind, **named, 'longest': self.longest}

    def draw(self, rng: random.Random) -> float:
        """The latency of one reply, in seconds."""
        if self.kind == 'constant':
            return self.parameters[0] / 1000
        drawn = self._drawn(rng, *self.parameters)
        return min(max(0.0, drawn), self.longest) / 1000

    def _drawn(self, rng: random.Random, first: float,
               second: float) -> float:
        if self.kind == 'normal':
            return rng.gauss(first, second)
        if self.kind == 'lognormal':
            return rng.lognormvariate(math.log(first), second)
        return first * rng.paretovariate(second)


def constant(seconds: float) -> Latency:
    """A constant latency; raises ApiError (400) for a bad number."""
    return read({'kind': 'constant', 'ms': _number(
        seconds, 'The number of seconds') * 1000})


def read(value: object) -> Latency:
    """A distribution by kind and parameters; raises ApiError (400)."""
    if not isinstance(value, Mapping):
        raise errors.refused('A latency must be a JSON object')
    given = dict(value)
    kind = given.pop('kind', 'constant')
    if not isinstance(kind, str) or kind not in KINDS:
        raise errors.refused(
            f'The kind of a latency must be one of {", ".join(KINDS)}')
    longest = Latency.longest
    if kind != 'constant':
        longest = _number(given.pop('longest', longest), 'longest')
    if set(given) != set(KINDS[kind]):
        raise errors.refused(f'A latency of kind {kind} has the parameters '
                             + ', '.join(KINDS[kind]))
    parameters = tuple(_number(given[name], name) for name in KINDS[kind])
    if kind in ('lognormal', 'pareto') and not all(parameters):
        raise errors.refused(
            f'The parameters of kind {kind} must be above 0')
    return Latency(kind, parameters, longest)


def _number(value: object, name: str) -> float:
    if (isinstance(value, bool) or not isinstance(value, (int, float))
            or not 0 <= value <= _LARGEST):
        raise errors.refused(f'{name} must be a number from 0 to a day')
    return float(value)
