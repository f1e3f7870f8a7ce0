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

"""The file in cinder.conf.d with options that must not enter a relation.

Its first line has a revision, which changes whenever the file does. The
revision is also published over the relation, as a comment, so that the cinder
charm sees a changed cinder.conf and restarts the services that must reread the
file. It is stored only in the file: if a hook fails after writing the file,
the next one finds there the revision to publish.
"""

import hashlib
import logging
import re
import uuid

import backend
import machine as machines
import options
import sections

_LOG = logging.getLogger(__name__)
_DIRECTORY = '/etc/cinder/cinder.conf.d'
_GROUP = 'cinder'
_FIRST_LINE = re.compile('# revision ([0-9a-f]+), written by Juju\n')
_SECTION = re.compile(r'^\[(.*)\]$', re.M)


class SecretFile:
    """The secret file of one application on a unit, and its certificates.

    :ivar name: absolute name of the file
    """

    def __init__(self, machine: machines.Machine, application: str) -> None:
        """Set the names of the files."""
        self._machine = machine
        self.name = f'{_DIRECTORY}/{application}.conf'
        self._ca_directory = f'/etc/cinder/{application}'

    def ca_paths(self, settings: options.Settings) -> dict[str, str]:
        """Return the files with certificates, by name of their back end."""
        return {one.name: str(self._machine.path(self._ca_name(one)))
                for one in settings.backends if one.tls_ca}

    def check_names(self, settings: options.Settings) -> None:
        """Check that no other application has a back end of the same name.

        Cinder would merge the two sections, and serve neither back end.

        :raises machine.Failed: another application on the same cinder does
        """
        for path in sorted(self._machine.path(_DIRECTORY).glob('*.conf')):
            name = f'{_DIRECTORY}/{path.name}'
            taken = self._names_in(name)
            duplicates = [one.name for one in settings.backends
                          if one.name.lower() in taken]
            if duplicates:
                raise machines.Failed(
                    f'back end {", ".join(duplicates)}: the application '
                    f'{path.stem} on the same cinder already has a back end '
                    'of this name; rename the one without volumes, or remove '
                    f'{name} on the unit if that application was removed')

    def _names_in(self, name: str) -> set[str]:
        """Return sections in another application's file, in lower case."""
        text = self._machine.read(name) or ''
        if name == self.name or not _FIRST_LINE.match(text):
            return set()
        return {section.lower() for section in _SECTION.findall(text)}

    def write(self, settings: options.Settings,
              secret: dict[str, sections.Pairs]) -> str:
        """Write the file and certificates if changed; return the revision.

        :raises machine.Failed: a file cannot be written
        """
        # With digests, because new certificates require a restart, too.
        body = _digests(settings) + sections.render(secret)
        written = self._machine.read(self.name) or ''
        match = _FIRST_LINE.match(written)
        self._write_certificates(settings)
        self._remove_certificates(settings)
        if match and written[match.end():] == body:
            return match[1]
        revision = uuid.uuid4().hex[:12]
        _LOG.info('writing revision %s of %s: logins, certificates or the '
                  'lock server have changed', revision, self.name)
        self._machine.write(
            self.name, f'# revision {revision}, written by Juju\n{body}',
            mode=0o640, group=_GROUP)
        return revision

    def remove(self) -> None:
        """Remove the file and the certificates."""
        _LOG.info('removing %s and %s: the relation to cinder has ended',
                  self.name, self._ca_directory)
        self._machine.remove(self.name)
        self._machine.remove(self._ca_directory)

    def _write_certificates(self, settings: options.Settings) -> None:
        for one in settings.backends:
            name = self._ca_name(one)
            if one.tls_ca and self._machine.read(name) != one.tls_ca:
                self._machine.write(name, one.tls_ca)

    def _remove_certificates(self, settings: options.Settings) -> None:
        """Remove the certificates of back ends that no longer exist.

        Those of existing back ends stay even if tls-ca is no longer set: the
        driver may read them until it restarts.
        """
        current = {self._machine.path(self._ca_name(one))
                   for one in settings.backends}
        directory = self._machine.path(self._ca_directory)
        for path in set(directory.glob('*-ca.pem')) - current:
            self._machine.remove(f'{self._ca_directory}/{path.name}')

    def _ca_name(self, one: backend.Backend) -> str:
        return f'{self._ca_directory}/{one.name}-ca.pem'


def _digests(settings: options.Settings) -> str:
    return ''.join(
        f'# certificates of {one.name}: '
        f'{hashlib.sha256(one.tls_ca.encode()).hexdigest()}\n'
        for one in settings.backends if one.tls_ca)
