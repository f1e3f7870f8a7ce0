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

"""Random behaviors of an array.

Combinations of behaviors and refusals that no real array can have are
excluded: see ``behaviors``. Numbers come from ``RANGES``; behaviors in
``FIXED`` are not drawn.
"""

import dataclasses
import random
from typing import Any

from k2_sim import profiles
from tests.matrix import rows

#: Values of numeric behaviors.
RANGES: dict[str, tuple[float, ...]] = {
    'page_size': (2, 5, 1000), 'linger_reads': (1, 3),
    'linger_seconds': (5.0, 60.0), 'delete_seconds': (1.0, 20.0),
    'rate_limit': (50.0, 200.0), 'rate_burst': (20, 50),
    'copy_seconds': (5.0, 60.0), 'round_seconds': (1.0, 30.0),
    'snapshot_seconds': (1.0, 20.0), 'start_seconds': (1.0, 20.0),
    'follow_seconds': (1.0, 20.0)}
#: Behaviors that are not drawn here, and why.
FIXED: dict[str, str] = {
    'rest_api_version': 'the driver does not start below 2.1',
    'state': 'an array that is not online is for other tests',
    'serve_any_state': 'it has no effect while the array is online',
    'name_limit': 'shorter names are refused when the service starts',
    'full': 'is changed during a round',
    'linger_all': 'hosts stay whose removed mappings are listed (limits.rst)',
    'bulk': 'covered by refused features',
    'scsi_product': 'hosts here have no kernel',
    'control_lun': 'hosts here have no kernel',
    'reuse_ids': 'is always on', 'refuse_unlisted': 'drawn separately',
    'refuse_only': 'drawn separately'}
#: Size of a page that may not hold all objects of an array.
SHORT_PAGE = 20
# Probability that a behavior is not the default.
_UNUSUAL = 0.25
# Fields that the known requests lack, so an array cannot require them.
_NOT_ON_THE_FLOOR = ('session_policies_required', 'session_name_required')


def behaviors(draw: random.Random) -> dict[str, Any]:
    """Return behaviors of an array, including refusals.

    An array that refuses to delete initiators deletes hosts together with
    them; otherwise no client could delete a host.
    """
    found: dict[str, Any] = {'reuse_ids': True, 'clones_movable': True}
    for field in dataclasses.fields(profiles.Behaviors):
        if field.name not in FIXED and draw.random() < _UNUSUAL:
            found[field.name] = _value(draw, field)
    found.update(_refusal(draw))
    if found['refuse_unlisted'] != 'none':
        found['delete_host_with_initiators'] = True
        if not found['refuse_only']:
            found.update(dict.fromkeys(_NOT_ON_THE_FLOOR, False))
        if not found['refuse_only'] or any(
                each.startswith('GET') for each in found['refuse_only']):
            # No client can read more than the first page. It holds all
            # objects of one host or group, but not all of an array.
            found['page_size'] = draw.choice((SHORT_PAGE, 1000))
    return found


def _value(draw: random.Random, field: Any) -> Any:
    if field.name in RANGES:
        return draw.choice(RANGES[field.name])
    if field.name in profiles.CHOICES:
        return draw.choice(profiles.CHOICES[field.name])
    if field.type is bool:
        return not field.default
    raise ValueError(f'{field.name} has no range')


def _refusal(draw: random.Random) -> dict[str, Any]:
    """Refuse nothing, or some features, or everything that is not known."""
    kind = draw.choice(('none', 'some', 'some', 'all'))
    some = draw.sample(rows.ROWS, draw.randint(1, 6))
    return {
        'refuse_unlisted': 'none' if kind == 'none' else draw.choice(
            rows.REFUSALS),
        'refuse_only': [] if kind != 'some' else [
            feature for row in some for feature in row.features]}
