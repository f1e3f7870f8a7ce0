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

"""Reading options one by one, and noting what is wrong instead of stopping."""

from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Mapping
import contextlib
import dataclasses
from typing import Any

import machine as machines
import oslo
import values
import yaml_option

_LONGEST = 40
# These may hold a password, or what somebody took for the place of one.
_NOT_SHOWN = ('san_password', 'credentials', 'replication-credentials',
              'coordination-url', 'driver-key')
_SECRETS = ('san_user', 'san_password', 'username', 'password')


@dataclasses.dataclass(frozen=True)
class Given:
    """Options as they were given: each a string, in YAML a dict or list too.

    :ivar own: options of one back end or array
    :ivar where: what to write before them in a message
    :ivar shared: options that hold where there is none of its own
    """

    own: Mapping[str, Any]
    where: str = ''
    shared: Mapping[str, str] = dataclasses.field(default_factory=dict)

    def get(self, option: str) -> Any:
        """What was given; '' for nothing."""
        return self.own.get(option, self.shared.get(option, ''))

    def label(self, option: str) -> str:
        """What to call the option where it was given, or is missing."""
        shared = option in self.shared and option not in self.own
        return option if shared else f'{self.where}{option}'


class Notes:
    """Reads options, and gathers mistakes and warnings.

    :ivar mistakes: one sentence for each
    :ivar warnings: what works, and should not stay so
    """

    def __init__(self) -> None:
        """Begin with nothing noted."""
        self.mistakes: list[str] = []
        self.warnings: list[str] = []

    def mistake(self, text: str) -> None:
        """Note what is wrong, once."""
        if text not in self.mistakes:
            self.mistakes.append(text)

    def warn(self, text: str) -> None:
        """Note what should be otherwise, once."""
        if text not in self.warnings:
            self.warnings.append(text)

    def read(self, given: Given, option: str,
             reader: Callable[[str], str]) -> str:
        """Read one option; '' where it is not set, or wrong."""
        value = given.get(option)
        label = given.label(option)
        if not isinstance(value, str):
            self.mistake(f'{label}: write one value behind the colon')
        elif value:
            with self.noting(label, _shown(option, value)):
                return reader(value)
        return ''

    def yaml(self, label: str, text: str) -> Any:
        """Read an option that holds YAML; '' where it cannot be read."""
        try:
            return yaml_option.parse(text)
        except yaml_option.InvalidYaml as error:
            self.mistake(f'{label}: {error}')
            return ''

    def check_known(self, given: Given, known: tuple[str, ...]) -> None:
        """Note the options that are not among those known."""
        for option in given.own:
            if option in _SECRETS:
                self.mistake(f'{given.where}{option} cannot stand here; name '
                             'a secret: "credentials: secret:..."')
            elif option not in known:
                self.mistake(f'{given.where}{option} is unknown; known are '
                             f'{", ".join(sorted(known))}')

    @contextlib.contextmanager
    def noting(self, label: str, shown: str) -> Iterator[None]:
        """Note what a value in the block is refused for.

        :param shown: the value, as a message may show it
        """
        try:
            yield
        except (values.Wrong, oslo.Refused) as error:
            self.mistake(f'{label}{shown}: {error}')


def _shown(option: str, value: str) -> str:
    """A value for a status: in one line, not too long, without a secret."""
    if option in _NOT_SHOWN:
        return ''
    line = machines.mask_logins(' '.join(value.split()))
    if len(line) > _LONGEST:
        line = f'{line[:_LONGEST]}...'
    return f' is "{line}"'
