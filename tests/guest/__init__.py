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

"""Tests that run in a guest."""

import os

# This import prepares Cinder, and must precede imports of its modules.
from tests import functional  # noqa: F401
from tools.guest import node

# The guest's kernel sets up a whole process before it finds that a directory
# of PATH does not contain the program, so with a long PATH the search takes
# several times as long as the program.
if node.is_guest():
    os.environ['PATH'] = '/usr/sbin:/usr/bin:/sbin:/bin'
