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

"""Fields of the usual kinds, for the tables of the resources."""

from k2_sim.state.schema import Field

ID = Field('id', 'int')


def text(name: str, create: str = 'no', patch: bool = False,
         null: bool = False) -> Field:
    """A field with a text."""
    return Field(name, 'string', create, patch, null=null)


def integer(name: str, create: str = 'no', patch: bool = False,
            null: bool = False) -> Field:
    """A field with a whole number."""
    return Field(name, 'int', create, patch, null=null)


def number(name: str, null: bool = False) -> Field:
    """A field with a number, which only replies show."""
    return Field(name, 'number', null=null)


def boolean(name: str, create: str = 'no', patch: bool = False,
            default: bool = False) -> Field:
    """A field that is true or false."""
    return Field(name, 'bool', create, patch, default)


def ref(name: str, *refs: str, create: str = 'no', patch: bool = False,
        null: bool = False) -> Field:
    """A field with a reference to an object of one of the resources refs."""
    return Field(name, 'ref', create, patch, null=null, refs=refs)
