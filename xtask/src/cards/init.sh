#!/bin/busybox sh
# The first process of a guest: loads modules, takes the host's file system for its root, read-only under an overlay, and
# hands the second serial line to a shell that the laboratory writes to.
b=/bin/busybox
$b mount -t proc proc /proc
$b mount -t sysfs sys /sys
$b mount -t devtmpfs dev /dev
for module in @MODULES@; do
    $b insmod /lib/$module.ko || echo "cards: $module does not load"
done
$b mount -t 9p -o trans=virtio,version=9p2000.L,msize=262144,cache=loose,ro host /host || echo "cards: no root"
$b mount -t tmpfs rw /rw
# New folders of the upper layer, or their inode numbers collide with the host's.
for folder in upper upper/proc upper/sys upper/dev upper/run upper/tmp work; do
    $b mkdir /rw/$folder
done
$b mount -t overlay -o lowerdir=/host,upperdir=/rw/upper,workdir=/rw/work root /root || echo "cards: no overlay"
for folder in proc sys dev; do
    $b mount -o move /$folder /root/$folder
done
$b mount -t tmpfs run /root/run
$b chmod 1777 /root/tmp
$b mkdir -p /root/dev/shm /root/dev/pts
$b mount -t tmpfs shm /root/dev/shm
$b mount -t devpts pts /root/dev/pts
$b mount -t bpf bpf /root/sys/fs/bpf
exec $b switch_root /root /bin/sh -c '
    export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root TERM=dumb
    stty -F /dev/ttyS1 raw -echo
    exec </dev/ttyS1 >/dev/ttyS1 2>/dev/null
    cd @ROOT@
    echo @@up
    exec sh'
