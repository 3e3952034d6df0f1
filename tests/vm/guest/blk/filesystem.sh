#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR MIT
#
# A file system on the disk, into which a tarball is unpacked, the cable out for a while in the middle: every file
# is what it was, and the file system is clean.
#
# functions: pf,vf
# when: long on 7.2
# timeout: 240
# dmesg-allow: mlx5_ulp: queue 0x[0-9a-f]+: WQE [0-9]+ failed: transport retry counter exceeded \(syndrome 0x[0-9a-f]+, vendor 0x[0-9a-f]+\)

set -eu
. /src/tests/vm/guest/lib/ulp.sh
. /src/tests/vm/guest/lib/consumer.sh
. /src/tests/vm/guest/lib/faults.sh
. /src/tests/vm/guest/lib/blk.sh

# sums FOLDER: the checksum of each file in it.
sums() {
	(cd "$1" && find . -type f -print0 | sort -z | xargs -0 sha256sum)
}

mount_disk() {
	mount -t ext4 $disk /mnt
}

drivers mlx5_0 mlx5_1
network
modprobe ext4
blk_load
export_on 48
disk_on
mkfs.ext4 -q $disk
mount_disk
mkdir /tmp/tree
cp -r /usr/lib/python3*/{encodings,json,asyncio,email,unittest} /tmp/tree
tar -C /tmp/tree -cf /tmp/tree.tar .
sums /tmp/tree > /tmp/before

tar -C /mnt -xf /tmp/tree.tar
inject pf0 '"kind":"port","up":false'
(rm -r /mnt/json /mnt/email && tar -C /mnt -xf /tmp/tree.tar && sync -f /mnt) &
unpack=$!
disk_becomes away 30
sleep 5
inject pf0 '"kind":"port","up":true'
wait $unpack || fail "the tarball was not unpacked"
disk_becomes live 30
cat $disks/d/stats
[ "$(disk_stat reconnects)" -ge 1 ] || fail "the disk was never away"
[ "$(disk_stat retries)" -ge 1 ] || fail "nothing was sent again"

umount /mnt
e2fsck -fn $disk > "$RESULTS/fsck.txt" 2>&1 || fail "e2fsck: $(tail -1 "$RESULTS/fsck.txt")"
mount_disk
sums /mnt | grep -v lost+found > /tmp/after
cmp /tmp/before /tmp/after || fail "files differ"
echo "$(wc -l < /tmp/after) files"
umount /mnt
disk_off
export_off
blk_unload
