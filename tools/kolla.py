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

"""Render the files of packaging/kolla with Kolla and Kolla-Ansible.

    python -m tools.kolla

Installs both from PyPI into .venvs/kolla. Kolla-Ansible merges our
cinder-volume.conf into its own template; the driver is loaded from the merged
cinder.conf with the Cinder of the same release. kolla-build writes the
Dockerfile with our override. No image is built and no container is started,
because that needs a container engine.
"""

import os
import pathlib
import shutil
import subprocess  # nosec B404
import sys

import yaml

from tools.releases import environments
from tools.releases import table
from tools import signals

RELEASE = '2025.1'
PACKAGES = ('kolla-ansible==20.6.0', 'kolla==20.6.0',
            'ansible-core>=2.17,<2.19', 'docker>=7.0')
OURS = table.ROOT / 'packaging' / 'kolla'
FOLDER = environments.FOLDER / 'kolla'
WORK = FOLDER / 'work'
_SECONDS = 300.0
# Settings that every operator has in globals.yml.
_SITE = {'kolla_internal_vip_address': '127.0.0.1',
         'kolla_external_vip_address': '127.0.0.1',
         # Otherwise Ansible needs a collection that is not on PyPI alone.
         'kolla_same_external_internal_vip': True,
         'kolla_base_distro': 'debian', 'network_interface': 'lo'}
# Creates the driver of the only back end, as cinder-volume does.
_LOAD = """\
import sys
from tools.cloud import threads
threads.use()
from cinder import objects
objects.register_all()
from cinder.common import config
from cinder.volume import configuration
from cinder.volume import driver
from cinder.volume import manager
from oslo_config import cfg
from oslo_utils import importutils
cfg.CONF(['--config-file', sys.argv[1]], project='cinder')
name, = cfg.CONF.enabled_backends
settings = configuration.Configuration(manager.volume_backend_opts,
                                       config_group=name)
made = importutils.import_object(settings.volume_driver,
                                 configuration=settings, host=f'a@{name}')
print(f'{name}: {type(made).__name__} {made.get_version()} for',
      made.configuration.san_ip)
"""


class KollaError(Exception):
    """A step failed; the message has its output."""


def install() -> None:
    """Create the environment, if it is missing or outdated.

    :raises KollaError: a step failed
    """
    stamp = FOLDER / 'packages'
    if stamp.exists() and stamp.read_text() == ' '.join(PACKAGES):
        return
    shutil.rmtree(FOLDER, ignore_errors=True)
    python = environments.interpreter(table.find(RELEASE))
    _run([str(python), '-m', 'venv', str(FOLDER)])
    _run([str(FOLDER / 'bin' / 'pip'), 'install', '--quiet', *PACKAGES])
    stamp.write_text(' '.join(PACKAGES))


def merge() -> pathlib.Path:
    """Let Kolla-Ansible write cinder.conf; return its path.

    :raises KollaError: a step failed
    """
    share = FOLDER / 'share' / 'kolla-ansible'
    role = share / 'ansible' / 'roles' / 'cinder'
    site = WORK / 'site'
    variables = site / 'group_vars' / 'all'
    variables.mkdir(parents=True)
    shutil.copy(share / 'ansible' / 'inventory' / 'all-in-one', site)
    shutil.copy(share / 'ansible' / 'group_vars' / 'all.yml',
                variables / '0.yml')
    shutil.copy(role / 'defaults' / 'main.yml', variables / '1.yml')
    shutil.copy(OURS / 'globals.yml', variables / '2.yml')
    passwords = yaml.safe_load(
        (share / 'etc_examples' / 'kolla' / 'passwords.yml').read_text())
    (variables / '3.yml').write_text(yaml.safe_dump({
        **{name: 'example' for name in passwords}, **_SITE,
        'service_name': 'cinder-volume'}))
    result = WORK / 'cinder.conf'
    (site / 'site.yml').write_text(yaml.safe_dump([{
        'hosts': 'localhost', 'tasks': [{'merge_configs': {
            'sources': [str(role / 'templates' / 'cinder.conf.j2'),
                        str(OURS / 'cinder-volume.conf')],
            'dest': str(result), 'mode': '0600'}}]}]))
    _run([str(FOLDER / 'bin' / 'ansible-playbook'), '-i',
          str(site / 'all-in-one'), str(site / 'site.yml')], {
              'ANSIBLE_ACTION_PLUGINS': str(
                  share / 'ansible' / 'action_plugins'),
              'ANSIBLE_FILTER_PLUGINS': str(
                  share / 'ansible' / 'filter_plugins'),
              'ANSIBLE_PYTHON_INTERPRETER': str(FOLDER / 'bin' / 'python')})
    return result


def render_image() -> str:
    """Let kolla-build write the Dockerfile of cinder-volume; return it.

    :raises KollaError: a step failed
    """
    _run([str(FOLDER / 'bin' / 'kolla-build'), '--template-only',
          '--config-file', str(OURS / 'kolla-build.conf'),
          '--template-override', str(OURS / 'template-overrides.j2'),
          '--work-dir', str(WORK), '--base', 'debian', '^cinder-volume$'])
    return (WORK / 'docker' / 'cinder' / 'cinder-volume'
            / 'Dockerfile').read_text()


def main() -> int:
    """Run all steps; return the exit status."""
    shutil.rmtree(WORK, ignore_errors=True)
    try:
        install()
        path = merge()
        python = environments.of(table.find(RELEASE))
        print(_run([str(python), '-W', 'ignore', '-c', _LOAD, str(path)]
                   ).splitlines()[-1])
        line, = [line for line in render_image().splitlines()
                 if 'cinder_k2' in line]
        print(f'cinder-volume image: {line}')
    except (KollaError, environments.BuildError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def _run(command: list[str], variables: dict[str, str] | None = None) -> str:
    """Run a command; return what it printed.

    :raises KollaError: it failed
    """
    done = subprocess.run(  # nosec B603
        command, cwd=table.ROOT, timeout=_SECONDS, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        env={**os.environ, 'LC_ALL': 'C.UTF-8', **(variables or {})})
    if done.returncode:
        raise KollaError(f'{command[0]} failed:\n{done.stdout}')
    return done.stdout


if __name__ == '__main__':
    sys.exit(signals.run(main))
