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


"""k2-admin check-host: whether a host is set up for volumes of the array.

Reads files, sysfs and the output of multipathd and systemctl; sends nothing to
an array and changes nothing. The settings for hosts are in
``cinder_k2/host_files``.
"""

from collections.abc import Iterator
import dataclasses
import importlib.resources
import os
import pathlib
import re
import shlex
import shutil
import subprocess  # nosec B404
import typing

OK, MISSING, NOTE, UNSEEN = 'ok', 'missing', 'note', 'unseen'
#: The settings that are shipped with the driver.
FILES = importlib.resources.files('cinder_k2') / 'host_files'
_DEVICES = '/etc/multipath/conf.d/cinder-k2.conf'
_RULES = '/etc/udev/rules.d/98-cinder-k2.rules'
_RULE_FOLDERS = ('etc/udev/rules.d', 'run/udev/rules.d',
                 'usr/lib/udev/rules.d', 'lib/udev/rules.d')
# EUI-64 and NAA designators of the vendor (VOL-15).
_WWIDS = ('20024', '360024f4')
_VENDORS = ('KMNRIO', 'SILK')
# Matches an assignment only: == would be a condition.
_SETS_NONE = re.compile(r'queue/scheduler}\s*=\s*"(none|noop)"')
_SCHEDULERS = ('[none]', '[noop]')
_ISCSID = 'etc/iscsi/iscsid.conf'
_INITIATOR = 'etc/iscsi/initiatorname.iscsi'
_SESSIONS = 'node.session.nr_sessions'
# Chosen by the operator; any value is right.
_CHOICES = ('no_path_retry',)
_PATH = '/usr/sbin:/sbin'
_SECONDS = 20.0
_ENABLED = ('enabled', 'enabled-runtime', 'static', 'indirect', 'alias',
            'generated')


@dataclasses.dataclass(frozen=True)
class Finding:
    """The result of one check.

    :ivar state: ok, missing, note (not an error), or unseen (it could not be
        checked)
    """

    subject: str
    state: str
    text: str


class Host:
    """The files and programs of a host.

    :param root: root directory of the files
    """

    def __init__(self, root: str = '/') -> None:
        self.root = pathlib.Path(root)

    def read(self, name: str) -> str | None:
        """Return the text of a file; None if there is none.

        :raises PermissionError: it is not readable
        """
        try:
            return (self.root / name).read_text('utf-8', 'replace')
        except PermissionError:
            raise
        except OSError:
            return None

    def glob(self, pattern: str) -> list[pathlib.Path]:
        """Return what matches below the root, in order."""
        return sorted(self.root.glob(pattern))

    def has(self, program: str) -> bool:
        """Return whether a program is installed."""
        return self._find(program) is not None

    def run(self, program: str, *arguments: str) -> str | None:
        """Return the output of a program; None if it fails or is missing."""
        return self.ask(program, *arguments, only_success=True)

    def ask(self, program: str, *arguments: str, only_success: bool = False
            ) -> str | None:
        """Return the output of a program, even if it fails."""
        found = self._find(program)
        if found is None:
            return None
        try:
            done = subprocess.run(  # nosec B603
                [found, *arguments], capture_output=True, text=True,
                errors='replace', timeout=_SECONDS,
                stdin=subprocess.DEVNULL)
        except (OSError, subprocess.TimeoutExpired):
            return None
        return None if only_success and done.returncode else done.stdout

    @staticmethod
    def _find(program: str) -> str | None:
        path = f'{os.environ.get("PATH", os.defpath)}:{_PATH}'
        return shutil.which(program, path=path)

    @property
    def has_fc(self) -> bool:
        """Whether the host has a Fibre Channel port."""
        return bool(self.glob('sys/class/fc_host/*'))

    @property
    def has_iscsi(self) -> bool:
        """Whether open-iscsi is installed, or needed because FC is not."""
        return not self.has_fc or (self.root / 'etc/iscsi').is_dir()


class Multipath:
    """The relevant part of a multipath-tools configuration."""

    def __init__(self, text: str) -> None:
        self.defaults: dict[str, str] = {}
        self.overrides: dict[str, str] = {}
        self.devices: list[dict[str, str]] = []
        sections: list[str] = []
        for words in _lines(text):
            if words[-1] == '{':
                sections.append(words[0])
                if sections == ['devices', 'device']:
                    self.devices.append({})
            elif words[0] == '}':
                del sections[-1:]
            else:
                self._settings(sections)[words[0]] = ' '.join(words[1:])

    def _settings(self, sections: list[str]) -> dict[str, str]:
        """Return where to put a setting; a throwaway dict if irrelevant."""
        if sections == ['devices', 'device']:
            return self.devices[-1]
        named = {'defaults': self.defaults, 'overrides': self.overrides}
        return named.get(' '.join(sections), {})

    def of(self, vendor: str, product: str) -> dict[str, str]:
        """Return the settings in effect for a device.

        If several entries match, the last one applies.
        """
        found = dict(self.defaults)
        for device in self.devices:
            if (_matches(device.get('vendor'), vendor)
                    and _matches(device.get('product'), product)):
                found.update(device)
        return {**found, **self.overrides}


def _lines(text: str) -> Iterator[list[str]]:
    """Words of each line, without quotes and comments."""
    for line in text.splitlines():
        if line.lstrip().startswith('!'):
            continue
        try:
            words = shlex.split(line, comments=True)
        except ValueError:
            words = line.split()
        if words:
            yield words


def _matches(pattern: str | None, name: str) -> bool:
    try:
        return bool(pattern and re.search(pattern, name))
    except re.error:
        return False


def check(host: Host) -> list[Finding]:
    """Run all checks; each finding says what to do."""
    return [finding for look in (
        _multipath, _udev_rule, _schedulers, _sessions, _initiator, _services)
        for finding in look(host)]


def _multipath(host: Host) -> Iterator[Finding]:
    if not (host.has('multipathd') or host.has('multipath')):
        yield Finding('multipath', MISSING, 'multipath-tools is not '
                      'installed; install it, or volumes have only one path')
        return
    text = (host.run('multipathd', 'show', 'config')
            or host.run('multipath', '-t'))
    if not text:
        yield Finding('multipath', UNSEEN, 'neither multipathd nor multipath '
                      'shows its configuration; run this as root. The files '
                      'below /etc/multipath* were checked instead')
        text = _multipath_files(host)
    config = Multipath(text)
    yield from _device_entries(config)
    yield from _defaults(host, config)


def _multipath_files(host: Host) -> str:
    names = ['etc/multipath.conf', *(
        str(path.relative_to(host.root))
        for path in host.glob('etc/multipath/conf.d/*.conf'))]
    texts = []
    for name in names:
        try:
            texts.append(host.read(name) or '')
        except PermissionError:
            continue
    return '\n'.join(texts)


def _device_entries(config: Multipath) -> Iterator[Finding]:
    """Compare the settings of each product with the shipped ones."""
    shipped = (FILES / 'multipath.conf').read_text('utf-8')
    for wanted in Multipath(shipped).devices:
        found = config.of(wanted['vendor'], wanted['product'])
        name = f'{wanted["vendor"]} {wanted["product"]}'
        wrong = [f'{key} is {found.get(key) or "not set"}, not {value}'
                 for key, value in wanted.items()
                 if key not in ('vendor', 'product', *_CHOICES)
                 and found.get(key) != value]
        if wrong:
            yield Finding('multipath', MISSING, (
                f'{name}: {"; ".join(wrong)}. Copy {FILES}/multipath.conf to '
                f'{_DEVICES}, make sure that no "overrides" section of the '
                'host overrides it, and run: multipathd reconfigure'))
        else:
            retry = found.get('no_path_retry', 'not set')
            yield Finding('multipath', OK, f'{name}: device entry is in '
                          f'effect, no_path_retry {retry}')


def _defaults(host: Host, config: Multipath) -> Iterator[Finding]:
    if (host.has_fc and config.defaults.get('find_multipaths', 'strict')
            == 'strict'):
        yield Finding('multipath', MISSING, (
            'find_multipaths is strict: new volumes get no multipath device '
            'over Fibre Channel; set "find_multipaths yes" in the section '
            '"defaults" of /etc/multipath.conf'))
    if config.defaults.get('user_friendly_names', 'no') != 'no':
        yield Finding('multipath', NOTE, (
            'user_friendly_names is on; OpenStack documents "no", in the '
            'section "defaults" of /etc/multipath.conf'))


def _udev_rule(host: Host) -> Iterator[Finding]:
    for path in (path for folder in _RULE_FOLDERS
                 for path in host.glob(f'{folder}/*.rules')):
        try:
            text = host.read(str(path.relative_to(host.root))) or ''
        except PermissionError:
            yield Finding('udev rule', UNSEEN, f'{path} cannot be read; run '
                          'this as root')
            continue
        rules = '\n'.join(line for line in text.splitlines()
                          if not line.lstrip().startswith('#'))
        if _WWIDS[0] in rules and _SETS_NONE.search(rules):
            yield Finding('udev rule', OK, f'{path} sets the I/O scheduler')
            return
    yield Finding('udev rule', MISSING, (
        f'no rule sets the I/O scheduler; copy {FILES}/98-cinder-k2.rules to '
        f'{_RULES} and run: udevadm control --reload; udevadm trigger '
        '--subsystem-match=block'))


def _schedulers(host: Host) -> Iterator[Finding]:
    devices = [path for path in host.glob('sys/block/*')
               if _is_ours(host, path)]
    wrong = [path.name for path in devices
             if (schedulers := _attribute(host, path, 'queue/scheduler'))
             and not any(one in schedulers for one in _SCHEDULERS)]
    if wrong:
        yield Finding('scheduler', MISSING, (
            f'{", ".join(wrong)}: the I/O scheduler is not none; install the '
            'udev rule and run: udevadm trigger --subsystem-match=block'))
    elif devices:
        yield Finding('scheduler', OK, f'none on {len(devices)} devices')
    else:
        yield Finding('scheduler', NOTE, 'no volume of the array is currently '
                      'attached to this host')


def _is_ours(host: Host, path: pathlib.Path) -> bool:
    uuid = _attribute(host, path, 'dm/uuid')
    return (_attribute(host, path, 'device/vendor') in _VENDORS
            or uuid.startswith(tuple(f'mpath-{one}' for one in _WWIDS)))


def _attribute(host: Host, path: pathlib.Path, name: str) -> str:
    try:
        found = host.read(str(path.relative_to(host.root) / name))
    except PermissionError:
        found = None
    return (found or '').strip()


def _sessions(host: Host) -> Iterator[Finding]:
    if not host.has_iscsi:
        yield Finding('iSCSI', NOTE, 'open-iscsi is not installed; it is '
                      'not needed for Fibre Channel')
        return
    try:
        text = host.read(_ISCSID)
    except PermissionError:
        yield _not_readable(_ISCSID)
        return
    if text is None:
        yield Finding('iSCSI', MISSING, f'/{_ISCSID} is missing; install '
                      'open-iscsi (iscsi-initiator-utils)')
        return
    found = re.findall(rf'^\s*{re.escape(_SESSIONS)}\s*=\s*(\S+)', text,
                       re.MULTILINE)
    yield _session_count(found[-1] if found else '1')


def _session_count(number: str) -> Finding:
    """Check the sessions per portal (NET-4).

    The vendor recommends several. os-brick scans only one session of each
    portal, so one is not an error.
    """
    wanted = _shipped_sessions()
    if not number.isdigit() or number == '0':
        return Finding('iSCSI', MISSING, (
            f'{_SESSIONS} is {number}, which is no number of sessions; in '
            f'/{_ISCSID}, set it to {wanted}, which the vendor recommends for '
            'four portals, or to 1'))
    if number == '1':
        return Finding('iSCSI', NOTE, (
            f'{_SESSIONS} is 1; the vendor recommends {wanted} for four '
            'portals. It applies to all targets of the host, and os-brick '
            'uses the first session of each portal until the others are '
            'rescanned'))
    return Finding('iSCSI', OK, f'{_SESSIONS} is {number}')


def _shipped_sessions() -> str:
    text = (FILES / 'iscsid.conf').read_text('utf-8')
    return text.rpartition('=')[2].strip()


def _not_readable(name: str) -> Finding:
    return Finding('iSCSI', UNSEEN, f'/{name} cannot be read; run this as '
                   'root')


def _initiator(host: Host) -> Iterator[Finding]:
    if not host.has_iscsi:
        return
    try:
        text = host.read(_INITIATOR) or ''
    except PermissionError:
        yield _not_readable(_INITIATOR)
        return
    found = re.search(r'^\s*InitiatorName\s*=\s*(\S+)', text, re.MULTILINE)
    if found:
        yield Finding('iSCSI', OK, f'initiator name {found.group(1)}')
    else:
        yield Finding('iSCSI', MISSING, (
            f'/{_INITIATOR} has no InitiatorName; add '
            '"InitiatorName=" and the output of iscsi-iname, and restart '
            'iscsid'))


def _services(host: Host) -> Iterator[Finding]:
    yield from _service(host, 'multipathd')
    if host.has_iscsi:
        yield from _service(host, 'iscsid')


def _service(host: Host, name: str) -> Iterator[Finding]:
    """Check a service; its socket, which starts it, is enough."""
    units = (f'{name}.service', f'{name}.socket')
    enabled = host.ask('systemctl', 'is-enabled', *units)
    active = host.ask('systemctl', 'is-active', *units)
    if not enabled or not active:
        yield Finding('services', UNSEEN, f'systemctl does not show '
                      f'{name}; make sure that it runs, also after a reboot')
        return
    wrong = [what for what, said, right in (
        ('enabled', enabled, _ENABLED), ('running', active, ('active',)))
        if not set(said.split()) & set(right)]
    if wrong:
        yield Finding('services', MISSING, f'{name} is not '
                      f'{" and not ".join(wrong)}; run: systemctl enable '
                      f'--now {name}')
    else:
        yield Finding('services', OK, f'{name} is enabled and running')


def is_fine(findings: list[Finding]) -> bool:
    """Return whether nothing is missing."""
    return all(finding.state != MISSING for finding in findings)


def report(findings: list[Finding]) -> list[dict[str, typing.Any]]:
    """Return findings as ``--json`` prints them."""
    return [dataclasses.asdict(finding) for finding in findings]


def text(findings: list[Finding]) -> str:
    """Return findings as text, a line each."""
    return '\n'.join(f'{finding.state:<8}{finding.subject:<11}{finding.text}'
                     for finding in findings)
