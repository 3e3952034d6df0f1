#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR MIT
#
# The record of the wire is one that tshark reads: RDMA of all services and the netdevs' own frames, nothing malformed.
#
# functions: pf,vf
# when: long on 7.2
# connectx: --pcap results/wire.pcap
# timeout: 180

set -eu
. /src/tests/vm/guest/lib/connectx.sh
. /src/tests/vm/guest/lib/rdma.sh

up_between
# pingpong SERVICE OPTION...
pingpong() {
	local program=ibv_$1_pingpong
	between 18515 "$program -d mlx5_0 -g $(gid_index 0) -n 20 ${*:2}" \
		"$program -d mlx5_1 -g $(gid_index 1) -n 20 ${*:2} localhost"
}

pingpong rc -s 2000 -m 1024
pingpong uc -s 2000 -m 1024
pingpong ud -s 1000
between 18520 "ib_read_lat -F -d mlx5_0 -x $(gid_index 0) -p 18520 -s 8 -n 20" \
	"ib_read_lat -F -d mlx5_1 -x $(gid_index 1) -p 18520 -s 8 -n 20 127.0.0.1"
between 18521 "ib_atomic_lat -F -d mlx5_0 -x $(gid_index 0) -p 18521 -n 20" \
	"ib_atomic_lat -F -d mlx5_1 -x $(gid_index 1) -p 18521 -n 20 127.0.0.1"

# One line a packet: operation, invariant CRC, UDP port, type of ICMPv6, and why it is malformed.
tshark -n -r /results/wire.pcap -T fields -E separator=, -E occurrence=f -e infiniband.bth.opcode \
	-e infiniband.invariant.crc -e udp.dstport -e icmpv6.type -e _ws.malformed > "$RESULTS/packets" ||
	fail "tshark cannot read the record"

# packets CONDITION: how many there are.
packets() {
	awk -F, "$1 { n++ } END { print n + 0 }" "$RESULTS/packets"
}

[ "$(packets '$5 != ""')" = 0 ] || fail "$(packets '$5 != ""') malformed packets"
[ "$(packets '$3 == 4791 && $1 == ""')" = 0 ] || fail "RoCE packets that are no InfiniBand"
[ "$(packets '$1 != "" && $2 == ""')" = 0 ] || fail "packets without invariant CRC"
# SEND first and last of RC and UC, SEND only of UD, acknowledgment, READ and its response, atomic and its.
for opcode in 0 2 32 34 100 17 12 16 20 18; do
	[ "$(packets "\$1 == $opcode")" -ge 20 ] || fail "$(packets "\$1 == $opcode") packets of opcode $opcode"
done
[ "$(packets '$4 != ""')" -ge 1 ] || fail "no neighbour discovery"
down
nothing_left
