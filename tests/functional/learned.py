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

"""Capability verdicts of a service that has used an array for a while.

Most tests use such services. Separate tests cover the cost and the results of
learning.
"""

import pathlib
import time

from cinder_k2.rest import verdicts
from tests.functional import cinder_env
from tests import offered

# Number of tries, 0.01 seconds apart.
_TRIES = 500


def write(state_path: str, address: str, profile: str, *more: str
          ) -> None:
    """Store verdicts on an array, which a new service will read.

    This is retried, because a service of an earlier test may hold the lock of
    the file.

    :param state_path: the directory of Cinder's state
    :param address: as in error messages, with the port unless it is 443
    :param profile: the kind of array, whose capabilities are stored
    :param more: additional capabilities of the array
    """
    store = verdicts.File(str(pathlib.Path(state_path) / 'cinder-k2'),
                          address)
    known = {name: verdicts.Verdict(verdicts.WORKS, time=time.time())
             for name in offered.names(profile)}
    known.update({name: verdicts.Verdict(
        verdicts.REFUSED, 'Host has initiators', time.time())
        for name in offered.REFUSED if name not in more})
    known.update({name: verdicts.Verdict(verdicts.WORKS, time=time.time())
                  for name in more})
    for _ in range(_TRIES):
        store.path.unlink(missing_ok=True)
        store.save('', known)
        if store.load()[1] == known:
            return
        time.sleep(0.01)
    raise AssertionError(f'{store.path} was not written')


def verdict(address: str, name: str) -> str:
    """Return the stored verdict on one capability of an array."""
    place = pathlib.Path(cinder_env.cinder().state) / 'cinder-k2'
    known = verdicts.File(str(place), address).load()[1]
    return known.get(name, verdicts.Verdict()).state


def forget() -> None:
    """Remove all stored verdicts; new services start without any."""
    place = pathlib.Path(cinder_env.cinder().state) / 'cinder-k2'
    for file in place.glob('*.json'):
        file.unlink()
