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

"""A clock that tests advance."""

import time

from tests.functional import backend

# The default of k2_reconciliation_interval, in seconds.
INTERVAL = 600.0


class SkippingClock:
    """A clock on which the driver's pauses take no time.

    :param slept: seconds that were skipped before
    """

    def __init__(self, slept: float = 0.0) -> None:
        self.slept = slept

    def monotonic(self) -> float:
        """Return the machine's clock plus all skipped pauses."""
        return time.monotonic() + self.slept

    def sleep(self, seconds: float) -> None:
        """Let another thread run, and advance by ``seconds``."""
        self.slept += seconds
        time.sleep(0)

    def reconcile(self, *services: backend.Backend) -> None:
        """Let one interval of reconciliation pass on back ends."""
        for _ in range(3):
            self.slept += INTERVAL / 3
            for service in services:
                service.stats()
