# SPDX-License-Identifier: GPL-2.0 OR MIT
# shellcheck shell=bash
#
# For guest tests that use the consumer in C (tests/consumer). Source lib/ulp.sh first.

consumer=/src/build/modules/$KERNEL_SERIES/tests/consumer/mlx5_ulp_test.ko

# network: gives both functions an address, and so a GID of RoCE v2.
network() {
	local n=0 device netdev
	for device in mlx5_0 mlx5_1; do
		netdev=$(netdev "$device")
		ip link set "$netdev" up
		ip addr replace "10.7.$n.1/16" dev "$netdev"
		n=$((n + 1))
	done
	for device in mlx5_0 mlx5_1; do
		until_true 20 active "$device" || fail "the port of $device does not come up"
	done
}

# consumer_load TEST [PARAMETER=VALUE]...: the test runs while the module loads.
consumer_load() {
	dmesg -C
	insmod "$consumer" test="$1" "${@:2}" || fail "$1: $(dmesg -t | grep mlx5_ulp_test | tail -3 | tr '\n' ';')"
}

# consumer_test TEST...: runs tests one after the other.
consumer_test() {
	local test
	for test; do
		consumer_load "$test"
		rmmod mlx5_ulp_test
		echo "$test: ok"
	done
}

# untidy: WQEs that the device has seen with reserved bits set.
untidy() {
	ask '"cmd":"counters"' '[.functions[].wqes_with_reserved_bits] | add'
}

# consumer_tests TEST...: all that they need, the tests, and that nothing of them is left, nor was in their WQEs of those
# that stood there before.
consumer_tests() {
	local before untidy
	drivers mlx5_0 mlx5_1
	network
	load mlx5_ulp
	before=$(objects)
	untidy=$(untidy)
	consumer_test "$@"
	same_objects "$before"
	expect "WQEs with reserved bits" "$(untidy)" "$untidy"
	rmmod mlx5_ulp
}

# mortal COMMAND...: runs it under the traffic, and checks how that ended.
mortal() {
	local test
	dmesg -C
	insmod "$consumer" test=mortal &
	test=$!
	until_true 30 sh -c 'dmesg | grep -q "mortal: running"' || fail "no traffic"
	sleep 1
	"$@"
	wait $test || fail "$*: $(dmesg -t | grep mlx5_ulp_test | tail -4 | tr '\n' ';')"
	dmesg -t | grep 'mortal: posted'
	rmmod mlx5_ulp_test
}
