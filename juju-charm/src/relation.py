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

"""What is published to the cinder charm.

It joins ``backend_name`` to its enabled_backends, and prints each pair of each
section as ``key = value``. Every value is a text: no None can reach it.
"""

from collections.abc import Iterator
from collections.abc import Mapping
import json

import machine as machines
import options
import sections

_SECTIONS = 'subordinate_configuration'
_FILE = '/etc/cinder/cinder.conf'
# The oldest OpenStack on Ubuntu 24.04; it holds for all that follow.
_OLDEST_RELEASE = 'caracal'
_POOL = 'volume_backend_name'
_DRIVER = 'volume_driver'
_DEFAULT = 'DEFAULT'
_CLUSTER = 'cluster'


class RemovalNotAllowed(machines.Failed):
    """Cinder would lose volumes, and nobody has confirmed that."""

    def __init__(self, losses: list[str], application: str) -> None:
        """Say which back ends, and how to confirm."""
        super().__init__(
            f'{"; ".join(losses)}: volumes would be lost to Cinder; set it '
            f'back, or confirm: juju config {application} '
            'allow-removal=true')


def check_removal(published: Mapping[str, str], settings: options.Settings,
                  public: Mapping[str, sections.Pairs], application: str
                  ) -> None:
    """Refuse to take away what Cinder finds volumes by.

    That is the name of their back end, of its pool, and of the service that
    they belong to. Over another protocol volumes that are attached could not
    be detached.

    :param published: the relation data of this unit until now; it may be that
        of the original charm
    :param public: sections to publish, that are not secret
    :raises RemovalNotAllowed: something of it would go
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
    """What renames the service, and so leaves all volumes without one."""
    if (published.get('stateless', '').lower() == 'true') != (
            settings.stateless):
        yield f'stateless becomes {str(settings.stateless).lower()}'
    # A service that joins a cluster brings its volumes along, but does not
    # take them to another one, nor back.
    if cluster and cluster != settings.cluster:
        yield (f'cluster {cluster} is renamed {settings.cluster}'
               if settings.cluster else f'cluster {cluster} is gone')


def _losses(name: str, before: Mapping[str, str], after: Mapping[str, str]
            ) -> Iterator[str]:
    if not after:
        yield f'back end {name} is gone'
        return
    old, new = before.get(_POOL, after[_POOL]), after[_POOL]
    if old != new:
        yield f'back end {name} changes volume-backend-name {old} to {new}'
    if _is_fc(before.get(_DRIVER, after[_DRIVER])) != _is_fc(after[_DRIVER]):
        yield f'back end {name} changes its protocol'


def _is_fc(driver: str) -> bool:
    """Whether a driver, perhaps that in Cinder, is for Fibre Channel."""
    return 'FC' in driver.rpartition('.')[2]


def _sections(published: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """The sections that were published, without what repeats in them.

    Nothing if they are not as storage charms publish them, whoever it was:
    the cinder charm could not read them either.
    """
    try:
        told = json.loads(published.get(_SECTIONS, '{}'))
        found = told.get('cinder', {}).get(_FILE, {}).get('sections', {})
        return {name: {key: str(text) for key, text in pairs}
                for name, pairs in found.items()}
    except (ValueError, AttributeError, TypeError):
        return {}


def changes(published: Mapping[str, str], told: Mapping[str, str]
            ) -> Iterator[str]:
    """What of the relation data is to change: names, and no values.

    :param published: the relation data of this unit until now
    :param told: what it is to be
    """
    yield from (key for key, text in told.items()
                if key != _SECTIONS and published.get(key) != text)
    before, after = _sections(published), _sections(told)
    for name in before | after:
        old, new = before.get(name, {}), after.get(name, {})
        keys = [key.removeprefix('# ') for key in old | new
                if old.get(key) != new.get(key)]
        if keys:
            yield f'[{name}] {", ".join(keys)}'


def data(settings: options.Settings, public: dict[str, sections.Pairs],
         marks: Mapping[str, str], packages: tuple[str, ...]
         ) -> dict[str, str]:
    """The relation data of a unit.

    The key ``services`` is left out on purpose: nothing that the charm brings
    may stop when Cinder is paused, for instances keep using their volumes.

    :param public: sections that are not secret
    :param marks: of what services must be restarted for when it changes,
        such as the revision of the secret file
    :param packages: what the cinder charm is to keep through its upgrades
    """
    return {
        'backend_name': ','.join(one.name for one in settings.backends),
        _SECTIONS: json.dumps(
            {'cinder': {_FILE: {'sections': _marked(public, marks)}}}),
        'stateless': str(settings.stateless),
        'releases-packages-map': json.dumps(
            {_OLDEST_RELEASE: {'deb': {'install': list(packages),
                                       'purge': []}}}),
    }


def _marked(public: dict[str, sections.Pairs], marks: Mapping[str, str]
            ) -> dict[str, sections.Pairs]:
    """Sections that begin with comments.

    The cinder charm restarts services when the text of cinder.conf changes,
    and only then.
    """
    comments = [(f'# cinder-k2 {what}', mark) for what, mark in marks.items()]
    return {name: pairs if name == _DEFAULT else [*comments, *pairs]
            for name, pairs in public.items()}
