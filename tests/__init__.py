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

"""Tests of cinder-k2. They reach servers on this machine without a proxy."""

import os

for _name in ('no_proxy', 'NO_PROXY'):
    os.environ[_name] = ','.join(filter(None, (
        '127.0.0.1', 'localhost', '::1', os.environ.get(_name))))
