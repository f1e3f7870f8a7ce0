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

"""Contexts that last for a test, or for a test class."""

import contextlib
import typing
import unittest

T = typing.TypeVar('T')


def enter(test: unittest.TestCase,
          context: contextlib.AbstractContextManager[T]) -> T:
    """Enter a context that ends with the test.

    ``TestCase.enterContext`` does the same, from Python 3.11 on.
    """
    stack = contextlib.ExitStack()
    test.addCleanup(stack.close)
    return stack.enter_context(context)


def enter_for_class(test: type[unittest.TestCase],
                    context: contextlib.AbstractContextManager[T]) -> T:
    """Enter a context that ends with all tests of a class."""
    stack = contextlib.ExitStack()
    test.addClassCleanup(stack.close)
    return stack.enter_context(context)
