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

"""The Cinder volume drivers, for ``volume_driver`` in cinder.conf."""

from cinder_k2.driver.fc import K2FCDriver
from cinder_k2.driver.iscsi import K2ISCSIDriver

__all__ = ['K2FCDriver', 'K2ISCSIDriver']
