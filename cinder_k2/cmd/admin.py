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

"""k2-admin: administers the back ends of a cinder.conf, and hosts.

Exit status: 0 on success, 1 when something failed (the rest was done), 2 for
invalid arguments.
"""

import argparse
from collections.abc import Iterator
from collections.abc import Sequence
from concurrent import futures
import contextlib
import json
import logging
import sys
from typing import Any
from typing import TYPE_CHECKING
import warnings

from cinder_k2 import version

if TYPE_CHECKING:
    from cinder_k2.cmd import backends as backends_module

# Maximum of --timeout and --pause, in seconds.
_LONGEST = 3600.0
#: The subcommands, and their help.
COMMANDS = {
    'check': 'check whether the arrays can serve their back ends, and what to '
             'do if not; changes nothing',
    'check-host': 'check whether this host is set up for volumes of the '
                  'array, and what to do if not; contacts no array, needs no '
                  'cinder.conf and changes nothing',
    'capabilities': 'show what was learned about each array: which requests '
                    'it accepts, and what the driver does instead of the '
                    'others; contacts no array',
    'probe': 'test how an array answers and what it can do; only reads, '
             'unless --write allows it to create its own objects; writes a '
             'result that can be sent to the project',
    'deferred': 'list deferred deletions: what was deleted in Cinder but is '
                'kept on the array because clones need it',
    'purge': 'delete what is kept by deferred deletions and no longer needed; '
             'this happens automatically unless the array refused it'}
#: Former names of subcommands, and of sections in reports.
DEPRECATED = {'hidden': 'deferred', 'reclaim': 'purge'}
_FORMER_KEYS = {'deferred': 'hidden', 'purged': 'reclaimed'}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one subcommand; return the exit status."""
    options = _parser().parse_args(argv)
    options.former = options.command in DEPRECATED
    if options.former:
        now = DEPRECATED[options.command]
        print(f'k2-admin: warning: {options.command} is deprecated; use '
              f'{now} instead', file=sys.stderr)
        options.command = now
    if options.command == 'check-host':
        return _check_host(options)
    console = _Console()
    # A report of check has the problems that the others would only log.
    with console.warnings(shown=options.command not in (
            'check', 'capabilities', 'probe')):
        if _load_cinder(console):
            _run(options, console)
    return console.status


def _check_host(options: argparse.Namespace) -> int:
    """Check this host, without Cinder; return the exit status."""
    from cinder_k2.cmd import check_host

    findings = check_host.check(check_host.Host(options.root))
    print(json.dumps({'host': check_host.report(findings)}, indent=2)
          if options.json else check_host.text(findings))
    return 0 if check_host.is_fine(findings) else 1


def _load_cinder(console: '_Console') -> bool:
    """Import what Cinder's other modules need to have imported first."""
    try:
        from cinder import objects
    except ImportError:
        console.error('Cinder is not installed here; run k2-admin where '
                      'cinder-volume runs, with the same Python')
        return False
    objects.register_all()
    return True


class _Console:
    """Collects errors and warnings."""

    def __init__(self) -> None:
        self.status = 0

    def say(self, text: str) -> None:
        """Print what the command is doing."""
        print(f'k2-admin: {text}', file=sys.stderr, flush=True)

    def error(self, text: str) -> None:
        """Print an error in one line; the exit status becomes 1."""
        self.status = 1
        print(f'k2-admin: error: {text}', file=sys.stderr)

    @contextlib.contextmanager
    def warnings(self, shown: bool) -> Iterator[None]:
        """Show or hide warnings of this driver; others are always hidden."""
        handler = logging.StreamHandler()
        handler.setLevel(logging.WARNING)
        handler.setFormatter(logging.Formatter(
            'k2-admin: warning: %(message)s'))
        ours, root = logging.getLogger('cinder_k2'), logging.NullHandler()
        if shown:
            ours.addHandler(handler)
        logging.getLogger().addHandler(root)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter('ignore')
                yield
        finally:
            ours.removeHandler(handler)
            logging.getLogger().removeHandler(root)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog='k2-admin', description='Checks and maintains the back ends of '
        'cinder-k2 in a cinder.conf. Run it where cinder-volume runs, as '
        'the same user: it reads the same file and takes the same locks. '
        'check-host runs on any host that attaches volumes.')
    parser.add_argument('--version', action='version',
                        version=f'%(prog)s {version.version()}')
    commands = parser.add_subparsers(dest='command', required=True,
                                     metavar='COMMAND')
    for name, help_text in COMMANDS.items():
        command = commands.add_parser(
            name, help=help_text, aliases=[
                former for former, now in DEPRECATED.items() if now == name],
            description=f'{help_text[0].upper()}{help_text[1:]}.')
        if name == 'check-host':
            _add_host_options(command)
            continue
        _add_options(command)
        if name == 'check':
            command.add_argument(
                '--timeout', type=_seconds, default=30.0, metavar='SECONDS',
                help='timeout for each array (default: %(default)g)')
        if name == 'probe':
            _add_probe_options(command)
    return parser


def _add_probe_options(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        '--write', action='store_true',
        help='also create objects named k2probe-<token>, and remove them')
    command.add_argument(
        '--yes', action='store_true',
        help='do not ask for confirmation of --write')
    command.add_argument(
        '--pause', type=_seconds, default=0.5, metavar='SECONDS',
        help='pause between two requests (default: %(default)g)')
    command.add_argument(
        '--output', default='.', metavar='DIR',
        help='where the results are written (default: this directory)')


def _seconds(text: str) -> float:
    with contextlib.suppress(ValueError):
        if 0 < float(text) <= _LONGEST:
            return float(text)
    raise argparse.ArgumentTypeError(
        f'invalid: {text} is not above 0 and at most {_LONGEST:g} seconds')


def _add_host_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        '--root', default='/', metavar='DIR',
        help='check the files below this directory, such as those of a '
        'container or a mounted system, but run the programs of this host')
    parser.add_argument('--json', action='store_true', help='print JSON')


def _add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        '--config-file', action='append', default=[], metavar='FILE',
        help='a file to read instead of the default files of cinder-volume, '
        'such as /etc/cinder/cinder.conf; can be repeated')
    parser.add_argument(
        '--config-dir', action='append', default=[], metavar='DIR',
        help='a directory with more such files; can be repeated')
    parser.add_argument(
        '--backend', action='append', default=[], metavar='NAME',
        help='section of a back end (default: all enabled back ends of '
        'cinder-k2); can be repeated')
    parser.add_argument('--json', action='store_true',
                        help='print JSON; sizes in it are KiB')


def _run(options: argparse.Namespace, console: _Console) -> None:
    from cinder_k2.cmd import backends
    from cinder_k2.cmd import capabilities
    from cinder_k2.cmd import check
    from cinder_k2.cmd import deferred
    from cinder_k2.cmd import probe
    from tooz import coordination as tooz

    carry_out, text = {
        'check': (_check, check.text),
        'capabilities': (_capabilities, capabilities.text),
        'probe': (_probe, probe.text),
    }.get(options.command, (_survey, deferred.text))
    reports: list[Any] = []
    try:
        backends.load(options.config_file, options.config_dir)
        carry_out(options, console, reports)
    except (backends.ConfigurationError, tooz.ToozError) as error:
        console.error(str(error))
    if options.json:
        kind = 'backends' if options.command == 'check' else 'arrays'
        if options.former:
            reports = [{_FORMER_KEYS.get(key, key): value for key, value
                        in report.items()} for report in reports]
        print(json.dumps({kind: reports}, indent=2))
    for report in () if options.json else reports:
        print(text(report))


def _check(options: argparse.Namespace, console: _Console,
           reports: list[Any]) -> None:
    """Add a report of each back end, with its problems."""
    from cinder_k2.cmd import backends
    from cinder_k2.cmd import check

    reports += check.check(backends.choose(options.backend), options.timeout,
                           console.say)
    if not all(map(check.is_fine, reports)):
        console.status = 1


def _capabilities(options: argparse.Namespace, console: _Console,
                  reports: list[Any]) -> None:
    """Add a report of each array, from files."""
    from cinder_k2.cmd import backends
    from cinder_k2.cmd import capabilities

    arrays: dict[str, list[Any]] = {}
    for place in _places(backends.choose(options.backend), console):
        arrays.setdefault(place.array, []).append(place)
    reports += map(capabilities.read, arrays.values())


def _probe(options: argparse.Namespace, console: _Console,
           reports: list[Any]) -> None:
    """Add a report of each array, one after the other."""
    from cinder_k2.cmd import backends
    from cinder_k2.cmd import probe

    places = {place.array: place for place in _places(
        backends.choose(options.backend), console)}
    for place in places.values():
        with _errors(console, [place.label]):
            report = probe.run(place, options)
            if report is None:
                console.error(f'{place.label}: not probed')
                continue
            reports.append(report)
            if report['left_on_the_array']:
                console.error(f'{place.label}: some objects of the probe '
                              'are left; run it again')


def _survey(options: argparse.Namespace, console: _Console,
            reports: list[Any]) -> None:
    """Add a report of each array. Its errors are printed immediately."""
    from cinder_k2.cmd import backends
    from cinder_k2.cmd import deferred

    carry_out = (deferred.look if options.command == 'deferred'
                 else deferred.purge)
    for site in _sites(backends.choose(options.backend), console):
        with _errors(console, site.backends):
            reports.append(carry_out(site, console.error))


def _sites(names: Sequence[str], console: _Console
           ) -> 'list[backends_module.Site]':
    """The arrays of the back ends, each once."""
    from cinder_k2.cmd import backends
    from cinder_k2.cmd import progress

    sites: dict[str, Any] = {}
    places = list(_places(names, console))
    with futures.ThreadPoolExecutor(backends.MOST_AT_ONCE) as pool:
        opened = [pool.submit(backends.open_site, place) for place in places]
        progress.wait({one: place.array for one, place
                       in zip(opened, places)}, console.say)
    for place, one in zip(places, opened):
        with _errors(console, [place.label]):
            site = one.result()
            known = sites.setdefault(site.array.system.id, site)
            if known is not site:
                known.backends.append(place.label)
    return list(sites.values())


def _places(names: Sequence[str], console: _Console
            ) -> 'Iterator[backends_module.Place]':
    """The places of the back ends' arrays, including targets."""
    from cinder_k2.cmd import backends

    for name in names:
        with _errors(console, [name]):
            backend = backends.read(name)
            yield from (backend.own, *backend.targets)


@contextlib.contextmanager
def _errors(console: _Console, names: Sequence[str]) -> Iterator[None]:
    """Print the errors of one array, and continue with the others."""
    from cinder_k2.cmd import backends
    from cinder_k2.cmd import probe
    from cinder_k2 import exceptions
    from cinder_k2 import rest

    try:
        yield
    except (backends.ConfigurationError, rest.RestError, probe.Failed,
            exceptions.K2Error) as error:
        console.error(f'{", ".join(names)}: {error}')


if __name__ == '__main__':
    sys.exit(main())
