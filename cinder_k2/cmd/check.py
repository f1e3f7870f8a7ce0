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

"""k2-admin check: whether the arrays of back ends are usable, and why not.

Reports are plain values, as ``--json`` prints them; sizes are in KiB. Nothing
on an array is changed.
"""

from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Sequence
from concurrent import futures
import contextlib
import dataclasses
import functools
import typing

from oslo_utils import units

from cinder_k2 import array as k2_array
from cinder_k2.cmd import backends
from cinder_k2.cmd import progress
from cinder_k2.driver import unknown_options
from cinder_k2 import exceptions
from cinder_k2 import rest
from cinder_k2.transport import fc
from cinder_k2.transport import iscsi

Report = dict[str, typing.Any]
# Checks that run, with the address of the array of each.
_Pending = dict[futures.Future[Report], str]

# The kind of an error; the first match applies.
_KINDS: tuple[tuple[type[rest.RestError], str], ...] = (
    (rest.CertificateError, 'certificate'),
    (rest.AuthenticationFailed, 'credentials'),
    (rest.Forbidden, 'role'),
    (rest.Unreachable, 'unreachable'))
# Roles that suffice (ERR-5, section 7.1 of the rulebook).
_ROLES = ('root', 'admin', 'mgmt-app')
_KIB_PER_TIB = units.Gi


def check(names: Sequence[str], seconds: float,
          say: Callable[[str], object]) -> list[Report]:
    """Check the arrays of back ends, concurrently.

    :param names: sections of ``cinder.conf``
    :param seconds: for each array
    :param say: receives messages about checks that are not finished yet
    """
    pending: _Pending = {}
    with futures.ThreadPoolExecutor(backends.MOST_AT_ONCE) as pool:
        finishes = [_begin(pool, name, seconds, pending) for name in names]
        progress.wait(pending, say)
        return [finish() for finish in finishes]


def _begin(pool: futures.Executor, name: str, seconds: float,
           pending: _Pending) -> Callable[[], Report]:
    """Start the check of one back end; return a function for its report."""
    try:
        backend = backends.read(name)
    except backends.ConfigurationError as error:
        problem = _note('configuration', error)
        return lambda: {'backend': name, 'protocol': None, 'targets': [],
                        **_blank(None), 'problems': [problem],
                        'warnings': _unknown_options(name)}
    own = _Look(backend, backend.own, seconds)
    targets = [_Look(backend, place, seconds) for place in backend.targets]
    reports = [pool.submit(look.run) for look in (own, *targets)]
    pending.update(zip(reports, (
        place.array for place in (backend.own, *backend.targets))))

    def finish() -> Report:
        report, *others = [one.result() for one in reports]
        report['warnings'] += _unknown_options(name)
        for place, other in zip(backend.targets, others):
            for where, notes in own.peers.get(place.backend_id, {}).items():
                other[where] += notes
        return {'backend': name, 'protocol': backend.protocol, **report,
                'targets': [{'backend_id': place.backend_id, **other}
                            for place, other in zip(backend.targets, others)]}

    return finish


def _unknown_options(name: str) -> list[Report]:
    return [_note('configuration', text)
            for text in unknown_options.texts(name)]


def _blank(address: str | None) -> Report:
    return {'address': address, 'problems': [], 'warnings': [],
            'array': None, 'user': None, 'capacity': None, 'ports': []}


def _note(kind: str, text: object) -> Report:
    return {'kind': kind, 'text': str(text)}


class _Look:
    """The check of one array, from its address to its ports.

    It continues after an error, so that an operator sees all problems at once.

    :ivar peers: problems and warnings of its replication, by backend_id
    """

    def __init__(self, backend: backends.BackEnd, place: backends.Place,
                 seconds: float) -> None:
        self.peers: dict[str, dict[str, list[Report]]] = {}
        self._backend = backend
        self._place = place
        self._seconds = seconds
        limits = place.settings
        self._client = rest.Client(dataclasses.replace(
            limits, connect_timeout=min(limits.connect_timeout, seconds),
            read_timeout=min(limits.read_timeout, seconds)))
        self._array = k2_array.Array(
            self._client, place.retention_policy, place.replication_policy)
        self._report = _blank(self._array.address)

    def run(self) -> Report:
        """Run all checks, and collect the problems. Ten calls."""
        problems = self._report['problems']
        self._see_verification()
        with contextlib.closing(self._client), \
                self._client.deadline(self._seconds,
                                      outage=backends.OUTAGE):
            if self._try('version', self._array.system.check, problems):
                for kind, see in self._sights():
                    self._try(kind, see, problems)
                self._see_peers()
        return self._report

    def _sights(self) -> list[tuple[str, Callable[[], None]]]:
        """The checks, each with the kind of problem if it fails."""
        sights = [('error', self._see_usage),
                  ('configuration', self._array.snapshots.check),
                  ('ports', self._see_ports)]
        if self._backend.targets:
            sights.append(('configuration', self._array.replication.check))
        return sights

    def _try(self, kind: str, see: Callable[[], None],
             problems: list[Report]) -> bool:
        """Return whether a check succeeds; record why not.

        :param kind: the kind of problem if the array replied
        """
        try:
            see()
            return True
        except rest.RestError as error:
            known = (name for cause, name in _KINDS
                     if isinstance(error, cause))
            problems.append(_note(next(known, 'error'), error))
        except exceptions.K2Error as error:
            problems.append(_note(kind, error))
        return False

    def _see_verification(self) -> None:
        settings = self._place.settings
        if not settings.verify and not settings.pin:
            self._note('warnings', 'certificate', 'is not verified, so'
                       ' its password can be intercepted; see '
                       'driver_ssl_cert_verify and k2_tls_fingerprint')

    def _see_usage(self) -> None:
        usage = self._array.system.usage()
        state, capacity = usage.state, usage.capacity
        self._report['capacity'] = {
            'total': capacity.total, 'free': capacity.free,
            'provisioned': capacity.provisioned_volumes}
        if not capacity.free:
            self._note('problems', 'full', 'has no free capacity, so new '
                       'data cannot be written; free some space on it')
        if state is None:
            return
        self._report['array'] = {
            'id': state.system_id, 'name': state.system_name,
            'version': state.system_version, 'state': state.state,
            'rest_version': state.rest_api_version}
        if not usage.online:
            self._note('warnings', 'state', f'is in state {state.state}, not '
                       'ONLINE; if it refuses changes, fix it on the array')
        if usage.degraded:
            self._note('warnings', 'state', 'reports that it is degraded; '
                       'check its events')
        self._see_role(state.current_user_role)

    def _see_role(self, role: str | None) -> None:
        login = self._place.settings.login
        self._report['user'] = {'login': login or None, 'role': role}
        if role is None or role in _ROLES:
            return
        reads = 'read' in role.lower()
        self._note(
            'problems' if reads else 'warnings', 'role',
            f'gives {login or "the token"} the role {role}, '
            + ('which may change nothing' if reads else
               'which is not known to be sufficient')
            + '; the driver needs mgmt-app or admin')

    def _see_ports(self) -> None:
        ports = self._report['ports']
        if self._backend.cidrs is None:
            fc.FCTransport(None).check(self._array)
            ports += [{'name': port.name, 'address': port.pwwn, 'target': '',
                       'up': port.is_healthy}
                      for port in self._array.system.fc_ports()]
            odd = [f'{port.pwwn} ({port.status:.60})'
                   for port in self._array.system.fc_ports()
                   if not port.is_healthy]
            if odd:
                self._note('warnings', 'ports', 'has FC ports whose status '
                           f'is not ok: {", ".join(odd)}')
        else:
            targets = iscsi.ISCSITransport(self._backend.cidrs).targets(
                self._array, [])
            # The API does not show which of them are up.
            ports += [{'name': None, 'address': portal, 'up': None,
                       'target': targets.iqn} for portal in targets.portals]

    def _see_peers(self) -> None:
        """Check that this array reaches its replication peers."""
        if self._place is not self._backend.own:
            return
        for place in self._backend.targets:
            found = self.peers[place.backend_id] = {
                'problems': [], 'warnings': []}
            self._try('peer', functools.partial(
                self._see_peer, place, found['warnings']), found['problems'])

    def _see_peer(self, place: backends.Place, warnings: list[Report]
                  ) -> None:
        replication = self._array.replication
        trouble = replication.link_trouble(
            replication.peer(place.address, place.backend_id))
        if trouble:
            warnings.append(self._of_array('peer', trouble))

    def _note(self, where: str, kind: str, text: str) -> None:
        self._report[where].append(self._of_array(kind, text))

    def _of_array(self, kind: str, text: str) -> Report:
        return _note(kind, f'The array at {self._array.address} {text}.')


def is_fine(report: Report) -> bool:
    """Whether a back end, replication included, has no problem."""
    return not any(part['problems'] for part in (report, *report['targets']))


def text(report: Report) -> str:
    """A text report."""
    lines = [f'Back end {report["backend"]}'
             + (f', {report["protocol"]}' if report['protocol'] else ''),
             *_lines(report)]
    for target in report['targets']:
        lines += [f'  Replication target {target["backend_id"]}',
                  *(f'  {line}' for line in _lines(target))]
    return '\n'.join(lines)


def _lines(part: Report) -> list[str]:
    rows = [('array', ', '.join(_about(part))),
            ('capacity', _capacity(part['capacity'])),
            ('ports', ', '.join(port['address'] for port in part['ports'])),
            *(('warning', note['text']) for note in part['warnings']),
            *(('problem', note['text']) for note in part['problems'])]
    return [f'  {name:<10}{value}' for name, value in rows if value]


def _about(part: Report) -> Iterable[str]:
    if part['address']:
        yield part['address']
    if part['array']:
        about = part['array']
        yield from filter(None, (
            about['name'], about['version'] and f'version {about["version"]}',
            f'REST API {about["rest_version"]}', about['state']))
    if part['user'] and part['user']['role']:
        yield f'role {part["user"]["role"]}'


def _capacity(capacity: Report | None) -> str:
    if not capacity:
        return ''
    free, total = (capacity[name] / _KIB_PER_TIB for name in ('free', 'total'))
    return f'{free:.2f} of {total:.2f} TiB free'
