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

"""CHAP passwords in Cinder's database."""

from collections.abc import Iterator
import contextlib
import typing

from cinder.volume import driver_utils
from cinder.volume import volume_utils

from cinder_k2.array import Array
from cinder_k2 import exceptions

_KEY = 'chap_password'
_LENGTH = 16


class Secrets:
    """Passwords by array and initiator, the same for all back ends.

    Cinder stores the first value and lets no driver change or remove it, so
    concurrent services agree.

    :param database: Cinder's database API, as drivers get it
    """

    def __init__(self, database: typing.Any, array: Array) -> None:
        self._database = database
        self._array = array

    def find(self, initiator: str) -> str | None:
        """The password of an initiator, None if it has none.

        :raises SecretsUnavailable: the database fails
        """
        store = self._store()
        with _database_errors(initiator):
            rows = store.get_driver_initiator_data(initiator.lower())
        return next((str(row['value']) for row in rows
                     if row['key'] == _KEY), None)

    def keep(self, initiator: str, secret: str) -> str:
        """Store a password; returns the stored one, maybe an earlier one.

        :raises SecretsUnavailable: the database fails
        """
        store = self._store()
        with _database_errors(initiator):
            store.insert_driver_initiator_data(initiator.lower(), _KEY,
                                               secret)
        kept = self.find(initiator)
        if kept is None:
            raise _unavailable(initiator, 'it does not show what it has kept')
        return kept

    def generate(self) -> str:
        """A password of 16 letters and digits (CHP-5)."""
        return str(volume_utils.generate_password(_LENGTH))

    def _store(self) -> driver_utils.VolumeDriverUtils:
        # Several back ends may use one array, where hosts are the same for all
        # of them.
        return driver_utils.VolumeDriverUtils(
            f'k2-{self._array.system.id}', self._database)


@contextlib.contextmanager
def _database_errors(initiator: str) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        # Database errors quote the values to be stored: leave them out.
        raise _unavailable(initiator, type(error).__name__) from None


def _unavailable(initiator: str, why: str) -> exceptions.SecretsUnavailable:
    return exceptions.SecretsUnavailable(
        'Cinder\'s database could not read or store the CHAP password of '
        f'initiator {initiator} ({why}); check the database, then try again.')
