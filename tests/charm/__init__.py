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

"""Tests of the charm in juju-charm, on a fake machine in a directory."""

import pathlib
import sys

# Cinder, whose options are read here, must be set up before it is imported.
import tests.functional  # noqa: F401
# Sets the number of Hypothesis examples.
import tests.unit  # noqa: F401

CHARM = pathlib.Path(__file__).resolve().parents[2] / 'juju-charm'

# The modules of a charm are in its src directory, not in a package.
sys.path.insert(0, str(CHARM / 'src'))
