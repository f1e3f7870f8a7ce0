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

"""The driver under Cinder's own manager, against the simulated array.

Cinder chooses between native threads and eventlet when it is first imported,
and needs its objects registered before most other imports; both is done here,
before a module of the package can import Cinder.
"""

import gc

# Cinder and SQLAlchemy create many objects and few cycles. With the default of
# 700 new objects, collections take up to a tenth of the time of tests.
gc.set_threshold(20000, 20, 20)

# Before Cinder: eventlet, which Cinder imports even on native threads, leaves
# a copy of http.server whose threads are not threads.
# Subscripts the standard queue, which eventlet's does not allow.
import testtools  # noqa: E402,F401

from tools.cloud import threads  # noqa: E402

threads.use()

import k2_sim  # noqa: E402,F401

from cinder import objects  # noqa: E402

objects.register_all()
