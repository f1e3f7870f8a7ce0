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

"""Progress of commands that send requests to several arrays."""

from collections.abc import Callable
from collections.abc import Mapping
from concurrent import futures
import typing

_SECONDS = 5.0


def wait(pending: Mapping[futures.Future[typing.Any], str],
         say: Callable[[str], object]) -> None:
    """Wait until all are done, and say every 5 seconds which are not.

    :param pending: the futures, with the address of the array of each
    :param say: receives the messages
    """
    while True:
        _, left = futures.wait(pending, _SECONDS)
        if not left:
            return
        names = dict.fromkeys(name for one, name in pending.items()
                              if one in left)
        say(f'waiting for {", ".join(names)}')
