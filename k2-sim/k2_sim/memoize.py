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

"""Caches the results of functions of one text."""

from collections.abc import Callable
import functools
from typing import TypeVar

T = TypeVar('T')
# Characters. Longer texts are not cached: clients may send texts of any
# length.
_LONGEST = 500


def short(most: int) -> Callable[[Callable[[str], T]], Callable[[str], T]]:
    """Cache the results of a function for the last ``most`` short texts.

    The function must be pure, and its results immutable. Texts of more than
    500 characters, and those for which it raises an error, are not cached.
    """
    def decorate(function: Callable[[str], T]) -> Callable[[str], T]:
        known = functools.lru_cache(most)(function)

        @functools.wraps(function)
        def call(text: str) -> T:
            return known(text) if len(text) <= _LONGEST else function(text)

        return call

    return decorate
