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

"""Tests with images: a Glance next to Cinder."""

import atexit
import functools
import io
import pathlib
import shutil
import subprocess  # nosec B404
import sys
import tempfile
from typing import Any
from unittest import mock

import glanceclient
from oslo_concurrency import processutils
from oslo_config import cfg

from tests.functional import cinder_env
from tests.functional import disks

_PROGRAM = pathlib.Path(__file__).parents[1] / 'glance_server.py'


class Glance:
    """A Glance in a separate process, which ends with this one."""

    def __init__(self) -> None:
        self.folder = tempfile.mkdtemp(prefix='cinder-k2-glance-')
        atexit.register(shutil.rmtree, self.folder, ignore_errors=True)
        self._process = subprocess.Popen(  # nosec B603
            [sys.executable, '-W', 'ignore', _PROGRAM, self.folder],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        atexit.register(self._process.communicate)
        assert self._process.stdout is not None  # nosec B101
        port = self._process.stdout.readline().strip()
        if not port:
            log = pathlib.Path(self.folder, 'glance.log')
            raise AssertionError(log.read_text(encoding='utf-8')[-4000:])
        self.url = f'http://127.0.0.1:{port}'
        self.images = glanceclient.Client('2', self.url).images


# Before 2026.2, Cinder cannot upload a volume whose image had no custom
# properties.
_CUSTOM = {'os_distro': 'none'}


@functools.cache
def glance() -> Glance:
    """Return this process's Glance, started on first use."""
    return Glance()


class ImagesTest(disks.DisksTest):
    """A test with data and images."""

    def setUp(self) -> None:
        super().setUp()
        self.glance = glance()
        folder = tempfile.mkdtemp(prefix='cinder-k2-images-')
        self.addCleanup(shutil.rmtree, folder)
        for name, value in (
                ('glance_api_servers', [self.glance.url]),
                ('auth_strategy', 'noauth'),
                ('image_conversion_dir', folder),
                ('cinder_internal_tenant_project_id', cinder_env.PROJECT),
                ('cinder_internal_tenant_user_id', 'c' * 32)):
            cfg.CONF.set_override(name, value)
            self.addCleanup(cfg.CONF.clear_override, name)
        # Setting limits starts another Python for each of many commands.
        patch = mock.patch.object(processutils, 'ProcessLimits',
                                  lambda **_: None)
        patch.start()
        self.addCleanup(patch.stop)

    def image(self, data: bytes, disk_format: str = 'raw', **more: Any
              ) -> Any:
        """Create an image of these bytes."""
        made = self.glance.images.create(
            name='image', disk_format=disk_format, container_format='bare',
            **_CUSTOM, **more)
        self.addCleanup(self.glance.images.delete, made.id)
        self.glance.images.upload(made.id, io.BytesIO(data))
        return self.glance.images.get(made.id)

    def upload(self, volume: Any, disk_format: str) -> Any:
        """Upload a volume; return the image."""
        image_id = self.backend.upload(volume, disk_format)
        self.addCleanup(self.glance.images.delete, image_id)
        self.glance.images.update(image_id, **_CUSTOM)
        return self.glance.images.get(image_id)
