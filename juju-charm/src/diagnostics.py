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

"""Collects an archive for troubleshooting a unit.

It can be shared: passwords that the charm knows are masked everywhere, others
by the names of their options.
"""

from collections.abc import Iterable
import io
import os
import pathlib
import re
import tarfile

import machine as machines
import oslo

_FILES = ('/etc/cinder/cinder.conf', '/etc/multipath.conf',
          '/etc/iscsi/initiatorname.iscsi')
_DIRECTORIES = ('/etc/multipath/conf.d',)
_COMMANDS = {
    'iscsi-sessions.txt': ('iscsiadm', '-m', 'session'),
    'multipath.txt': ('multipath', '-ll'),
    'packages.txt': ('dpkg-query', '--show', '*cinder*', '*os-brick*',
                     'open-iscsi', 'multipath-tools', 'python3'),
    'system.txt': ('uname', '-a'),
    'python.txt': ('python3', '--version')}
_SECONDS = 30.0
_MASK = '***'
# The whole value including continuation lines, also of an option that is
# commented out.
_SECRET_OPTION = re.compile(
    r'^([\s#;]*[\w.-]*(?:pass|secret|token|key|login|connection|'
    r'transport_url|backend_url|replication_device)'
    r'[\w.-]*[ \t]*[=:])[^\n]*(?:\n[ \t]+\S[^\n]*)*', re.I | re.M)
_IN_DEVICE = re.compile(r'(\bpassword:)[^,\n]*')
# To the end of the word, because a value may contain any character.
_QUERY = re.compile(r'(//\S*\?[^\s=]*=)\S*')


def mask(text: str, secrets: Iterable[str]) -> str:
    """Mask everything secret in a text.

    :param secrets: known passwords
    """
    forms = {form for secret in secrets if secret
             for form in (secret, oslo.value(secret))}
    for form in sorted(forms, key=len, reverse=True):
        text = text.replace(form, _MASK)
    text = _SECRET_OPTION.sub(rf'\1 {_MASK}', text)
    text = _IN_DEVICE.sub(rf'\1{_MASK}', text)
    return _QUERY.sub(rf'\1{_MASK}', machines.mask_logins(text))


def collect(machine: machines.Machine, application: str,
            secret_file: str, reports: dict[str, str], secrets: Iterable[str]
            ) -> str:
    """Write the archive, readable by root only; return its name.

    :param secret_file: the name of the charm's secret file
    :param reports: further texts, by file name
    :param secrets: known passwords, to mask
    :raises machine.Failed: it cannot be written
    """
    texts = {**reports, **_files(machine, secret_file), **_outputs(machine)}
    passwords = list(secrets)
    name = f'/var/lib/cinder-k2/{application}/diagnostics.tar.gz'
    path = machine.path(name)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(path, 'wb', opener=_for_root) as file, \
                tarfile.open(fileobj=file, mode='w:gz') as archive:
            for title, text in sorted(texts.items()):
                _add(archive, title, mask(text, passwords))
    except OSError as error:
        raise machines.Failed(f'{name} cannot be written: {error.strerror}'
                              ) from None
    return name


def _files(machine: machines.Machine, secret_file: str) -> dict[str, str]:
    names = [*_FILES, secret_file]
    for directory in _DIRECTORIES:
        names += [f'{directory}/{path.name}' for path in sorted(
            machine.path(directory).glob('*.conf'))]
    texts = {name: _read(machine, name) for name in names}
    return {name.lstrip('/'): text for name, text in texts.items()
            if text is not None}


def _read(machine: machines.Machine, name: str) -> str | None:
    """Return the text of a file, or the error if it cannot be read."""
    try:
        return machine.read(name)
    except machines.Failed as error:
        return f'{error}\n'


def _outputs(machine: machines.Machine) -> dict[str, str]:
    """Return the output of programs, or the error if one cannot be run."""
    texts = {}
    for title, command in _COMMANDS.items():
        try:
            done = machine.run(*command, seconds=_SECONDS)
            texts[title] = done.output + done.errors
        except machines.Failed as error:
            texts[title] = f'{error}\n'
    return texts


def _for_root(path: str, flags: int) -> int:
    pathlib.Path(path).unlink(missing_ok=True)
    return os.open(path, flags | os.O_EXCL, 0o600)


def _add(archive: tarfile.TarFile, title: str, text: str) -> None:
    data = text.encode(errors='replace')
    entry = tarfile.TarInfo(f'cinder-k2/{title}')
    entry.size = len(data)
    entry.mode = 0o600
    archive.addfile(entry, io.BytesIO(data))
