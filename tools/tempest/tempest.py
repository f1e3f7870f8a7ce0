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
"""Run tempest on what stack.py has started."""

from collections.abc import Iterable
from collections.abc import Sequence
import os
import pathlib
import sys

import fasteners
import requests

from tools.cloud import errors
from tools.releases import table
from tools import run_tests
from tools.tempest import identity
from tools.tempest import layout
from tools.tempest import programs

#: A separate environment, inside the one with Cinder.
VENV = pathlib.Path(sys.prefix, 'tempest')
#: All tests that need no nova.
ALL = r'^(tempest\.api\.volume\.|cinder_tempest_plugin\.api\.)'
#: Tests that need nova without checking for it, and tests that fail randomly
#: with every driver. Tests of groups list volumes while a group is deleted,
#: and Cinder answers 404 if the group disappears just then. Tests of retype
#: wait for the new type and then expect the status ``success``, but Cinder
#: saves the type first, without a status, and the status later.
LEFT_OUT = (
    r'cinder_tempest_plugin\.api\.volume\.test_volume_backup\.'
    r'VolumesBackupsTest\.test_incremental_backup',
    r'cinder_tempest_plugin\.api\.volume\.admin\.'
    r'test_consistencygroups\.ConsistencyGroupsV2Test\.',
    r'tempest\.api\.volume\.admin\.test_volume_retype\.'
    r'VolumeRetypeWithMigrationTest\.')
#: Accepted reasons for skipping a test (substrings); others are failures.
EXCUSES = ('compute service is not available',
           'skipped as Nova is not available')
#: Tests that --quick skips: they read and write whole volumes, which takes a
#: minute or two each. It runs another test of each kind.
LONG = (
    r'^cinder_tempest_plugin\.api\.volume\.(admin\.)?test_volume_backup\.',
    r'\.test_volumes_backup\.VolumesBackups(Admin)?Test\.',
    r'\.CreateVolumesFromBackupTest\.',
    r'\.VolumeImageDependencyTests\.',
    r'\.VolumesSnapshotTestJSON\.test_snapshot_backup',
    r'\.VolumesGetTest\.test_volume_create_get_update_delete_from_image')
_INSTALL_SECONDS = 600
_IMAGE_BYTES = 2 ** 20
_CONF = """\
[DEFAULT]
log_file = {logs}/tempest.log

[oslo_concurrency]
lock_path = {place}/locks

[auth]
use_dynamic_credentials = True
create_isolated_networks = False
admin_username = {admin}
admin_password = {secret}
admin_project_name = {admin}
admin_domain_name = Default

[identity]
uri_v3 = {keystone}
auth_version = v3
region = {region}

[service_available]
cinder = True
glance = True
# A stub without security groups, which tempest queries when it cleans up.
neutron = True
nova = False
swift = False
horizon = False

[image]
http_image = {glance}/none

[network]
shared_physical_network = False

[compute]
image_ref = {images[0]}
image_ref_alt = {images[1]}
min_compute_nodes = 0

[compute-feature-enabled]
volume_multiattach = True

[volume]
storage_protocol = iSCSI
vendor_name = Kaminario
backend_names = {back_ends}
build_interval = 1
build_timeout = 600
volume_size = 1
min_microversion = 3.0
max_microversion = latest
manage_volume_ref = source-name,cv-%s
manage_snapshot_ref = source-name,cs-%s

[volume-feature-enabled]
multi_backend = True
backup = True
snapshot = True
clone = True
manage_volume = True
manage_snapshot = True
extend_attached_volume = True
extend_volume_with_snapshot = True
volume_revert = True
consistency_group = True
replication = True
enable_volume_image_dep_tests = True
concurrency_tests = True
"""
_STESTR = """\
[DEFAULT]
test_path={packages}/tempest/test_discover
top_dir={packages}
group_regex=([^\\.]*\\.)*
"""


def install() -> None:
    """Create tempest's environment, if it is missing or outdated.

    It has the versions of the release whose Cinder is installed.

    :raises CloudError: it cannot be created
    """
    try:
        release = table.installed()
    except table.UnknownReleaseError as error:
        raise errors.CloudError(str(error)) from error
    wanted = (f'tempest=={release.tempest}',
              f'cinder-tempest-plugin=={release.tempest_plugin}')
    # Two processes that install it at the same time would delete each other's
    # files.
    lock = fasteners.InterProcessLock(f'{VENV}.lock')
    if not lock.acquire(timeout=_INSTALL_SECONDS):
        raise errors.CloudError(
            f'another process has been installing {VENV} for '
            f'{_INSTALL_SECONDS} seconds: end it, and try again')
    try:
        _install(wanted, release.constraints)
    finally:
        lock.release()


def _install(wanted: Sequence[str], constraints: pathlib.Path) -> None:
    stamp = VENV / 'packages'
    if stamp.exists() and stamp.read_text() == ' '.join(wanted):
        return
    programs.run_all([
        [sys.executable, '-m', 'venv', '--clear', str(VENV)],
        [f'{VENV}/bin/pip', 'install', '--quiet', '--constraint',
         str(constraints), *wanted]], _INSTALL_SECONDS)
    stamp.write_text(' '.join(wanted))


def make_images(run: layout.Layout) -> list[str]:
    """Create two small images; return their ids."""
    images = layout.url(layout.GLANCE, '/v2/images')
    with requests.Session() as glance:
        glance.headers['X-Auth-Token'] = str(
            identity.session(run).get_token())
        found = []
        for number in (1, 2):
            made = glance.post(images, timeout=60, json={
                'name': f'small-{number}', 'disk_format': 'raw',
                'container_format': 'bare', 'visibility': 'public'})
            made.raise_for_status()
            found.append(made.json()['id'])
            glance.put(f'{images}/{found[-1]}/file', timeout=60,
                       data=os.urandom(_IMAGE_BYTES), headers={
                           'Content-Type': 'application/octet-stream'}
                       ).raise_for_status()
    return found


def write_settings(run: layout.Layout, images: Sequence[str],
                   left_out: Sequence[str]) -> pathlib.Path:
    """Write tempest's settings to a new working directory; return it.

    :param left_out: regular expressions of tests that are not run
    """
    place = run.state / 'tempest'
    place.mkdir()
    packages, = VENV.glob('lib/python3*/site-packages')
    (place / '.stestr.conf').write_text(_STESTR.format(packages=packages))
    (place / 'left-out').write_text('\n'.join([*left_out, '']))
    (place / 'tempest.conf').write_text(_CONF.format(
        place=place, logs=run.logs, admin=layout.ADMIN, secret=run.secret,
        keystone=layout.url(layout.KEYSTONE, '/v3'), region=layout.REGION,
        glance=layout.url(layout.GLANCE), images=images,
        back_ends=','.join(array.name for array in layout.ARRAYS)))
    return place


def run(place: pathlib.Path, regex: str, workers: int) -> run_tests.Tally:
    """Run the tests whose names match, and check the reasons of skips.

    :param workers: number of concurrent tests
    """
    tally = run_tests.run_command('tempest', [
        f'{VENV}/bin/tempest', 'run', '--subunit',
        '--config-file', str(place / 'tempest.conf'),
        '--regex', regex, '--exclude-list', str(place / 'left-out'),
        '--concurrency', str(workers)], place, {
            **os.environ, 'PYTHONWARNINGS': 'ignore', 'HOME': str(place)})
    for reason in unexcused(tally.reasons):
        tally.fail(f'skipped without an excuse: {reason}')
    return tally


def unexcused(reasons: Iterable[str]) -> list[str]:
    """Return the reasons for skipping tests that are not accepted."""
    return sorted(reason for reason in reasons if not any(
        excuse in reason for excuse in EXCUSES))
