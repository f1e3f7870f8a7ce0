#!/bin/sh
# Still the first process, now on a writable root: run the command, write its
# status to the file verdict, and power the machine off.
finish() {
    echo "$1" >/proc/exitcode
    echo o >/proc/sysrq-trigger
    sleep 10
    exit "$1"
}
fail() {
    echo "guest: cannot $*"
    finish 70
}
release=$(uname -r)
{ mkdir -p /lib/modules &&
    ln -sfn "/usr/lib/uml/modules/$release" "/lib/modules/$release"; } ||
    fail 'find the modules of the kernel'
{ mount -t tmpfs -o mode=755 run /run &&
    mkdir -p /run/guest /run/lock; } ||
    fail 'mount /run'
mkdir -p /dev/shm /dev/pts
{ mount -t tmpfs shm /dev/shm && mount -t devpts pts /dev/pts; } ||
    fail 'mount below /dev'
{ mount -t hostfs -o "$GUEST_WORK" work /run/guest &&
    mount -t hostfs -o "$GUEST_WORK/out" out /out; } ||
    fail 'mount the directories of the host'
# As on every machine that has systemd.
{ modprobe configfs && mount -t configfs configfs /sys/kernel/config; } ||
    fail 'mount configfs'
hostname guest
ip link set lo up || fail 'set up the loopback interface'
setsid /bin/sh /run/guest/command
status=$?
sync
echo "$status" >/run/guest/verdict
finish "$status"
