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

"""k2-admin deferred and k2-admin purge: deletions deferred by clones.

Reports are plain values, as ``--json`` prints them; sizes are in KiB.
"""

from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Iterator
import contextlib
import dataclasses
import typing

from cinder import coordination
from oslo_utils import units

from cinder_k2.array import deferred_report
from cinder_k2.cmd import backends
from cinder_k2.driver.operations import purge as purging
from cinder_k2 import exceptions
from cinder_k2 import rest

_KIB_PER_GIB = units.Mi
_COLUMNS = ('KIND', 'ID', 'NAME', 'GIB', 'VOLUME GROUP', 'NEEDED BY')
_NOTHING = 'nothing; k2-admin purge deletes it'

Report = dict[str, typing.Any]
# Receives errors that do not end the command.
Complain = Callable[[str], None]


def look(site: backends.Site, complain: Complain) -> Report:
    """List deferred deletions. One call, and two for each group with any."""
    return _report(site, _survey(site).items)


def purge(site: backends.Site, complain: Complain) -> Report:
    """Delete the deferred objects that nothing needs.

    A group that cannot be purged is reported and skipped.

    :raises tooz.ToozError: Cinder's locks are not available
    """
    before = _survey(site)
    with _locks():
        for group in before.groups:
            try:
                purging.run(site.array, group)
            except (rest.RestError, exceptions.K2Error) as error:
                complain(f'volume group {group}: {error}')
    after = _survey(site).items
    left = {(item.kind, item.id) for item in after}
    gone = [item for item in before.items
            if (item.kind, item.id) not in left]
    return {**_report(site, after), 'purged': _plain(gone)}


@contextlib.contextmanager
def _locks() -> Iterator[None]:
    """Use the locks of Cinder's services."""
    began = coordination.COORDINATOR.started
    coordination.COORDINATOR.start()
    try:
        yield
    finally:
        if not began:
            coordination.COORDINATOR.stop()


def _survey(site: backends.Site) -> deferred_report.DeferredReport:
    with site.array.deadline():
        return deferred_report.read(site.client, site.array.deferred.groups())


def _report(site: backends.Site,
            items: Iterable[deferred_report.Item]) -> Report:
    listed = _plain(items)
    volumes = [item for item in listed if item['kind'] == 'volume']
    return {'array': site.array.address, 'system_id': site.array.system.id,
            'backends': site.backends, 'deferred': listed,
            'volumes': len(volumes),
            'snapshots': len(listed) - len(volumes),
            'volumes_size': sum(item['size'] or 0 for item in volumes),
            'groups': len({item['group'] for item in listed})}


def _plain(items: Iterable[deferred_report.Item]) -> list[Report]:
    return [{**dataclasses.asdict(item), 'needed_by': list(item.needed_by)}
            for item in items]


def text(report: Report) -> str:
    """A text report."""
    lines = [f'Array {report["array"]}, back ends: '
             f'{", ".join(report["backends"])}']
    if 'purged' in report:
        lines += [f'  {len(report["purged"])} purged',
                  *_table(report['purged'], _COLUMNS[:-1])]
    lines += [f'  {_totals(report)}', *_table(report['deferred'], _COLUMNS)]
    return '\n'.join(lines)


def _totals(report: Report) -> str:
    if not report['deferred']:
        return 'no deferred deletions'
    size = report['volumes_size'] / _KIB_PER_GIB
    return (f'deferred deletions: {report["volumes"]} volumes ({size:g} GiB), '
            f'{report["snapshots"]} snapshots and views, in '
            f'{report["groups"]} volume groups')


def _table(items: Iterable[Report], columns: tuple[str, ...]) -> list[str]:
    rows = [columns, *(_row(item)[:len(columns)] for item in items)]
    if len(rows) == 1:
        return []
    widths = [max(map(len, column)) for column in zip(*rows)]
    return ['    ' + '  '.join(
        cell.ljust(width) for cell, width in zip(row, widths)).rstrip()
        for row in rows]


def _row(item: Report) -> tuple[str, ...]:
    size = item['size']
    return (item['kind'], str(item['id']), item['name'],
            '-' if size is None else f'{size / _KIB_PER_GIB:g}',
            item['group'], ', '.join(item['needed_by']) or _NOTHING)
