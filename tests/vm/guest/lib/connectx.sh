# SPDX-License-Identifier: GPL-2.0 OR MIT
# shellcheck shell=bash
#
# For guest tests of the software ConnectX with the stock drivers alone.

. /src/tests/vm/guest/lib/ask.sh

# netdev N: the netdev of function N, counted from 0.
netdev() {
	basename "/sys/class/infiniband/mlx5_$1/device/net/"*
}

# Whether the port of function N is active and has a RoCE v2 GID of the IPv4 address ADDRESS.
usable() {
	local port=/sys/class/infiniband/mlx5_$1/ports/1 index
	grep -q ACTIVE "$port/state" || return 1
	for index in {0..15}; do
		if grep -q v2 "$port/gid_attrs/types/$index" 2> /dev/null &&
			[ "$(ibv_gid_address "$(cat "$port/gids/$index")")" = "$2" ]; then
			return 0
		fi
	done
	return 1
}

# ibv_gid_address GID: the IPv4 address that a GID stands for.
ibv_gid_address() {
	python3 -c 'import ipaddress, sys; print(ipaddress.ip_address(sys.argv[1]).ipv4_mapped)' "$1"
}

# up N...: loads the drivers and brings the ports of these functions up, 10.0.N.1.
up() {
	local n

	modprobe mlx5_ib
	for n; do
		until_true 20 test -e "/sys/class/infiniband/mlx5_$n" || fail "no RDMA device mlx5_$n"
		ip link set "$(netdev "$n")" up
		ip address add "10.0.$n.1/24" dev "$(netdev "$n")"
	done
	for n; do
		until_true 30 usable "$n" "10.0.$n.1" || fail "the port of mlx5_$n has no usable GID"
	done
}

down() {
	rmmod mlx5_ib
	rmmod mlx5_core
}

# vectors_fire: one completion vector per CPU and one for everything else on either function, and each
# of them has fired.
vectors_fire() {
	local n pci vectors

	for n in 0 1; do
		pci=$(basename "$(readlink "/sys/class/infiniband/mlx5_$n/device")")
		vectors=$(grep "$pci" /proc/interrupts)
		[ "$(grep -c mlx5_comp <<< "$vectors")" = "$(nproc)" ] || fail "completion vectors: $vectors"
		[ "$(grep -c mlx5_async <<< "$vectors")" = 1 ] || fail "asynchronous vectors: $vectors"
		# Of each vector, the columns of all CPUs: never all of them zero.
		awk -v cpus="$(nproc)" '{ sum = 0; for (i = 2; i <= cpus + 1; i++) sum += $i; if (!sum) exit 1 }' \
			<<< "$vectors" || fail "a vector never fired: $vectors"
	done
}
