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
and most of its modules need its objects to be registered. Both are done here,
before any module of this package imports Cinder.
"""

import gc

# Cinder and SQLAlchemy create many objects and few cycles. With the default of
# 700 new objects, garbage collection takes up to a tenth of the test time.
gc.set_threshold(20000, 20, 20)

# These precede Cinder, which imports eventlet even on native threads:
# testtools subscripts queue.Queue, which eventlet's class does not allow,
# and k2_sim must not get eventlet's copy of http.server, with green threads.
import testtools  # noqa: E402,F401

from tools.cloud import threads  # noqa: E402

threads.use()

import k2_sim  # noqa: E402,F401

from cinder import objects  # noqa: E402

objects.register_all()
