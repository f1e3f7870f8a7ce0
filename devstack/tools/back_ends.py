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

The options of all back ends come on standard input, as back end, name and
value, each ended by a NUL, so that a value can hold any character and no
process list shows a password. Of a name that comes twice the later one counts.
Names and values are checked with Cinder's and the driver's own options, all
of them before anything is written.
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

# Cinder's own modules need it before they are imported.
objects.register_all()

from cinder.volume import driver as cinder_driver  # noqa: E402
from cinder.volume import manager as cinder_manager  # noqa: E402

from cinder_k2 import driver  # noqa: E402

# NAME_file holds the file whose first line is the value of NAME.
_FROM_FILE = '_file'
_QUOTES = ('"', "'")

BackEnds = dict[str, dict[str, str]]


class Mistake(ValueError):
    """An option cannot be used; the message says why, without its value."""


def known_options() -> dict[str, Any]:
    """Every option that a section of ours can have, by name."""
    found = [*driver.K2ISCSIDriver.get_driver_options(),
             *driver.K2FCDriver.get_driver_options(),
             *cinder_driver.volume_opts, *cinder_driver.image_opts,
             *cinder_driver.backup_opts, *cinder_driver.fqdn_opts,
             *cinder_manager.volume_backend_opts]
    return {option.dest: option for option in found}


def read(data: bytes) -> BackEnds:
    """Read what comes on standard input."""
    words = iter(data.decode().split('\0')[:-1])
    found: BackEnds = {}
    for back_end in words:
        name = next(words)
        options = found.setdefault(back_end, {})
        # The later one goes to the end.
        options.pop(name, None)
        options[name] = next(words)
    return found


def resolve(options: Mapping[str, str], known: Mapping[str, Any]
            ) -> dict[str, str]:
    """Read the values that are in files.

    :raises Mistake: an option is not known, or a file cannot be read
    """
    found = {}
    for name, text in options.items():
        stem = name.removesuffix(_FROM_FILE)
        if name in known:
            found[name] = text
        elif stem != name and stem in known:
            found[stem] = first_line(name, text)
        else:
            raise Mistake(f'there is no option {name}{meant(name, known)}')
    return found


def meant(name: str, known: Iterable[str]) -> str:
    """Guess which option is meant."""
    close = difflib.get_close_matches(name, known, 1)
    return f'; did you mean {close[0]}?' if close else ''


def first_line(name: str, path: str) -> str:
    """Read a value from its file.

    :raises Mistake: it cannot be read, or has nothing in it
    """
    try:
        text = pathlib.Path(path).read_text().split('\n')[0]
    except (OSError, UnicodeError) as error:
        reason = getattr(error, 'strerror', None) or 'it is no text'
        raise Mistake(f'{name}: {path} cannot be read: {reason}') from None
    if not text:
        raise Mistake(f'{name}: the first line of {path} is empty')
    return text


def values(option: Any, text: str) -> list[str]:
    """The lines that an option takes: one, or several if it may repeat.

    :raises Mistake: it cannot have this value
    """
    lines = text.split('\n') if option.multi else [text]
    lines = [line for line in lines if line or not option.multi]
    for line in lines:
        if not line.replace('\t', '').isprintable():
            raise Mistake(f'{option.dest} has a line break or another control '
                          'character, which cinder.conf cannot hold')
        try:
            option.type(line)
        except ValueError as error:
            # The error quotes the value.
            reason = '' if option.secret else f': {error}'
            raise Mistake(
                f'{option.dest} cannot have this value{reason}') from None
    return lines


def written(text: str) -> str:
    """Write a value so that oslo.config reads it back exactly."""
    # Behind a backslash a doubled dollar would be read otherwise.
    text = text.replace('$', r'\$')
    quoted = text[:1] == text[-1:] and text[:1] in _QUOTES
    return f'"{text}"' if quoted or text != text.strip() else text


def section(name: str, lines: Iterable[tuple[str, str]]) -> str:
    """The text of a section; nothing if it has no lines."""
    body = ''.join(f'{key} = {written(text)}\n' for key, text in lines)
    return f'[{name}]\n{body}' if body else ''


def replaced(text: str, name: str, new: str) -> str:
    """Put the section in the place of the one of that name."""
    kept, inside = [], False
    for line in text.splitlines():
        if line.startswith('['):
            inside = line.strip() == f'[{name}]'
        if not inside:
            kept.append(line)
    old = '\n'.join(kept).strip('\n')
    return '\n\n'.join(filter(None, [old, new.strip('\n')])) + '\n'


def put(path: pathlib.Path, name: str, new: str, mode: int) -> None:
    """Write a section into a file, which is made if it is not there."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    number = os.open(path, os.O_RDWR | os.O_CREAT, mode)
    with open(number, 'r+') as file:
        text = replaced(file.read(), name, new)
        file.seek(0)
        file.truncate()
        file.write(text)


def checked(back_ends: BackEnds, known: Mapping[str, Any]
            ) -> dict[str, list[tuple[str, str]]]:
    """The lines of each section.

    :raises Mistake: with all that is wrong, a line each
    """
    found: dict[str, list[tuple[str, str]]] = {}
    mistakes = []
    for back_end, options in back_ends.items():
        lines = found.setdefault(back_end, [])
        try:
            options = resolve(options, known)
        except Mistake as error:
            mistakes.append(f'back end {back_end}: {error}')
            continue
        for name, text in options.items():
            try:
                lines.extend((name, line)
                             for line in values(known[name], text))
            except Mistake as error:
                mistakes.append(f'back end {back_end}: {error}')
    if mistakes:
        raise Mistake('\n'.join(mistakes))
    return found


def main() -> int:
    """Check all back ends and write one; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.partition('\n')[0])
    parser.add_argument('back_end', help='whose section to write')
    parser.add_argument('--conf', type=pathlib.Path, required=True,
                        help='cinder.conf')
    parser.add_argument('--secrets', type=pathlib.Path, required=True,
                        help='file for what is secret, of its owner alone')
    arguments = parser.parse_args()
    known = known_options()
    try:
        lines = checked(read(sys.stdin.buffer.read()), known)
    except Mistake as error:
        print(error, file=sys.stderr)
        return 1
    name = arguments.back_end
    for path, secret, mode in ((arguments.conf, False, 0o644),
                               (arguments.secrets, True, 0o600)):
        put(path, name, section(name, [
            line for line in lines[name] if known[line[0]].secret == secret]),
            mode)
    return 0


if __name__ == '__main__':
    sys.exit(main())
