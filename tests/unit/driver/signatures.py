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

"""Compare methods by the calls that they accept.

Cinder's own check only considers methods that are bound to the class. There
are none, so every class passes it.
"""

import ast
from collections.abc import Iterator
import dataclasses
import inspect
from typing import Any

_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY,
               inspect.Parameter.POSITIONAL_OR_KEYWORD)
# Cinder uses both names for a parameter that it passes by position.
_ALIASES = {'ctxt': 'context'}


@dataclasses.dataclass(frozen=True)
class Call:
    """A call of a driver method in Cinder's source.

    :ivar positional: the number of positional arguments
    :ivar keywords: the names of the keyword arguments
    """

    method: str
    positional: int
    keywords: tuple[str, ...]
    where: str


def methods_of(cls: type) -> list[str]:
    """Return the methods defined by a class and its bases but ``object``."""
    return sorted({name for base in cls.__mro__[:-1]
                   for name, member in vars(base).items()
                   if _function(member) and not name.startswith('__')})


def owner(cls: type, name: str) -> type:
    """Return the class in the MRO that defines a method."""
    return next(base for base in cls.__mro__ if name in vars(base))


def seen_by_callers(cls: type, name: str) -> inspect.Signature:
    """Return the signature of a method without ``self`` or ``cls``."""
    member = inspect.getattr_static(cls, name)
    signature = inspect.signature(getattr(cls, name))
    if isinstance(member, (staticmethod, classmethod)):
        return signature
    _, *rest = signature.parameters.values()
    return signature.replace(parameters=rest)


def complaints(cls: type, asked: type, name: str) -> list[str]:
    """Return why a class's method cannot be called like that of ``asked``.

    A property is accepted in place of a method without parameters: Cinder's
    base class has such properties.
    """
    member = inspect.getattr_static(cls, name, None)
    if isinstance(member, property):
        return _surplus(seen_by_callers(asked, name), cls, name)
    if not _function(member):
        return [f'{cls.__name__} has no method {name}']
    ours, theirs = seen_by_callers(cls, name), seen_by_callers(asked, name)
    return [f'{cls.__name__}.{name}{ours} is not {asked.__name__}.{name}'
            f'{theirs}: {text}' for text in _differences(ours, theirs)]


def refuses(cls: type, name: str) -> bool:
    """Return whether a method only raises NotImplementedError."""
    function = getattr(cls, name)
    if isinstance(function, property):
        return False
    source = inspect.cleandoc('\n' + inspect.getsource(function))
    body = ast.parse(source).body[0].body  # type: ignore[attr-defined]
    return (isinstance(body[-1], ast.Raise)
            and 'NotImplementedError' in ast.unparse(body[-1])
            and all(isinstance(s, (ast.Expr, ast.Assign))
                    for s in body[:-1]))


def takes(cls: type, call: Call) -> bool:
    """Return whether the method of a class accepts a call."""
    try:
        seen_by_callers(cls, call.method).bind(
            *[None] * call.positional, **dict.fromkeys(call.keywords))
    except TypeError:
        return False
    return True


def calls_in(module: Any, *receivers: str) -> Iterator[Call]:
    """Yield calls of methods of ``receivers`` in the source of a module.

    :param receivers: such as "self.driver"
    """
    for node in ast.walk(ast.parse(inspect.getsource(module))):
        if (isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and ast.unparse(node.func.value) in receivers
                and not any(isinstance(a, ast.Starred) for a in node.args)
                and all(k.arg for k in node.keywords)):
            yield Call(node.func.attr, len(node.args),
                       tuple(str(k.arg) for k in node.keywords),
                       f'{module.__name__}:{node.lineno}')


def _function(member: Any) -> bool:
    return inspect.isfunction(getattr(member, '__func__', member))


def _surplus(theirs: inspect.Signature, cls: type, name: str) -> list[str]:
    return [f'{cls.__name__}.{name} takes no {parameter}'
            for parameter in theirs.parameters]


def _differences(ours: inspect.Signature, theirs: inspect.Signature
                 ) -> Iterator[str]:
    kinds = {parameter.kind for parameter in ours.parameters.values()}
    by_name = {_name(p): p for p in ours.parameters.values()}
    order = [_name(p) for p in ours.parameters.values()
             if p.kind in _POSITIONAL]
    asked = list(theirs.parameters.values())
    for place, parameter in enumerate(asked):
        name = _name(parameter)
        if parameter.kind in (inspect.Parameter.VAR_POSITIONAL,
                              inspect.Parameter.VAR_KEYWORD):
            if parameter.kind not in kinds:
                yield f'{parameter} is missing'
        elif name not in by_name:
            if (parameter.default is inspect.Parameter.empty
                    or inspect.Parameter.VAR_KEYWORD not in kinds):
                yield f'{name} is missing'
        elif (parameter.kind in _POSITIONAL
                and order[place:place + 1] != [name]):
            yield f'{name} stands elsewhere'
        elif (parameter.default is not inspect.Parameter.empty
                and by_name[name].default is inspect.Parameter.empty):
            yield f'{name} has no default'
    wanted = {_name(p) for p in asked}
    for name, parameter in by_name.items():
        if (name not in wanted and parameter.kind in (
                *_POSITIONAL, inspect.Parameter.KEYWORD_ONLY)
                and parameter.default is inspect.Parameter.empty):
            yield f'nobody passes {name}'


def _name(parameter: inspect.Parameter) -> str:
    return _ALIASES.get(parameter.name, parameter.name)
