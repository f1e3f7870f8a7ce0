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


"""Which mutants are created, and which of them are tested."""

import os
import pathlib

from mutmut.mutation import mutators

from tools.mutation import operators

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Where results and the coverage of tests are kept.
KEPT = ROOT / 'artifacts' / 'mutation'
# All files of these packages are mutated.
PACKAGES = ('driver', 'flows', 'array', 'rest')
# What a result depends on, in addition to the mutant.
SOURCES = ('cinder_k2', 'k2-sim/k2_sim', 'tests', 'tools/mutation')
# All operators of mutmut, and two that it lacks.
OPERATORS: mutators.OPERATORS_TYPE = (
    *mutators.mutation_operators, *operators.OURS)
SEED = 20
# Number of mutants per run, distributed equally over the packages.
SAMPLE = 400
# Number of survivors of the unit tests that functional tests are run on.
SURVIVORS = 400
# Minimum share of killed mutants of changed lines.
BAR = 0.8
MINUTES = 4.0
JOBS = os.cpu_count() or 1
# Time limit of the tests of a mutant: this many seconds, plus this many times
# as long as the tests take without it.
SECONDS = 15.0
SLOWER = 5.0
# Imported once. The first two prepare Cinder and hypothesis; none imports
# what is mutated.
PRELOADED = (
    'tests.unit', 'tests.functional', 'cinder.volume.drivers.san.san',
    'cinder.volume.manager', 'cinder.zonemanager.fc_zone_manager', 'ddt',
    'k2_sim.cmd.serve', 'oslo_config.generator', 'oslotest.base',
    'taskflow.engines')
