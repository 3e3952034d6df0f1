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
	# Of its own, for there may be a load beside.
	local said=$RESULTS/fio-$BASHPID.txt
	fio --name=verify --filename="$disk" --direct=1 --ioengine=libaio --verify=crc32c --verify_fatal=1 \
		--group_reporting --minimal "$@" > "$said" 2>&1 ||
		fail "fio $*: $(grep -v '^3;' "$said" | tail -3 | tr '\n' ';')"
	echo "fio $*: ok"
}

# load_on COMMAND...: runs it again and again in the background, until `load_off`: so the load lasts as long as it has to,
# however fast the machine is.
load_on() {
	rm -f /tmp/enough
	until [ -e /tmp/enough ]; do
		"$@"
	done &
	loader=$!
}

# load_runs: fails unless the load is there. While nothing gets through, its fio does not end.
load_runs() {
	kill -0 $loader 2> /dev/null || fail "the load has ended"
	until_true 20 pgrep -x fio || fail "no fio is at work"
}

# load_in_flight: waits until requests of the load are in flight.
load_in_flight() {
	until_true 60 in_flight || fail "no request of the load is in flight"
	kill -0 $loader 2> /dev/null || fail "the load has ended"
}

in_flight() {
	local reads writes
	read -r reads writes < "/sys/block/$(basename "$disk")/inflight"
	[ $((reads + writes)) -gt 0 ]
}

# load_off: ends the load, which must have gone well up to here.
load_off() {
	touch /tmp/enough
	wait $loader || fail "the load has not survived"
}
