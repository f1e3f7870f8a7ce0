#!/bin/sh
# The first process of the guest. Its root is that of the host, read-only: mount
# a tmpfs over it, and continue with system.sh on the overlay.
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
# In the guest of a normal user, nobody owns the files of root: a set-uid
# program such as mount would turn the guest's root into nobody.
[ "$GUEST_KEEPS_ROOT" ] ||
    GUEST_KEEPS_ROOT=yes exec setpriv --no-new-privs /bin/sh "$0"
fail() {
    echo "guest: cannot $*" >/dev/tty1
    echo 70 >/proc/exitcode
    echo o >/proc/sysrq-trigger
    sleep 10
    exit 70
}
mount -n -t proc proc /proc || exit 70
mount -n -t sysfs sys /sys || fail 'mount /sys'
mountpoint -q /dev || mount -n -t devtmpfs dev /dev || fail 'mount /dev'
insmod "/usr/lib/uml/modules/$(uname -r)/kernel/fs/overlayfs/overlay.ko" ||
    fail 'load the module overlay'
mount -n -t tmpfs -o size=90%,mode=755 upper /mnt || fail 'mount a tmpfs'
mkdir /mnt/upper /mnt/work /mnt/root
mount -n -t overlay overlay /mnt/root \
    -o lowerdir=/,upperdir=/mnt/upper,workdir=/mnt/work ||
    fail 'mount the overlay'
for place in proc sys dev; do
    mount -n --move "/$place" "/mnt/root/$place" || fail "move /$place"
done
{ cd /mnt/root && mkdir -p out host && pivot_root . host; } ||
    fail 'change the root'
exec chroot . /bin/sh "$GUEST_WORK/system.sh" </dev/null >/dev/tty1 2>&1
