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

"""What a unit knows of itself while it handles one event.

Each thing is found out when it is first asked for, and once: options are read,
secrets fetched and arrays asked at most one time in an event.
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
import secret_file
import sections

CINDER = 'storage-backend'
COMPUTE = 'juju-info'
#: What an operator must mend; all have a message that says how.
REPORTED_ERRORS = (options.InvalidOptions, credentials.CredentialsError,
                   oslo.InvalidText, machines.Failed)


class UnitContext:
    """Options, secrets, relations and arrays, as one unit sees them.

    What is asked for raises one of ``REPORTED_ERRORS`` if it cannot be had.

    :ivar secret_file: what it keeps beside cinder.conf
    """

    def __init__(self, charm: ops.CharmBase, machine: machines.Machine
                 ) -> None:
        """Find nothing out yet."""
        self.machine = machine
        self.application = charm.app.name
        self.secret_file = secret_file.SecretFile(machine, self.application)
        self._model = charm.model

    @functools.cached_property
    def settings(self) -> options.Settings:
        """What the options say."""
        return options.read(self._model.config, self.application)

    @functools.cached_property
    def driver_source(self) -> options.Settings:
        """Where the driver comes from, whatever is wrong elsewhere.

        A wheel that is attached needs no options.
        """
        if self.wheel:
            return options.Settings(())
        return options.read_driver(self._model.config)

    @functools.cached_property
    def logins(self) -> dict[str, credentials.Logins]:
        """Who we are to the arrays, by the names of back ends."""
        return credentials.Source(self._model, self.application).get(
            self.settings)

    @functools.cached_property
    def public(self) -> dict[str, sections.Pairs]:
        """The sections of cinder.conf that are not secret."""
        return sections.public(self.settings,
                               self.secret_file.ca_paths(self.settings))

    @functools.cached_property
    def secret(self) -> dict[str, sections.Pairs]:
        """Those that are."""
        return sections.secret(self.settings, self.logins)

    @functools.cached_property
    def report(self) -> array_check.Report:
        """What the arrays answer."""
        names = [one.name for one in self.settings.backends]
        whole = {name: [*self.public[name], *self.secret[name]]
                 for name in names}
        return array_check.run(self.machine, self.application, whole, names)

    @functools.cached_property
    def driver_version(self) -> str:
        """The version of the driver on the unit; '' if it is missing."""
        return driver.version(self.machine)

    @functools.cached_property
    def wheel(self) -> pathlib.Path | None:
        """The wheel that is attached; an empty file stands for none."""
        try:
            path = self._model.resources.fetch('driver')
        except ops.ModelError:
            return None
        return path if path.stat().st_size else None

    @property
    def relation(self) -> ops.Relation | None:
        """The relation to cinder; ops leaves out one that just ended."""
        return next(iter(self._model.relations[CINDER]), None)

    @property
    def beside_compute(self) -> bool:
        """Whether the unit is there for paths to volumes alone."""
        return not self.relation and bool(self._model.relations[COMPUTE])

    @property
    def upgrade_nonce(self) -> str:
        """What cinder changes whenever it has upgraded OpenStack."""
        relation = self.relation
        units = relation.units if relation else ()
        return next((relation.data[unit]['upgrade_nonce'] for unit in units
                     if relation and 'upgrade_nonce' in relation.data[unit]),
                    '')

    @property
    def host(self) -> str:
        """The host that Cinder's service on this unit goes by."""
        if self.settings.stateless and self.relation and self.relation.app:
            return self.relation.app.name
        return self.machine.host()

    def passwords(self) -> Iterator[str]:
        """Every password that can be had; for masking."""
        try:
            for logins in self.logins.values():
                yield logins.own.password
                yield from (one.password for one in logins.devices.values())
        except REPORTED_ERRORS:
            return
