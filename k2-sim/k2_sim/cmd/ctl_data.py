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

"""What k2-sim-ctl does with the data of volumes and views."""

import argparse
from collections.abc import Iterator
import contextlib
import itertools
import sys
from typing import IO

from k2_sim.cmd.ctl_client import Client
from k2_sim.cmd.ctl_client import CommandError

# Bytes of one request.
PIECE = 8 * 2 ** 20
_STANDARD = '-'


@contextlib.contextmanager
def _opened(name: str, mode: str) -> Iterator[IO[bytes]]:
    """The file of a name, or standard input or output for "-"."""
    if name == _STANDARD:
        yield (sys.stdin if mode == 'rb' else sys.stdout).buffer
        return
    try:
        with open(name, mode) as file:
            yield file
    except OSError as exc:
        raise CommandError(f'cannot use {name}: {exc.strerror}') from exc


def read(client: Client, options: argparse.Namespace) -> None:
    """Copy data of a place to a file.

    If the first request is refused, the file is not touched.
    """
    pieces = _pieces(client, options)
    first = next(pieces, b'')
    with _opened(options.file, 'wb') as file:
        for data in itertools.chain((first,), pieces):
            file.write(data)


def _pieces(client: Client, options: argparse.Namespace) -> Iterator[bytes]:
    """Yield the requested data, up to the end of the place at most."""
    offset, left = options.offset, options.length
    while left is None or left > 0:
        length = PIECE if left is None else min(PIECE, left)
        reply = client.data('GET', options.place, {
            'Range': f'bytes={offset}-{offset + length - 1}'})
        yield reply.content
        offset += len(reply.content)
        if offset >= int(reply.headers['Content-Range'].partition('/')[2]):
            return
        left = None if left is None else left - len(reply.content)


def write(client: Client, options: argparse.Namespace) -> None:
    """Copy a file to a place."""
    offset = options.offset
    with _opened(options.file, 'rb') as file:
        while data := file.read(PIECE):
            client.data('PUT', options.place, {
                'Content-Range':
                f'bytes {offset}-{offset + len(data) - 1}/*'}, data)
            offset += len(data)


def discard(client: Client, options: argparse.Namespace) -> None:
    """Discard a place, or a range of it: it reads as zeros again."""
    last = '' if options.length is None \
        else str(options.offset + options.length - 1)
    client.data('DELETE', options.place, {
        'Range': f'bytes={options.offset}-{last}'})
