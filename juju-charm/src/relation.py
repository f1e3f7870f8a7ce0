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

"""The relation data that is published to the cinder charm.

That charm appends ``backend_name`` to its enabled_backends, and writes each
pair of a section as ``key = value``. All values are strings, never None.
"""

from collections.abc import Iterator
from collections.abc import Mapping
import json

import machine as machines
import options
import release
import sections

_SECTIONS = 'subordinate_configuration'
_FILE = '/etc/cinder/cinder.conf'
_POOL = 'volume_backend_name'
_DRIVER = 'volume_driver'
_DEFAULT = 'DEFAULT'
_CLUSTER = 'cluster'


class RemovalNotAllowed(machines.Failed):
    """Cinder would lose volumes, and allow-removal is not set."""

    def __init__(self, losses: list[str], application: str) -> None:
        """Create the message: which back ends, and how to confirm."""
        super().__init__(
            f'{"; ".join(losses)}: Cinder would lose access to volumes; '
            f'revert this, or confirm: juju config {application} '
            'allow-removal=true')


def check_removal(published: Mapping[str, str], settings: options.Settings,
                  public: Mapping[str, sections.Pairs], application: str
                  ) -> None:
    """Refuse changes after which Cinder no longer finds volumes.

    Such changes rename the back end, pool or service of the volumes. With
    another protocol, attached volumes could not be detached.

    :param published: the current relation data of this unit, possibly from
        the original charm
    :param public: sections to publish, without secret options
    :raises RemovalNotAllowed: there is such a change
    """
    before = _sections(published)
    names = [name for name in published.get('backend_name', '').split(',')
             if name]
    losses = [loss for name in names
              for loss in _losses(name, before.get(name, {}),
                                  dict(public.get(name, ())))]
    if names:
        losses += _service_losses(
            published, before.get(_DEFAULT, {}).get(_CLUSTER, ''), settings)
    if losses:
        raise RemovalNotAllowed(losses, application)


def _service_losses(published: Mapping[str, str], cluster: str,
                    settings: options.Settings) -> Iterator[str]:
    """Yield changes that rename the service of all volumes."""
    if (published.get('stateless', '').lower() == 'true') != (
            settings.stateless):
        yield f'stateless changes to {str(settings.stateless).lower()}'
    # Cinder moves the volumes of a service that joins a cluster, but not to
    # another cluster or out of it.
    if cluster and cluster != settings.cluster:
        yield (f'cluster {cluster} is renamed to {settings.cluster}'
               if settings.cluster else f'cluster {cluster} is removed')


def _losses(name: str, before: Mapping[str, str], after: Mapping[str, str]
            ) -> Iterator[str]:
    if not after:
        yield f'back end {name} is removed'
        return
    old, new = before.get(_POOL, after[_POOL]), after[_POOL]
    if old != new:
        yield (f'back end {name} changes volume-backend-name from {old} to '
               f'{new}')
    if _is_fc(before.get(_DRIVER, after[_DRIVER])) != _is_fc(after[_DRIVER]):
        yield f'back end {name} changes its protocol'


def _is_fc(driver: str) -> bool:
    """Return whether a driver, ours or the in-tree one, is for FC."""
    return 'FC' in driver.rpartition('.')[2]


def _sections(published: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """Return the published sections, without repeated keys.

    Empty if the data does not have the format of a storage charm; the cinder
    charm could not read it either.
    """
    try:
        parsed = json.loads(published.get(_SECTIONS, '{}'))
        sections_of = parsed.get('cinder', {}).get(_FILE, {}).get(
            'sections', {})
        return {name: {key: str(text) for key, text in pairs}
                for name, pairs in sections_of.items()}
    except (ValueError, AttributeError, TypeError):
        return {}


def changes(published: Mapping[str, str], wanted: Mapping[str, str]
            ) -> Iterator[str]:
    """Yield what changes in the relation data: names only, no values.

    :param published: the current relation data of this unit
    :param wanted: the new relation data
    """
    yield from (key for key, text in wanted.items()
                if key != _SECTIONS and published.get(key) != text)
    before, after = _sections(published), _sections(wanted)
    for name in before | after:
        old, new = before.get(name, {}), after.get(name, {})
        keys = [key.removeprefix('# ') for key in old | new
                if old.get(key) != new.get(key)]
        if keys:
            yield f'[{name}] {", ".join(keys)}'


def data(settings: options.Settings, public: dict[str, sections.Pairs],
         revisions: Mapping[str, str], packages: tuple[str, ...]
         ) -> dict[str, str]:
    """Return the relation data of a unit.

    The key ``services`` is omitted on purpose: no service that the charm
    installs may stop when Cinder is paused, because instances keep using
    their volumes.

    :param public: sections without secret options
    :param revisions: by name; a change must restart services, such as that
        of the secret file
    :param packages: packages that the cinder charm keeps in its upgrades
    """
    return {
        'backend_name': ','.join(one.name for one in settings.backends),
        _SECTIONS: json.dumps(
            {'cinder': {_FILE: {
                'sections': _with_comments(public, revisions)}}}),
        'stateless': str(settings.stateless),
        'releases-packages-map': json.dumps(
            # Applies to all later releases, too.
            {release.OLDEST_CODENAME: {'deb': {'install': list(packages),
                                       'purge': []}}}),
    }


def _with_comments(public: dict[str, sections.Pairs],
                   revisions: Mapping[str, str]
                   ) -> dict[str, sections.Pairs]:
    """Return sections that begin with the revisions as comments.

    The cinder charm restarts services only when the text of cinder.conf
    changes.
    """
    comments = [(f'# cinder-k2 {name}', revision)
                for name, revision in revisions.items()]
    return {name: pairs if name == _DEFAULT else [*comments, *pairs]
            for name, pairs in public.items()}
