#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR MIT
#
# The stock netdev asks for compressed receive completions and takes them apart: no frame is lost or changed.
#
# functions: pf,vf
# when: long on 7.2
# cpus: 2
# timeout: 120
# dmesg-allow: mlx5_core .*: Disabling rxhash, not supported when CQE compress is active

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

# The pattern is checked in what comes back. A flood goes on a hundred times a second whether answers come or not, so in
# a slow guest more than those 64 are on their way: all of them must have room in the socket of ping (which makes its
# receive buffer as large as its send buffer for each of the 64), or it is there that they are lost.
sysctl -q -w net.core.rmem_max=16777216
ping -q -f -l 64 -S 200000 -c 2000 -s 1400 -p 5aa5 10.0.0.2 > "$RESULTS/ping" || fail "no answers"
cat "$RESULTS/ping"
grep -q ' 0% packet loss' "$RESULTS/ping" || fail "frames are lost"
! grep -q 'wrong data' "$RESULTS/ping" || fail "frames are changed"
blocks=$(statistic rx_cqe_compress_blks)
packets=$(statistic rx_cqe_compress_pkts)
echo "$packets packets in $blocks blocks"
[ "$blocks" -gt 0 ] || fail "no compressed block"
[ "$packets" -ge $((2 * blocks)) ] || fail "$packets packets in $blocks blocks"

ethtool --set-priv-flags "$here" rx_cqe_compress off
ping -q -f -l 64 -S 200000 -c 200 10.0.0.2 | grep -q ' 0% packet loss' || fail "frames are lost without compression"
ip netns delete peer
until_true 10 ip link show "$there" || fail "the netdev did not come back"
down
nothing_left
