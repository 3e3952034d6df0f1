# SPDX-License-Identifier: GPL-2.0 OR MIT
# shellcheck shell=bash
#
# For guest tests with RDMA programs between the two functions. Source lib/connectx.sh first.

# gid_index N: index of the link-local GID of RoCE v2 of function N. Linux does not send from one function of a guest to
# an IPv4 address of another: that address is its own.
gid_index() {
	local port=/sys/class/infiniband/mlx5_$1/ports/1 index
	for index in {0..15}; do
		if grep -q v2 "$port/gid_attrs/types/$index" 2> /dev/null &&
			grep -q ^fe80 "$port/gids/$index"; then
			echo "$index"
			return
		fi
	done
	fail "mlx5_$1 has no link-local GID"
}

settled() {
	! ip -6 address show tentative | grep -q inet6
}

# up_between: brings both functions up, until they can reach each other by their link-local addresses.
up_between() {
	up 0 1
	until_true 30 settled || fail "the link-local addresses stay tentative"
	until_true 30 gid_index 0 && until_true 30 gid_index 1 || fail "no link-local GIDs"
}

# up_apart: brings both functions up, the netdev of the second one in a network namespace of its own, `peer`, with the
# addresses 10.0.0.2 and fd00::2; the first one has 10.0.0.1 and fd00::1.
up_apart() {
	local here there

	up 0 1
	here=$(netdev 0)
	there=$(netdev 1)
	ip netns add peer
	ip link set "$there" netns peer
	ip -n peer link set lo up
	ip -n peer link set "$there" up
	ip -n peer address add 10.0.0.2/24 dev "$there"
	ip -n peer address add fd00::2/64 dev "$there" nodad
	ip address add fd00::1/64 dev "$here" nodad
	# Groups have no way of their own.
	ip route add 224.0.0.0/4 dev "$here"
	ip -n peer route add 224.0.0.0/4 dev "$there"
	until_true 30 usable 1 10.0.0.2 || fail "the port in the namespace has no usable GID"
	until_true 20 ping -c 1 -W 1 10.0.0.2 || fail "no answer over IPv4"
	until_true 20 ping -c 1 -W 1 fd00::2 || fail "no answer over IPv6"
	modprobe rdma_ucm
}

# down_apart: the end of it.
down_apart() {
	rmmod rdma_ucm rdma_cm
	ip netns delete peer
	until_true 10 test -e "/sys/class/infiniband/mlx5_1/device/net/" || fail "the netdev did not come back"
	down
}

# listening PORT: whether a program waits for its peer there.
listening() {
	grep -qi ": [0-9A-F]*:$(printf %04X "$1") [0-9A-F]*:0000 0A" /proc/net/tcp /proc/net/tcp6
}

# between PORT SERVER CLIENT: runs SERVER, waits until it is listening on PORT, and runs CLIENT; both must end well.
# What they say is in $RESULTS.
between() {
	local server

	# The commands are lists of words.
	# shellcheck disable=SC2086
	$2 > "$RESULTS/server.txt" 2>&1 &
	server=$!
	until_true 30 listening "$1" || fail "$2: does not listen: $(tail -1 "$RESULTS/server.txt")"
	# shellcheck disable=SC2086
	$3 > "$RESULTS/client.txt" 2>&1 || fail "$3: $(tail -1 "$RESULTS/client.txt")"
	wait $server || fail "$2: $(tail -1 "$RESULTS/server.txt")"
}

# perftest PROGRAM OPTION...
perftest() {
	between 18515 "$1 -F -d mlx5_0 -x $(gid_index 0) ${*:2}" "$1 -F -d mlx5_1 -x $(gid_index 1) ${*:2} 127.0.0.1"
	grep -qE '^ *[0-9]+ +[0-9]+ ' "$RESULTS/client.txt" || fail "$1: no result: $(tail -1 "$RESULTS/client.txt")"
	echo "$*: ok"
}
