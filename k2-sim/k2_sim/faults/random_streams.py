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

"""Repeatable random numbers."""

import random
import secrets


class RandomStreams:
    """Independent streams of random numbers, all from one seed.

    Each stream has a name, so that the use of one does not shift the others.
    Without a seed one is generated; it can be read and reused.
    """

    def __init__(self, seed: int | None = None) -> None:
        self.seed = secrets.randbelow(2 ** 32) if seed is None else seed

    def stream(self, name: str) -> random.Random:
        """A new generator, at the start of a stream."""
        # Faults need repeatable numbers, not secret ones.
        return random.Random(f'{self.seed}/{name}')  # nosec B311
