# SPDX-License-Identifier: GPL-2.0 OR MIT
# shellcheck shell=bash disable=SC2154
#
# For guest tests of connections by rdma_cm (tests/cm). Source lib/ulp.sh first.

cm_test=/src/build/modules/$KERNEL_SERIES/tests/cm/mlx5_ulp_cm_test.ko
address=10.8.0.1

# cm_up: the drivers, an address of the first function, and the modules.
cm_up() {
	local netdev

	drivers mlx5_0
	netdev=$(netdev mlx5_0)
	ip link set lo up
	ip link set "$netdev" up
	ip address replace "$address/24" dev "$netdev"
	until_true 20 active mlx5_0 || fail "the port does not come up"
	until_true 20 addressed "$address" || fail "the address has no GID"
	load mlx5_ulp
	modprobe rdma_cm
	load mlx5_ulp_cm
}

cm_down() {
	rmmod mlx5_ulp_cm mlx5_ulp
}

# cm_load TEST: the test runs while the module loads.
cm_load() {
	dmesg -C
	insmod "$cm_test" test="$1" address="$address" ||
		fail "$1: $(dmesg -t | grep mlx5_ulp_cm_test | tail -3 | tr '\n' ';')"
}

# cm_run TEST...: runs tests one after the other.
cm_run() {
	local test
	for test; do
		cm_load "$test"
		rmmod mlx5_ulp_cm_test
		echo "$test: ok"
	done
}

# cm_mortal TEST COMMAND...: the test, with the command as soon as it is connected.
cm_mortal() {
	local load

	dmesg -C
	insmod "$cm_test" test="$1" address="$address" &
	load=$!
	until_true 60 sh -c "dmesg -t | grep -q '^mlx5_ulp_cm_test: $1: connected'" || fail "$1 is not connected"
	"${@:2}"
	wait $load || fail "$1: $(dmesg -t | grep mlx5_ulp_cm_test | tail -3 | tr '\n' ';')"
	rmmod mlx5_ulp_cm_test
	echo "$1: ok"
}
