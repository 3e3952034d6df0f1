#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR MIT
#
# Connection management between two functions of one guest, one of them in a network namespace of its own: addresses
# resolved by the stock network stack, over IPv4 and IPv6; rping verifies the data that it moves.
#
# functions: pf,vf
# when: long on 7.2
# cpus: 2
# timeout: 300

set -eu
. /src/tests/vm/guest/lib/connectx.sh
. /src/tests/vm/guest/lib/rdma.sh

listening() {
	ip netns exec peer rdma resource show cm_id | grep -q LISTEN
}

# connected SERVER CLIENT: the server in the namespace.
connected() {
	between "" "ip netns exec peer $1" "$2"
	echo "$2: ok"
}

up_apart
before=$(ask '"cmd":"counters"' '.functions.vf1.frames_received')
connected "rping -s -a 10.0.0.2 -V -C 20 -S 4000" "rping -c -a 10.0.0.2 -V -C 20 -S 4000"
connected "rping -s -a fd00::2 -V -C 20 -S 4000" "rping -c -a fd00::2 -V -C 20 -S 4000"
connected "ucmatose -b 10.0.0.2 -c 4 -C 20 -S 2000" "ucmatose -s 10.0.0.2 -c 4 -C 20 -S 2000"
connected "udaddy -b 10.0.0.2 -c 2 -C 20 -S 500" "udaddy -s 10.0.0.2 -c 2 -C 20 -S 500"
connected "rstream -b 10.0.0.2 -S 65536 -C 20" "rstream -s 10.0.0.2 -S 65536 -C 20"
# It went from one function to the other.
after=$(ask '"cmd":"counters"' '.functions.vf1.frames_received')
[ $((after - before)) -ge 200 ] || fail "the other function has received $((after - before)) frames"
down_apart
nothing_left
