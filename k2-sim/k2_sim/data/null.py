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

"""Replacements for data store and usage scanner of an array without files.

Tokens stand for data, and have no files: there is nothing to maintain, and
requests for data are refused.
"""

from collections.abc import Callable
import contextlib
from typing import NoReturn

from k2_sim.blocks import contents as contents_module
from k2_sim.data import inbound as inbound_module
from k2_sim import errors
from k2_sim.protocol import request_context


class NullDataStore:
    """Replaces a data store. Raises ApiError (400) for requests for data."""

    has_files = False

    @property
    def contents(self) -> contents_module.Contents:
        """Raise ApiError: there are none."""
        self._refuse()

    @property
    def inbound(self) -> inbound_module.Inbound:
        """Raise ApiError: no data can arrive."""
        raise errors.refused('This array keeps no data')

    def _refuse(self) -> NoReturn:
        raise errors.refused('The array was made without contents: it has'
                             ' tokens in place of data')

    def own(self, resource: str, number: int, live: bool = False) -> str:
        """Raise TypeError: the array has no files."""
        raise TypeError('the array has no contents')

    def pinned(self, find: Callable[[], str]
               ) -> contextlib.AbstractContextManager[str]:
        """Raise ApiError: there is no file to pin."""
        self._refuse()

    def writing(self, resource: str, number: int
                ) -> contextlib.AbstractContextManager[str]:
        """Raise ApiError: there is no file to write to."""
        self._refuse()

    def drop_missing(self) -> None:
        """Do nothing: no token has a file, and none needs one."""

    def freeze(self, context: request_context.RequestContext,
               until: contextlib.ExitStack) -> None:
        """Do nothing: no request needs copies."""

    def end(self, context: request_context.RequestContext) -> None:
        """Do nothing: there are no copies."""

    def sweep(self) -> None:
        """Do nothing: there are no files to remove."""

    def run_maintenance(self) -> None:
        """Do nothing: there are no files to maintain."""


class NullUsageScanner:
    """Replaces a usage scanner: the control sets capacities."""

    def scan_if_due(self) -> None:
        """Do nothing: there are no files to scan."""

    def scan(self) -> None:
        """Do nothing: there are no files to scan."""
