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

"""A simulator with a data plane, and an initiator in user space."""

import contextlib
import dataclasses
import glob
import os
import pathlib
import re
import signal
import subprocess
import sys
import threading
import time
import urllib.parse

import fixtures
import requests
import testtools

from k2_sim.data_planes import base
from k2_sim.data_planes import lio
from k2_sim.data_planes import portals as portals_module
from k2_sim.data_planes import tgtd
from tools.cloud import children
from tools.guest import packages

# Debian's packages of the programs and files of the initiator.
PROGRAMS = {'iscsi-ls': 'libiscsi-bin', 'qemu-io': 'qemu-utils'}
FILES = {'/usr/lib/*/qemu/block-iscsi.so': 'qemu-block-extra'}
MIB = 2 ** 20
# Timeout in seconds; everything takes far less, unless something hangs.
LIMIT = 240
# Less than LIMIT, after which the programs are killed.
SOON = 90
_READY = re.compile(r'k2-sim: array .* listens on (https?://[^\s,]+).*\n')


TARGETS = pathlib.Path('/sys/kernel/config/target/iscsi')


class Tgt:
    """Specifics of the data plane tgt."""

    name = 'tgt'
    #: The command that runs k2-sim: without root, in a user namespace.
    wrapper = [] if os.geteuid() == 0 else [
        'unshare', '--user', '--map-root-user']
    #: The error that an unknown initiator gets.
    refusal = 'Target not found'

    def missing(self):
        """Why tests with it cannot run here, or an empty text."""
        return _missing(self._check, {'tgtd': 'tgt'})

    def _check(self):
        try:
            if self.wrapper:
                run(*self.wrapper, 'true')
            else:
                tgtd.check()
        except subprocess.CalledProcessError as exc:
            raise base.UnavailableError(
                'tgtd needs root, or a user namespace, which this machine'
                f' refuses: {exc.stderr.strip()}') from exc

    def identifier(self, serial):
        """Return the identifier of a disk as iscsi-inq prints it (VOL-15)."""
        return f'[60024f4{serial:0>25}]'

    def traces(self, simulator):
        """Return the PIDs of processes in the simulator's directory."""
        found = []
        for link in glob.glob('/proc/[0-9]*/cwd'):
            with contextlib.suppress(OSError):
                if os.readlink(link) == str(simulator.directory / 'tgt'):
                    found.append(int(link.split('/')[2]))
        return found


class Lio:
    """Specifics of the data plane lio."""

    name = 'lio'
    wrapper: list[str] = []
    refusal = 'Authorization failure'

    def missing(self):
        """Why tests with it cannot run here, or an empty text."""
        return _missing(lio.check, {'dmsetup': 'dmsetup'})

    def identifier(self, serial):
        """Return the identifier of a disk as iscsi-inq prints it (VOL-15).

        Of the other identifier, which is binary, it prints only the bytes
        before the first zero.
        """
        return f'SDP:{serial:0>25}]'

    def traces(self, simulator):
        """Return the simulator's files on loop devices, and its target."""
        found = []
        for path in pathlib.Path('/sys/block').glob('loop*/loop'):
            with contextlib.suppress(OSError):
                file = (path / 'backing_file').read_text()
                if file.startswith(f'{simulator.directory}/'):
                    found.append(file)
        return found + [str(path) for path in TARGETS.glob(
            f'{simulator.iqn}/tpgt_*')]


TGT, LIO = Tgt(), Lio()


def _missing(check, programs):
    reason = packages.missing({**PROGRAMS, **programs}, FILES)
    if reason:
        return reason
    try:
        check()
    except base.UnavailableError as exc:
        return str(exc)
    try:
        portals_module.check(address(101))
    except base.DataPlaneError:
        return ('another iSCSI target listens on all addresses, such as the'
                ' one that Debian starts; stop it: systemctl disable --now'
                ' tgt')
    return ''


def run(*command):
    """Return the standard output of a command.

    :raises CalledProcessError: it failed; a note has its output
    """
    try:
        return subprocess.run(
            command, check=True, capture_output=True, text=True,
            timeout=LIMIT).stdout
    except subprocess.CalledProcessError as exc:
        # Notes of exceptions came with Python 3.11.
        if hasattr(exc, 'add_note'):
            exc.add_note(f'{exc.stdout}{exc.stderr}')
        raise


def address(net):
    """Return a loopback address in 127.net.0.0/16 that no other run has."""
    high, low = divmod(os.getpid() % 2 ** 16, 256)
    return f'127.{net}.{high}.{low}'


class NotStarted(Exception):
    """k2-sim ended; the arguments are its error output and exit status."""


class Simulator:
    """A process of k2-sim with a data plane.

    :param portals: addresses; the port is always 3260
    :ivar address: that of its API; its port is ``port``
    :ivar messages: lines that it has printed until it listened
    """

    # The array reports it after the start.
    iqn = '-'

    def __init__(self, directory, plane=TGT, options=(), portals=None):
        self.plane = plane
        self.directory = pathlib.Path(directory)
        self.authority = self.directory / 'ca.crt'
        self._options = options
        self.portals = portals or [address(101), address(102)]

    def start(self):
        """Start the process, and return it.

        :raises NotStarted: it ended before it listened
        """
        command = [
            *self.plane.wrapper,
            sys.executable, '-W', 'ignore', '-m', 'k2_sim.cmd.serve',
            '--listen', '127.0.0.1:0', '--data-plane', self.plane.name,
            '--require-data-plane', '--state-dir', str(self.directory),
            *(f'--portal={address}' for address in self.portals),
            *self._options]
        parent = os.getpid()
        # SIGTERM, because after SIGKILL the kernel would go on serving LUNs.
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            text=True, preexec_fn=lambda: children.die_with_parent(
                parent, signal.SIGTERM))
        timer = threading.Timer(LIMIT, self.process.kill)
        timer.start()
        try:
            self._meet()
        except BaseException:
            self.kill()
            raise
        finally:
            timer.cancel()
        return self.process

    def _meet(self):
        """Wait until it listens, and read its names."""
        self.messages = []
        for line in self.process.stdout:
            self.messages.append(line)
            ready = _READY.fullmatch(line)
            if ready:
                self.url = ready[1]
                parts = urllib.parse.urlsplit(self.url)
                self.address, self.port = parts.hostname, parts.port
                self.target, = self.hits('system/state')
                self.iqn = self.target['iscsi_qualified_target_name']
                return
        raise NotStarted(self.process.stderr.read(),
                         self.process.wait(LIMIT))

    def stop(self, number=signal.SIGTERM):
        """Send it a signal; return its exit status and error output."""
        self.process.send_signal(number)
        _, error = self.process.communicate(timeout=LIMIT)
        return self.process.returncode, error

    def kill(self):
        """End it with SIGTERM, so that it cleans up, or else with SIGKILL."""
        self.process.terminate()
        try:
            self.process.communicate(timeout=SOON)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.communicate()

    def attach(self, volume):
        """Map a volume to a new host; return the LUN and the initiator."""
        host = self.call('POST', 'hosts', name='h', type='Linux')
        ref = {'ref': f'/hosts/{host["id"]}'}
        initiator = Initiator(self, 'iqn.2026-01.org.example:h')
        self.call('POST', 'host_iqns', iqn=initiator.iqn, host=ref)
        mapping = self.call('POST', 'mappings', host=ref,
                            volume={'ref': f'/volumes/{volume}'})
        return mapping['lun'], initiator

    def files(self):
        """Return the paths of the files that contain volumes."""
        places = [self.directory / 'content', *(
            place / 'files' for place in pathlib.Path(
                f'/proc/{self.process.pid}/fd').iterdir())]
        return [path for place in places if place.is_dir()
                for path in place.rglob('*') if path.is_file()]

    def password(self, login='admin'):
        """Return the password that k2-sim generated at its first start."""
        return (self.directory / f'{login}.password').read_text().strip()

    def options(self):
        """Return the options of a back end on it."""
        return {'san_login': 'admin', 'san_password': self.password(),
                'driver_ssl_cert_verify': True,
                'driver_ssl_cert_path': str(self.authority)}

    def device(self, backend_id, rpo):
        """Return its entry in replication_device."""
        found = {'backend_id': backend_id, 'san_ip': self.address,
                 'port': self.port, 'login': 'admin',
                 'password': self.password(), 'rpo': rpo}
        return ','.join(f'{key}:{value}' for key, value in found.items())

    def request(self, method, path, login='admin', **options):
        """Return the array's reply to a request.

        :raises AssertionError: its status is 300 or higher
        """
        with requests.Session() as session:
            session.trust_env = False
            reply = session.request(
                method, f'{self.url}/{path}', timeout=LIMIT,
                auth=(login, self.password(login)),
                verify=str(self.authority), **options)
        if reply.status_code >= 300:
            raise AssertionError(f'{method} {path}: {reply.text}')
        return reply

    def call(self, method, path, **body):
        """Return a reply of the REST API, parsed as JSON."""
        reply = self.request(method, f'api/v2/{path}', json=body or None)
        return reply.json() if reply.content else None

    def hits(self, path):
        return self.call('GET', path)['hits']

    def read(self, resource, number, offset, length):
        """Read data of a volume or volsnap through the control API."""
        return self.request(
            'GET', f'sim/v1/data/{resource}/{number}', 'control', headers={
                'Range': f'bytes={offset}-{offset + length - 1}'}).content

    def write(self, resource, number, offset, data):
        end = offset + len(data) - 1
        self.request(
            'PUT', f'sim/v1/data/{resource}/{number}', 'control', data=data,
            headers={'Content-Range': f'bytes {offset}-{end}/*'})

    def control(self, method, path, **body):
        """Return a reply of the control API, parsed as JSON."""
        reply = self.request(method, f'sim/v1/{path}', 'control',
                             json=body or None)
        return reply.json() if reply.content else None

    def leftovers(self):
        """Return the objects of users on it, by resource."""
        return {resource: found for resource, found
                in self.control('GET', 'leftovers').items() if found}

    def traces(self):
        """Return the traces of its data plane on this machine."""
        return self.plane.traces(self)


class SimulatorTest(testtools.TestCase):
    """A separate simulator for each test."""

    plane = None

    def setUp(self):
        super().setUp()
        reason = self.plane.missing()
        if reason:
            self.skipTest(reason)
        self.simulator = Simulator(
            self.useFixture(fixtures.TempDir()).join('state'), self.plane)


@dataclasses.dataclass(frozen=True)
class Path:
    """A LUN through a portal, used with qemu-io.

    :ivar account: CHAP name and password, if any
    """

    portal: str
    target: str
    lun: int
    initiator: str
    account: tuple[str, str] | None = None

    def command(self):
        """Return the command line of qemu-io."""
        options = {
            'driver': 'raw', 'discard': 'unmap', 'file.driver': 'iscsi',
            'file.transport': 'tcp', 'file.lun': self.lun,
            'file.portal': self.portal, 'file.target': self.target,
            'file.initiator-name': self.initiator}
        secret = []
        if self.account:
            options.update({'file.user': self.account[0],
                            'file.password-secret': 'chap'})
            secret = ['--object', f'secret,id=chap,data={self.account[1]}']
        return ['qemu-io', *secret, '--image-opts', ','.join(
            f'{name}={value}' for name, value in options.items())]

    def io(self, *commands):
        """Log in, run commands of qemu-io, log out."""
        return run(*self.command(), *(
            word for command in commands for word in ('-c', command)))


def strangers(path):
    """Return the same path with missing or wrong CHAP accounts."""
    name, password = path.account
    return [dataclasses.replace(path, account=account) for account in (
        None, (name, password[::-1]), ('admin', password))]


def paths(info, initiator):
    """Return a path for each portal in the driver's connection properties."""
    account = info.get('auth_username') and (
        info['auth_username'], info['auth_password'])
    return [Path(portal, target, lun, initiator, account)
            for portal, target, lun in zip(
                info['target_portals'], info['target_iqns'],
                info['target_luns'], strict=True)]


class Initiator:
    """A host in user space."""

    def __init__(self, simulator, iqn, account=None):
        self._simulator = simulator
        self.iqn = iqn
        self.account = account

    def path(self, lun, portal=None):
        return Path(f'{portal or self._simulator.portals[0]}:3260',
                    self._simulator.iqn, lun, self.iqn, self.account)

    def io(self, lun, *commands, portal=None):
        """Log in, run commands of qemu-io, log out."""
        return self.path(lun, portal).io(*commands)

    def url(self, lun='', portal=None):
        address = portal or self._simulator.portals[0]
        path = f'{self._simulator.iqn}/{lun}' if lun else ''
        return f'iscsi://{address}:3260/{path}'

    def luns(self, portal=None):
        """Return the output of a discovery of targets and their LUNs."""
        return run('iscsi-ls', '-i', self.iqn, '-s', self.url(portal=portal))

    def inquire(self, lun, *page):
        """Return the inquiry data of a disk, as iscsi-inq prints it."""
        return run('iscsi-inq', '-i', self.iqn, *page, self.url(lun))

    def capacity(self, lun):
        """Return the size of a disk in bytes, read as a rescan does."""
        shown = run('iscsi-readcapacity16', '-i', self.iqn, self.url(lun))
        return int(re.search('Total size:([0-9]+)', shown)[1])


class Session:
    """A host that stays logged in."""

    def __init__(self, initiator, lun, portal=None):
        self._process = subprocess.Popen(
            initiator.path(lun, portal).command(), stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self._timer = threading.Timer(LIMIT, self._process.kill)
        self._timer.start()
        # How many prompts will come: one now, and one after each command.
        self._awaited = 1
        self._answers()

    def _answers(self):
        """Return the output up to the last prompt."""
        texts = []
        while self._awaited:
            texts.append(self._answer())
            self._awaited -= 1
        return ''.join(texts)

    def _answer(self):
        """Return the output up to the next prompt."""
        text = ''
        while not text.endswith('qemu-io> '):
            more = self._process.stdout.read(1)
            if not more:
                raise AssertionError(f'qemu-io ended: {text}')
            text += more
        return text.removesuffix('qemu-io> ')

    def send(self, command):
        """Send a command without waiting for it.

        Only for a command that takes long: a second one that arrives before
        qemu-io has read the first is noticed only with the third.
        """
        self._process.stdin.write(f'{command}\n')
        self._process.stdin.flush()
        self._awaited += 1

    def io(self, command):
        """Return the output of a command, and of those sent before it."""
        self.send(command)
        return self._answers()

    def close(self):
        self._timer.cancel()
        self._process.kill()
        self._process.communicate()


def wait_until(condition, what):
    """Poll until a condition is met.

    :raises AssertionError: it is not met within ``SOON`` seconds
    """
    deadline = time.monotonic() + SOON
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f'not in time: {what}')
        time.sleep(0.01)


def connections(address):
    """Return how many initiators are connected to a portal."""
    digits = ''.join(f'{int(part):02X}' for part in reversed(
        address.split('.')))
    lines = pathlib.Path('/proc/net/tcp').read_text().split('\n')
    return sum(f' {digits}:0CBC ' in line and line.split()[3] == '01'
               and line.split()[1] == f'{digits}:0CBC'
               for line in lines if line)
