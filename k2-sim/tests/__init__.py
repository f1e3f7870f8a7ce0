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

"""Set the number of hypothesis examples, from HYPOTHESIS_PROFILE."""

import os

import hypothesis

# No deadline: the machine may be busy. Quick examples are deterministic.
hypothesis.settings.register_profile(
    'quick', max_examples=40, deadline=None, derandomize=True, database=None)
hypothesis.settings.register_profile(
    'thorough', max_examples=1000, deadline=None, print_blob=True)
hypothesis.settings.load_profile(
    os.environ.get('HYPOTHESIS_PROFILE', 'quick'))
