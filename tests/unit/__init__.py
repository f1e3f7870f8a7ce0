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

"""Settings of the unit tests; HYPOTHESIS_PROFILE selects a profile."""

import gc
import os

import hypothesis
# testtools subscripts the standard queue class, which is impossible with
# eventlet's, so import it before the threads are patched.
import testtools  # noqa: F401

from tools.cloud import threads

# No deadlines, as the machine may be busy. The quick profile is deterministic.
hypothesis.settings.register_profile(
    'quick', max_examples=40, deadline=None, derandomize=True, database=None)
hypothesis.settings.register_profile(
    'thorough', max_examples=1000, deadline=None, print_blob=True)
hypothesis.settings.load_profile(
    os.environ.get('HYPOTHESIS_PROFILE', 'quick'))

# Cinder creates a million permanent objects. Without this, the garbage
# collector examines them repeatedly, which takes a sixth of the time.
gc.set_threshold(50_000, 20, 100)

# Otherwise oslotest prints each request to an array.
os.environ.setdefault('OS_DEBUG', 'WARNING')
# The tests resolve no names, and eventlet's resolver is slow to import.
os.environ.setdefault('EVENTLET_NO_GREENDNS', 'yes')
# Must run before any module creates a lock.
threads.patch()
