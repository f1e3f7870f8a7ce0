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
"""Fixtures for pytest: simulated arrays that last for the session.

pytest finds them if k2-sim is installed. The options of the arrays are
those of k2-sim, in the ini option k2_sim_options.
"""

from collections.abc import Iterator
import shlex

import pytest

from k2_sim.cmd import arrays


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the ini option k2_sim_options."""
    parser.addini('k2_sim_options', 'options of k2-sim, as in a shell',
                  default='')


@pytest.fixture(scope='session')
def k2_array(pytestconfig: pytest.Config) -> Iterator[arrays.Running]:
    """A simulated array: see k2_sim.cmd.arrays.Running.

    Its state lasts for the session; k2_array.array.control.reset() empties
    it for a test.
    """
    with arrays.arrays(_options(pytestconfig)) as (one,):
        yield one


@pytest.fixture(scope='session')
def k2_pair(pytestconfig: pytest.Config
            ) -> Iterator[tuple[arrays.Running, arrays.Running]]:
    """Two simulated arrays that replicate to each other."""
    with arrays.arrays(_options(pytestconfig), pair=True) as (one, other):
        yield one, other


def _options(config: pytest.Config) -> list[str]:
    return shlex.split(config.getini('k2_sim_options'))
