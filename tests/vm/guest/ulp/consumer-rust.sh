#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR MIT
#
# The interface in Rust: regions that are dropped with requests in flight, scatterlists, fast registration, the key to
# all memory, bytes in requests, room, reservations, the exclusive queue, queues that are found, connections by rdma_cm, with
# an event handler of the consumer's own, too; a consumer that closes its device in the notice of the removal.
#
# functions: pf,vf
# cpus: 2
# timeout: 120
# dmesg-allow: mlx5_ulp: queue 0x[0-9a-f]+: WQE [0-9]+ failed: (remote access error|local protection error) \(syndrome 0x[0-9a-f]+, vendor 0x[0-9a-f]+\)
# dmesg-allow: mlx5_ulp: a key to all memory was made for remote access

set -eu
. /src/tests/vm/guest/lib/ulp.sh
. /src/tests/vm/guest/lib/consumer.sh
. /src/tests/vm/guest/lib/device.sh

rust=/src/build/modules/$KERNEL_SERIES/tests/consumer_rust/mlx5_ulp_test_rust.ko

drivers mlx5_0 mlx5_1
network
ip link set lo up
until_true 20 addressed 10.7.0.1 || fail "the address has no GID"
load mlx5_ulp
modprobe rdma_cm
load mlx5_ulp_cm
before=$(objects)
dmesg -C
insmod "$rust" || fail "$(dmesg -t | grep mlx5_ulp_test_rust | tail -3 | tr '\n' ';')"
dmesg -t | sed -n 's/^mlx5_ulp_test_rust: //p'
expect "names that were brought in" "$(counted name_prefetches qid_cache)" 1

rmmod mlx5_ib
for line in "closed by the notice of its removal" "nobody is told any more"; do
	dmesg -t | grep -qx "mlx5_ulp_test_rust: mlx5_1: $line" || fail "not said: $line"
done
rmmod mlx5_ulp_test_rust
drivers mlx5_0 mlx5_1
network
same_objects "$before"
rmmod mlx5_ulp_cm mlx5_ulp
