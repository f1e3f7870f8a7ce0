#!/bin/bash
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

# Runs the phases of stack.sh, unstack.sh or clean.sh:
# run.sh stack|unstack|clean
#
# The phases run in DevStack's order, with tracing on. DevStack's functions
# come from the checkout at DEVSTACK_DIR, or else from functions.sh; those that
# would change the machine always come from machine.sh. Environment variables:
# DEST, HOME, and BIN, where the driver is installed.

HERE=$(cd "$(dirname "$0")" && pwd)
DATA_DIR=$DEST/data
LOGDIR=$DEST/logs
STACK_USER=$(whoami)
HOST_IP=127.0.0.1
SERVICE_HOST=127.0.0.1
REGION_NAME=RegionOne
REQUIREMENTS_DIR=$DEST/requirements
ENABLED_SERVICES=key,c-api,c-vol,c-sch,n-cpu,tempest
ENABLE_DEBUG_LOG_LEVEL=True
SERVICE_GRACEFUL_SHUTDOWN_TIMEOUT=5
NOVA_CONF=$DEST/etc/nova.conf
declare -A GITREPO GITDIR GITBRANCH
mkdir -p "$DATA_DIR" "$LOGDIR" "$DEST/etc"

TOP_DIR=${DEVSTACK_DIR:-$HERE}
if [[ -n $DEVSTACK_DIR ]]; then
    source "$TOP_DIR/functions"
else
    source "$HERE/functions.sh"
fi
source "$HERE/machine.sh"

set -o xtrace
source "$DEST/localrc"
ENABLE_VOLUME_MULTIATTACH=$(trueorfalse False ENABLE_VOLUME_MULTIATTACH)
plugin_override_defaults
CINDER_TARGET_HELPER=${CINDER_TARGET_HELPER:-lioadm}
if [[ -n $DEVSTACK_DIR ]]; then
    source "$TOP_DIR/lib/cinder"
    source "$HERE/machine.sh"
else
    cinder_defaults
fi
CINDER_CONF_DIR=$DEST/etc/cinder
CINDER_CONF=$CINDER_CONF_DIR/cinder.conf
CINDER_API_PASTE_INI=$CINDER_CONF_DIR/api-paste.ini
CINDER_DIR=${BIN%/bin}
TEMPEST_CONFIG=$DEST/etc/tempest.conf
TEMPEST_DEFAULT_VOLUME_VENDOR="Open Source"
TEMPEST_VOLUME_VENDOR=${TEMPEST_VOLUME_VENDOR:-$TEMPEST_DEFAULT_VOLUME_VENDOR}
TEMPEST_DEFAULT_STORAGE_PROTOCOL=iSCSI
TEMPEST_STORAGE_PROTOCOL=${TEMPEST_STORAGE_PROTOCOL:-iSCSI}
load_plugin_settings

function run_stack {
    set -o errexit
    run_plugins stack pre-install
    configure_cinder
    run_plugins stack install
    # In the background, as in DevStack.
    (init_cinder) &
    wait $!
    run_plugins stack post-config
    create_volume_types
    run_plugins stack extra
    configure_tempest
    run_plugins stack test-config
}

function run_unstack {
    run_plugins unstack
    cleanup_cinder
}

function run_clean {
    run_unstack
    run_plugins clean
    cleanup_cinder
    rm -rf "$CINDER_CONF_DIR"
}

"run_$1"
