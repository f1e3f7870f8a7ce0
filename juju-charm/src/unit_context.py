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

"""The context of a unit while it handles one event.

Values are computed on first use and cached: options are read, secrets fetched
and arrays queried at most once per event.
"""

from collections.abc import Iterator
import functools
import pathlib

import ops

import array_check
import credentials
import driver
import machine as machines
import options
import oslo
import release
import secret_file
import sections

CINDER = 'storage-backend'
COMPUTE = 'juju-info'
#: Errors that an operator must fix; the message of each says how.
REPORTED_ERRORS = (options.InvalidOptions, credentials.CredentialsError,
                   oslo.InvalidText, machines.Failed)


class UnitContext:
    """Options, secrets, relations and arrays as seen by one unit.

    Attributes that are not available raise one of ``REPORTED_ERRORS``.

    :ivar secret_file: the file with the secret options of Cinder
    """

    def __init__(self, charm: ops.CharmBase, machine: machines.Machine
                 ) -> None:
        """Store where to look; nothing is read yet."""
        self.machine = machine
        self.application = charm.app.name
        self.secret_file = secret_file.SecretFile(machine, self.application)
        self._model = charm.model

    @functools.cached_property
    def settings(self) -> options.Settings:
        """The validated options of the charm."""
        return options.read(self._model.config, self.application)

    @functools.cached_property
    def driver_source(self) -> options.Settings:
        """The driver source, even if other options are invalid.

        Empty when a wheel is attached, which needs no options.
        """
        if self.wheel:
            return options.Settings(())
        return options.read_driver(self._model.config)

    @functools.cached_property
    def logins(self) -> dict[str, credentials.Logins]:
        """The credentials for the arrays, by back end name."""
        return credentials.Source(self._model, self.application).get(
            self.settings)

    @functools.cached_property
    def public(self) -> dict[str, sections.Pairs]:
        """The options of cinder.conf that are not secret, by section."""
        return sections.public(self.settings,
                               self.secret_file.ca_paths(self.settings))

    @functools.cached_property
    def secret(self) -> dict[str, sections.Pairs]:
        """The secret options of cinder.conf, by section."""
        return sections.secret(self.settings, self.logins)

    @functools.cached_property
    def report(self) -> array_check.Report:
        """The result of the check of all arrays."""
        names = [one.name for one in self.settings.backends]
        sections_of = {name: [*self.public[name], *self.secret[name]]
                       for name in names}
        return array_check.run(self.machine, self.application, sections_of,
                               names)

    @functools.cached_property
    def cinder(self) -> release.Cinder:
        """Cinder on the unit, in the release that is installed."""
        return release.find(self.machine)

    @functools.cached_property
    def driver_version(self) -> str:
        """The version of the driver on the unit; '' if it is missing."""
        return driver.version(self.machine)

    @functools.cached_property
    def wheel(self) -> pathlib.Path | None:
        """The attached wheel; None if the resource is missing or empty."""
        try:
            path = self._model.resources.fetch('driver')
        except ops.ModelError:
            return None
        return path if path.stat().st_size else None

    @property
    def relation(self) -> ops.Relation | None:
        """The relation to cinder; ops omits one that is being broken."""
        return next(iter(self._model.relations[CINDER]), None)

    @property
    def is_compute(self) -> bool:
        """Whether the unit only sets up paths to volumes, without cinder."""
        return not self.relation and bool(self._model.relations[COMPUTE])

    @property
    def upgrade_nonce(self) -> str:
        """A value that cinder changes at each upgrade of OpenStack."""
        relation = self.relation
        units = relation.units if relation else ()
        return next((relation.data[unit]['upgrade_nonce'] for unit in units
                     if relation and 'upgrade_nonce' in relation.data[unit]),
                    '')

    @property
    def host(self) -> str:
        """The host name of Cinder's service on this unit."""
        if self.settings.stateless and self.relation and self.relation.app:
            return self.relation.app.name
        return self.machine.host()

    def passwords(self) -> Iterator[str]:
        """Yield all available passwords, for masking."""
        try:
            for logins in self.logins.values():
                yield logins.own.password
                yield from (one.password for one in logins.devices.values())
        except REPORTED_ERRORS:
            return
