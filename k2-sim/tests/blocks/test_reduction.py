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

"""Data reduction, from the bytes in files (CAP-2, CAP-4)."""

import itertools
import os
import pathlib
import random
from unittest import mock

import hypothesis
from hypothesis import strategies as st
import zstandard

from k2_sim.blocks import contents
from k2_sim.blocks import reduction
from k2_sim.blocks.reduction import BLOCK
from k2_sim.blocks.reduction import Group
from k2_sim.blocks.reduction import Image
from tests import base

_LONG_AGO = 10 ** 18
_TIMES = itertools.count()
# A few blocks, so that equal ones meet; the first is all zeros.
_KINDS = [bytes(BLOCK), b'a' * BLOCK, b'b' * BLOCK, b'ab' * (BLOCK // 2),
          random.Random(1).randbytes(BLOCK)]


class ReductionTest(base.DirectoryTest):
    """Figures of files that the test writes."""

    def setUp(self) -> None:
        super().setUp()
        self.reduction = reduction.Reduction(self.path)

    def path(self, token: str) -> pathlib.Path:
        """Where a file is."""
        return self.directory / token

    def write(self, token: str, *blocks: bytes, when: int = 0) -> None:
        """Write these blocks to a file; b'' leaves a hole."""
        with self.path(token).open('wb') as file:
            for place, block in enumerate(blocks):
                if block:
                    file.seek(place * BLOCK)
                    file.write(block)
            file.truncate(len(blocks) * BLOCK)
        os.utime(self.path(token), ns=(_LONG_AGO, _LONG_AGO + when))

    def measure(self, *tokens: str, is_dedup: bool = True
                ) -> reduction.Figures:
        """The figures of volumes in one group, each of its own lineage."""
        return self.reduction.measure([Group(is_dedup, tuple(
            Image(('volumes', number), token, number, True)
            for number, token in enumerate(tokens, 1)))])

    def logical(self, figures: reduction.Figures) -> list[int]:
        """The logical sizes of the volumes, in the order of their ids."""
        return [figures.logical[key] for key in sorted(figures.logical)]

    def test_zeros_and_holes_take_nothing(self) -> None:
        self.write('one', bytes(BLOCK), b'', b'a' * BLOCK, b'')
        self.write('none', b'', bytes(3 * BLOCK))
        figures = self.measure('one', 'none', 'never written')
        self.assertEqual([BLOCK, 0, 0], self.logical(figures))

    def test_what_cannot_be_compressed_takes_its_size(self) -> None:
        self.write('random', os.urandom(BLOCK), os.urandom(BLOCK))
        self.assertEqual(2 * BLOCK, self.measure('random').physical)
        self.assertEqual(BLOCK, self.measure('random').average['volumes', 1])

    def test_what_can_be_takes_less(self) -> None:
        self.write('plain', b'a' * BLOCK)
        self.assertLess(self.measure('plain').physical, BLOCK // 10)

    def test_one_end_of_a_block_counts_whole(self) -> None:
        self.path('short').write_bytes(b'end')
        self.write('whole', b'end'.ljust(BLOCK, b'\0'))
        figures = self.measure('short', 'whole')
        self.assertEqual([BLOCK, BLOCK], self.logical(figures))
        self.assertEqual(figures.physical, self.measure('short').physical)

    def test_equal_blocks_are_kept_once(self) -> None:
        block = os.urandom(BLOCK)
        self.write('one', block, block)
        self.write('two', b'', block)
        self.assertEqual(BLOCK, self.measure('one', 'two').physical)

    def test_without_deduplication_they_are_not(self) -> None:
        block = os.urandom(BLOCK)
        self.write('one', block, block)
        self.write('two', b'', block)
        self.assertEqual(
            3 * BLOCK, self.measure('one', 'two', is_dedup=False).physical)

    def test_a_snapshot_shares_with_its_volume_all_the_same(self) -> None:
        blocks = [os.urandom(BLOCK) for _ in range(4)]
        self.write('older', blocks[0], blocks[1], b'', b'')
        self.write('newer', blocks[0], blocks[1], blocks[2], b'')
        self.write('volume', blocks[0], blocks[3], b'', b'')
        figures = self.reduction.measure([Group(False, (
            Image(('volsnaps', 1), 'older', 7, False),
            Image(('volsnaps', 2), 'newer', 7, False),
            Image(('volumes', 7), 'volume', 7, True)))])
        self.assertEqual(4 * BLOCK, figures.physical)
        self.assertEqual([BLOCK, BLOCK, 2 * BLOCK], self.logical(figures))

    def test_groups_meet_where_both_have_deduplication(self) -> None:
        block = os.urandom(BLOCK)
        for token in 'abcd':
            self.write(token, block)
        figures = self.reduction.measure([
            Group(number < 3, (
                Image(('volumes', number), token, number, True),))
            for number, token in enumerate('abcd', 1)])
        self.assertEqual(3 * BLOCK, figures.physical)

    def test_one_file_in_two_places(self) -> None:
        """As on an array that replicates to itself."""
        self.write('shared', os.urandom(BLOCK))
        for is_dedup, blocks in ((False, 2), (True, 1), (False, 2)):
            figures = self.measure('shared', 'shared', is_dedup=is_dedup)
            self.assertEqual(blocks * BLOCK, figures.physical)

    def test_file_system_with_smaller_blocks(self) -> None:
        """A block with several pieces of data counts once."""
        self.path('pieces').write_bytes(b'a' * BLOCK * 2)
        with mock.patch.object(
                contents, 'extents', autospec=True, return_value=[
                    (0, 1024), (2048, 3072), (3072, 5120)]):
            figures = self.measure('pieces')
        self.assertEqual([2 * BLOCK], self.logical(figures))

    def test_data_on_its_way(self) -> None:
        noise = os.urandom(BLOCK)
        self.assertEqual(0, reduction.reduced(bytes(2 * BLOCK)))
        self.assertEqual(2 * BLOCK, reduction.reduced(noise + noise))
        self.assertEqual(_size(b'ab'.ljust(BLOCK, b'\0')) + BLOCK,
                         reduction.reduced(noise + b'ab'))

    def test_what_goes_takes_its_room_with_it(self) -> None:
        self.write('one', os.urandom(BLOCK))
        self.write('two', os.urandom(BLOCK))
        self.measure('one', 'two')
        figures = self.measure('two')
        self.assertEqual(BLOCK, figures.physical)
        self.assertEqual([BLOCK], self.logical(figures))

    def test_only_what_has_changed_is_read_again(self) -> None:
        self.write('one', os.urandom(BLOCK))
        self.write('two', os.urandom(BLOCK))
        self.measure('one', 'two')
        self.write('two', os.urandom(BLOCK), os.urandom(BLOCK), when=1)
        with mock.patch.object(
                reduction, 'read', wraps=reduction.read) as read:
            figures = self.measure('one', 'two')
        self.assertEqual(
            [self.path('two')], [call.args[0] for call in read.mock_calls])
        self.assertEqual(3 * BLOCK, figures.physical)
        self.assertEqual([BLOCK, 2 * BLOCK], self.logical(figures))

    def test_only_what_may_have_changed_is_looked_at(self) -> None:
        looked, changed = [], {'one'}

        def path(token: str) -> pathlib.Path:
            looked.append(token)
            return self.path(token)

        self.reduction = reduction.Reduction(path, lambda: changed)
        for token in ('one', 'two'):
            self.write(token, os.urandom(BLOCK))
        figures = self.measure('one', 'two')
        self.assertEqual({'one', 'two'}, set(looked))
        looked.clear()
        self.assertIs(figures, self.measure('one', 'two'))
        self.assertEqual(['one'], looked)
        self.write('one', when=1)
        self.assertEqual(BLOCK, self.measure('one', 'two').physical)

    def test_a_look_that_failed_is_made_up_for(self) -> None:
        changed = set()
        self.reduction = reduction.Reduction(self.path, lambda: changed)
        self.write('one', os.urandom(BLOCK))
        self.measure('one')
        self.write('one', when=1)
        changed = {'one'}
        with mock.patch.object(
                reduction, 'read', autospec=True, side_effect=OSError):
            self.assertRaises(OSError, self.measure, 'one')
        changed = set()
        self.assertEqual(0, self.measure('one').physical)

    def test_what_is_as_large_as_before_is_read_again(self) -> None:
        self.write('one', b'a' * BLOCK, os.urandom(BLOCK))
        self.write('two', b'a' * BLOCK)
        before = self.measure('one', 'two').physical
        self.write('two', os.urandom(BLOCK), when=5)
        self.assertEqual(before + BLOCK, self.measure('one', 'two').physical)

    def test_what_was_written_just_now_is_read_again(self) -> None:
        self.path('fresh').write_bytes(os.urandom(BLOCK))
        stamp = self.path('fresh').stat().st_mtime_ns
        self.measure('fresh')
        self.path('fresh').write_bytes(bytes(BLOCK))
        os.utime(self.path('fresh'), ns=(stamp, stamp))
        with mock.patch('time.time_ns', autospec=True,
                        return_value=stamp + 1000):
            self.assertEqual(0, self.measure('fresh').physical)

    @hypothesis.given(st.lists(
        st.tuples(st.booleans(), st.lists(st.tuples(
            st.sampled_from('abcdef'), st.integers(1, 2), st.booleans()),
            max_size=4), st.dictionaries(
                st.sampled_from('abcdef'),
                st.lists(st.integers(-1, len(_KINDS) - 1), max_size=4))),
        min_size=1, max_size=4))
    @hypothesis.settings(max_examples=60, deadline=None)
    def test_as_a_plain_sum(self, steps: list[tuple[
            bool, list[tuple[str, int, bool]],
            dict[str, list[int]]]]) -> None:
        for file in self.directory.iterdir():
            file.unlink()
        self.reduction = reduction.Reduction(self.path)
        held: dict[str, list[int]] = {}
        for when, (is_dedup, images, written) in enumerate(steps):
            for token, kinds in written.items():
                held[token] = kinds
                self.write(token, *(
                    b'' if kind < 0 else _KINDS[kind] for kind in kinds),
                    when=next(_TIMES))
            images = list({image[0]: image for image in images}.values())
            figures = self.reduction.measure([Group(is_dedup, tuple(
                Image(('volumes', number), *image)
                for number, image in enumerate(images)))])
            self.assertEqual(
                _physical(held, images, is_dedup), figures.physical, when)


def _physical(held: dict[str, list[int]],
              images: list[tuple[str, int, bool]], is_dedup: bool) -> int:
    """The space of these images, calculated from scratch."""
    kept: dict[object, int] = {}
    for token, lineage, _ in images:
        for place, kind in enumerate(held.get(token, ())):
            if kind > 0:
                key = kind if is_dedup else (lineage, place, kind)
                kept[key] = _size(_KINDS[kind])
    return sum(kept.values())


def _size(block: bytes) -> int:
    return min(BLOCK, len(zstandard.ZstdCompressor(level=1).compress(block)))
