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


"""Mutation operators that mutmut does not have.

An operator takes a node and returns its replacements.
"""

from collections.abc import Iterable

import libcst


def drop_call(node: libcst.Expr) -> Iterable[libcst.Pass]:
    """Remove a call whose result is not used."""
    value: libcst.BaseExpression | libcst.From | None = node.value
    if isinstance(value, libcst.Yield) and isinstance(value.value,
                                                      libcst.From):
        value = value.value.item
    if isinstance(value, libcst.Call):
        yield libcst.Pass()


def drop_order(node: libcst.Call) -> Iterable[libcst.Call]:
    """Replace sorting by the original order."""
    if isinstance(node.func, libcst.Name) and node.func.value == 'sorted':
        yield node.with_changes(func=libcst.Name('list'), args=[
            node.args[0].with_changes(comma=libcst.MaybeSentinel.DEFAULT)])


OURS = ((libcst.Expr, drop_call), (libcst.Call, drop_order))
