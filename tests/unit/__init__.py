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

"""How many examples hypothesis tries: HYPOTHESIS_PROFILE says it."""

import gc
import os

import hypothesis

# A busy machine takes its time. The quick ones are the same each time.
hypothesis.settings.register_profile(
    'quick', max_examples=40, deadline=None, derandomize=True, database=None)
hypothesis.settings.register_profile(
    'thorough', max_examples=1000, deadline=None, print_blob=True)
hypothesis.settings.load_profile(
    os.environ.get('HYPOTHESIS_PROFILE', 'quick'))

# Cinder makes a million objects that stay. Without this, Python looks through
# them again and again for some to free, in a sixth of all the time.
gc.set_threshold(50_000, 20, 100)

# Else oslotest has each request to an array printed.
os.environ.setdefault('OS_DEBUG', 'WARNING')
# Nothing is looked up by name; its resolver takes long to import.
os.environ.setdefault('EVENTLET_NO_GREENDNS', 'yes')
