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

from collections.abc import Mapping
import json

import options
import sections

_FILE = '/etc/cinder/cinder.conf'
# The oldest OpenStack on Ubuntu 24.04; it holds for all that follow.
_OLDEST_RELEASE = 'caracal'


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
        'subordinate_configuration': json.dumps(
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
    return {name: pairs if name == 'DEFAULT' else [*comments, *pairs]
            for name, pairs in public.items()}
