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

"""k2-admin: looks after the back ends of a cinder.conf.

Exit status: 0 when all was done, 1 when something failed (what could be done
was done), 2 for arguments that make no sense.
"""

import argparse
from collections.abc import Iterator
from collections.abc import Sequence
import contextlib
import json
import logging
import sys
from typing import Any
from typing import TYPE_CHECKING
import warnings

if TYPE_CHECKING:
    from cinder_k2.cmd import backends as backends_module

#: The subcommands, and what they do.
COMMANDS = {
    'hidden': 'list what was deleted in Cinder and is kept on the array, '
              'hidden, because clones need it',
    'reclaim': 'delete what is hidden and nothing needs any more, which '
               'happens by itself unless the array refused it once'}


def main(argv: Sequence[str] | None = None) -> int:
    """Carry out one subcommand; gives the exit status."""
    options = _parser().parse_args(argv)
    console = _Console()
    with console.warnings():
        if _load_cinder(console):
            _run(options, console)
    return console.status


def _load_cinder(console: '_Console') -> bool:
    """Import what other modules of Cinder need before they are."""
    try:
        from cinder import objects
    except ImportError:
        console.error('Cinder is not installed here; run k2-admin where '
                      'cinder-volume runs, with the same Python')
        return False
    objects.register_all()
    return True


class _Console:
    """Where errors and warnings go."""

    def __init__(self) -> None:
        self.status = 0

    def error(self, text: str) -> None:
        """Tell of an error, in one line, and remember it."""
        self.status = 1
        print(f'k2-admin: error: {text}', file=sys.stderr)

    @contextlib.contextmanager
    def warnings(self) -> Iterator[None]:
        """Show warnings of ours; those of other packages are not."""
        handler = logging.StreamHandler()
        handler.setLevel(logging.WARNING)
        handler.setFormatter(logging.Formatter(
            'k2-admin: warning: %(message)s'))
        ours, root = logging.getLogger('cinder_k2'), logging.NullHandler()
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
        prog='k2-admin', description='Looks after the back ends of '
        'cinder-k2 in a cinder.conf. Run it where cinder-volume runs, as '
        'the same user: it reads the same file and takes the same locks.')
    commands = parser.add_subparsers(dest='command', required=True,
                                     metavar='COMMAND')
    for name, help_text in COMMANDS.items():
        _add_options(commands.add_parser(
            name, help=help_text,
            description=f'{help_text[0].upper()}{help_text[1:]}.'))
    return parser


def _add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        '--config-file', action='append', default=[], metavar='FILE',
        help='a file to read in place of those that cinder-volume reads by '
        'itself, /etc/cinder/cinder.conf for one; can be repeated')
    parser.add_argument(
        '--config-dir', action='append', default=[], metavar='DIR',
        help='a directory with more such files; can be repeated')
    parser.add_argument(
        '--backend', action='append', default=[], metavar='NAME',
        help='section of a back end (default: all enabled ones that are '
        'ours); can be repeated')
    parser.add_argument('--json', action='store_true',
                        help='print JSON; sizes in it are KiB')


def _run(options: argparse.Namespace, console: _Console) -> None:
    from cinder_k2.cmd import backends
    from cinder_k2.cmd import hidden
    from tooz import coordination as tooz

    carry_out = {'hidden': hidden.look, 'reclaim': hidden.reclaim}
    reports = []
    try:
        backends.load(options.config_file, options.config_dir)
        for site in _sites(backends.choose(options.backend), console):
            with _errors(console, site.backends):
                reports.append(carry_out[options.command](
                    site, console.error))
    except (backends.ConfigurationError, tooz.ToozError) as error:
        console.error(str(error))
    if options.json:
        print(json.dumps({'arrays': reports}, indent=2))
    for report in () if options.json else reports:
        print(hidden.text(report))


def _sites(names: Sequence[str], console: _Console
           ) -> 'list[backends_module.Site]':
    """The arrays of the back ends, each one once."""
    from cinder_k2.cmd import backends

    sites: dict[str, Any] = {}
    for name in names:
        with _errors(console, [name]):
            for place in backends.places(name):
                with _errors(console, [place.label]):
                    site = backends.open_site(place)
                    known = sites.setdefault(site.array.system.id, site)
                    if known is not site:
                        known.backends.append(place.label)
    return list(sites.values())


@contextlib.contextmanager
def _errors(console: _Console, names: Sequence[str]) -> Iterator[None]:
    """Tell of what goes wrong with one array; others are still looked at."""
    from cinder_k2.cmd import backends
    from cinder_k2 import exceptions
    from cinder_k2 import rest

    try:
        yield
    except (backends.ConfigurationError, rest.RestError,
            exceptions.K2Error) as error:
        console.error(f'{", ".join(names)}: {error}')


if __name__ == '__main__':
    sys.exit(main())
