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

# Fakes of functions that change the machine or need systemd, packages or
# services: they log the call, or act below $DEST.

SYSTEMCTL="done_to_machine systemctl"

function done_to_machine {
    echo "$*" >>"$LOGDIR/machine.log"
}

function sudo {
    while [[ $1 == -* ]]; do
        shift
    done
    case $1 in
        systemctl|mpathconf|install|multipathd)
            done_to_machine "$@"
            ;;
        *)
            "$@"
            ;;
    esac
}

function is_fedora {
    [[ ${OS_FAMILY:-} == fedora ]]
}

function is_ubuntu {
    ! is_fedora
}

function GetOSVersion {
    os_PACKAGE=deb
}

function get_python_exec_prefix {
    echo "$BIN"
}

function setup_develop {
    done_to_machine setup_develop "$@"
}

function pip_install {
    done_to_machine pip_install "$@"
}

function is_package_installed {
    [[ " ${INSTALLED:-tgt} " == *" $1 "* ]]
}

function install_package {
    done_to_machine install_package "$@"
    [[ ${INSTALLABLE:-True} == True ]]
}

function start_service {
    done_to_machine start_service "$@"
}

function stop_service {
    done_to_machine stop_service "$@"
}

# run_process NAME COMMAND GROUP USER, without a shell, as with systemd.
function run_process {
    local pid
    if ! is_service_enabled "$1"; then
        return 0
    fi
    echo "${4:-$STACK_USER} $2" >"$LOGDIR/$1.command"
    # shellcheck disable=SC2086  # words, as systemd splits them
    setsid $2 >"$LOGDIR/$1.log" 2>&1 </dev/null &
    pid=$!
    echo $pid >"$DEST/$1.pid"
}

# A process that has ended may stay a zombie, because it is not waited for.
function is_alive {
    local state
    read -r _ _ state _ 2>/dev/null <"/proc/$1/stat" && [[ $state != Z ]]
}

function stop_process {
    local pid end
    if ! [[ -e $DEST/$1.pid ]]; then
        return 0
    fi
    pid=$(<"$DEST/$1.pid")
    rm "$DEST/$1.pid"
    end=$((SECONDS + 15))
    kill "$pid" 2>/dev/null || return 0
    while is_alive "$pid"; do
        if [[ $SECONDS -ge $end ]]; then
            kill -9 "$pid"
        fi
        sleep 0.05
    done
}

function is_keystone_enabled {
    [[ ,$ENABLED_SERVICES, == *,key,* ]]
}

function openstack {
    echo "$*" >>"$LOGDIR/openstack.log"
    # A type exists if it was created.
    if [[ " $* " == *" volume type show "* ]]; then
        grep -q "volume type create .*${!#}\$" "$LOGDIR/openstack.log"
    fi
}

function configure_tempest {
    local feature variable
    : >"$TEMPEST_CONFIG"
    for feature in manage_volume=TEMPEST_VOLUME_MANAGE_VOLUME \
            manage_snapshot=TEMPEST_VOLUME_MANAGE_SNAPSHOT \
            volume_revert=TEMPEST_VOLUME_REVERT_TO_SNAPSHOT \
            extend_attached_volume=TEMPEST_EXTEND_ATTACHED_VOLUME; do
        variable=${feature#*=}
        iniset "$TEMPEST_CONFIG" volume-feature-enabled "${feature%=*}" \
            "${!variable:-False}"
    done
}

# Called by configure_cinder and others, but unrelated to back ends.
function database_connection_url {
    echo sqlite://
}

function nothing {
    :
}

for _name in configure_keystone_authtoken_middleware configure_keystoneauth \
        configure_rootwrap iniset_rpc_backend setup_logging \
        write_uwsgi_config remove_uwsgi_config cinder-rtstool \
        configure_cinder_internal_tenant; do
    eval "function $_name { nothing; }"
done
