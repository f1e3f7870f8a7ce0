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

"""Write the section of a back end into cinder.conf, for the DevStack plugin.

The options of all back ends are read from standard input as back end, name and
value, each terminated by NUL, so that a value can contain any character and no
process list shows a password. If a name is repeated, the last value is used.
All names and values are checked against the options of Cinder and the driver
before anything is written.
"""

import argparse
from collections.abc import Iterable
from collections.abc import Mapping
import difflib
import os
import pathlib
import sys
from typing import Any

from cinder import objects

# Must run before other modules of Cinder are imported.
objects.register_all()

from cinder.volume import driver as cinder_driver  # noqa: E402
from cinder.volume import manager as cinder_manager  # noqa: E402

from cinder_k2 import driver  # noqa: E402

# NAME_file is the name of a file whose first line is the value of NAME.
_FROM_FILE = '_file'
_QUOTES = ('"', "'")

BackEnds = dict[str, dict[str, str]]


class InvalidOption(ValueError):
    """An option is invalid; the message says why, without secrets."""


def known_options() -> dict[str, Any]:
    """Return all options that a back end's section can have, by name."""
    found = [*driver.K2ISCSIDriver.get_driver_options(),
             *driver.K2FCDriver.get_driver_options(),
             *cinder_driver.volume_opts, *cinder_driver.image_opts,
             *cinder_driver.backup_opts, *cinder_driver.fqdn_opts,
             *cinder_manager.volume_backend_opts]
    return {option.dest: option for option in found}


def read(data: bytes) -> BackEnds:
    """Parse the options from standard input."""
    words = iter(data.decode().split('\0')[:-1])
    found: BackEnds = {}
    for back_end in words:
        name = next(words)
        options = found.setdefault(back_end, {})
        # The last value of a name, in its position.
        options.pop(name, None)
        options[name] = next(words)
    return found


def resolve(options: Mapping[str, str], known: Mapping[str, Any]
            ) -> dict[str, str]:
    """Replace options NAME_file by NAME with the value from the file.

    :raises InvalidOption: an option is unknown, or a file cannot be read
    """
    found = {}
    for name, text in options.items():
        stem = name.removesuffix(_FROM_FILE)
        if name in known:
            found[name] = text
        elif stem != name and stem in known:
            found[stem] = first_line(name, text)
        else:
            raise InvalidOption(
                f'unknown option {name}{suggestion(name, known)}')
    return found


def suggestion(name: str, known: Iterable[str]) -> str:
    """Return a suggestion for an unknown option, or ''."""
    close = difflib.get_close_matches(name, known, 1)
    return f'; did you mean {close[0]}?' if close else ''


def first_line(name: str, path: str) -> str:
    """Read the value of an option from a file.

    :raises InvalidOption: it cannot be read, or its first line is empty
    """
    try:
        text = pathlib.Path(path).read_text().split('\n')[0]
    except (OSError, UnicodeError) as error:
        reason = getattr(error, 'strerror', None) or 'it is not text'
        raise InvalidOption(f'{name}: {path} cannot be read: {reason}'
                            ) from None
    if not text:
        raise InvalidOption(f'{name}: the first line of {path} is empty')
    return text


def values(option: Any, text: str) -> list[str]:
    """Return the values of an option: several lines if it may repeat.

    :raises InvalidOption: the value is invalid
    """
    lines = text.split('\n') if option.multi else [text]
    lines = [line for line in lines if line or not option.multi]
    for line in lines:
        if not line.replace('\t', '').isprintable():
            raise InvalidOption(f'{option.dest} has a line break or another '
                                'control character, which cinder.conf cannot '
                                'hold')
        try:
            option.type(line)
        except ValueError as error:
            # The error quotes the value.
            reason = '' if option.secret else f': {error}'
            raise InvalidOption(
                f'{option.dest} has an invalid value{reason}') from None
    return lines


def escape(text: str) -> str:
    """Escape a value so that oslo.config reads it back exactly."""
    # Not a doubled dollar sign, which is read differently after a backslash.
    text = text.replace('$', r'\$')
    quoted = text[:1] == text[-1:] and text[:1] in _QUOTES
    return f'"{text}"' if quoted or text != text.strip() else text


def section(name: str, lines: Iterable[tuple[str, str]]) -> str:
    """Return the text of a section; '' if it has no lines."""
    body = ''.join(f'{key} = {escape(text)}\n' for key, text in lines)
    return f'[{name}]\n{body}' if body else ''


def replace_section(text: str, name: str, new: str) -> str:
    """Remove the section of this name, and append the new one."""
    kept, inside = [], False
    for line in text.splitlines():
        if line.startswith('['):
            inside = line.strip() == f'[{name}]'
        if not inside:
            kept.append(line)
    old = '\n'.join(kept).strip('\n')
    return '\n\n'.join(filter(None, [old, new.strip('\n')])) + '\n'


def write_section(path: pathlib.Path, name: str, new: str, mode: int) -> None:
    """Write a section to a file, creating the file if necessary.

    :param mode: the mode of the file if it is created
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    number = os.open(path, os.O_RDWR | os.O_CREAT, mode)
    with open(number, 'r+') as file:
        text = replace_section(file.read(), name, new)
        file.seek(0)
        file.truncate()
        file.write(text)


def validate(back_ends: BackEnds, known: Mapping[str, Any]
             ) -> dict[str, list[tuple[str, str]]]:
    """Validate all options; return the lines of each section.

    :raises InvalidOption: with all errors, one per line
    """
    found: dict[str, list[tuple[str, str]]] = {}
    errors = []
    for back_end, options in back_ends.items():
        lines = found.setdefault(back_end, [])
        try:
            options = resolve(options, known)
        except InvalidOption as error:
            errors.append(f'back end {back_end}: {error}')
            continue
        for name, text in options.items():
            try:
                lines.extend((name, line)
                             for line in values(known[name], text))
            except InvalidOption as error:
                errors.append(f'back end {back_end}: {error}')
    if errors:
        raise InvalidOption('\n'.join(errors))
    return found


def main() -> int:
    """Check all back ends and write one; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.partition('\n')[0])
    parser.add_argument('back_end', help='whose section to write')
    parser.add_argument('--conf', type=pathlib.Path, required=True,
                        help='cinder.conf')
    parser.add_argument('--secrets', type=pathlib.Path, required=True,
                        help='file for secret options, readable by its owner '
                             'only')
    arguments = parser.parse_args()
    known = known_options()
    try:
        lines = validate(read(sys.stdin.buffer.read()), known)
    except InvalidOption as error:
        print(error, file=sys.stderr)
        return 1
    name = arguments.back_end
    for path, secret, mode in ((arguments.conf, False, 0o644),
                               (arguments.secrets, True, 0o600)):
        write_section(path, name, section(name, [
            line for line in lines[name] if known[line[0]].secret == secret]),
            mode)
    return 0


if __name__ == '__main__':
    sys.exit(main())
