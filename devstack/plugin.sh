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

# Called by DevStack in each phase. Back ends are configured, initialized and
# cleaned up by functions in lib/k2, which DevStack's lib/cinder calls.

case "$1 $2" in
    "stack pre-install")
        k2_check_variables
        k2_install_driver
        k2_install_simulator
        ;;
    "stack install")
        k2_prepare_host
        ;;
    "stack post-config")
        k2_configure_nova
        ;;
    "stack extra")
        k2_create_volume_types
        ;;
    "stack test-config")
        k2_configure_tempest
        ;;
    "unstack "*)
        k2_stop_arrays
        ;;
    "clean "*)
        k2_clean
        ;;
esac
