#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR MIT
#
# The stock netdev asks for compressed receive completions and takes them apart: no frame is lost or changed.
#
# functions: pf,vf
# when: long on 7.2
# cpus: 2
# timeout: 120
# dmesg-allow: mlx5_core [0-9a-f:.]+ eth[01]: Disabling rxhash, not supported when CQE compress is active

set -eu
. /src/tests/vm/guest/lib/connectx.sh

# statistic NAME: of the netdev here.
statistic() {
	ethtool -S "$here" | sed -n "s/^ *$1: //p"
}

up 0 1
here=$(netdev 0)
there=$(netdev 1)
ip netns add peer
ip link set "$there" netns peer
ip -n peer link set "$there" up
ip -n peer address add 10.0.0.2/24 dev "$there"
ethtool --set-priv-flags "$here" rx_cqe_compress on
until_true 20 ping -c 1 -W 1 10.0.0.2 || fail "no answer"

# unsent: answers that the peer's kernel had no room for in its ICMP socket, as long as earlier ones were not sent: it
# drops those (icmp_push_reply), and in a slow guest that happens.
unsent() {
	ip netns exec peer awk '/^Icmp:/ {
		if (column) print $column
		for (i = 2; i <= NF; i++) if ($i == "OutErrors") column = i
	}' /proc/net/snmp
}

# flood OPTION...: all that the peer answers comes back. The socket of ping has room for it: its receive buffer is 64
# times its send buffer, if the kernel allows that.
flood() {
	local before counts

	before=$(unsent)
	ping -q -f -l 64 -S 200000 "$@" 10.0.0.2 > "$RESULTS/ping" || fail "no answers"
	cat "$RESULTS/ping"
	counts=$(sed -n 's/^\([0-9]*\) packets transmitted, \([0-9]*\) received.*/\1 - \2/p' "$RESULTS/ping")
	[ $((counts)) -eq $(($(unsent) - before)) ] || fail "frames are lost"
}

sysctl -q -w net.core.rmem_max=16777216
# The pattern is checked in what comes back.
flood -c 2000 -s 1400 -p 5aa5
! grep -q 'wrong data' "$RESULTS/ping" || fail "frames are changed"
blocks=$(statistic rx_cqe_compress_blks)
packets=$(statistic rx_cqe_compress_pkts)
echo "$packets packets in $blocks blocks"
[ "$blocks" -gt 0 ] || fail "no compressed block"
[ "$packets" -ge $((2 * blocks)) ] || fail "$packets packets in $blocks blocks"

ethtool --set-priv-flags "$here" rx_cqe_compress off
flood -c 200
ip netns delete peer
until_true 10 ip link show "$there" || fail "the netdev did not come back"
down
nothing_left
