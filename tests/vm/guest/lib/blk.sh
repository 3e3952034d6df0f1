# SPDX-License-Identifier: GPL-2.0 OR MIT
# shellcheck shell=bash
#
# For guest tests of the disk: an export on mlx5_1, and a disk on mlx5_0 that is it, unless said otherwise. Source
# lib/ulp.sh first.

. /src/tests/vm/guest/lib/storage.sh

disks=/sys/kernel/config/mlx5_ulp_blk
exports=/sys/kernel/config/mlx5_ulp_blk_target
disk=/dev/ulpblk_d

# blk_load: loads all modules.
blk_load() {
	configfs
	load mlx5_ulp
	modprobe rdma_cm
	load mlx5_ulp_cm
	load mlx5_ulp_blk
}

# export_on MIB [SETTING=VALUE]...
export_on() {
	local setting
	mkdir -p "$exports/e"
	for setting in device=mlx5_1 size_mib="$1" "${@:2}"; do
		echo "${setting#*=}" > "$exports/e/${setting%%=*}"
	done
	echo 1 > "$exports/e/power"
}

# disk_on [SETTING=VALUE]...: makes $disk.
disk_on() {
	local setting
	mkdir -p "$disks/d"
	for setting in device=mlx5_0 target=e "$@"; do
		echo "${setting#*=}" > "$disks/d/${setting%%=*}"
	done
	echo 1 > "$disks/d/power"
	[ -b "$disk" ] || fail "there is no $disk"
}

# disk_off, export_off: takes them away.
disk_off() {
	rmdir "$disks/d"
}

export_off() {
	rmdir "$exports/e"
}

# blk_unload: unloads the modules, and looks that nothing is left.
blk_unload() {
	rmmod mlx5_ulp_blk mlx5_ulp_cm mlx5_ulp
}

# disk_stat NAME: of the disk.
disk_stat() {
	sed -n "s/^$1 //p" "$disks/d/stats"
}

# disk_state STATE: whether the disk is in it.
disk_state() {
	[ "$(cat "$disks/d/state")" = "$1" ]
}

# disk_is STATE: fails unless the disk is in it.
disk_is() {
	disk_state "$1" || fail "the disk is $(cat "$disks/d/state")"
}

# disk_becomes STATE SECONDS: fails unless the disk gets there.
disk_becomes() {
	until_true "$2" disk_state "$1" || disk_is "$1"
}

# read_block: reads the first block of the disk, not from memory. A dead disk has none.
read_block() {
	[ "$(dd if=$disk bs=4k count=1 iflag=direct status=none 2> /dev/null | wc -c)" = 4096 ]
}

# link_goes: the port of the disk is down from now on. Source lib/faults.sh, too.
link_goes() {
	inject pf0 '"kind":"port","up":false'
	went=${EPOCHREALTIME/./}
}

# link_stays_away SECONDS: waits until so long after it went, and until the disk has noticed, which on a slow machine may
# take longer.
link_stays_away() {
	local left
	disk_becomes away 60
	left=$((went + $1 * 1000000 - ${EPOCHREALTIME/./}))
	[ $left -le 0 ] || sleep "$((left / 1000000)).$(printf %06d $((left % 1000000)))"
	left=$((${EPOCHREALTIME/./} - went))
	[ $left -ge $(($1 * 1000000)) ] || fail "the link was down for less than $1 s"
}

# link_returns: it is up again.
link_returns() {
	inject pf0 '"kind":"port","up":true'
	echo "the link was down for $(((${EPOCHREALTIME/./} - went) / 1000)) ms"
}

# through_outage SECONDS COMMAND...: the port of the disk is down for so long, with the command, which runs fio, as load:
# only requests show a disk that its peer is away.
through_outage() {
	load_on "${@:2}"
	load_in_flight
	link_goes
	link_stays_away "$1"
	load_runs
	link_returns
	disk_becomes live 60
	load_off
}

# verify BS RW DEPTH SIZE [OPTION...]: four jobs write, or read and write, SIZE each with checksums in each block, and
# read all again.
verify() {
	verified --bs="$1" --rw="$2" --iodepth="$3" --size="$4" --offset_increment="$4" --numjobs=4 --do_verify=1 "${@:5}"
}
