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

"""Files as Cinder reads them: through oslo.config and Cinder's own options."""

import pathlib
import tempfile

from cinder.volume import driver
from cinder.volume.drivers.san import san
from oslo_config import cfg

from cinder_k2 import options

OPTS = [*driver.volume_opts, *driver.image_opts, *san.san_opts,
        *options.k2_opts]


def section(text, name):
    """Return the options of one back end from the text of a cinder.conf."""
    with tempfile.TemporaryDirectory() as directory:
        path = pathlib.Path(directory, 'cinder.conf')
        path.write_text(text, encoding='utf-8')
        conf = cfg.ConfigOpts()
        conf.register_opts(OPTS, group=name)
        conf(['--config-file', str(path)], default_config_dirs=[])
        return conf[name]


def render(sections):
    """Render sections like the cinder charm: verbatim."""
    return ''.join(f'[{name}]\n' + ''.join(f'{key} = {value}\n'
                                           for key, value in pairs)
                   for name, pairs in sections.items())
