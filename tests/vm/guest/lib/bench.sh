# SPDX-License-Identifier: GPL-2.0 OR MIT
# shellcheck shell=bash
#
# For guests whose clock counts instructions (tests/bench). Source lib/ulp.sh first.

. /src/tests/vm/guest/lib/consumer.sh

bench_begin() {
	# Nothing else is to use the device while we count.
	ipv6 off
	drivers mlx5_0 mlx5_1
	network
	load mlx5_ulp
	insmod "/src/build/modules/$KERNEL_SERIES/tests/bench/mlx5_ulp_bench.ko" ||
		fail "$(dmesg -t | grep mlx5_ulp_bench | tail -1)"
}

# bench_measure FILE [OPTION]...
bench_measure() {
	(cd /src/tests/vm && python3 -B -m runner.bench.measure "${@:2}") > "$1"
}

bench_end() {
	rmmod mlx5_ulp_bench mlx5_ulp
}
