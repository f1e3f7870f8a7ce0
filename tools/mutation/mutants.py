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


"""Changes of a source file that its tests should detect."""

from collections.abc import Iterator
from collections.abc import Sequence
import dataclasses
import difflib
import pathlib
import random
import re

import libcst
from libcst import metadata

from tools.mutation import settings

# A module's names of types; constants are in capitals.
_TYPE = re.compile(r'[A-Z]([a-z]\w*)?')
# Not changed by mutmut either: a change fails at once, whatever the test.
_TRIVIAL = ('len', 'isinstance')


@dataclasses.dataclass(frozen=True)
class Mutant:
    """One change of one file.

    :ivar path: of the file, relative to the root of the checkout
    :ivar line: where the change begins
    :ivar lines: first and last line of the statement; for one with a block,
        only the lines before the block
    :ivar begin: the first byte that is replaced
    :ivar end: the first byte after it that is not
    :ivar text: the replacement
    """

    path: str
    line: int
    lines: tuple[int, int]
    begin: int
    end: int
    text: str

    @property
    def key(self) -> str:
        """A key that is unique among all mutants of the same sources."""
        return f'{self.path}:{self.begin}:{self.end}:{self.text}'

    @property
    def package(self) -> str:
        """The package of the driver that it changes."""
        return pathlib.PurePath(self.path).parts[1]

    def source(self, root: pathlib.Path) -> str:
        """Return the changed file."""
        code = (root / self.path).read_bytes()
        return (code[:self.begin] + self.text.encode()
                + code[self.end:]).decode()

    def diff(self, root: pathlib.Path) -> str:
        """Return its location, and the changed lines before and after."""
        before = (root / self.path).read_text().splitlines()
        changes = difflib.unified_diff(
            before, self.source(root).splitlines(), n=0, lineterm='')
        return '\n'.join([f'{self.path}:{self.line}', *(
            f'  {line}' for line in list(changes)[3:])])


class _Visitor(libcst.CSTVisitor):
    """Collect the mutants of one file."""

    METADATA_DEPENDENCIES = (metadata.PositionProvider,
                             metadata.ByteSpanPositionProvider,
                             metadata.ParentNodeProvider)

    def __init__(self, path: str, module: libcst.Module) -> None:
        super().__init__()
        self.mutants: list[Mutant] = []
        self._path = path
        self._module = module

    def on_visit(self, node: libcst.CSTNode) -> bool:
        """Change a node in every way; return whether to visit its children."""
        if self._is_left_out(node):
            return False
        for kind, operator in settings.OPERATORS:
            if isinstance(node, kind):
                for other in operator(node):
                    self.mutants.append(self._mutant(node, other))
        return True

    def _mutant(self, node: libcst.CSTNode, other: libcst.CSTNode) -> Mutant:
        span = self.get_metadata(metadata.ByteSpanPositionProvider, node)
        return Mutant(
            self._path,
            self.get_metadata(metadata.PositionProvider, node).start.line,
            self._lines(node), span.start, span.start + span.length,
            self._module.code_for_node(_bare(node, other)))

    def _lines(self, node: libcst.CSTNode) -> tuple[int, int]:
        while not isinstance(node, (libcst.SimpleStatementLine,
                                    libcst.BaseCompoundStatement)):
            node = self.get_metadata(metadata.ParentNodeProvider, node)
        place = self.get_metadata(metadata.PositionProvider, node)
        first, last = place.start.line, place.end.line
        block = getattr(node, 'body', None)
        if isinstance(block, libcst.IndentedBlock):
            last = max(first, self.get_metadata(
                metadata.PositionProvider, block.body[0]).start.line - 1)
        return first, last

    def _is_left_out(self, node: libcst.CSTNode) -> bool:
        if isinstance(node, libcst.SimpleStatementLine):
            return self._is_declaration(node)
        if isinstance(node, libcst.Expr):
            return _is_text(node.value) or _is_log(node.value)
        return (_is_type_hint(node) or _is_trivial(node)
                or isinstance(node, libcst.Decorator))

    def _is_declaration(self, line: libcst.SimpleStatementLine) -> bool:
        """Return whether it only names a type or the contents of a module."""
        statement = line.body[0]
        if (not isinstance(statement, libcst.Assign)
                or line not in self._module.body):
            return False
        name = _name(statement.targets[0].target)
        return name == '__all__' or bool(_TYPE.fullmatch(name))


def _bare(node: libcst.CSTNode, other: libcst.CSTNode) -> libcst.CSTNode:
    """Return a node without the original parentheses, which are kept."""
    outer = getattr(node, 'lpar', ())
    if outer and getattr(other, 'lpar', ()) is outer:
        return other.with_changes(lpar=(), rpar=())
    return other


def _name(node: libcst.CSTNode) -> str:
    return node.value if isinstance(node, libcst.Name) else ''


def _last(node: libcst.CSTNode) -> str:
    return _name(node.attr if isinstance(node, libcst.Attribute) else node)


def _is_text(value: libcst.CSTNode) -> bool:
    """Return whether a statement with this value is a docstring."""
    return isinstance(value, (libcst.SimpleString, libcst.ConcatenatedString))


def _is_log(value: libcst.CSTNode) -> bool:
    return (isinstance(value, libcst.Call)
            and isinstance(value.func, libcst.Attribute)
            and _name(value.func.value) == 'LOG')


def _is_type_hint(node: libcst.CSTNode) -> bool:
    return isinstance(node, libcst.Annotation) or isinstance(
        node, libcst.If) and _last(node.test) == 'TYPE_CHECKING'


def _is_trivial(node: libcst.CSTNode) -> bool:
    return isinstance(node, libcst.Call) and _name(node.func) in _TRIVIAL


def find_in(root: pathlib.Path, path: str) -> list[Mutant]:
    """Return all mutants of a file, in the order of the file."""
    module = metadata.MetadataWrapper(
        libcst.parse_module((root / path).read_bytes()))
    visitor = _Visitor(path, module.module)
    module.visit(visitor)
    return visitor.mutants


def files(root: pathlib.Path, packages: Sequence[str]) -> Iterator[str]:
    """Yield the paths of the files of packages, relative to the root."""
    for package in packages:
        for path in sorted((root / 'cinder_k2' / package).rglob('*.py')):
            yield path.relative_to(root).as_posix()


def shuffled(mutants: Sequence[Mutant], seed: int) -> list[Mutant]:
    """Return mutants in an order set by the seed, alternating packages.

    The first ones are a sample that favors no package.
    """
    queues: dict[str, list[Mutant]] = {}
    for mutant in mutants:
        queues.setdefault(mutant.package, []).append(mutant)
    for name in sorted(queues):
        random.Random(f'{seed} {name}').shuffle(queues[name])  # nosec B311
    return [queue[place]
            for place in range(max(map(len, queues.values()), default=0))
            for queue in queues.values() if place < len(queue)]
