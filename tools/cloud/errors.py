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

"""The one kind of failure that `make cloud` reports."""

import pathlib

# Prefix of the line on which a program of ours says why it gives up.
GAVE_UP = 'FAILED '
LINE_LENGTH = 300


class CloudError(Exception):
    """A failure; the text tells a new user what to do."""


def read_lines(log: pathlib.Path) -> list[str]:
    """Return the lines of a log; a missing one counts as empty."""
    try:
        return log.read_text(errors='replace').splitlines()
    except FileNotFoundError:
        return []


def tail(log: pathlib.Path, lines: int = 12, about: str = '') -> str:
    """Return the last lines of a log, truncated and indented.

    :param lines: how many lines at most
    :param about: only lines with this text, or with ERROR in them
    """
    text = [line for line in read_lines(log)
            if not about or about in line or ' ERROR ' in line]
    return '\n'.join(f'    {line[:LINE_LENGTH]}' for line in text[-lines:])


def given_reason(log: pathlib.Path) -> str:
    """Return why a program of ours gave up, if it said so."""
    reasons = [line.removeprefix(GAVE_UP) for line in read_lines(log)
               if line.startswith(GAVE_UP)]
    return reasons[-1] if reasons else ''
