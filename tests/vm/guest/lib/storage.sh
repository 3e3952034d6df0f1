# SPDX-License-Identifier: GPL-2.0 OR MIT
# shellcheck shell=bash disable=SC2154
#
# For guest tests with a block device, which `disk` names: lib/blk.sh and lib/nvme.sh source it.

# configfs: has it mounted.
configfs() {
	modprobe configfs
	mountpoint -q /sys/kernel/config || mount -t configfs configfs /sys/kernel/config
}

# verified OPTION...: fio writes as the options say, with checksums, and reads all again.
verified() {
	fio --name=verify --filename="$disk" --direct=1 --ioengine=libaio --verify=crc32c --verify_fatal=1 \
		--group_reporting --minimal "$@" > "$RESULTS/fio.txt" 2>&1 ||
		fail "fio $*: $(grep -v '^3;' "$RESULTS/fio.txt" | tail -3 | tr '\n' ';')"
	echo "fio $*: ok"
}
