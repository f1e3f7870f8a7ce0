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

"""The charm: its events and how it handles them.

Every event except removal runs the same steps, which bring the unit to the
state that options, secrets and relations describe. A step that fails sets the
status, is retried at the next event and does not stop the other steps. Data
already published stays, so an invalid option does not take a running back end
down.
"""

from collections.abc import Callable
from collections.abc import Iterator
import logging
import pathlib

import ops

import actions
import driver
import host
import machine as machines
import options
import relation as relations
import status
import unit_context

_LOG = logging.getLogger(__name__)


class CinderK2Charm(ops.CharmBase):
    """One unit of the charm, subordinate to a unit of cinder or nova-compute.

    :cvar machine: the machine that the unit runs on
    """

    machine = machines.Machine()
    _stored = ops.StoredState()  # type: ignore[no-untyped-call]

    def __init__(self, framework: ops.Framework) -> None:
        """Observe the events."""
        super().__init__(framework)
        # origin: what the driver was last installed from. failures: of the
        # last event. has_files: whether this unit has written files below
        # /etc/cinder.
        self._stored.set_default(origin='', failures=[], has_files=False)
        self._context = unit_context.UnitContext(self, self.machine)
        cinder = self.on[unit_context.CINDER]
        compute = self.on[unit_context.COMPUTE]
        for event in (self.on.install, self.on.upgrade_charm, self.on.start,
                      self.on.config_changed, self.on.secret_changed,
                      self.on.update_status, cinder.relation_created,
                      cinder.relation_joined, cinder.relation_changed,
                      compute.relation_created, compute.relation_joined):
            framework.observe(event, self._on_change)
        framework.observe(cinder.relation_broken, self._on_end)
        framework.observe(self.on.remove, self._on_remove)
        for name in actions.ALL:
            framework.observe(self.on[name].action, self._on_action)
        framework.observe(self.on.collect_unit_status,
                          self._on_collect_status)

    def _on_change(self, _event: ops.EventBase) -> None:
        paths = self._failures_of('set up paths', self._prepare)
        installed = self._failures_of('install the driver',
                                      self._install_driver)
        published = self._failures_of('publish to cinder', self._publish)
        # Most severe first: without the driver no back end runs; without
        # paths, back ends that are running continue.
        self._stored.failures = list(dict.fromkeys(
            [*installed, *published, *paths]))

    def _failures_of(self, what: str, step: Callable[[], None]) -> list[str]:
        """Run one step; return its failures instead of raising them."""
        try:
            step()
        except machines.Failed as error:
            _LOG.error('could not %s: %s', what, error)
            # Stored, because the status must show it until it is resolved.
            # The other errors are found again when the status is collected.
            return [str(error)]
        except unit_context.REPORTED_ERRORS as error:
            _LOG.warning('did not %s: %s', what, error)
        return []

    def _on_end(self, _event: ops.EventBase) -> None:
        self._context.secret_file.remove()
        self._stored.has_files = False
        self._stored.failures = []

    def _on_remove(self, event: ops.EventBase) -> None:
        # A unit on nova-compute may share the machine with a unit on cinder,
        # whose files have the same names.
        if self._stored.has_files:
            self._on_end(event)

    def _on_action(self, event: ops.ActionEvent) -> None:
        kind = event.handle.kind.removesuffix('_action')
        act = actions.ALL[kind.replace('_', '-')]
        try:
            event.set_results(act(self._context, event.params))
        except actions.ActionFailed as error:
            event.set_results(error.results)
            event.fail(str(error))
        except unit_context.REPORTED_ERRORS as error:
            event.fail(str(error))

    def _on_collect_status(self, event: ops.CollectStatusEvent) -> None:
        for found in self._statuses():
            event.add_status(found)

    def _prepare(self) -> None:
        host.prepare(self.machine, self._context.settings)

    def _install_driver(self) -> None:
        context = self._context
        if not (context.relation and context.cinder.version):
            return
        context.cinder.check()
        if context.cinder.warning:
            _LOG.warning('%s', context.cinder.warning)
        source, wheel = context.driver_source, context.wheel
        origin = driver.origin(source, wheel, context.upgrade_nonce)
        if not driver.is_archive(source):
            driver.remove_archive(self.machine, context.application)
        reason = self._why_install(source, wheel, origin)
        if reason:
            _LOG.info('the driver must be installed: %s', reason)
            driver.install(self.machine, source, wheel, context.application)
            self._stored.origin = origin
        self.unit.set_workload_version(context.driver_version)

    def _why_install(self, source: options.Settings,
                     wheel: pathlib.Path | None, origin: str) -> str:
        """Return why the driver must be installed; '' if it need not be."""
        if not driver.version(self.machine):
            return 'it is missing'
        if not driver.is_offered(source, wheel):
            return ''
        if origin != self._stored.origin:
            return 'the wheel, its source, Python or OpenStack has changed'
        # Another application, or another source, may have removed it.
        if (driver.is_archive(source)
                and not driver.is_archive_known(self.machine)):
            return 'its archive is no longer configured in apt'
        return ''

    def _publish(self) -> None:
        context = self._context
        # Cinder must not start a back end whose driver is not installed, or
        # cannot be loaded. What is published stays: without it, Cinder would
        # lose the volumes of a back end that may still work.
        if not (context.relation and context.cinder.is_supported
                and context.driver_version):
            return
        ours = context.relation.data[self.unit]
        if not context.settings.allow_removal:
            relations.check_removal(ours, context.settings, context.public,
                                    context.application)
        context.secret_file.check_names(context.settings)
        self._stored.has_files = True
        revisions = {
            'secrets': context.secret_file.write(context.settings,
                                                 context.secret),
            'driver': driver.revision(str(self._stored.origin))}
        wanted = relations.data(
            context.settings, context.public, revisions,
            driver.needed(context.settings, context.wheel))
        changes = '; '.join(relations.changes(ours, wanted))
        if changes:
            _LOG.info('publishing changes to cinder: %s', changes)
        ours.update(wanted)

    def _statuses(self) -> Iterator[ops.StatusBase]:
        """Yield all statuses, most severe first; ops shows that one."""
        texts = [str(text) for text in self._stored.failures]
        found: list[ops.StatusBase] = []
        try:
            found += self._statuses_of(self._context.settings)
        except unit_context.REPORTED_ERRORS as error:
            texts += getattr(error, 'texts', [str(error)])
        if texts:
            yield status.blocked(list(dict.fromkeys(texts)))
        yield from found

    def _statuses_of(self, settings: options.Settings
                     ) -> Iterator[ops.StatusBase]:
        context = self._context
        if context.is_compute:
            yield ops.ActiveStatus('this machine can reach volumes')
        elif not context.relation:
            yield ops.WaitingStatus(
                'not related to cinder; run: juju integrate '
                f'{context.application}:{unit_context.CINDER} '
                f'cinder:{unit_context.CINDER}')
        elif not context.cinder.version:
            yield ops.WaitingStatus('waiting for Cinder to be installed on '
                                    'this unit')
        elif not context.driver_version:
            yield ops.BlockedStatus(str(driver.DriverMissing()))
        elif not context.relation.units:
            yield ops.WaitingStatus('waiting for cinder to join')
        else:
            warnings = [context.cinder.warning, *settings.warnings]
            yield from status.of_report(context.report,
                                        list(filter(None, warnings)))


if __name__ == '__main__':
    ops.main(CinderK2Charm)
