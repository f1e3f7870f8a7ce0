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

"""Random numbers that can be had again."""

import random
import secrets


class Chance:
    """Independent streams of random numbers, all from one seed.

    Each has a name, so that one more of them changes none of the others.
    A seed that is not given is made up; it can be read and used again.
    """

    def __init__(self, seed: int | None = None) -> None:
        self.seed = secrets.randbelow(2 ** 32) if seed is None else seed

    def stream(self, name: str) -> random.Random:
        """A stream from its beginning."""
        # Faults need repeatable numbers, not secret ones.
        return random.Random(f'{self.seed}/{name}')  # nosec B311
