# SPDX-License-Identifier: GPL-2.0 OR MIT
# shellcheck shell=bash
#
# For guest tests with the stock NVMe over Fabrics target and host. Source lib/connectx.sh first.

. /src/tests/vm/guest/lib/storage.sh

nvmet=/sys/kernel/config/nvmet
subsystem=nqn.2026-11.test:ram

# export_ram ADDRESS MIB: a subsystem with one namespace of that many MiB in memory, reached by RDMA at ADDRESS.
export_ram() {
	modprobe brd rd_nr=1 rd_size=$(($2 * 1024))
	configfs
	modprobe -a nvmet nvmet_rdma
	mkdir "$nvmet/subsystems/$subsystem"
	echo 1 > "$nvmet/subsystems/$subsystem/attr_allow_any_host"
	mkdir "$nvmet/subsystems/$subsystem/namespaces/1"
	echo /dev/ram0 > "$nvmet/subsystems/$subsystem/namespaces/1/device_path"
	echo 1 > "$nvmet/subsystems/$subsystem/namespaces/1/enable"
	mkdir "$nvmet/ports/1"
	echo rdma > "$nvmet/ports/1/addr_trtype"
	echo ipv4 > "$nvmet/ports/1/addr_adrfam"
	echo "$1" > "$nvmet/ports/1/addr_traddr"
	echo 4420 > "$nvmet/ports/1/addr_trsvcid"
	ln -s "$nvmet/subsystems/$subsystem" "$nvmet/ports/1/subsystems/$subsystem"
}

unexport_ram() {
	rm "$nvmet/ports/1/subsystems/$subsystem"
	rmdir "$nvmet/ports/1"
	echo 0 > "$nvmet/subsystems/$subsystem/namespaces/1/enable"
	rmdir "$nvmet/subsystems/$subsystem/namespaces/1" "$nvmet/subsystems/$subsystem"
	rmmod nvmet_rdma nvmet brd
}

# attach ADDRESS [OPTION]...: connects to the subsystem; `disk` is its block device.
attach() {
	modprobe nvme_rdma
	nvme connect -t rdma -a "$1" -s 4420 -n $subsystem "${@:2}" || fail "nvme connect: $?"
	until_true 30 find_disk || fail "the namespace has no block device"
	find_disk
}

find_disk() {
	disk=/dev/$(cd /sys/class/nvme-subsystem/nvme-subsys0 && ls -d nvme?n1)
	[ -b "$disk" ]
}

detach() {
	nvme disconnect -n $subsystem
	until_true 30 gone || fail "the controller stays"
}

gone() {
	! ls /sys/class/nvme/nvme* > /dev/null 2>&1
}

# controller: its name.
controller() {
	basename /sys/class/nvme/nvme*
}

live() {
	[ "$(cat "/sys/class/nvme/$(controller)/state")" = live ]
}
