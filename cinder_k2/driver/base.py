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

"""What both drivers share: Cinder's interface, and which array is asked."""

from collections.abc import Callable
from collections.abc import Collection
from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
import dataclasses
import functools
import inspect
import operator
import typing

from cinder import exception
from cinder.i18n import _
from cinder.objects import fields
from cinder.volume import driver
from oslo_log import log as logging

from cinder_k2.driver import attachments
from cinder_k2.driver import config
from cinder_k2.driver import errors
from cinder_k2.driver import failover
from cinder_k2.driver import locks
from cinder_k2.driver import lookup
from cinder_k2.driver import membership
from cinder_k2.driver import provider
from cinder_k2.driver.side import Side
from cinder_k2.driver import sides
from cinder_k2.driver import stats
from cinder_k2 import exceptions
from cinder_k2 import rest

LOG = logging.getLogger(__name__)

Updates = list[lookup.ModelUpdate]
M = typing.TypeVar('M', bound=Callable[..., typing.Any])


def _route(method: M, names: Iterable[str],
           choose: Callable[[sides.Sides[Side], typing.Any], Side]) -> M:
    """Send a call to the array that is chosen by one of its arguments.

    :param names: parameters with a row or rows; the first that is not empty
        is used, and without any it is the array that serves
    """
    def side_of(driver: 'K2Driver', given: Mapping[str, typing.Any]) -> Side:
        row = next((_first(given[name]) for name in names
                    if _first(given.get(name)) is not None), None)
        return (driver._sides.serving if row is None
                else choose(driver._sides, row))
    return _sent_to(method, side_of)


def _sent_to(method: M, side_of: Callable[
        ['K2Driver', Mapping[str, typing.Any]], Side]) -> M:
    """Send a call to the array that its arguments, by name, tell."""
    places = inspect.signature(method)

    @functools.wraps(method)
    @errors.translated
    def call(self: 'K2Driver', *args: typing.Any, **kwargs: typing.Any
             ) -> typing.Any:
        side = side_of(self, places.bind(self, *args, **kwargs).arguments)
        return getattr(side, method.__name__)(*args, **kwargs)
    return typing.cast(M, call)


def _unless_generic(method: M, name: str) -> M:
    """A call about a group that the arrays know, whatever its rows say.

    :param name: the parameter with the group, or group snapshot
    :raises NotImplementedError: Cinder does it, volume by volume
    """
    places = inspect.signature(method)

    @functools.wraps(method)
    def call(self: 'K2Driver', *args: typing.Any, **kwargs: typing.Any
             ) -> typing.Any:
        membership.check_consistent(
            places.bind(self, *args, **kwargs).arguments[name])
        return method(self, *args, **kwargs)
    return typing.cast(M, call)


def _first(rows: typing.Any) -> typing.Any:
    """A row, or the first of several; None if there is none."""
    # A row can be iterated over, too.
    if rows is None or hasattr(rows, 'provider_id'):
        return rows
    return next(iter(rows), None)


def _serving(method: M) -> M:
    """A call to the array that serves."""
    return _route(method, (), sides.Sides.of)


def _having(method: M, *names: str) -> M:
    """A call to the array that has a row."""
    return _route(method, names, sides.Sides.of)


def _having_now(method: M, *names: str) -> M:
    """The same, by the row as it is now.

    Whoever asks may have read it before a failover.
    """
    def choose(known: sides.Sides[Side], row: typing.Any) -> Side:
        _renew(known, row)
        return known.of(row)
    return _route(method, names, choose)


def _renew(known: sides.Sides[Side], row: typing.Any) -> None:
    """Have a row say where its volume is now; the rest stays as it is."""
    if known.targets:
        found = lookup.current(row).provider_id
        if found != row.provider_id:
            row.provider_id = found
            row.obj_reset_changes(['provider_id'])


def _together(method: M, rows_of: Callable[
        [Mapping[str, typing.Any]], Iterable[typing.Any]]) -> M:
    """A call to the array that has all rows, as they are now.

    :param rows_of: which, by the arguments
    """
    def side_of(driver: 'K2Driver', given: Mapping[str, typing.Any]) -> Side:
        found = driver._by_side(rows_of(given))
        if len(found) > 1:
            raise exceptions.GroupUnsuitable(
                'its volumes are on different arrays: '
                f'{", ".join(side.array.address for side in found)}. Fail '
                'them over, or back, to one of them first.')
        return next(iter(found), driver._sides.serving)
    return _sent_to(method, side_of)


def _changed(given: Mapping[str, typing.Any]) -> list[typing.Any]:
    """Rows that tell where a group is that is updated.

    What leaves it may be elsewhere, or was never made; what joins may not.
    """
    added = given.get('add_volumes') or ()
    leaving = [row for row in given.get('remove_volumes') or ()
               if row.provider_id]
    if leaving and not added:
        return leaving
    return [*added, *leaving, *(row for row in given['group'].volumes
                                if row.provider_id)]


def _with_source(method: M, *names: str) -> M:
    """A call that makes something of a row, where new things are made."""
    return _route(method, names, sides.Sides.with_source)


def _with_group(method: M, source: str | None = None) -> M:
    """A call that makes a volume, of a row if it is given one.

    It is made where new things are made, or not at all.
    """
    def side_of(driver: 'K2Driver', given: Mapping[str, typing.Any]) -> Side:
        driver._check_group(given['volume'])
        return (driver._sides.serving if source is None
                else driver._sides.with_source(given[source]))
    return _sent_to(method, side_of)


class K2Driver(stats.StatsMixin, failover.FailoverMixin,
               driver.VolumeDriver):
    """Sends each call of Cinder's to the array that it concerns.

    What the array is asked to do is in ``cinder_k2.driver.side``.
    """

    VERSION = '1.0.0'
    CI_WIKI_NAME = 'Cinder_K2_CI'
    SUPPORTS_ACTIVE_ACTIVE = True

    #: As in statistics: iSCSI or FC.
    protocol: str
    _side: type[Side]

    def __init__(self, *args: typing.Any,
                 active_backend_id: str | None = None,
                 **kwargs: typing.Any) -> None:
        super().__init__(*args, **kwargs)
        config.register(self.configuration)
        self._active_id = active_backend_id

    @classmethod
    def get_driver_options(cls) -> list[typing.Any]:
        """Every option that the driver reads."""
        return config.driver_options(cls._get_oslo_driver_opts)

    # Setup

    @errors.reported_at_start
    def do_setup(self, context: typing.Any) -> None:
        """Read the options; nothing is sent yet.

        :raises InvalidInput: an option is missing or wrong
        """
        settings = config.rest_settings(self.configuration)
        primary = self._make_side(settings)
        targets: dict[str, Side] = {}
        for target in config.replication_targets(self.configuration):
            side = targets[target.backend_id] = self._make_side(
                target.settings)
            primary.meet(lookup.Peer(
                target.backend_id, side.array, target.address, target.rpo,
                side.release_copies, side.leave_copies))
            side.primary = primary
            side.meet(lookup.Peer(
                sides.DEFAULT, primary.array, str(settings.endpoint),
                target.rpo, primary.release_copies, primary.leave_copies))
        try:
            self._sides = sides.Sides(primary, targets, self._active_id)
        except KeyError:
            raise exception.InvalidInput(reason=_(
                'The back end was failed over to %(id)s, but section '
                '[%(section)s] of cinder.conf has no replication_device '
                'with that backend_id; put it back.') % {
                    'id': self._active_id,
                    'section': self.configuration.config_group}) from None

    def _make_side(self, settings: rest.Settings) -> Side:
        return self._side(self, rest.Client(dataclasses.replace(
            settings, verdicts=config.verdicts_directory())))

    @errors.reported_at_start
    def check_for_setup_error(self) -> None:
        """See whether the array that serves can do so. Three calls.

        Where it cannot, and there is another one, the service starts all
        the same: it is needed for the failover.
        """
        try:
            self._sides.serving.check()
        except (rest.RestError, exceptions.ArrayUnsuitable) as error:
            if not self._sides.targets:
                raise
            LOG.error('The array that serves cannot be used. Mend that, or '
                      'fail the back end over to one of %(targets)s if it is '
                      'lost. %(error)s', {'targets': self._sides.targets,
                                          'error': error})

    # Volumes

    create_volume = _with_group(Side.create_volume)
    create_volume_from_snapshot = _with_group(
        Side.create_volume_from_snapshot, 'snapshot')
    create_cloned_volume = _with_group(Side.create_cloned_volume, 'src_vref')
    extend_volume = _having_now(Side.extend_volume, 'volume')
    revert_to_snapshot = _having_now(Side.revert_to_snapshot, 'volume')
    snapshot_revert_use_temp_snapshot = _serving(
        Side.snapshot_revert_use_temp_snapshot)

    @errors.translated
    def delete_volume(self, volume: typing.Any) -> None:
        """Delete a volume on the array that has it.

        One that was never made may have left something on an array that
        served before a failover, or failback.

        :raises VolumeIsBusy: the array must keep it
        """
        _renew(self._sides, volume)
        side = self._sides.of(volume)
        if (volume.launched_at is None
                and provider.system_of(volume.provider_id) is None):
            self._on_others([side], f'volume {volume.id}',
                            lambda other: other.delete_volume(volume))
        side.delete_volume(volume)

    def _on_others(self, those: Collection[Side], what: str,
                   clear: Callable[[Side], None]) -> None:
        """Clear up on all arrays but those, as far as they let it."""
        for other in self._sides.others(those):
            try:
                with other.array.grace():
                    clear(other)
            except (rest.RestError, exceptions.K2Error,
                    exception.CinderException) as error:
                LOG.warning('Whether something of %(what)s is left on the '
                            'array at %(address)s is not known: %(error)s', {
                                'what': what, 'error': error,
                                'address': other.array.address})

    def _check_group(self, volume: typing.Any) -> None:
        """See that the array that serves has a new volume's group.

        :raises GroupUnsuitable: another one has volumes of it
        """
        if not (self._sides.targets and volume.group_id
                and membership.is_consistent(volume.group)):
            return
        for row in volume.group.volumes:
            side = self._sides.of(row)
            if side is not self._sides.serving:
                raise exceptions.GroupUnsuitable(
                    f'its volumes are on the array at {side.array.address}, '
                    'and new ones are made on that at '
                    f'{self._sides.serving.array.address}. Fail the back end '
                    'over to the first, or back, and try again.')

    # Snapshots

    create_snapshot = _having_now(Side.create_snapshot, 'snapshot')

    @errors.translated
    def delete_snapshot(self, snapshot: typing.Any) -> None:
        """Delete a snapshot on the array that has it.

        The driver inside Cinder took its own on the primary, where they stay
        when their volume is failed over; their rows have no ids. Nor has
        that of one that was never made, maybe where its volume was before.
        """
        places = [self._sides.of(snapshot)]
        if provider.system_of(snapshot.provider_id) is None:
            places.append(self._sides.named(sides.DEFAULT))
            if provider.is_replicated(snapshot.volume.provider_id):
                self._on_others(places, f'snapshot {snapshot.id}',
                                lambda other: other.delete_snapshot(snapshot))
        for side in dict.fromkeys(places):
            side.delete_snapshot(snapshot)

    # Type and place

    retype = _having_now(Side.retype, 'volume')
    migrate_volume = _having_now(Side.migrate_volume, 'volume')
    update_migrated_volume = _having(Side.update_migrated_volume,
                                     'new_volume')

    # Connections

    validate_connector = _serving(Side.validate_connector)
    initialize_connection = _having_now(Side.initialize_connection,
                                        'volume')
    terminate_connection = _having(Side.terminate_connection, 'volume')
    initialize_connection_snapshot = _having(
        Side.initialize_connection_snapshot, 'snapshot')
    terminate_connection_snapshot = _having(
        Side.terminate_connection_snapshot, 'snapshot')
    backup_use_temp_snapshot = _serving(Side.backup_use_temp_snapshot)

    def _detach_volume(self, context: typing.Any, attach_info: typing.Any,
                       volume: typing.Any, properties: dict[str, typing.Any],
                       *args: typing.Any, **kwargs: typing.Any) -> None:
        """Cinder's own detach, after it has copied data."""
        super()._detach_volume(
            context, attach_info, volume,
            {**properties, attachments.INTERNAL: True}, *args, **kwargs)

    # Management

    manage_existing_get_size = _having(Side.manage_existing_get_size,
                                       'volume')
    manage_existing = _having(Side.manage_existing, 'volume')
    unmanage = _having(Side.unmanage, 'volume')
    get_manageable_volumes = _serving(Side.get_manageable_volumes)
    manage_existing_snapshot_get_size = _having(
        Side.manage_existing_snapshot_get_size, 'snapshot')
    manage_existing_snapshot = _having(Side.manage_existing_snapshot,
                                       'snapshot')
    unmanage_snapshot = _having(Side.unmanage_snapshot, 'snapshot')
    get_manageable_snapshots = _serving(Side.get_manageable_snapshots)

    # Groups

    create_group = _serving(Side.create_group)
    update_group = _unless_generic(
        _together(Side.update_group, _changed), 'group')
    create_group_from_src = _unless_generic(_with_source(
        Side.create_group_from_src, 'snapshots', 'source_vols'), 'group')
    create_group_snapshot = _unless_generic(_having(
        Side.create_group_snapshot, 'snapshots'), 'group_snapshot')
    delete_group_snapshot = _unless_generic(_having(
        Side.delete_group_snapshot, 'snapshots'), 'group_snapshot')

    @errors.translated
    def delete_group(self, context: typing.Any, group: typing.Any,
                     volumes: Sequence[typing.Any]
                     ) -> tuple[lookup.ModelUpdate, Updates]:
        """Delete a group and its volumes, on whichever arrays they are.

        Another array may have its volume group, from when that one served.
        """
        membership.check_consistent(group)
        told, updates = self._on_each(Side.delete_group, context, group,
                                      volumes)
        if told['status'] == fields.GroupStatus.DELETED:
            self._on_others([self._sides.of(row) for row in volumes]
                            or [self._sides.serving], f'group {group.id}',
                            lambda other: other.drop_group(group))
        return told, updates

    # Replication of groups; failover is in cinder_k2.driver.failover

    @errors.translated
    def disable_replication(self, context: typing.Any, group: typing.Any,
                            volumes: Sequence[typing.Any]
                            ) -> tuple[lookup.ModelUpdate, Updates]:
        """End the replication of volumes, on whichever arrays they are."""
        return self._on_each(Side.disable_replication, context, group,
                             volumes)

    def _on_each(self, method: Callable[..., typing.Any],
                 context: typing.Any, group: typing.Any,
                 volumes: Sequence[typing.Any]
                 ) -> tuple[lookup.ModelUpdate, Updates]:
        """Call each array that has volumes of a group.

        :raises GroupUnsuitable: they are one replicated whole
        """
        found = self._by_side(volumes) or {self._sides.serving: []}
        if len(found) > 1 and membership.is_consistent(group) and any(
                provider.is_replicated(row.provider_id) for row in volumes):
            raise exceptions.GroupUnsuitable(
                'its volumes are on different arrays; fail them over, or '
                'back, to one of them first.')
        done = [getattr(side, method.__name__)(context, group, rows)
                for side, rows in found.items()]
        worst = next((one for one, _ in done if 'error' in (
            one.get('status'), one.get('replication_status'))), done[0][0])
        return worst, [update for _, rows in done for update in rows]

    def _by_side(self, rows: Iterable[typing.Any]
                 ) -> dict[Side, list[typing.Any]]:
        """Rows by the array that has them now."""
        found: dict[Side, list[typing.Any]] = {}
        for row in rows:
            _renew(self._sides, row)
            found.setdefault(self._sides.of(row), []).append(row)
        return found

    enable_replication = _together(Side.enable_replication,
                                   operator.itemgetter('volumes'))
    get_replication_error_status = _serving(
        Side.get_replication_error_status)

    # Exports are made when a host connects, and nothing needs to be done
    # to them when the service starts.

    def ensure_export(self, context: typing.Any, volume: typing.Any) -> None:
        """Nothing to do: mappings outlive the service."""

    def create_export(self, context: typing.Any, volume: typing.Any,
                      connector: typing.Any) -> None:
        """Nothing to do: see initialize_connection."""

    def remove_export(self, context: typing.Any, volume: typing.Any) -> None:
        """Nothing to do: see terminate_connection."""

    def create_export_snapshot(self, context: typing.Any,
                               snapshot: typing.Any,
                               connector: typing.Any) -> None:
        """Nothing to do: see initialize_connection_snapshot."""

    def remove_export_snapshot(self, context: typing.Any,
                               snapshot: typing.Any) -> None:
        """Nothing to do: see terminate_connection_snapshot."""

    @classmethod
    def clean_volume_file_locks(cls, volume_id: str) -> None:
        """Remove the lock files of a volume that Cinder has forgotten."""
        locks.forget_volume(volume_id)

    def clean_snapshot_file_locks(self, snapshot_id: str) -> None:
        """Remove the lock files of a snapshot that Cinder has forgotten."""
        locks.forget_snapshot(snapshot_id)
