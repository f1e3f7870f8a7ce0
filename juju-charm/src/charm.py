#!/usr/bin/env python3
#
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

"""The charm: what Juju tells it, and what it does then.

Every event but the end of things leads to the same: make the unit as the
options, secrets and relations say. What stands in the way is told by the
status and tried again at the next event; what was published before stays, so
that a mistake in an option takes no running back end down.
"""

from collections.abc import Iterator
import functools
import pathlib

import ops

import array_check
import credentials
import driver
import host
import machine as machines
import options
import oslo
import relation as relations
import secret_file
import sections
import status

_CINDER = 'storage-backend'
_COMPUTE = 'juju-info'


class CinderK2Charm(ops.CharmBase):
    """One unit of the charm, beside a unit of cinder or nova-compute.

    :cvar machine: the machine that it works on
    """

    machine = machines.Machine()
    _stored = ops.StoredState()  # type: ignore[no-untyped-call]

    def __init__(self, framework: ops.Framework) -> None:
        """Say which events matter."""
        super().__init__(framework)
        # Where the driver was last installed from, and what failed last.
        self._stored.set_default(origin='', failure='')
        cinder, compute = self.on[_CINDER], self.on[_COMPUTE]
        for event in (self.on.install, self.on.upgrade_charm, self.on.start,
                      self.on.config_changed, self.on.secret_changed,
                      self.on.update_status, cinder.relation_created,
                      cinder.relation_joined, cinder.relation_changed,
                      compute.relation_created, compute.relation_joined):
            framework.observe(event, self._on_change)
        for event in (cinder.relation_broken, self.on.remove):
            framework.observe(event, self._on_end)
        framework.observe(self.on.collect_unit_status,
                          self._on_collect_status)

    # Events ------------------------------------------------------------

    def _on_change(self, _event: ops.EventBase) -> None:
        try:
            self._make()
            self._stored.failure = ''
        except machines.Failed as error:
            self._stored.failure = str(error)
        except (options.Mistakes, credentials.Refused, oslo.Refused):
            # The status finds them by itself, also at other events.
            self._stored.failure = ''

    def _on_end(self, _event: ops.EventBase) -> None:
        self._secret_file.remove()
        self._stored.failure = ''

    def _on_collect_status(self, event: ops.CollectStatusEvent) -> None:
        for found in self._statuses():
            event.add_status(found)

    # The unit ----------------------------------------------------------

    def _make(self) -> None:
        """Make the unit as it is wanted.

        :raises machine.Failed: the machine does not let us
        :raises options.Mistakes: the options are wrong
        :raises credentials.Refused: credentials are missing or wrong
        """
        host.prepare(self.machine, self._settings)
        if self._relation:
            self._install_driver(self._relation)
            self._publish(self._relation)

    def _install_driver(self, relation: ops.Relation) -> None:
        nonce = self._of_principal(relation, 'upgrade_nonce')
        origin = driver.origin(self._settings, self._wheel, nonce)
        if origin != self._stored.origin or not driver.version(self.machine):
            driver.install(self.machine, self._settings, self._wheel)
            self._stored.origin = origin
        self.unit.set_workload_version(driver.version(self.machine))

    def _publish(self, relation: ops.Relation) -> None:
        revision = self._secret_file.write(
            self._settings, sections.secret(self._settings, self._logins))
        relation.data[self.unit].update(relations.data(
            self._settings, self._public, revision,
            driver.needed(self._settings, self._wheel)))

    @staticmethod
    def _of_principal(relation: ops.Relation, key: str) -> str:
        return next((relation.data[unit][key] for unit in relation.units
                     if key in relation.data[unit]), '')

    # What is known, each thing found out once ---------------------------

    @functools.cached_property
    def _settings(self) -> options.Settings:
        return options.read(self.config, self.app.name)

    @functools.cached_property
    def _logins(self) -> dict[str, credentials.Logins]:
        return credentials.Source(self.model, self.app.name).get(
            self._settings)

    @functools.cached_property
    def _report(self) -> array_check.Report:
        secret = sections.secret(self._settings, self._logins)
        names = [one.name for one in self._settings.backends]
        whole = {name: [*self._public[name], *secret[name]] for name in names}
        return array_check.run(self.machine, self.app.name, whole, names)

    @property
    def _public(self) -> dict[str, sections.Pairs]:
        return sections.public(self._settings,
                               self._secret_file.ca_paths(self._settings))

    @property
    def _secret_file(self) -> secret_file.SecretFile:
        return secret_file.SecretFile(self.machine, self.app.name)

    @property
    def _relation(self) -> ops.Relation | None:
        """The relation to cinder, unless it is about to end."""
        return next((relation for relation in self.model.relations[_CINDER]
                     if relation.active), None)

    @functools.cached_property
    def _wheel(self) -> pathlib.Path | None:
        """The wheel that is attached; an empty file stands for none."""
        try:
            path = self.model.resources.fetch('driver')
        except ops.ModelError:
            return None
        return path if path.stat().st_size else None

    # Status ------------------------------------------------------------

    def _statuses(self) -> Iterator[ops.StatusBase]:
        """What there is to say, the worst first; ops shows the worst."""
        if self._stored.failure:
            yield ops.BlockedStatus(str(self._stored.failure))
        try:
            yield from self._statuses_of_settings(self._settings)
        except (options.Mistakes, credentials.Refused) as error:
            yield status.blocked(error.texts)
        except (oslo.Refused, machines.Failed) as error:
            yield ops.BlockedStatus(str(error))

    def _statuses_of_settings(self, settings: options.Settings
                              ) -> Iterator[ops.StatusBase]:
        if not self._relation:
            yield self._status_without_cinder()
            return
        if not driver.version(self.machine):
            yield ops.BlockedStatus(
                'the driver is missing: attach its wheel with juju '
                'attach-resource, or set driver-source')
            return
        if not self._relation.units:
            yield ops.WaitingStatus('waiting for cinder to join')
        elif not self._stored.failure:
            yield from status.of_report(self._report, settings.warnings)

    def _status_without_cinder(self) -> ops.StatusBase:
        if self.model.relations[_COMPUTE]:
            return ops.ActiveStatus('this machine can reach volumes')
        return ops.WaitingStatus(
            f'integrate with cinder: juju integrate {self.app.name}:{_CINDER} '
            f'cinder:{_CINDER}')


if __name__ == '__main__':
    ops.main(CinderK2Charm)
