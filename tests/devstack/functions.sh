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

# Minimal versions of the DevStack functions that the plugin calls.

function err {
    echo "[ERROR] $2" >&2
}

function die {
    set +o xtrace
    shift
    err 0 "$*"
    exit 1
}

function warn {
    echo "[WARNING] $2"
}

function echo_summary {
    echo "$@"
}

function trueorfalse {
    case ${!2:-} in
        1|[yY]es|YES|[tT]rue|TRUE) echo True ;;
        0|[nN]o|NO|[fF]alse|FALSE) echo False ;;
        *) echo "$1" ;;
    esac
}

function enable_service {
    local service
    for service in "$@"; do
        if ! is_service_enabled "$service"; then
            ENABLED_SERVICES+=,$service
        fi
    done
}

function disable_service {
    local service list=,$ENABLED_SERVICES,
    for service in "$@"; do
        list=${list/,$service,/,}
    done
    ENABLED_SERVICES=${list#,}
}

function is_service_enabled {
    local service
    for service in "$@"; do
        case $service in
            cinder) service=c-vol ;;
            keystone) service=key ;;
        esac
        if [[ ,$ENABLED_SERVICES, == *",$service,"* ]]; then
            return 0
        fi
    done
    return 1
}

function enable_plugin {
    DEVSTACK_PLUGINS+=",$1"
    GITDIR[$1]=$DEST/$1
}

function define_plugin {
    :
}

function plugin_override_defaults {
    source_of_plugins override-defaults
}

function load_plugin_settings {
    source_of_plugins settings
}

function run_plugins {
    source_of_plugins plugin.sh "$@"
}

# source_of_plugins FILE ARGUMENT...
function source_of_plugins {
    local file=$1 plugin
    shift
    for plugin in ${DEVSTACK_PLUGINS//,/ }; do
        source "${GITDIR[$plugin]}/devstack/$file" "$@"
    done
}

# iniset FILE SECTION OPTION VALUE: adds a line; no option is set twice here.
function iniset {
    if ! grep -qxF "[$2]" "$1" 2>/dev/null; then
        printf '\n[%s]\n' "$2" >>"$1"
    fi
    sed -i "/^\[$2\]/a\\
$3 = $4" "$1"
}

function cinder_defaults {
    CINDER_ENABLED_BACKENDS=${CINDER_ENABLED_BACKENDS:-lvm:lvmdriver-1}
    CINDER_BIN_DIR=$(get_python_exec_prefix)
}

# each_backend FUNCTION: call FUNCTION_TYPE NAME for each back end.
function each_backend {
    local item
    if ! is_service_enabled c-vol; then
        return 0
    fi
    for item in ${CINDER_ENABLED_BACKENDS//,/ }; do
        if type "${1}_${item%%:*}" >/dev/null 2>&1; then
            "${1}_${item%%:*}" "${item##*:}"
        fi
    done
}

function configure_cinder {
    local name names
    mkdir -p "$CINDER_CONF_DIR"
    rm -f "$CINDER_CONF"
    each_backend configure_cinder_backend
    names=${CINDER_ENABLED_BACKENDS//k2:/}
    iniset "$CINDER_CONF" DEFAULT enabled_backends "$names"
    iniset "$CINDER_CONF" DEFAULT default_volume_type "${names%%,*}"
    for name in ${names//,/ }; do
        iniset "$CINDER_CONF" "$name" image_volume_cache_enabled True
    done
}

function init_cinder {
    each_backend init_cinder_backend
}

function cleanup_cinder {
    each_backend cleanup_cinder_backend
}

function create_volume_types {
    local item name
    if ! is_service_enabled c-api; then
        return 0
    fi
    for item in ${CINDER_ENABLED_BACKENDS//,/ }; do
        name=${item##*:}
        openstack volume type create --property "volume_backend_name=$name" \
            "$name"
    done
    if [[ $ENABLE_VOLUME_MULTIATTACH == True ]]; then
        openstack volume type create --property "multiattach=<is> True" \
            multiattach
    fi
}
