#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR MIT
#
# Queues, devices and modules go in any order while work is in flight: every request ends once, nothing is
# left behind.
#
# functions: pf,vf
# timeout: 180

set -eu
. /src/tests/vm/guest/lib/ulp.sh
. /src/tests/vm/guest/lib/consumer.sh
. /src/tests/vm/guest/lib/device.sh
. /src/tests/vm/guest/lib/faults.sh

# return_devices: the RDMA devices come back after mlx5_ib was removed.
return_devices() {
	modprobe mlx5_ib
	until_true 20 active mlx5_0
	until_true 20 active mlx5_1
	until_true 20 has_objects "$before" || same_objects "$before"
}

# ended NOTICES LATE-REGION LATE-POST LATE-MAP: how the work that was in flight ended. None of it had before the notice.
ended() {
	local line want
	line=$(dmesg -t | sed -n 's/^mlx5_ulp_test: stay: \(ended.*\)/\1/p')
	want="ended 16 flushed 16 notices $1 early 0 held $1 region $2 late post $3 map $4 receives 16"
	expect "the end" "$line" "$want"
}

drivers mlx5_0 mlx5_1
network
load mlx5_ulp
before=$(objects)
consumer_test destroy_in_flight close_order

# The consumer goes.
consumer_load stay
expect "pinned queues" "$(counted name_pins qid_cache)" 1
! rmmod mlx5_ulp 2> /dev/null || fail "mlx5_ulp could be removed under its consumer"
rmmod mlx5_ulp_test
ended 0 0 -11 -22
expect "pinned queues" "$(counted name_pins qid_cache)" 0
same_objects "$before"

# The RDMA devices go under it.
consumer_load stay
rmmod mlx5_ib
rmmod mlx5_ulp_test
ended 1 -19 -19 -19
return_devices

# They go while the consumer is being unloaded: it is not told, and has all that it had until it has closed its handle.
consumer_load unloading
rmmod mlx5_ulp_test &
until_true 30 sh -c 'dmesg | grep -q "unloading: begins"' || fail "the consumer is not unloaded"
rmmod mlx5_ib
wait $!
expect "the end" "$(dmesg -t | sed -n 's/^mlx5_ulp_test: unloading: \(other.*\)/\1/p')" \
	"other -19 notices 0 key 1 device 1"
return_devices

# The PCI function goes under it. A region that comes too late is refused before there is a key: once there is one, its
# memory may be out of the caller's hands.
consumer_load stay
rule pf0 "\"kind\":\"command-failure\",\"opcode\":$((0x200)),\"status\":15" '"count":0'
pci=$(basename "$(readlink /sys/class/infiniband/mlx5_0/device)")
echo "$pci" > /sys/bus/pci/drivers/mlx5_core/unbind
rmmod mlx5_ulp_test
ended 1 -19 -19 -19
expect "keys that were made late" "$(hits)" 0
no_more_faults
rmmod mlx5_ulp mlx5_ib mlx5_core
nothing_left
