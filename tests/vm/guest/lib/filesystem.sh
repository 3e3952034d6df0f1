# SPDX-License-Identifier: GPL-2.0 OR MIT
# shellcheck shell=bash disable=SC2154
#
# For guest tests with a file system on the disk. Source lib/ulp.sh, lib/faults.sh and lib/blk.sh first.

# sums FOLDER: the checksum of each file in it.
sums() {
	(cd "$1" && find . -type f -print0 | sort -z | xargs -0 sha256sum)
}

# filesystem_survives SECONDS: a file system on the disk, into which a tarball is unpacked; the link is lost for so long in
# the middle. Then the file system is clean and every file is what it was.
filesystem_survives() {
	local unpack reconnects retries
	modprobe ext4
	mkfs.ext4 -q "$disk"
	mount -t ext4 "$disk" /mnt
	mkdir /tmp/tree
	cp -r /usr/lib/python3*/{encodings,json,asyncio,email,unittest} /tmp/tree
	tar -C /tmp/tree -cf /tmp/tree.tar .
	sums /tmp/tree > /tmp/before

	tar -C /mnt -xf /tmp/tree.tar
	reconnects=$(disk_stat reconnects) retries=$(disk_stat retries)
	link_goes
	(rm -r /mnt/json /mnt/email && tar -C /mnt -xf /tmp/tree.tar && sync -f /mnt) &
	unpack=$!
	link_stays_away "$1"
	kill -0 $unpack 2> /dev/null || fail "all was unpacked before the link was back"
	link_returns
	wait $unpack || fail "the tarball was not unpacked"
	disk_becomes live 60
	cat $disks/d/stats
	[ "$(disk_stat reconnects)" -gt "$reconnects" ] || fail "the disk was never away"
	[ "$(disk_stat retries)" -gt "$retries" ] || fail "nothing was sent again"

	umount /mnt
	e2fsck -fn "$disk" > "$RESULTS/fsck.txt" 2>&1 || fail "e2fsck: $(tail -1 "$RESULTS/fsck.txt")"
	mount -t ext4 "$disk" /mnt
	sums /mnt | grep -v lost+found > /tmp/after
	umount /mnt
	cmp /tmp/before /tmp/after || fail "files differ"
	echo "$(wc -l < /tmp/after) files: ok"
}
